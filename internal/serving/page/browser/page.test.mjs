// The chat page in chromium: with a mouse, with the keyboard alone, on large and small screens, light and dark.
// URL is the address of a server that serves a run and requires KEY; screenshots go to PICTURES.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";

const { URL: url, KEY: key, PICTURES: pictures, CHROMIUM: program } = process.env;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
let browser;
before(async () => { browser = await chromium.launch({ executablePath: program, args: ["--no-sandbox"] }); });
after(() => browser.close());

// axe-core finds no serious violation, such as a control without a name or text with too little contrast.
async function accessible(page, where) {
	await page.evaluate(axe);
	const found = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
	const bad = found.violations.filter(v => v.impact === "serious" || v.impact === "critical");
	assert.deepEqual(bad.map(v => `${v.id}: ${v.nodes.map(n => n.html.slice(0, 120) + " " + n.failureSummary).join("; ")}`), [], where);
}

async function open(t, options = {}) {
	const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
	t.after(() => context.close());
	const page = await context.newPage(), wrong = [];
	const listen = p => {
		p.on("console", m => m.type() === "error" && wrong.push(m.text()));
		p.on("pageerror", e => wrong.push(e.message));
		p.on("request", r => r.url().startsWith(url) || wrong.push("asks " + r.url()));
	};
	listen(page);
	await page.goto(url + "/");
	return { context, page, wrong, listen };
}

async function enter(page) {
	await page.getByLabel("Key", { exact: true }).fill(key);
	await page.keyboard.press("Enter");
	await page.waitForSelector("#left option:checked", { state: "attached" });
}

const answered = (page, n) => page.waitForFunction(n => document.querySelectorAll(".answer").length === n && !document.querySelector(".busy"), n);

for (const [width, height] of [[1280, 900], [390, 844]]) {
	for (const colorScheme of ["light", "dark"]) {
		test(`a conversation at ${width} pixels, ${colorScheme}`, async t => {
			const { page, wrong, context, listen } = await open(t, { viewport: { width, height }, colorScheme, hasTouch: width < 500 });
			const picture = name => page.screenshot({ path: `${pictures}/${width}-${colorScheme}-${name}.png` });
			await page.waitForSelector("dialog[open]");
			await accessible(page, "the door");
			await picture("0-door");
			await enter(page);
			assert.equal(await page.title(), "grpo · run");
			await accessible(page, "the beginning");
			await picture("1-beginning");

			await page.getByRole("button", { name: /^Define compute/ }).click();
			await page.keyboard.press("Control+Enter");
			await answered(page, 2);
			await page.fill("#ask", "<img src=x onerror=alert(1)> & again?");
			await page.keyboard.press("Meta+Enter");
			await answered(page, 4);
			assert.equal(await page.locator(".asked p").last().textContent(), "<img src=x onerror=alert(1)> & again?");
			assert.equal(await page.locator("main img").count(), 0);
			await accessible(page, "two turns");
			await picture("2-answers");

			await page.getByText("Probability", { exact: true }).click();
			assert.ok(await page.locator(".text.likely .t").count() > 10);
			await accessible(page, "likelihood");
			await page.locator(".text.likely .t").nth(4).hover();
			assert.match(await page.locator("#reading").textContent(), / %/);
			await picture("3-likelihood");

			await page.getByText("Moved by training", { exact: true }).click();
			await page.waitForFunction(() => document.querySelectorAll(".foot b").length === 4);
			assert.ok(await page.locator(".moved .up, .moved .down").count() > 0, "training moved something");
			await page.locator(".answer.c1 .t").first().focus();
			for (let i = 0; i < 5; i++) await page.keyboard.press("ArrowRight");
			assert.match(await page.locator("#reading").textContent(), /tiny.*%.*run.*%.*[+-]\d/);
			assert.match(await page.locator("#spoken").textContent(), /moved [+-]/);
			await accessible(page, "moved");
			await picture("4-moved");

			await page.locator("#settings summary").click();
			await page.fill("#system", "Be brief.");
			assert.match(await page.locator("#summary").textContent(), /temperature 1, seed 1, up to 256 tokens, a system prompt/);
			await accessible(page, "settings");
			await picture("5-settings");
			assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "no horizontal scrolling");

			const [report] = await Promise.all([context.waitForEvent("page"), page.getByRole("link", { name: /report/ }).click()]);
			listen(report);
			await report.waitForSelector("h1");
			assert.match(await report.locator(".eyebrow").textContent(), /grpo run run/);
			assert.deepEqual(wrong, []);
		});
	}
}

