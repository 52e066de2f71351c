
// The page is drawn again when its server says that there is something new. What its reader opened or scrolled to stays, and
// what he selects holds it back. (No character here may mean something to a reader of XML.)
let drawing = false, stale = false;
const draw = async () => {
	stale = true;
	if (drawing || String(getSelection())) return;
	drawing = true;
	while (stale) {
		stale = false;
		try {
			const answer = await fetch(location.href, { cache: "no-store" });
			if (!answer.ok) continue;
			const fresh = new DOMParser().parseFromString(await answer.text(), "text/html"), was = looked();
			for (const part of ["header", "main"]) document.querySelector(part).replaceWith(fresh.querySelector(part));
			document.title = fresh.title;
			look(was);
			all("[data-at]").forEach(read);
		} catch { stale = false; } // the server is away, and tells when it is back
	}
	drawing = false;
};
const events = new EventSource("/events?of=" + encodeURIComponent(document.body.dataset.run || ""));
const away = is => (document.querySelector(".away").hidden = !is);
events.onmessage = draw;
events.onopen = () => { away(false); draw(); };
events.onerror = () => away(true);
setInterval(() => stale ? draw() : 0, 1000);
