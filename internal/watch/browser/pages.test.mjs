// The report, the list of runs, the comparison and the samples in a browser: large and small, light and dark. URL is a `grpo watch` over
// two runs and those of runs.mjs, EMPTY one over none; PAGES are files of pages; pictures go to PICTURES.
import assert from "node:assert/strict";
import { readFileSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { basename } from "node:path";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";

const { URL: url, EMPTY: empty, PAGES: files, PICTURES: pictures, CHROMIUM: program } = process.env;
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

// What is written beside a chart lies within its figure, beside the curves, and not over what else is written there.
async function labelled(page, where) {
	const bad = await page.evaluate(() => {
		const wrong = [], range = document.createRange();
		const box = e => (range.selectNodeContents(e), range.getBoundingClientRect());
		for (const plot of document.querySelectorAll(".plot")) {
			const room = plot.closest("figure, section").getBoundingClientRect(), area = plot.getBoundingClientRect();
			const xs = [...plot.querySelectorAll(".x")].map(e => [e.textContent, box(e)]).sort((a, b) => a[1].left - b[1].left);
			for (const e of plot.querySelectorAll(".y")) {
				const { left, right } = box(e);
				if (left + 0.5 < room.left || right > area.left) wrong.push(`${plot.ariaLabel}: y ${e.textContent} from ${left - room.left} to ${right - area.left}`);
			}
			for (const [i, [text, b]] of xs.entries()) {
				if (b.right > room.right + 0.5 || i && b.left < xs[i - 1][1].right + 2) wrong.push(`${plot.ariaLabel}: x ${text}`);
			}
		}
		return wrong;
	});
	assert.deepEqual(bad, [], where);
}

const views = async page => {
	const all = files.split(" ").map(f => [basename(f, ".html"), "file://" + f]);
	all.push(["watch", url], ["empty", empty], ["live", url + "run/seed-0"], ["steps", url + "samples/seed-0"]);
	for (const view of ["groups", "problems", "flips"]) all.push([view, url + "samples/seed-1?view=" + view]);
	const near = await group(page, "seed-0", "groups&outcome=mixed");
	for (const by of ["difference", "probability", "advantage"]) all.push(["group-" + by, near + "&by=" + by]);
	const names = (await page.goto(url), await page.locator("h2 a").evaluateAll(all => all.map(a => a.getAttribute("href").slice("/run/".length))));
	const kinds = { none: /^none$/, one: /^one$/, long: /^long$/, odd: /^odd$/, alike: /^alike$/, endless: /^a-run-whose/, markup: /^%3Cimg/, rightleft: /^%D7/ };
	for (const [kind, name] of Object.entries(kinds)) {
		const at = names.find(n => name.test(n));
		all.push(["run-" + kind, url + "run/" + at]);
		if (/none|odd|endless|markup|rightleft/.test(kind)) all.push([`groups-${kind}`, url + `samples/${at}?view=groups`]);
		if (/endless|markup|rightleft/.test(kind)) all.push([`group-${kind}`, await group(page, at, "groups")]);
	}
	return all;
};

const group = async (page, run, view) => {
	await page.goto(`${url}samples/${run}?view=${view}`);
	const link = page.locator("tbody a").first();
	return await link.count() ? url + (await link.getAttribute("href")).slice(1) : `${url}samples/${run}?view=group&step=1&group=0`;
};

// A picture of a page is as long as it takes, to a bound: one of many runs has no end.
const mostTall = 12000;

for (const [width, height] of [[1280, 900], [390, 844]]) {
	for (const colorScheme of ["light", "dark"]) {
		test(`pages at ${width} pixels, ${colorScheme}`, async t => {
			const context = await browser.newContext({ viewport: { width, height }, colorScheme, reducedMotion: "reduce" });
			t.after(() => context.close());
			const page = await context.newPage(), wrong = [];
			page.on("console", m => m.type() === "error" && wrong.push(m.text()));
			page.on("pageerror", e => wrong.push(e.message));
			page.on("dialog", d => wrong.push("a dialog: " + d.message()));
			for (const [name, address] of await views(page)) {
				await page.goto(address, { waitUntil: "load" });
				assert.ok(await page.locator("h1").count(), name);
				assert.equal(await page.locator("img").count(), 0, name + ": markup of others is text");
				const tall = await page.evaluate(() => document.documentElement.scrollHeight);
				await page.screenshot({ path: `${pictures}/${width}-${colorScheme}-${name}.png`, fullPage: true,
					clip: { x: 0, y: 0, width, height: Math.min(tall, mostTall) } });
				assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), name + ": nothing sticks out");
				await drawn(page, name);
				await labelled(page, name);
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
