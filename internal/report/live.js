
// The page of a run, or the list of runs, is redrawn when the server says that it changed; not while the reader has text selected. In
// between, the server sends new steps as data, and the charts are extended by them, on the scales that they have.
let drawing = false, stale = false;
const draw = async () => {
	stale = true;
	if (drawing || String(getSelection())) return;
	drawing = true;
	while (stale) {
		stale = false;
		try {
			await redraw(() => all("[data-at]").forEach(read));
			extendCharts();
		} catch { stale = false; } // the server is away
	}
	drawing = false;
};

// onScale returns a function from values to y coordinates in a chart, whose picture is 1000 by 1000 with y pointing down.
const onScale = chart => {
	const [low, high, log] = chart.dataset.y.split(" "), of = log ? v => Math.log10(Math.max(v, low)) : Number;
	return v => Math.round(1000 * Math.min(Math.max((of(high) - of(v)) / (of(high) - of(low)), -0.02), 1.02));
};

// The paths of a curve, of the band around it, and of its part of stacked columns. Each point is an x coordinate and the values there:
// the curve's, and the band's lower and upper end; null where nothing was measured.
const trace = (points, y) => {
	let path = "", pen = "M";
	for (const [x, at] of points) {
		path += at[0] === null ? "" : pen + x + " " + y(at[0]);
		pen = at[0] === null ? "M" : " ";
	}
	return path ? path + "h0" : ""; // makes a single point visible
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

// extend adds steps to a chart: it makes the drawn curves narrower and appends paths of class "tail".
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

// relabel moves the labels of the x axis. Once the chart has become much longer, only the first and the last step have one.
const relabel = (chart, by, last, at) => {
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

// The steps that the server sent, and whether some of them are not shown yet.
let steps = [], waiting = false;
const extendCharts = () => {
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
			relabel(figure.querySelector(".plot"), by, last, at);
			for (const [e, texts] of extend(figure, known, newer, { at, by, room })) {
				const slot = r.slots.find(s => s.e === e);
				slot.values.splice(r.drawn, Infinity, ...texts);
				slot.rest = texts.at(-1);
			}
		}
		r.show(r.now);
		document.title = last.title;
		const progress = all("dt").find(e => e.textContent === "steps");
		if (progress) progress.nextElementSibling.querySelector("bdi").textContent = last.steps;
	}
};

follow(document.body.dataset.run || "", draw, {
	steps: added => {
		for (const step of added) steps = [...steps.filter(s => step.step > s.step), step];
		steps = steps.slice(-500);
		extendCharts();
	},
});
setInterval(() => {
	if (stale) draw();
	if (waiting) extendCharts();
}, 1000);
