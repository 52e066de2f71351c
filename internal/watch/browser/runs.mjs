// Makes runs of many kinds from the files of one short run, without training: without steps, of one step and of 500, with numbers that are
// not finite, with groups without contrast, with names that are long, markup or right-to-left, and a sweep of 30.
// node runs.mjs FROM TO
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";

const [from, to] = process.argv.slice(2);
const lines = name => readFileSync(`${from}/${name}`, "utf8").trim().split("\n").map(l => JSON.parse(l));
const metrics = lines("metrics.jsonl"), times = lines("train_log.jsonl"), rollouts = lines("rollouts.jsonl"), judged = lines("evaluations.jsonl");
const measured = metrics.filter(l => !l.kind), evaluation = metrics.find(l => l.kind === "evaluation");
const [config, manifest] = ["config.json", "manifest.json"].map(name => JSON.parse(readFileSync(`${from}/${name}`, "utf8")));
const write = (path, all) => writeFileSync(path, all.map(l => (typeof l === "string" ? l : JSON.stringify(l)) + "\n").join(""));
const share = v => Math.min(1, Math.max(0, v));

// curves returns the metrics and times of a number of steps: the lines of the short run, repeated, with numbers that wave and rise.
function curves(steps, seed = 0) {
	const all = [], timed = [];
	for (let step = 1; step <= steps; step++) {
		const at = step / steps, shake = k => Math.sin(step * (k + 1.7) + seed * 9) / 3, line = { ...measured[step % measured.length], step };
		Object.entries(line).forEach(([key, v], k) => {
			if (typeof v === "number" && !Number.isInteger(v)) line[key] = v * (1 + shake(k));
		});
		line.mean_reward = line.mean_correct = share(0.15 + (0.5 + seed / 80) * at + shake(1) / 3);
		line.mean_fraction = share(line.mean_reward + 0.1);
		line.format_rate = share(0.8 + at / 5);
		line.entropy = 1.2 - at + shake(2) / 9;
		all.push(line);
		if (step % Math.ceil(steps / 25) === 0 || step === steps) all.push(evaluated(step, 0.2 + (0.4 + seed / 60) * at, seed));
		timed.push({ ...times.filter(l => !l.kind)[step % times.length], step });
	}
	return { metrics: [evaluated(0, 0.2, seed), ...all], times: timed };
}

const evaluated = (step, v, seed) => ({ ...evaluation, step, "pass@1_greedy": share(v), "pass@1_greedy_ci": [share(v - 0.08), share(v + 0.08)],
	"pass@1": share(v - 0.05), "pass@k": share(v + 0.1), seed });

// right is the evaluation after a step, in which a share v of the held-out problems is solved.
const right = (step, v) => ({ ...judged[0], step, correct: judged[0].problems.map((_, i) => ((i * 7) % judged[0].problems.length < v * judged[0].problems.length ? 1 : 0)) });

function run(name, { settings = {}, steps = [], timed = times, samples = [], advice = [], solved = [] }) {
	const dir = `${to}/${name}`;
	mkdirSync(dir, { recursive: true });
	const began = { ...config, max_steps: steps.filter(l => !l.kind).length || 8, ...settings, run_dir: dir };
	writeFileSync(`${dir}/config.json`, JSON.stringify(began));
	writeFileSync(`${dir}/manifest.json`, JSON.stringify({ ...manifest, began }));
	if (steps.length) write(`${dir}/metrics.jsonl`, steps), write(`${dir}/train_log.jsonl`, timed);
	if (samples.length) write(`${dir}/rollouts.jsonl`, samples);
	if (advice.length) write(`${dir}/run_log.jsonl`, advice);
	if (solved.length) write(`${dir}/evaluations.jsonl`, solved);
}

// retold returns the recorded completions with other problem names and texts.
const retold = (problem, text, more = {}) => rollouts.map((l, i) => ({ ...l, problem: problem(l), text: text(l, i), ...more }));
const first = rollouts.filter(l => l.step === rollouts[0].step);

run("none", { settings: { max_steps: 40 } });
run("one", { steps: metrics.filter(l => l.step <= 1), samples: first, timed: times.slice(0, 1) });

