// The report, the list of runs, the comparison and the samples in chromium, on large and small screens, light and dark. URL is the address
// of a `grpo watch` of the runs in RUNS: two real ones and those of runs.mjs. EMPTY is one without runs. PAGES are files; screenshots go to
// PICTURES.
import assert from "node:assert/strict";
import { appendFileSync, cpSync, readFileSync, rmSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { basename } from "node:path";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";

const { URL: url, EMPTY: empty, PAGES: files, RUNS: runs, PICTURES: pictures, CHROMIUM: program } = process.env;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
let browser;
before(async () => { browser = await chromium.launch({ executablePath: program, args: ["--no-sandbox"] }); });
after(() => browser.close());

// axe-core finds no serious violation, such as a control without a name or text with too little contrast.
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

// The labels of the axes lie within their figure, outside of the curves, and do not overlap.
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

// Screenshots show whole pages, up to this height: a list of many runs is long.
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
				assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), name + ": no horizontal scrolling");
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

// ends returns the last point of each curve, by chart and color. In a chart that was extended by new steps, the curves end in their tails.
const ends = (page, which) => page.evaluate(which => Object.fromEntries([...document.querySelectorAll("[data-end] figure")].flatMap(f =>
	[...f.querySelectorAll(which)].map(p => [`${f.querySelector("h3").textContent} ${p.getAttribute("class").split(" ").at(-1)}, ${f.querySelector(".plot").dataset.y}`,
		p.getAttribute("d").replace(/h0$/, "").split(" ").slice(-2).join(" ")]))), which);

// An open page shows new steps at once, before it is redrawn; and their points are where they are after that.
for (const [width, height] of [[1280, 900], [390, 844]]) {
	for (const colorScheme of ["light", "dark"]) {
		test(`a page goes on at ${width} pixels, ${colorScheme}`, async t => {
			const context = await browser.newContext({ viewport: { width, height }, colorScheme, reducedMotion: "reduce" });
			t.after(() => context.close());
			const page = await context.newPage(), wrong = [], held = [], name = `goes-on-${width}-${colorScheme}`;
			page.on("console", m => m.type() === "error" && wrong.push(m.text()));
			page.on("pageerror", e => wrong.push(e.message));
			cpSync(`${runs}/seed-0`, `${runs}/${name}`, { recursive: true });
			let asked = 0;
			await page.route(`${url}run/${name}`, route => asked++ < 2 ? route.continue() : held.push(route));
			const second = page.waitForResponse(r => r.url().endsWith(name) && asked > 1);
			await page.goto(`${url}run/${name}`, { waitUntil: "load" });
			await second;
			const last = log => readFileSync(`${runs}/${name}/${log}`, "utf8").trim().split("\n").map(l => JSON.parse(l)).findLast(l => !l.kind);
			const steps = ["metrics.jsonl", "train_log.jsonl"].map(log => [log, last(log)]);
			for (const step of [9, 10]) {
				for (const [log, line] of steps) {
					appendFileSync(`${runs}/${name}/${log}`, JSON.stringify({ ...line, step, mean_correct: 0.5, mean_reward: 0.25 + step / 100 }) + "\n");
				}
				await page.waitForFunction(step => document.title.includes(`: ${step}`) && document.querySelector(".tail"), step);
			}
			await page.waitForFunction(() => [...document.querySelectorAll("#time .key b")].every(b => b.textContent !== "–")); // the line of train_log.jsonl arrived
			assert.equal(await page.locator("#learning .key.c1 b").first().textContent(), "0.350");
			await drawn(page, name);
			await labelled(page, name);
			await accessible(page, name);
			assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "no horizontal scrolling");
			await page.screenshot({ path: `${pictures}/${width}-${colorScheme}-goes-on.png`, fullPage: true });
			const plot = page.locator("#learning .plot").first(), box = await plot.boundingBox();
			await plot.hover({ position: { x: box.width - 3, y: 20 } });
			assert.equal(await page.locator("#learning .when").first().textContent(), "step 10");
			await page.mouse.move(1, 1);
			const tails = await ends(page, ".tail:is(.raw, .line)");
			while (held.length === 0) await new Promise(done => setTimeout(done, 50));
			await held[0].continue();
			await page.waitForFunction(() => document.querySelector("[data-end]").dataset.end === "10 10" && !document.querySelector(".tail"));
			const whole = await ends(page, ".line"), both = Object.keys(tails).filter(key => key in whole);
			assert.ok(both.length > 5, both.join("; "));
			assert.deepEqual(Object.fromEntries(both.map(key => [key, tails[key]])), Object.fromEntries(both.map(key => [key, whole[key]])));
			assert.deepEqual(wrong, []);
		});
	}
}

