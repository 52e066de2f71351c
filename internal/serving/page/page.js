import { events, Joiner, rarity, shift, still, percent, signed, times, visible } from "./text.js";

// What a model wrote is inserted as text nodes, never as markup. A turn is a message and the answer of each side. Each side has its own
// conversation, with its own answers.
const $ = id => document.getElementById(id);
const make = (tag, className = "", ...inside) => {
	const e = document.createElement(tag);
	if (className) e.className = className;
	e.append(...inside);
	return e;
};

const keyName = "grpo key"; // in sessionStorage, which is this tab's alone
let models = [], about = {}, turns = [], running = null;
const mode = () => document.querySelector("input[name=mode]:checked").value;

// The server

// Refused is an error that the server answered with.
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
	const response = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), signal }).catch(e => {
		throw e.name === "AbortError" ? e : new Error("the server does not answer"); // browsers say "Failed to fetch" and the like
	});
	if (response.ok) return response;
	const said = await response.json().catch(() => ({}));
	throw new Refused(response.status, said.error?.message ?? response.statusText);
}

// enter loads the models and the run. It asks for a key until the server accepts one.
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

// Setup

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
	describe();
	summarize();
	$("ask").focus();
	if (run?.follows) setInterval(refresh, 5000);
}

function fill(select, names, chosen) {
	select.replaceChildren(...names.map(n => new Option(n || "nothing", n)));
	select.value = chosen;
}

// refresh shows the latest step of a run that is being trained.
async function refresh() {
	if (document.hidden) return;
	try {
		about = await (await ask("/page/about")).json();
		$("report").href = about.report ?? "";
		describe();
	} catch { } // the next message will show the error
}

const compares = () => $("right").value !== "" && $("right").value !== $("left").value && !$("rightpicker").hidden;

// describe writes the headings and labels that depend on the run and on the chosen models.
function describe() {
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

// summarize writes the settings beside their heading, which is all that is seen of them while they are closed.
function summarize() {
	const tokens = $("tokens").value;
	$("summary").textContent = `temperature ${$("temperature").value || 1}, seed ${$("seed").value || 1}, ${tokens ? "up to " + tokens + " tokens" : "as many tokens as fit"}${$("system").value.trim() ? ", a system prompt" : ""}`;
}

function say(text, wrong) {
	$("status").textContent = text;
	$("status").classList.toggle("error", Boolean(wrong));
}

// Sending

// messages returns the conversation of one side, up to and including a turn's message.
function messages(turn, side) {
	const list = [];
	for (const t of turns.slice(0, turns.indexOf(turn) + 1)) {
		const content = t.answers.find(a => a.side === side)?.content;
		if (t === turn) list.push(...t.sent);
		else if (content) list.push(...t.sent, { role: "assistant", content }); // unanswered messages are left out
	}
	const system = $("system").value.trim(); // replaces the system prompt of the run's template
	if (system) list.splice(0, list[0].role === "system" ? 1 : 0, { role: "system", content: system });
	return list;
}

async function send() {
	const text = $("ask").value.trim();
	if (!text || running) return;
	begin();
	let sent = [{ role: "user", content: text }];
	if (turns.length === 0 && about.wording && $("wording").checked) {
		try {
			sent = (await (await ask("/page/wording", { statement: text }, running.signal)).json()).messages;
		} catch (e) {
			end();
			return e.name === "AbortError" ? undefined : say(e.message, true);
		}
	}
	const turn = { text, sent, answers: [], row: make("li") };
	turns.push(turn);
	$("welcome").hidden = true;
	$("turns").append(turn.row);
	$("ask").value = "";
	await answer(turn);
}

// begin and end enclose the time in which no other message can be sent.
function begin() {
	running = new AbortController();
	$("send").disabled = true;
	$("stop").hidden = false;
}

function end() {
	running = null;
	$("send").disabled = false;
	$("stop").hidden = true;
}

// answer asks the chosen models for answers to a turn, which replace those that it has. Call begin first.
async function answer(turn) {
	const sides = [["left", $("left").value, "c7"], ...(compares() ? [["right", $("right").value, "c1"]] : [])];
	turn.answers = sides.map(([side, model, color]) => ({ side, model, color, content: "", thoughts: "", tokens: [], seed: Number($("seed").value || 1), of: about.run }));
	draw(turn);
	for (const other of turns) for (const b of other.row.querySelectorAll(".again")) b.hidden = other !== turn;
	say(sides.length > 1 ? "Both answer." : "It answers.");
	turn.row.scrollIntoView(); // smoothly, by the style
	await Promise.all(turn.answers.map(a => stream(turn, a, running.signal)));
	end();
	if (turns.includes(turn) && !turn.answers.some(a => a.error)) say(turn.answers.map(a => `${a.model}: ${count(a)}${a.finish === "stopped" ? ", stopped" : ""}`).join("; "));
	await recolor();
}

// stream shows the answer of one side as it is written.
async function stream(turn, a, signal) {
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
		begin();
		$("seed").value = Number($("seed").value || 1) + 1;
		summarize();
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
		a.box = make("article", "answer busy " + a.color, make("p", "who", make("i"), make("bdi", "", a.model), make("small", "", [step, "seed " + a.seed].filter(Boolean).join(", "))),
			a.text, make("div", "foot", a.foot, a.copy));
		a.box.setAttribute("aria-label", "Answer of " + a.model);
		pair.append(a.box);
	}
	turn.row.replaceChildren(make("div", "asked", make("p", "", turn.text), again), pair);
}

