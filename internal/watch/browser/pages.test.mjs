// The report, the list of runs, the comparison and the samples in a browser: large and small, light and dark. URL is a `grpo watch` over
// two runs and one of 500 steps; PAGES are files of pages; pictures go to PICTURES.
import assert from "node:assert/strict";
import { readFileSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { basename } from "node:path";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";

const { URL: url, PAGES: files, PICTURES: pictures, CHROMIUM: program } = process.env;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
let browser;
before(async () => { browser = await chromium.launch({ executablePath: program, args: ["--no-sandbox"] }); });
after(() => browser.close());

// Nothing is wrong for who reads with their ears, or sees little.
async function accessible(page, where) {
	const found = await page.evaluate(`${axe}; axe.run(document, { resultTypes: ["violations"] })`);
	const bad = found.violations.filter(v => v.impact === "serious" || v.impact === "critical");
	assert.deepEqual(bad.map(v => `${v.id}: ${v.nodes.slice(0, 3).map(n => n.html.slice(0, 160) + " " + n.failureSummary).join("; ")}`), [], where);
}

// Every chart has curves, both axes and a legend.
async function drawn(page, where) {
	const bad = await page.evaluate(() => [...document.querySelectorAll(".plot")].filter(p => !p.querySelector("path") ||
		!p.querySelector(".y") || !p.querySelector(".x") || !p.closest("figure, section").querySelector(".legend .key")).map(p => p.ariaLabel));
	assert.deepEqual(bad, [], where);
}

const group = async page => {
	await page.goto(url + "samples/seed-0?view=groups&outcome=mixed");
	const link = page.locator("tbody a").first();
	return await link.count() ? url + (await link.getAttribute("href")).slice(1) : url + "samples/seed-0?view=group&step=1&group=0";
};

for (const [width, height] of [[1280, 900], [390, 844]]) {
	for (const colorScheme of ["light", "dark"]) {
		test(`pages at ${width} pixels, ${colorScheme}`, async t => {
			const context = await browser.newContext({ viewport: { width, height }, colorScheme, reducedMotion: "reduce" });
			t.after(() => context.close());
			const page = await context.newPage(), wrong = [];
			page.on("console", m => m.type() === "error" && wrong.push(m.text()));
			page.on("pageerror", e => wrong.push(e.message));
			const near = await group(page);
			const views = files.split(" ").map(f => [basename(f, ".html"), "file://" + f]);
			views.push(["watch", url], ["live", url + "run/seed-0"], ["long", url + "run/long"], ["steps", url + "samples/seed-0"]);
			for (const view of ["groups", "problems", "flips"]) views.push([view, url + "samples/seed-1?view=" + view]);
			for (const by of ["difference", "probability", "advantage"]) views.push(["group-" + by, near + "&by=" + by]);
			for (const [name, address] of views) {
				await page.goto(address, { waitUntil: "load" });
				assert.ok(await page.locator("h1").count(), name);
				await drawn(page, name);
				assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), name + ": nothing sticks out");
				await page.screenshot({ path: `${pictures}/${width}-${colorScheme}-${name}.png`, fullPage: name !== "long" });
				await accessible(page, name);
			}
			assert.deepEqual(wrong, []);
		});
	}
}

test("pages are small", async () => {
	for (const file of files.split(" ")) assert.ok(statSync(file).size < 5e6, file);
	const long = await (await fetch(url + "run/long")).text();
	assert.ok(long.length < 5e6, `${long.length} bytes for a run of 500 steps`);
});
