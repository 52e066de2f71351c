
// Pointing at an entry of a legend dims all other curves.
const alone = figure => {
	const paths = () => figure.querySelectorAll("path"), keys = [...figure.querySelectorAll(".key")];
	if (2 > keys.length) return;
	for (const key of keys) {
		const of = key.className.slice("key".length);
		key.addEventListener("pointerenter", () => paths().forEach(p => p.classList.toggle("dim", !p.getAttribute("class").endsWith(of))));
		key.addEventListener("pointerleave", () => paths().forEach(p => p.classList.remove("dim")));
	}
};

// Pointing at a chart shows the values of all charts of its section at that step. reading.by is how much narrower the curves have become
// since they were drawn, in a page that is extended by new steps.
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

// A slider does the same for the keyboard. It is visible while focused, and its value is spoken by screen readers.
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
		slider.max = at.length - 1; // steps may have been added
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

// The report file of a running run is loaded again every 15 seconds and restores what the reader was looking at; not while the tab is
// hidden, text is selected, or the reader did something just now. Without scripts a meta element reloads it.
const ago = s => (s > 129600 ? Math.round(s / 86400) + " days" : s > 5400 ? Math.round(s / 3600) + " h" : s > 90 ? Math.round(s / 60) + " min" : s + " s");
const place = "grpo " + location.pathname;
const remember = () => sessionStorage.setItem(place, JSON.stringify(looked()));
const recall = () => {
	const was = JSON.parse(sessionStorage.getItem(place));
	if (!was) return;
	history.scrollRestoration = "manual";
	look(was);
};
const written = document.querySelector("[data-written]");
if (written) {
	const writtenAt = Date.parse(written.dataset.written), loaded = Date.now(), every = Number(written.dataset.every);
	const since = at => Math.max(0, Math.round((Date.now() - at) / 1000));
	let touched = 0;
	const touch = () => (touched = Date.now());
	for (const what of ["pointermove", "pointerdown", "keydown", "wheel", "touchmove"]) addEventListener(what, touch, { passive: true });
	const tell = () => {
		written.querySelector(".age").textContent = ", " + ago(since(writtenAt)) + " ago";
		if (!every) return;
		written.querySelector(".overdue").hidden = every > since(writtenAt);
		const busy = document.hidden || 5 > since(touched) || String(getSelection());
		if (since(loaded) > 15) busy || location.reload();
	};
	tell();
	setInterval(tell, 1000);
}
try { // some browsers deny sessionStorage to files
	recall();
	addEventListener("pagehide", remember);
} catch { }
