import { events, Joiner, rarity, shift, still, percent, signed, times, visible } from "./text.js";

// Everything that a model wrote becomes a text node, never markup. A turn is what was asked, and an answer of each side; each side
// has a conversation of its own, in which its own answers stand.
const $ = id => document.getElementById(id);
const make = (tag, className = "", ...inside) => {
	const e = document.createElement(tag);
	if (className) e.className = className;
	e.append(...inside);
	return e;
};

const keyName = "grpo key"; // of the tab's own storage
let models = [], about = {}, turns = [], running = null;
const mode = () => document.querySelector("input[name=mode]:checked").value;

// The server

class Refused extends Error {
	constructor(status, message) {
		super(message);
		this.status = status;
	}
}

async function ask(path, body, signal) {
	const headers = {}, key = sessionStorage.getItem(keyName);
	if (key) headers.Authorization = "Bearer " + key;
	if (body) headers["Content-Type"] = "application/json";
	const response = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), signal });
	if (response.ok) return response;
	const said = await response.json().catch(() => ({}));
	throw new Refused(response.status, said.error?.message ?? response.statusText);
}

// A key is asked for until the server knows it.
async function enter() {
	const { keys } = await (await ask("/page/door.json")).json();
	if (keys && !sessionStorage.getItem(keyName)) await askForKey("");
	for (;;) {
		try {
			return await Promise.all(["/v1/models", "/page/about"].map(path => ask(path).then(r => r.json())));
		} catch (e) {
			if (e.status !== 401) throw e;
			await askForKey(e.message);
		}
	}
}

function askForKey(wrong) {
	$("wrong").textContent = wrong;
	$("key").value = "";
	$("door").showModal();
	return new Promise(resolve => {
		$("doorform").onsubmit = event => {
			event.preventDefault();
			sessionStorage.setItem(keyName, $("key").value.trim());
			$("door").close();
			resolve();
		};
		$("door").oncancel = event => event.preventDefault();
	});
}

// What is there

async function open() {
	let list;
	try {
		[list, about] = await enter();
	} catch (e) {
		return say(e.message, true);
	}
	models = list.data;
	const names = models.map(m => m.id), run = about.run;
	const trained = run?.trained ?? models.find(m => m.parent)?.id ?? names[1];
	const base = run?.base ?? models.find(m => m.id === trained)?.parent ?? names[0];
	fill($("left"), names, base);
	fill($("right"), [...names, ""], trained ?? "");
	$("rightpicker").hidden = names.length === 1;
	$("forget").hidden = !sessionStorage.getItem(keyName);
	$("report").hidden = !about.report;
	$("report").href = about.report ?? "";
	$("wordingbox").hidden = !about.wording;
	if (run) $("temperature").value = run.temperature;
	const room = Math.min(...models.map(m => m.max_model_len));
	$("tokens").value = Math.min(256, room / 2 | 0);
	$("tokens").max = room;
	$("hint").textContent = names.length > 1
		? "Your message goes to both, with the same seed. Color the tokens to see how probable each was, and what training changed."
		: "Send a message. Color the tokens to see how probable each was.";
	const tries = about.wording
		? ["Define compute(x), which returns x plus 8.", "Read an integer x. Print x plus 1."]
		: ["Write a Python function that reverses a string.", "Why is the sky blue?"];
	$("examples").replaceChildren(...tries.map(text => {
		const b = make("button", "", text);
		b.type = "button";
		b.onclick = () => { $("ask").value = text; $("ask").focus(); };
		return make("li", "", b);
	}));
	told();
	settled();
	$("ask").focus();
	if (run?.follows) setInterval(refresh, 5000);
}

function fill(select, names, chosen) {
	select.replaceChildren(...names.map(n => new Option(n || "nothing", n)));
	select.value = chosen;
}

// refresh follows a run that goes on.
async function refresh() {
	if (document.hidden) return;
	try {
		about = await (await ask("/page/about")).json();
		$("report").href = about.report ?? "";
		told();
	} catch { } // the next question tells
}

const compares = () => $("right").value !== "" && $("right").value !== $("left").value && !$("rightpicker").hidden;

// What stands over everything.
function told() {
	const run = about.run, both = compares(), ours = run && $("left").value === run.base && $("right").value === run.trained;
	$("title").textContent = both ? (ours ? "Before and after training" : "Two models, side by side") : "Talk to " + $("left").value;
	$("eyebrow").replaceChildren(run ? "grpo run " : "grpo", ...(run ? [make("b", "", run.name), ", step " + run.step + (run.goes_on ? ", running" : "")] : []));
	document.title = "grpo" + (run ? " · " + run.name : "");
	$("leftname").textContent = ours ? "Before" : both ? "Left" : "Model";
	$("rightname").textContent = ours ? "After" : $("right").value ? "Right" : "Beside it";
	$("ask").placeholder = both ? "Ask both the same" : "Ask " + $("left").value;
	$("movedmode").hidden = !both;
	$("movedmode").querySelector("span").textContent = ours ? "Moved by training" : "Right against left";
	if (!both && mode() === "moved") document.querySelector("input[value=plain]").click();
}