test("the key stays in the tab, and a wrong one is asked for again", async t => {
	const { page, context } = await open(t);
	await page.getByLabel("Key", { exact: true }).fill("sk-WRONG");
	await page.keyboard.press("Enter");
	await page.waitForFunction(() => document.querySelector("#wrong").textContent.includes("the key is unknown"));
	await enter(page);
	assert.deepEqual(await page.evaluate(() => [Object.keys(sessionStorage), Object.keys(localStorage), document.cookie]), [["grpo key"], [], ""]);
	assert.deepEqual(await context.cookies(), []);
	await page.reload();
	await page.waitForSelector("#left option:checked", { state: "attached" });
	assert.equal(await page.locator("dialog[open]").count(), 0);
	await page.locator("#settings summary").click();
	await page.getByRole("button", { name: "Forget the key" }).click();
	await page.waitForSelector("dialog[open]");
	assert.deepEqual(await page.evaluate(() => Object.keys(sessionStorage)), []);
});

test("the same seed, again and stopped", async t => {
	const { page, wrong } = await open(t, { reducedMotion: "reduce" });
	await enter(page);
	const said = () => page.locator(".text").allTextContents();
	const ask = async () => {
		await page.fill("#ask", "Define compute(x), which returns x plus 3.");
		await page.keyboard.press("Control+Enter");
		await answered(page, 2);
	};
	await ask();
	const first = await said();
	assert.notEqual(first[0], first[1]);
	await page.getByRole("button", { name: "New conversation" }).click();
	await ask();
	assert.deepEqual(await said(), first, "the same seed, the same answers");
	await page.getByRole("button", { name: "Again, with the next seed" }).click();
	await page.waitForFunction(() => document.querySelector(".who small").textContent.includes("seed 2") && !document.querySelector(".busy"));
	assert.notDeepEqual(await said(), first);

	await page.route("**/v1/chat/completions", () => { }); // never answered
	await page.fill("#ask", "And now?");
	await page.keyboard.press("Control+Enter");
	await page.getByRole("button", { name: "Stop" }).waitFor();
	assert.ok(await page.evaluate(() => getComputedStyle(document.querySelector(".busy .text"), "::after").animationName === "none"));
	await page.keyboard.press("Escape");
	await answered(page, 4);
	assert.match(await page.locator("#status").textContent(), /stopped/);
	assert.ok(await page.getByRole("button", { name: "Send" }).isEnabled());
	assert.deepEqual(wrong, []);
});

test("the keys of a keyboard are enough", async t => {
	const { page, wrong } = await open(t);
	await enter(page);
	await page.getByText("To the question").focus(); // the first stop of the tab key
	const stops = [];
	for (let i = 0; i < 10; i++) {
		await page.keyboard.press("Tab");
		stops.push(await page.evaluate(() => document.activeElement.id || document.activeElement.value || document.activeElement.textContent.slice(0, 8)));
	}
	assert.deepEqual(stops, ["report", "fresh", "left", "right", "plain", "Define c", "Read an ", "ask", "send", "Settings"]);

	await page.setViewportSize({ width: 1280, height: 320 });
	await page.fill("#ask", "Define compute(x), which returns x plus 3.");
	await page.keyboard.press("Control+Enter");
	await answered(page, 2);
	await page.getByText("Probability", { exact: true }).click();
	await page.evaluate(() => scrollTo({ top: 0, behavior: "instant" }));
	await page.locator(".text.likely .t").first().evaluate(e => e.focus({ preventScroll: true }));
	const top = await page.evaluate(() => scrollY);
	await page.mouse.move(0, 0);
	await page.keyboard.press("End");
	await page.waitForFunction(top => scrollY > top, top);
	await page.waitForTimeout(300); // scrolling smoothly
	assert.ok(await page.locator("#reading").isVisible(), "the probabilities stay beside the token that the page scrolled to");
	assert.deepEqual(wrong, []);
});

