"use strict";
const all = what => [...document.querySelectorAll(what)];

// Pointing at a name of a legend shows its curve alone.
const alone = figure => {
	const paths = () => figure.querySelectorAll("path"), keys = [...figure.querySelectorAll(".key")];
	if (2 > keys.length) return;
	for (const key of keys) {
		const of = key.className.slice("key".length);
		key.addEventListener("pointerenter", () => paths().forEach(p => p.classList.toggle("dim", !p.getAttribute("class").endsWith(of))));
		key.addEventListener("pointerleave", () => paths().forEach(p => p.classList.remove("dim")));
	}
};

// Pointing at a chart reads all charts of its section at that step. Without this the page lacks nothing else. Where a page goes on, by is
// how much narrower its charts have become.
const read = section => {
	const at = section.dataset.at.split(" ").map(Number), label = section.dataset.label.split(" ");
	const slots = [...section.querySelectorAll("[data-v]")].map(e => ({ e, rest: e.textContent, values: e.dataset.v.split(" ") }));
	const whens = section.querySelectorAll(".when"), cursors = section.querySelectorAll(".cursor");
	const reading = { at, label, slots, by: 1, now: null };
	const nearest = x => at.reduce((best, p, i) => (Math.abs(at[best] - x) > Math.abs(p - x) ? i : best), 0);
	const show = i => {
		reading.now = i;
		for (const s of slots) s.e.textContent = i === null ? s.rest : s.values[i];
		for (const w of whens) w.textContent = i === null ? "latest" : "step " + label[i];
		for (const c of cursors) {
			c.style.visibility = i === null ? "" : "visible";
			if (i !== null) c.style.left = (at[i] * reading.by) / 10 + "%";
		}
	};
	const point = event => {
		const plot = event.target.closest(".plot");
		if (!plot) return show(null);
		const box = plot.getBoundingClientRect();
		show(nearest(1000 * (event.clientX - box.left) / box.width / reading.by));
	};
	section.querySelectorAll("figure").forEach(alone);
	section.addEventListener("pointermove", point);
	section.addEventListener("pointerdown", point);
	section.addEventListener("pointerleave", () => show(null));
	section.reading = Object.assign(reading, { show });
	slide(section, reading, show);
};

// By keys the same is done with a slider, which is seen once it is reached, and says what it reads to who listens.
const slide = (section, { at, label }, show) => {
	if (2 > at.length || !section.querySelector("figure")) return;
	const slider = document.createElement("input"), title = section.querySelector("h2");
	const say = () => {
		const i = Number(slider.value), said = ["step " + label[i]];
		show(i);
		for (const figure of section.querySelectorAll("figure")) {
			const values = [...figure.querySelectorAll(".key")].map(k => k.textContent.trim().replace(/\s+/g, " "));
			if (7 > values.length) said.push(figure.querySelector("h3").textContent + ": " + values.join(", "));
		}
		slider.setAttribute("aria-valuetext", said.join("; "));
	};
	const reach = () => {
		const last = slider.value === slider.max;
		slider.max = at.length - 1; // steps came meanwhile
		if (last) slider.value = slider.max;
		say();
	};
	Object.assign(slider, { type: "range", className: "steps", min: 0, max: at.length - 1, value: at.length - 1 });
	slider.setAttribute("aria-label", "Read the charts at a step: " + title.firstChild.textContent.trim());
	slider.setAttribute("aria-valuetext", "step " + label.at(-1));
	slider.addEventListener("focus", reach);
	slider.addEventListener("input", say);
	slider.addEventListener("blur", () => show(null));
	title.after(slider);
};
all("[data-at]").forEach(read);

// The page of a run that goes on is loaded again, and again shows what its reader was looking at. It waits for one who
// is not there, has something selected, or did something just now. Without scripts the browser does the first by itself.
// (No character here may mean something to a reader of XML.)
const ago = s => (s > 129600 ? Math.round(s / 86400) + " days" : s > 5400 ? Math.round(s / 3600) + " h" : s > 90 ? Math.round(s / 60) + " min" : s + " s");
const place = "grpo " + location.pathname, boxes = "pre, .statement";
// Who goes by keys stays where he is: at what is alike in the page that is drawn next, as far as it has that.
const like = e => [e.tagName, e.id, e.getAttribute("href"), e.closest("details, section")?.id].join(" ");
const alike = what => all("a, button, summary, input, [tabindex]").filter(e => like(e) === what);
const held = e => (e.closest("main, header") ? { like: like(e), at: alike(like(e)).indexOf(e), value: e.value === e.max ? null : e.value } : null);
const looked = () => ({
	y: scrollY, open: Object.fromEntries(all("details").map(d => [d.id, d.open])), boxes: all(boxes).map(b => b.scrollTop),
	held: held(document.activeElement),
});
const hold = was => {
	const e = alike(was.like)[was.at];
	if (!e) return;
	if (e.type === "range" ? was.value : false) e.value = was.value;
	e.focus({ preventScroll: true });
};
const look = was => {
	for (const d of all("details")) if (d.id in was.open) d.open = was.open[d.id];
	all(boxes).forEach((b, i) => (b.scrollTop = was.boxes[i] || 0));
	if (was.held) hold(was.held);
	scrollTo(0, was.y);
};
const remember = () => sessionStorage.setItem(place, JSON.stringify(looked()));
const recall = () => {
	const was = JSON.parse(sessionStorage.getItem(place));
	if (!was) return;
	history.scrollRestoration = "manual";
	look(was);
};
const said = document.querySelector("[data-written]");
if (said) {
	const written = Date.parse(said.dataset.written), loaded = Date.now(), every = Number(said.dataset.every);
	const since = at => Math.max(0, Math.round((Date.now() - at) / 1000));
	let touched = 0;
	const touch = () => (touched = Date.now());
	for (const what of ["pointermove", "pointerdown", "keydown", "wheel", "touchmove"]) addEventListener(what, touch, { passive: true });
	const tell = () => {
		said.querySelector(".age").textContent = ", " + ago(since(written)) + " ago";
		if (!every) return;
		said.querySelector(".overdue").hidden = every > since(written);
		const busy = document.hidden || 5 > since(touched) || String(getSelection());
		if (since(loaded) > 15) busy || location.reload();
	};
	tell();
	setInterval(tell, 1000);
}
try { // which some browsers forbid to a page that is a file
	recall();
	addEventListener("pagehide", remember);
} catch { }