function settled() {
	const tokens = $("tokens").value;
	$("settled").textContent = `temperature ${$("temperature").value || 1}, seed ${$("seed").value || 1}, ${tokens ? "up to " + tokens + " tokens" : "as many tokens as fit"}${$("system").value.trim() ? ", a system prompt" : ""}`;
}

function say(text, wrong) {
	$("status").textContent = text;
	$("status").classList.toggle("error", Boolean(wrong));
}

// Asking

// messages is the conversation of one side up to a turn.
function messages(turn, side) {
	const list = [];
	for (const t of turns.slice(0, turns.indexOf(turn) + 1)) {
		const content = t.answers.find(a => a.side === side)?.content;
		if (t === turn) list.push(...t.sent);
		else if (content) list.push(...t.sent, { role: "assistant", content }); // what it did not answer, it was not asked
	}
	const system = $("system").value.trim(); // goes before that of the run's words
	if (system) list.splice(0, list[0].role === "system" ? 1 : 0, { role: "system", content: system });
	return list;
}

async function send() {
	const text = $("ask").value.trim();
	if (!text || running) return;
	let sent = [{ role: "user", content: text }];
	if (turns.length === 0 && about.wording && $("wording").checked) {
		try {
			sent = (await (await ask("/page/wording", { statement: text })).json()).messages;
		} catch (e) {
			return say(e.message, true);
		}
	}
	const turn = { text, sent, answers: [], row: make("li") };
	turns.push(turn);
	$("welcome").hidden = true;
	$("turns").append(turn.row);
	$("ask").value = "";
	await answer(turn);
}

// answer has a turn answered, again where it was, by those who are chosen now.
async function answer(turn) {
	const sides = [["left", $("left").value, "c7"], ...(compares() ? [["right", $("right").value, "c1"]] : [])];
	turn.answers = sides.map(([side, model, colour]) => ({ side, model, colour, content: "", thoughts: "", tokens: [], seed: Number($("seed").value || 1), of: about.run }));
	draw(turn);
	for (const other of turns) for (const b of other.row.querySelectorAll(".again")) b.hidden = other !== turn;
	running = new AbortController();
	$("send").disabled = true;
	$("stop").hidden = false;
	say(sides.length > 1 ? "Both answer." : "It answers.");
	turn.row.scrollIntoView({ block: "start", behavior: "smooth" });
	await Promise.all(turn.answers.map(a => one(turn, a, running.signal)));
	running = null;
	$("send").disabled = false;
	$("stop").hidden = true;
	if (!turn.answers.some(a => a.error)) say(turn.answers.map(a => `${a.model}: ${count(a)}${a.finish === "stopped" ? ", stopped" : ""}`).join("; "));
	await colour();
}

// one follows the answer of one side.
async function one(turn, a, signal) {
	const began = performance.now(), join = new Joiner();
	const body = {
		model: a.model, messages: messages(turn, a.side), seed: a.seed, temperature: Number($("temperature").value || 1),
		stream: true, logprobs: true, top_logprobs: 5, return_token_ids: true,
	};
	if ($("tokens").value) body.max_tokens = Number($("tokens").value);
	a.temperature = body.temperature;
	try {
		const response = await ask("/v1/chat/completions", body, signal);
		for await (const line of events(response.body)) {
			if (line.error) throw new Error(line.error.message);
			a.prompt ??= line.prompt_token_ids;
			const c = line.choices?.[0];
			if (!c) continue;
			a.content += c.delta.content ?? "";
			a.thoughts += c.delta.reasoning_content ?? "";
			(c.logprobs?.content ?? []).forEach((t, i) => take(a, join, t, c.token_ids[i]));
			a.finish = c.finish_reason ?? a.finish;
			a.first ??= performance.now() - began;
			later(a);
		}
	} catch (e) {
		if (e.name === "AbortError") a.finish = "stopped";
		else {
			a.error = e.message;
			say(`${a.model}: ${e.message}`, true);
		}
	}
	const rest = join.rest();
	if (rest && a.tokens.length) a.tokens.at(-1).text += rest;
	a.seconds = (performance.now() - began) / 1000;
	a.done = true;
	show(a);
}

function take(a, join, t, id) {
	const text = join.push(t.bytes);
	a.tokens.push({ id, text, logp: t.logprob, top: t.top_logprobs.map(o => [o.token, o.logprob]) });
}

// Showing

