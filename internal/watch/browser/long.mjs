// A run of 500 steps, out of one that is short: its steps again and again, with rewards that rise. node long.mjs FROM TO
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";

const [from, to] = process.argv.slice(2), steps = 500;
mkdirSync(to, { recursive: true });
for (const name of ["manifest.json"]) copyFileSync(`${from}/${name}`, `${to}/${name}`);
writeFileSync(`${to}/config.json`, JSON.stringify({ ...JSON.parse(readFileSync(`${from}/config.json`)), max_steps: steps }));
for (const name of ["metrics.jsonl", "train_log.jsonl"]) {
	const all = readFileSync(`${from}/${name}`, "utf8").trim().split("\n").map(l => JSON.parse(l));
	const lines = all.filter(l => !l.kind), out = [];
	const evaluation = all.find(l => l.kind === "evaluation");
	for (let step = 1; step !== steps + 1; step++) {
		const line = { ...lines[step % lines.length], step };
		if ("mean_reward" in line) line.mean_reward = step / steps + Math.sin(step) / 9;
		out.push(line);
		if (evaluation && step % 20 === 0) out.push({ ...evaluation, step, "pass@1_greedy": step / steps });
	}
	writeFileSync(`${to}/${name}`, out.map(l => JSON.stringify(l)).join("\n") + "\n");
}
