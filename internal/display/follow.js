
// Redraws a page when its server says that something changed, and says so while the server is away.

// away shows why the page is out of date; "" hides that.
const away = why => {
	const shown = document.querySelector(".away");
	shown.hidden = !why;
	if (why) shown.textContent = why + ": this page is out of date.";
};

// redraw replaces the page by the current one. ready is called before what the reader was looking at is restored.
const redraw = async ready => {
	const answer = await fetch(location.href, { cache: "no-store" });
	const text = await answer.text();
	const said = /^text.plain/.test(answer.headers.get("Content-Type")) ? text.trim() : "The server answers with status " + answer.status;
	away(answer.ok ? "" : said);
	if (!answer.ok) return;
	const fresh = new DOMParser().parseFromString(text, "text/html"), was = looked();
	for (const part of ["header", "main"]) document.querySelector(part).replaceWith(fresh.querySelector(part));
	document.title = fresh.title;
	ready?.();
	look(was);
};

// follow calls changed when a run changed, and once connected; the events in others are handled, too. A browser opens few connections to
// one server, for all tabs together. A hidden tab closes its own, and only looks every 30 seconds how far the run is, for its title.
const follow = (run, changed, others = {}) => {
	let events;
	const leave = () => { if (document.hidden) events.close(); };
	const connect = () => {
		events?.close();
		const mine = events = new EventSource("/events?of=" + encodeURIComponent(run));
		events.onmessage = changed;
		for (const [name, handle] of Object.entries(others)) events.addEventListener(name, e => handle(JSON.parse(e.data)));
		events.onopen = () => {
			away("");
			if (document.hidden) setTimeout(leave, 1000);
			else changed();
		};
		events.onerror = () => {
			away("Not connected");
			if (mine.readyState !== EventSource.CLOSED) return; // the browser tries again
			setTimeout(() => { if (events === mine) document.hidden ? leave() : connect(); }, 3000); // a proxy answered in the server's place
		};
	};
	connect();
	document.addEventListener("visibilitychange", () => (document.hidden ? leave() : connect()));
	setInterval(() => { if (document.hidden) connect(); }, 30000);
};