// The focus stays where it is when a page is redrawn, and the keyboard reads charts step by step as the mouse does.
test("the keys of a keyboard are enough", async t => {
	const page = await browser.newPage(), wrong = [], name = "by-keys", focused = () => page.evaluate(() => document.activeElement.textContent);
	t.after(() => page.close());
	page.on("pageerror", e => wrong.push(e.message));
	cpSync(`${runs}/seed-0`, `${runs}/${name}`, { recursive: true });
	const metrics = readFileSync(`${runs}/${name}/metrics.jsonl`, "utf8").trim().split("\n").map(l => JSON.parse(l)).findLast(l => !l.kind);
	await page.goto(`${url}run/${name}`, { waitUntil: "load" });
	const slider = page.locator("#learning").getByRole("slider", { name: /^Read the charts at a step: / });
	await slider.focus();
	assert.equal(await slider.evaluate(e => getComputedStyle(e).opacity), "1");
	for (const key of ["Home", "ArrowRight"]) await page.keyboard.press(key);
	assert.equal(await page.locator("#learning .when").first().textContent(), "step 2");
	const reward = await page.locator("#learning .key b").first().textContent();
	assert.match(await slider.getAttribute("aria-valuetext"), new RegExp(`^step 2; .*: reward ${reward}`));
	const drawnAgain = () => page.waitForFunction(() => !document.querySelector("main").seen);
	const step = async n => {
		await page.evaluate(() => (document.querySelector("main").seen = true));
		appendFileSync(`${runs}/${name}/metrics.jsonl`, JSON.stringify({ ...metrics, step: n }) + "\n");
		await drawnAgain();
	};
	await step(9);
	assert.equal(await page.locator("#learning .when").first().textContent(), "step 2", "the reading stays");
	await page.getByText("Manifest", { exact: true }).focus();
	await step(10);
	assert.equal(await focused(), "Manifest");

	await page.goto(`${url}samples/${name}`, { waitUntil: "load" });
	await page.getByRole("link", { name: "Problems" }).focus();
	await page.evaluate(() => { document.querySelector("main").seen = true; draw(); });
	await drawnAgain();
	assert.equal(await focused(), "Problems");
	await page.goto(`file://${runs}/seed-0/report.html`, { waitUntil: "load" });
	await page.getByText("Manifest", { exact: true }).focus();
	await page.reload({ waitUntil: "load" });
	assert.equal(await focused(), "Manifest", "also when a page is loaded again");
	assert.deepEqual(wrong, []);
});

// A browser opens six connections to a server: hidden tabs close theirs, and still show in their titles how far the run is. A page whose
// run is removed says so.
test("many pages of runs are open at a time", async t => {
	const context = await browser.newContext(), name = "in-tabs", metrics = `${runs}/${name}/metrics.jsonl`;
	t.after(() => context.close());
	cpSync(`${runs}/seed-0`, `${runs}/${name}`, { recursive: true });
	const see = (page, is) => page.evaluate(is => {
		Object.defineProperty(document, "hidden", { configurable: true, get: () => !is });
		document.dispatchEvent(new Event("visibilitychange"));
	}, is);
	const pages = [];
	for (let i = 0; i < 8; i++) {
		const page = await context.newPage();
		await page.clock.install();
		await page.goto(`${url}run/${name}`, { timeout: 10000 });
		await see(page, false);
		pages.push(page);
	}
	const last = readFileSync(metrics, "utf8").trim().split("\n").map(l => JSON.parse(l)).findLast(l => !l.kind);
	appendFileSync(metrics, JSON.stringify({ ...last, step: last.step + 1 }) + "\n");
	await pages[0].clock.fastForward(31000);
	await pages[0].waitForFunction(n => document.title.includes(`: ${n} `), last.step + 1);
	await see(pages[2], true);
	await pages[2].waitForFunction(n => document.querySelector("[data-end]").dataset.end.endsWith(` ${n}`), last.step + 1);
	rmSync(`${runs}/${name}`, { recursive: true });
	await pages[2].getByText("there is no run with that name here: this page is out of date.").waitFor();
});

// Every page that is kept up to date says when its server is away, also to a reader who has scrolled down, and connects again by itself,
// even if a proxy answered in the server's place meanwhile, after which browsers do not.
test("pages say that the server is away, until it is back", async t => {
	for (const path of ["", "run/long", "samples/long?view=groups"]) {
		const page = await browser.newPage(), wrong = [];
		t.after(() => page.close());
		page.on("pageerror", e => wrong.push(e.message));
		let back = false;
		await page.route("**/events?**", route => (back ? route.continue() : route.fulfill({ status: 502, contentType: "text/html", body: "<h1>Bad gateway" })));
		await page.route(url + "samples/**", async route => { // of a run that is not finished
			const response = await route.fetch();
			await route.fulfill({ response, body: (await response.text()).replace("<header ", '<header data-follow="true" ') });
		});
		await page.goto(url + path, { waitUntil: "load" });
		const away = page.getByText("Not connected: this page is out of date.");
		await away.waitFor();
		await page.evaluate(() => scrollTo(0, 1e6));
		assert.ok(await away.evaluate(e => e.getBoundingClientRect().top >= 0), path + ": visible at the bottom");
		back = true;
		await away.waitFor({ state: "hidden", timeout: 10000 });
		assert.deepEqual(wrong, []);
	}
});

test("a run that is not there is a page that leads to the list", async t => {
	const page = await browser.newPage();
	t.after(() => page.close());
	for (const path of ["run/nowhere", "samples/nowhere", "samples/seed-0?view=nothing"]) {
		const answer = await page.goto(url + path, { waitUntil: "load" });
		assert.equal(answer.status(), 404);
		await accessible(page, path);
		await page.screenshot({ path: `${pictures}/not-found.png` });
		await page.getByRole("link", { name: "grpo runs" }).click();
		await page.waitForFunction(() => / runs?/.test(document.querySelector("h1").textContent));
	}
});
