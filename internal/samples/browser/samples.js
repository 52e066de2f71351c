"use strict";
// A list is drawn again while its record is being read, and when the run writes more. What its reader selects holds it back, and
// so does a form that he is at. Arrows turn pages. (No character here may mean something to a reader of XML.)
const head = () => document.querySelector("header").dataset;
const busy = () => String(getSelection()) || document.activeElement.closest("form");
const like = e => [e.tagName, e.id, e.getAttribute("href"), e.closest("[id]")?.id].join(" ");
const draw = async () => {
	if (busy()) return;
	try {
		const answer = await fetch(location.href, { cache: "no-store" });
		if (!answer.ok) return;
		const fresh = new DOMParser().parseFromString(await answer.text(), "text/html"), y = scrollY;
		const open = [...document.querySelectorAll("details[open]")].map(d => d.id);
		const links = to => [...document.querySelectorAll("a, summary, [tabindex]")].filter(e => like(e) === to), at = document.activeElement;
		const held = like(at), place = links(held).indexOf(at);
		for (const part of ["header", "main"]) document.querySelector(part).replaceWith(fresh.querySelector(part));
		for (const id of open) document.getElementById(id)?.setAttribute("open", "open");
		document.title = fresh.title;
		links(held)[place]?.focus({ preventScroll: true }); // who goes by keys stays where he is
		scrollTo(0, y);
	} catch { } // the server is away, and may be back the next time
};
// A browser has few connections to a server, for all its pages together: one that is not seen leaves its own to others.
let stale = false, events;
const listen = () => {
	events?.close();
	if (document.hidden) return;
	events = new EventSource("/events?of=" + encodeURIComponent(head().run));
	events.onmessage = events.onopen = () => (stale = true);
};
if (head().follow || head().building) {
	listen();
	document.addEventListener("visibilitychange", listen);
}
setInterval(async () => {
	if (document.hidden || !(stale || head().building)) return;
	stale = false;
	await draw();
}, 700);
addEventListener("keydown", e => {
	const to = { ArrowLeft: "prev", ArrowRight: "next" }[e.key];
	if (!to || e.altKey || e.ctrlKey || e.metaKey || e.shiftKey || e.target.closest("input, select, pre, .scroll, .statement")) return;
	document.querySelector(`a[rel=${to}]`)?.click();
});
