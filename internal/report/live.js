
// The page is drawn again when its server says that there is something new. What its reader opened or scrolled to stays, and
// what he selects holds it back. Steps come in numbers meanwhile, and its charts go on with them, to the scales that they have.
// (No character here may mean something to a reader of XML.)
let drawing = false, stale = false;
const draw = async () => {
	stale = true;
	if (drawing || String(getSelection())) return;
	drawing = true;
	while (stale) {
		stale = false;
		try {
			const answer = await fetch(location.href, { cache: "no-store" });
			const text = await answer.text();
			away(answer.ok ? "" : text.trim());
			if (!answer.ok) continue;
			const fresh = new DOMParser().parseFromString(text, "text/html"), was = looked();
			for (const part of ["header", "main"]) document.querySelector(part).replaceWith(fresh.querySelector(part));
			document.title = fresh.title;
			all("[data-at]").forEach(read);
			look(was);
			goOn();
		} catch { stale = false; } // the server is away, and tells when it is back
	}
	drawing = false;
};

// onScale is where a value is on the scale of a chart, from the top, in a picture of 1000 by 1000.
const onScale = chart => {
	const [low, high, log] = chart.dataset.y.split(" "), of = log ? v => Math.log10(Math.max(v, low)) : Number;
	return v => Math.round(1000 * Math.min(Math.max((of(high) - of(v)) / (of(high) - of(low)), -0.02), 1.02));
};

// What a curve has at some steps, as paths: points are lists of a place along the chart and of what is known there, null where nothing is.
const trace = (points, y) => {
	let path = "", pen = "M";
	for (const [x, at] of points) {
		path += at[0] === null ? "" : pen + x + " " + y(at[0]);
		pen = at[0] === null ? "M" : " ";
	}
	return path ? path + "h0" : ""; // one point alone is a dot
};
const around = (points, y) => {
	const known = points.filter(([, at]) => typeof at[1] === "number" ? typeof at[2] === "number" : false);
	const ends = [...known.map(([x, at]) => x + " " + y(at[2])), ...known.reverse().map(([x, at]) => x + " " + y(at[1]))];
	return ends.length > 2 ? "M" + ends.join(" ") + "z" : "";
};
const stack = (points, y, room, sums) => points.map(([x, at], i) => {
	const from = sums[i];
	if (!(at[0] > 0)) return "";
	sums[i] += at[0];
	return `M${x - room} ${y(from)}V${y(sums[i])}H${x + room}V${y(from)}z`;
}).join("");

// A chart goes on with steps that were done since it was drawn: what it had becomes narrower, and they come behind it.
const extend = (figure, known, newer, { at, by, room }) => {
	const chart = figure.querySelector(".plot"), svg = chart.querySelector("svg"), y = onScale(chart), title = figure.querySelector("h3").textContent;
	svg.querySelectorAll(".tail").forEach(p => p.remove());
	for (const p of svg.children) p.setAttribute("transform", `scale(${by} 1)`);
	const add = (kind, color, path) => {
		const p = document.createElementNS(svg.namespaceURI, "path");
		p.setAttribute("class", `${kind} tail ${color}`);
		p.setAttribute("d", path);
		if (path) svg.append(p);
	};
	const stacked = svg.querySelector(".column"), sums = newer.map(() => 0), said = [];
	for (const key of figure.querySelectorAll(".key")) {
		const name = key.querySelector("i").nextSibling.data.trim(), color = key.classList[1];
		const value = step => (step.charts[title] || []).find(v => v.name === name) || { text: "–", at: [null] };
		const points = steps => steps.map(s => [at(s), value(s).at]);
		said.push([key.querySelector("b"), newer.map(s => value(s).text)]);
		if (stacked) {
			add("column", color, stack(points(newer), y, room, sums));
			continue;
		}
		add("band", color, around(points(known), y));
		add(svg.querySelector(`.raw.${color}`) ? "raw" : "line", color, trace(points(known), y));
	}
	return said;
};

// below moves what is named below a chart. Once much has come, only the first step and the last are named.
const below = (chart, by, last, at) => {
	const names = [...chart.querySelectorAll(".x")];
	for (const [i, e] of names.entries()) {
		e.dataset.left ||= e.style.left;
		e.style.left = parseFloat(e.dataset.left) * by + "%";
		if (by > 0.8 || i === 0) continue;
		if (i + 1 !== names.length) {
			e.remove();
			continue;
		}
		e.textContent = last.steps.split(" ")[0];
		e.style.left = at(last) / 10 + "%";
	}
};

// The steps that came, and whether some of them are not shown yet.
let steps = [], waiting = false;
const goOn = () => {
	waiting = true;
	if (String(getSelection())) return;
	waiting = false;
	for (const section of all("[data-end]")) {
		const [n, end] = section.dataset.end.split(" ").map(Number);
		const known = steps.filter(s => s.step >= end), newer = known.filter(s => s.step > end), last = newer.at(-1);
		if (!last) continue;
		const total = n + last.step - end, by = n / total, r = section.reading;
		const at = s => Math.round((1000 * (n + s.step - end - 0.5)) / total), room = (total > 100 ? 500 : 430) / total;
		r.drawn ??= r.at.length;
		r.at.splice(r.drawn, Infinity, ...newer.map(s => at(s) / by));
		r.label.splice(r.drawn, Infinity, ...newer.map(s => s.step));
		r.by = by;
		for (const figure of section.querySelectorAll("figure")) {
			below(figure.querySelector(".plot"), by, last, at);
			for (const [e, texts] of extend(figure, known, newer, { at, by, room })) {
				const slot = r.slots.find(s => s.e === e);
				slot.values.splice(r.drawn, Infinity, ...texts);
				slot.rest = texts.at(-1);
			}
		}
		r.show(r.now);
		document.title = last.title;
		const far = all("dt").find(e => e.textContent === "steps");
		if (far) far.nextElementSibling.querySelector("bdi").textContent = last.steps;
	}
};

const away = why => {
	const shown = document.querySelector(".away");
	shown.hidden = !why;
	if (why) shown.textContent = why + ": this page is out of date.";
};
// A browser has few connections to a server, for all its pages together: one that is not seen leaves its own to others, and looks now and
// then how far the run is, since its name is seen all the same.
let events;
const leave = () => { if (document.hidden) events.close(); };
const listen = () => {
	events?.close();
	events = new EventSource("/events?of=" + encodeURIComponent(document.body.dataset.run || ""));
	events.onmessage = draw;
	events.addEventListener("steps", e => {
		for (const step of JSON.parse(e.data)) steps = [...steps.filter(s => step.step > s.step), step];
		steps = steps.slice(-500);
		goOn();
	});
	events.onopen = () => {
		away("");
		if (document.hidden) setTimeout(leave, 1000);
		else draw();
	};
	events.onerror = () => away("Not connected");
};
listen();
document.addEventListener("visibilitychange", () => document.hidden ? leave() : listen());
setInterval(() => document.hidden ? listen() : null, 30000);
setInterval(() => {
	if (stale) draw();
	if (waiting) goOn();
}, 1000);