function draw(turn) {
	const again = make("button", "quiet again", "Again, with the next seed");
	again.type = "button";
	again.onclick = () => {
		if (running) return;
		$("seed").value = Number($("seed").value || 1) + 1;
		settled();
		answer(turn);
	};
	const pair = make("div", "pair");
	for (const a of turn.answers) {
		const step = a.of && a.model === a.of.trained ? "step " + a.of.step : "";
		a.copy = make("button", "quiet", "Copy");
		a.copy.type = "button";
		a.copy.setAttribute("aria-label", "Copy the answer of " + a.model);
		a.copy.onclick = () => navigator.clipboard.writeText(a.content).then(() => say("Copied."), () => say("The browser did not let it be copied.", true));
		a.foot = make("span");
		a.text = make("div", "text");
		a.text.dir = "auto";
		a.box = make("article", "answer busy " + a.colour, make("p", "who", make("i"), make("bdi", "", a.model), make("small", "", [step, "seed " + a.seed].filter(Boolean).join(", "))),
			a.text, make("div", "foot", a.foot, a.copy));
		a.box.setAttribute("aria-label", "Answer of " + a.model);
		pair.append(a.box);
	}
	turn.row.replaceChildren(make("div", "asked", make("p", "", turn.text), again), pair);
}

// later shows what came once before the browser paints.
function later(a) {
	if (a.due) return;
	a.due = true;
	requestAnimationFrame(() => { a.due = false; show(a); });
}

function show(a) {
	const how = a.done ? mode() : "plain";
	a.box.classList.toggle("busy", !a.done);
	a.text.className = "text " + how;
	if (a.error) a.text.replaceChildren(make("span", "error", a.error));
	else if (how === "plain") plain(a);
	else a.text.replaceChildren(...a.tokens.map((t, i) => token(a, t, i, how)));
	a.foot.replaceChildren(...foot(a, how));
	a.copy.hidden = !a.done || !a.content;
}

function plain(a) {
	const parts = a.thoughts ? [make("div", "thoughts", a.thoughts), a.content.trimStart()] : [a.content || (a.done ? (a.tokens.length ? a.tokens.map(t => t.text).join("") : "(nothing)") : "")];
	a.text.replaceChildren(...parts);
}

const count = a => a.tokens.length + (a.tokens.length === 1 ? " token" : " tokens");
const rate = a => (a.seconds > 0 && a.tokens.length > 1 ? `, ${(a.tokens.length / a.seconds).toFixed(0)} a second` : "");
const why = { length: "cut off at max_tokens", stopped: "stopped", tool_calls: "a call" };

function foot(a, how) {
	if (!a.done) return [a.tokens.length ? count(a) : "waiting for its turn"];
	if (a.error) return [];
	const n = a.tokens.length, sum = f => a.tokens.reduce((s, t) => s + f(t), 0);
	if (how === "likely" && n) return ["on average ", make("b", "", percent(sum(t => t.logp) / n)), " a token"];
	if (how === "moved" && n) {
		if (a.unmoved) return [a.unmoved];
		if (!a.tokens.every(t => "moved" in t)) return ["being scored"];
		const m = sum(t => t.moved);
		return ["all of it ", make("b", "", signed(m)), " in log-probability"];
	}
	return [`${count(a)}${rate(a)}${why[a.finish] ? "; " + why[a.finish] : ""}`];
}

function token(a, t, i, how) {
	const s = make("span", "t", t.text);
	if (t.text.startsWith("\n")) s.classList.add("line");
	s.tabIndex = i === (a.at ?? 0) ? 0 : -1;
	if (how === "likely") s.style.setProperty("--a", rarity(t.logp).toFixed(3));
	else if ("moved" in t && !still(t.moved)) {
		s.classList.add(t.moved > 0 ? "up" : "down");
		s.style.setProperty("--a", shift(t.moved).toFixed(3));
	}
	s.onpointerenter = () => read(a, t, s);
	s.onpointerleave = hush;
	s.onfocus = () => { read(a, t, s); aloud(t); };
	s.onblur = hush;
	s.onkeydown = event => walk(a, i, event);
	return s;
}

// Arrows go from token to token, so that an answer is one stop of the tab key.
function walk(a, i, event) {
	const last = a.tokens.length - 1;
	const to = { ArrowRight: i + 1, ArrowLeft: i - 1, ArrowDown: i + 10, ArrowUp: i - 10, Home: 0, End: last }[event.key];
	if (to === undefined) return;
	event.preventDefault();
	const all = a.text.children;
	all[i].tabIndex = -1;
	a.at = Math.max(0, Math.min(last, to));
	all[a.at].tabIndex = 0;
	all[a.at].focus();
}