// later shows an answer with the next frame, once for all tokens that arrived since the last.
function later(a) {
	if (a.due) return;
	a.due = true;
	requestAnimationFrame(() => { a.due = false; show(a); });
}

function show(a) {
	const how = a.done ? mode() : "plain";
	a.box.classList.toggle("busy", !a.done);
	a.text.className = "text " + how;
	if (how === "plain") plain(a);
	else a.text.replaceChildren(...a.tokens.map((t, i) => token(a, t, i, how)));
	a.foot.replaceChildren(...foot(a, how));
	a.copy.hidden = !a.done || !a.content;
}

function plain(a) {
	const parts = a.thoughts ? [make("div", "thoughts", a.thoughts), a.content.trimStart()] : [a.content || (a.done && !a.error ? (a.tokens.length ? a.tokens.map(t => t.text).join("") : "(nothing)") : "")];
	a.text.replaceChildren(...parts);
}

const count = a => a.tokens.length + (a.tokens.length === 1 ? " token" : " tokens");
const rate = a => (a.seconds > 0 && a.tokens.length > 1 ? `, ${(a.tokens.length / a.seconds).toFixed(0)} a second` : "");
const why = { length: "cut off at max_tokens", stopped: "stopped", tool_calls: "a call" };

function foot(a, how) {
	if (!a.done) return [a.tokens.length ? count(a) : "waiting for its turn"];
	if (a.error) return [make("span", "error", a.error)];
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
	s.onpointerleave = hideReading;
	s.onfocus = () => { read(a, t, s); announce(t); };
	s.onblur = hideReading;
	s.onkeydown = event => walk(a, i, event);
	return s;
}

// The arrow keys go from token to token, so that an answer is only one stop of the tab key.
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

// read shows the probabilities of a token beside it.
function read(a, t, at) {
	const box = $("reading"), rows = [];
	const row = (name, value, className = "") => rows.push(make("tr", className, make("th", "", name), make("td", "", value)));
	const scaled = a.temperature !== 1 && a.temperature !== 0;
	if (mode() === "moved" && "moved" in t) {
		row($("left").value, percent(t.left));
		row($("right").value, percent(t.right));
	} else {
		row(scaled ? `at temperature ${a.temperature}` : "drawn with", percent(t.logp));
		t.top.filter(([text]) => text !== t.text).slice(0, 4).forEach(([text, p], i) => row(visible(text), percent(p), i ? "" : "rest"));
	}
	box.replaceChildren(make("code", "", visible(t.text)), make("table", "", make("tbody", "", ...rows)));
	if (mode() === "moved" && "moved" in t) box.append(make("p", "", make("b", "", signed(t.moved)), ", " + times(t.moved)));
	box.hidden = false;
	beside = at;
	place();
}

let beside = null; // the token whose probabilities are shown

function place() {
	const box = $("reading"), r = beside.getClientRects()[0] ?? beside.getBoundingClientRect(), b = box.getBoundingClientRect();
	const left = Math.max(8, Math.min(r.left, innerWidth - b.width - 8));
	const top = r.top - b.height - 8 > 0 ? r.top - b.height - 8 : r.bottom + 8;
	box.style.setProperty("transform", `translate(${left}px, ${top}px)`);
}

function hideReading() {
	$("reading").hidden = true;
	beside = null;
}

function announce(t) {
	$("spoken").textContent = visible(t.text) + ": " + (mode() === "moved" && "moved" in t ? `moved ${signed(t.moved)}, ${times(t.moved)}` : percent(t.logp));
}

// Colors

// score gives each token of an answer its log-probability under both models, at temperature 1, as in training.
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

// recolor shows all answers in the chosen mode.
async function recolor() {
	legend();
	hideReading();
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

// Events

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
for (const id of ["left", "right"]) $(id).onchange = () => { describe(); recolor(); };
for (const id of ["temperature", "seed", "tokens", "system"]) $(id).oninput = summarize;
for (const radio of document.getElementsByName("mode")) radio.onchange = recolor;
document.addEventListener("keydown", event => {
	if (event.key === "Escape") { hideReading(); running?.abort(); }
	if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !$("door").open) { event.preventDefault(); send(); }
});
addEventListener("scroll", () => { // a token that is focused by a key may have scrolled the page
	if (beside && beside === document.activeElement) place();
	else hideReading();
}, { passive: true });
open();