const long = curves(500);
run("long", { steps: long.metrics, timed: long.times, samples: retold(l => l.problem, l => l.text + "\n# on and on".repeat(500)),
	advice: [...Array(60).keys()].map(i => ({ step: 8 * i + 8, rule: ["truncation", "policy leaps", "time-outs"][i % 3],
		finding: `${20 + i} % of completions end at max_tokens`, try: "a larger max_tokens, or a prompt that asks for less" })) });

const odd = curves(60).metrics.map(l => {
	if (l.kind) return { ...l, "pass@1_greedy": l.step > 30 ? null : l["pass@1_greedy"], "pass@1_greedy_ci": l.step > 30 ? null : l["pass@1_greedy_ci"] };
	if (l.step === 20) return { ...l, grad_norm: 3.4e38, kl_v1: -1e-12, ratio_max: 1e30 };
	return l.step > 25 && l.step < 40 ? { ...l, updated: false, grad_norm: null, loss: null, mean_reward: null, mean_correct: null, entropy: null } : l;
});
run("odd", { steps: [...odd, '{"step":61,"grad_norm":NaN,"mean_reward":Infinity}'], settings: { max_steps: 60 },
	samples: first.map(l => ({ ...l, advantage: null, score: { ...l.score, reward: null, excluded: "infra", verdict: "INFRA" } })),
	advice: [{ step: 60, rule: "not finite", finding: "the gradient of 14 steps was not finite", try: "a smaller learning_rate", fatal: true }] });

run("alike", { steps: curves(12).metrics.filter(l => !l.kind).map(l => ({ ...l, updated: false, mean_reward: 0, mean_correct: 0, mean_fraction: 0,
	groups_skipped: l.groups_total, frac_all_good: 0, frac_all_bad: 1, wasted_tokens: l.completion_tokens, verdicts: { WA: l.completions } })),
	samples: rollouts.map(l => ({ ...l, advantage: 0, score: { ...l.score, reward: 0, verdict: "WA", passed: 0, components: { ...l.score.components, correct: 0 } } })) });

const endless = "a-run-whose-name-tells-every-setting_learning_rate=0.0002_temperature=1.0_completions_per_prompt=16_lora_rank=32_".repeat(2) + "end";
const path = "/mnt/models/" + "a_folder_with_a_long_name/".repeat(6);
run(endless, { ...shortly(), settings: { model: path + "Qwen3-4B-Instruct", data: path + "problems_of_all_contests_since_2001.jsonl" },
	samples: retold(l => `${l.problem}/${"contest_of_many_rounds/".repeat(8)}${"x".repeat(120)}`, (_, i) => `print(${"9".repeat(300 + i)})\n`),
	solved: [right(0, 0.3), right(8, 0.7)].map(l => ({ ...l, problems: l.problems.map(p => p + "_of_the_contest_of_many_rounds".repeat(4)) })) });

const markup = "<img src=x onerror=alert(1)><script>alert(2)<script>&amp;\"'";
run(markup, { ...shortly(), settings: { model: markup, data: markup },
	samples: retold(l => `</bdi></a>${markup}${l.problem}`, l => `</pre></script><script>alert(3)</script>${markup}\n{{.Text}}\n${l.text}`),
	advice: [{ step: 8, rule: markup, finding: markup, try: markup }] });

const words = "תוכנית שמדפיסה את המספר הגדול 42 — مرحبا بالعالم، العدد ١٢٣ می‌شود 👩‍👩‍👧‍👦 🇪🇪 👍🏽 数を足す é́̂";
run("ניסוי ראשון 🚀 تجربة", { ...shortly(), settings: { model: "מודל", data: "مجموعة" },
	samples: retold(l => `${words} ${l.problem}`, l => `# ${words}\n${l.text}\nprint("שלום", "‮evil‬", "\u0000\u0007")`),
	advice: [{ step: 8, rule: "قاعدة", finding: words, try: words }] });

function shortly() {
	const { metrics, times } = curves(8);
	return { steps: metrics, timed: times };
}

for (let i = 0; i < 30; i++) {
	const { metrics, times } = curves(40, i), rate = [1e-4, 2e-4, 5e-4, 1e-3, 2e-3][i % 5], seed = Math.floor(i / 5);
	run(`sweep/learning_rate=${rate},seed=${seed}`, { steps: metrics, timed: times, settings: { learning_rate: rate, seed },
		solved: metrics.filter(l => l.kind).map(l => right(l.step, l["pass@1_greedy"])) });
}