// read shows the numbers of a token beside it.
function read(a, t, at) {
	const box = $("reading"), rows = [];
	const row = (name, value, className = "") => rows.push(make("tr", className, make("th", "", name), make("td", "", value)));
	const cold = a.temperature !== 1 && a.temperature !== 0;
	if (mode() === "moved" && "moved" in t) {
		row($("left").value, percent(t.left));
		row($("right").value, percent(t.right));
	} else {
		row(cold ? `at temperature ${a.temperature}` : "drawn with", percent(t.logp));
		t.top.filter(([text]) => text !== t.text).slice(0, 4).forEach(([text, p], i) => row(visible(text), percent(p), i ? "" : "rest"));
	}
	box.replaceChildren(make("code", "", visible(t.text)), make("table", "", make("tbody", "", ...rows)));
	if (mode() === "moved" && "moved" in t) box.append(make("p", "", make("b", "", signed(t.moved)), ", " + times(t.moved)));
	box.hidden = false;
	const r = at.getClientRects()[0] ?? at.getBoundingClientRect(), b = box.getBoundingClientRect();
	const left = Math.max(8, Math.min(r.left, innerWidth - b.width - 8));
	const top = r.top - b.height - 8 > 0 ? r.top - b.height - 8 : r.bottom + 8;
	box.style.setProperty("transform", `translate(${left}px, ${top}px)`);
}

function hush() {
	$("reading").hidden = true;
}

function aloud(t) {
	$("spoken").textContent = visible(t.text) + ": " + (mode() === "moved" && "moved" in t ? `moved ${signed(t.moved)}, ${times(t.moved)}` : percent(t.logp));
}

// Colours

// score gives the tokens of an answer the log-probabilities that both have for them, at temperature 1: the same numbers as in training.
async function score(a, left, right) {
	if (!a.prompt || !a.tokens.length || a.scored === left + "\n" + right) return;
	const prompt = [...a.prompt, ...a.tokens.map(t => t.id)];
	const under = async model => {
		if (model === a.model && (a.temperature === 1 || a.temperature === 0) && a.tokens.every(t => t.logp > -9999)) return a.tokens.map(t => t.logp);
		const r = await (await ask("/v1/completions", { model, prompt, max_tokens: 0, echo: true, logprobs: 0 })).json();
		return r.choices[0].logprobs.token_logprobs.slice(a.prompt.length);
	};
	const [l, r] = await Promise.all([under(left), under(right)]);
	a.tokens.forEach((t, i) => Object.assign(t, { left: l[i], right: r[i], moved: r[i] - l[i] }));
	a.scored = left + "\n" + right;
}

// colour shows every answer as is chosen.
async function colour() {
	legend();
	hush();
	const answers = turns.flatMap(t => t.answers).filter(a => a.done);
	answers.forEach(show);
	if (mode() !== "moved") return;
	const left = $("left").value, right = $("right").value;
	await Promise.all(answers.map(a => score(a, left, right).then(() => { delete a.unmoved; }, e => { a.unmoved = "not scored: " + e.message; }).then(() => show(a))));
}

function legend() {
	const box = $("legend"), how = mode();
	box.hidden = how === "plain";
	box.className = "legend " + how;
	const sample = (text, strength, className = "") => {
		const s = make("span", "t " + className, text);
		s.style.setProperty("--a", strength);
		return s;
	};
	if (how === "likely") {
		box.replaceChildren("Probability of the token when it was sampled:", ...[0.99, 0.5, 0.1, 0.01, 0.001].map(p => sample(percent(Math.log(p)), rarity(Math.log(p)))), "Point at a token, or walk with the arrow keys.");
	} else if (how === "moved") {
		box.replaceChildren(make("span", "", "log p of ", make("b", "", $("right").value), " less log p of ", make("b", "", $("left").value), ":"),
			...[-4, -1, -0.2].map(m => sample(signed(m), shift(m), "down")), sample("as before", 0), ...[0.2, 1, 4].map(m => sample(signed(m), shift(m), "up")),
			"Underlined: likelier now; dotted: less likely.");
	}
}

// Hands

$("composer").onsubmit = event => { event.preventDefault(); send(); };
$("stop").onclick = () => running?.abort();
$("fresh").onclick = () => {
	running?.abort();
	turns = [];
	$("turns").replaceChildren();
	$("welcome").hidden = false;
	say("A new conversation.");
	$("ask").focus();
};
$("forget").onclick = () => { sessionStorage.removeItem(keyName); location.reload(); };
for (const id of ["left", "right"]) $(id).onchange = () => { told(); colour(); };
for (const id of ["temperature", "seed", "tokens", "system"]) $(id).oninput = settled;
for (const radio of document.getElementsByName("mode")) radio.onchange = colour;
document.addEventListener("keydown", event => {
	if (event.key === "Escape") { hush(); running?.abort(); }
	if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !$("door").open) { event.preventDefault(); send(); }
});
addEventListener("scroll", hush, { passive: true });
open();
