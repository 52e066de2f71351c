"use strict";
// Pointing at a chart reads all charts of its section at that step. Without this the page lacks nothing else.
for (const section of document.querySelectorAll("[data-at]")) {
	const at = section.dataset.at.split(" ").map(Number), label = section.dataset.label.split(" ");
	const slots = [...section.querySelectorAll("[data-v]")].map(e => ({ e, rest: e.textContent, values: e.dataset.v.split(" ") }));
	const whens = section.querySelectorAll(".when"), cursors = section.querySelectorAll(".cursor");
	const nearest = x => at.reduce((best, p, i) => (Math.abs(at[best] - x) > Math.abs(p - x) ? i : best), 0);
	const show = i => {
		for (const s of slots) s.e.textContent = i === null ? s.rest : s.values[i];
		for (const w of whens) w.textContent = i === null ? "latest" : "step " + label[i];
		for (const c of cursors) {
			c.style.visibility = i === null ? "" : "visible";
			if (i !== null) c.style.left = at[i] / 10 + "%";
		}
	};
	const point = event => {
		const plot = event.target.closest(".plot");
		if (!plot) return show(null);
		const box = plot.getBoundingClientRect();
		show(nearest(1000 * (event.clientX - box.left) / box.width));
	};
	section.addEventListener("pointermove", point);
	section.addEventListener("pointerdown", point);
	section.addEventListener("pointerleave", () => show(null));
}
