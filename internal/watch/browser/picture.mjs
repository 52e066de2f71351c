// Makes the README's picture: the upper part of a report, 1280 pixels wide, in light colors. node picture.mjs REPORT PICTURE
import { statSync } from "node:fs";
import { chromium } from "playwright-core";

const [report, picture] = process.argv.slice(2), most = 300e3;
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, colorScheme: "light", reducedMotion: "reduce" });
await page.goto("file://" + report);
const bottom = await page.evaluate(() => [...document.querySelectorAll("figure")].slice(0, 3).map(f => f.getBoundingClientRect().bottom + scrollY)
	.reduce((a, b) => Math.max(a, b), 0));
await page.screenshot({ path: picture, fullPage: true, clip: { x: 0, y: 0, width: 1280, height: Math.ceil(bottom) + 12 } });
await browser.close();
const size = statSync(picture).size;
if (size > most) throw new Error(`${picture}: ${size} bytes, expected at most ${most}`);
console.log(`${picture}: ${size} bytes`);
