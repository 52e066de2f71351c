"use strict";
// Keeps what the reader was looking at when a page is redrawn or loaded again: the scroll position, what is open, and the focus.
// No script of these pages contains a character that XML escapes: tests read the pages as XML.
const all = what => [...document.querySelectorAll(what)];
const boxes = "pre, .statement";
// Two elements, before and after, are alike if these are equal. Several may be; their order tells them apart.
const like = e => [e.tagName, e.id, e.getAttribute("href"), e.closest("details, section")?.id].join(" ");
const alike = what => all("a, button, summary, input, [tabindex]").filter(e => like(e) === what);
const focused = e => (e.closest("main, header") ? { like: like(e), at: alike(like(e)).indexOf(e), value: e.value === e.max ? null : e.value } : null);
const looked = () => ({
	y: scrollY, open: Object.fromEntries(all("details").map(d => [d.id, d.open])), boxes: all(boxes).map(b => b.scrollTop),
	focused: focused(document.activeElement),
});
const refocus = was => {
	const e = alike(was.like)[was.at];
	if (!e) return;
	if (e.type === "range" ? was.value : false) e.value = was.value;
	e.focus({ preventScroll: true });
};
const look = was => {
	for (const d of all("details")) if (d.id in was.open) d.open = was.open[d.id];
	all(boxes).forEach((b, i) => (b.scrollTop = was.boxes[i] || 0));
	if (was.focused) refocus(was.focused);
	scrollTo(0, was.y);
};
