
// A list is redrawn while its record is being read, and when the run writes more; not while text is selected or a form has the focus.
// The arrow keys turn pages.
const shown = () => document.querySelector("header").dataset;
let stale = false; // the run wrote something that is not shown yet
const busy = () => String(getSelection()) || document.activeElement.closest("form");
const draw = async () => {
	if (busy()) return;
	stale = false;
	try {
		await redraw();
	} catch { } // the server is away
};
if (shown().follow || shown().building) follow(shown().run, () => (stale = true));
setInterval(() => {
	if (!document.hidden) if (stale || shown().building) draw();
}, 700);
addEventListener("keydown", e => {
	const to = { ArrowLeft: "prev", ArrowRight: "next" }[e.key];
	if (!to || e.altKey || e.ctrlKey || e.metaKey || e.shiftKey || e.target.closest("input, select, pre, .scroll, .statement")) return;
	document.querySelector(`a[rel=${to}]`)?.click();
});