test("an error keeps what was written before it, and says that the server is away", async t => {
	const { page, wrong } = await open(t);
	await enter(page);
	await page.evaluate(() => {
		const lines = [{ choices: [{ delta: { content: "ab" }, logprobs: { content: [{ bytes: [97, 98], logprob: -1, top_logprobs: [] }] }, token_ids: [1] }] },
			{ error: { message: "the model is gone" } }];
		const real = fetch;
		let asked = 0;
		window.fetch = (path, options) => {
			if (!String(path).endsWith("/chat/completions")) return real(path, options);
			if (asked++ > 1) return Promise.reject(new TypeError("Failed to fetch"));
			return Promise.resolve(new Response(lines.map(l => `data: ${JSON.stringify(l)}\n\n`).join("")));
		};
	});
	await page.fill("#ask", "Is anyone there?");
	await page.keyboard.press("Control+Enter");
	await answered(page, 2);
	assert.deepEqual(await page.locator(".text").allTextContents(), ["ab", "ab"]);
	assert.deepEqual(await page.locator(".foot .error").allTextContents(), ["the model is gone", "the model is gone"]);
	await page.getByText("Probability", { exact: true }).click();
	assert.equal(await page.locator(".text.likely .t").count(), 2, "its tokens are colored as others are");
	await page.getByRole("button", { name: /^Again/ }).click();
	await page.waitForFunction(() => document.querySelector(".who small").textContent.includes("seed 2") && !document.querySelector(".busy"));
	assert.match(await page.locator("#status").textContent(), /: the server does not answer$/);
	assert.deepEqual(wrong, []);
});

test("a message is sent once, and a new conversation says only that", async t => {
	const { page, wrong } = await open(t);
	await enter(page);
	let release; // of the prompt template, which is slow
	await page.route("**/page/wording", route => { release = () => route.continue(); });
	await page.fill("#ask", "Define compute(x), which returns x plus 3.");
	await page.keyboard.press("Control+Enter");
	await page.keyboard.press("Control+Enter");
	await page.waitForFunction(() => document.querySelector("#send").disabled);
	await release();
	await answered(page, 2);
	assert.equal(await page.locator(".asked").count(), 1);
	await page.route("**/v1/chat/completions", () => { }); // never answered
	await page.fill("#ask", "And now?");
	await page.keyboard.press("Control+Enter");
	await page.getByRole("button", { name: "Stop" }).waitFor();
	await page.getByRole("button", { name: "New conversation" }).click();
	await page.waitForFunction(() => !document.querySelector("#send").disabled);
	assert.equal(await page.locator("#status").textContent(), "A new conversation.");
	assert.deepEqual(wrong, []);
});

test("the settings fit beside the conversation at 200 %, and their values do not look like placeholders", async t => {
	const { page } = await open(t, { viewport: { width: 700, height: 450 }, deviceScaleFactor: 2 });
	await enter(page);
	await page.locator("#settings summary").click();
	const height = await page.locator("#composer").evaluate(e => e.getBoundingClientRect().height);
	assert.ok(height <= 0.7 * 450 + 1, `${height} of 450 pixels`);
	const [value, label] = await page.locator("#seed").evaluate(e => [e, e.parentElement].map(e => getComputedStyle(e).color));
	assert.notEqual(value, label, "the color of labels is that of placeholders, too");
});
