#!/usr/bin/env node
// Checks HTML pages in a browser: accessibility, width on a phone, and requests elsewhere.
//
//   REGATTA_NODE_MODULES=DIR/node_modules checks/pages.mjs [--shots DIR] PAGE…
//
// A page is a file or a URL. Each is drawn in light and dark, 1200 and 400 pixels wide. Fails if a
// rule of axe-core is violated, a text in a chart is pale, the page is wider than the window, a
// script throws, or anything is asked of another origin. `--shots` keeps pictures in colours and
// in grey: whether a page can be read without colours is for people to judge.
//
// Needs node, Chromium, and `npm install --prefix DIR axe-core puppeteer-core`.
// Exits with 1 if a page has a fault, and with 2 if something that it needs is missing.

import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { delimiter, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
const BROWSERS = ["chromium", "chromium-browser", "google-chrome"];
const SCHEMES = ["light", "dark"], WIDTHS = [1200, 400], HEIGHT = 900, PATIENCE_MS = 60_000;
const CONTRAST = 4.5, FLAGS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"];

function need(thing) {
  console.log(`needs ${thing}`);
  process.exit(2);
}

function modules() {
  const folder = process.env.REGATTA_NODE_MODULES;
  if (!folder) need("axe-core and puppeteer-core: REGATTA_NODE_MODULES names their directory");
  const require = createRequire(pathToFileURL(join(resolve(folder), "any.js")));
  try {
    const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
    return { axe, puppeteer: require("puppeteer-core") };
  } catch (error) {
    return need(`axe-core and puppeteer-core in ${folder}: ${error.message.split("\n")[0]}`);
  }
}

function browserPath() {
  const folders = (process.env.PATH ?? "").split(delimiter);
  const paths = BROWSERS.flatMap((name) => folders.map((folder) => join(folder, name)));
  return paths.find(existsSync) ?? need("chromium");
}

// Runs in the page: the live page has shown numbers, a report has drawn its charts.
function isDrawn() {
  const state = document.getElementById("state"), root = document.documentElement;
  if (state) return state.textContent === "live";
  return !document.getElementById("data") || root.dataset.checked !== undefined;
}

// Runs in the page: the palest text in charts, of which axe-core cannot decide. Texts on tiles,
// whose ground is not the page's, do not count.
function palest() {
  const linear = (part) => part <= 10 ? part / 3294.6 : ((part / 255 + 0.055) / 1.055) ** 2.4;
  const light = (colour) => (colour.match(/[\d.]+/g) ?? [0, 0, 0]).slice(0, 3).map(Number).map(linear)
    .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0.05);
  const figures = JSON.parse(document.getElementById("data")?.textContent ?? "{}").figures ?? {};
  const charts = [...document.querySelectorAll(".chart")]
    .filter((chart) => !["heat", "matrix"].includes(figures[chart.id.slice(2)]?.kind));
  const ground = light(getComputedStyle(document.body).backgroundColor);
  const all = charts.flatMap((chart) => [...chart.querySelectorAll("svg text")].map((text) => {
    const ink = light(getComputedStyle(text).fill);
    return { text: text.textContent, ratio: Math.max(ink, ground) / Math.min(ink, ground) };
  }));
  const none = { text: "", ratio: 21 };
  return all.reduce((one, other) => other.text && other.ratio < one.ratio ? other : one, none);
}

// Runs in the page.
async function lookAround(tags) {
  document.querySelectorAll("details").forEach((details) => { details.open = true; });
  const found = await window.axe.run(document, { runOnly: { type: "tag", values: tags } });
  const where = (rule) => rule.nodes.map((node) => node.target.join(" ")).slice(0, 3).join(", ");
  const words = (rule) => `${rule.id}: ${rule.help}: ${rule.nodes.length} times: ${where(rule)}`;
  return {
    violations: found.violations.map(words),
    undecided: found.incomplete.map(words),
    passes: found.passes.length,
    width: document.scrollingElement.scrollWidth,
  };
}

async function keep(page, base) {
  for (const [name, filter] of [["", "none"], ["-grey", "grayscale(1)"]]) {
    await page.evaluate((value) => { document.documentElement.style.filter = value; }, filter);
    await page.screenshot({ path: `${base}${name}.png`, fullPage: true });
  }
}

// Faults of a page in one scheme and width.
async function check(browser, axe, url, { scheme, width }, shot) {
  const page = await browser.newPage(), faults = [];
  page.setDefaultTimeout(PATIENCE_MS);
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  await page.setViewport({ width, height: HEIGHT, isMobile: width < 600, hasTouch: width < 600 });
  const near = (asked) => ["data:", "blob:"].includes(asked.protocol) ||
    (url.protocol === "file:" ? asked.href === url.href : asked.origin === url.origin);
  page.on("request", (request) => {
    if (!near(new URL(request.url()))) faults.push(`asks for ${request.url()}`);
  });
  page.on("pageerror", (error) => faults.push(`a script throws: ${error.message}`));
  await page.goto(url.href);
  await page.waitForFunction(isDrawn);
  await page.evaluate(axe);
  const found = await page.evaluate(lookAround, TAGS);
  const pale = await page.evaluate(palest);
  // Pages that check themselves say "ok", or what is wrong.
  const checked = await page.evaluate(() => document.documentElement.dataset.checked ?? "ok");
  if (checked !== "ok") faults.push(checked);
  if (shot) await keep(page, shot);
  await page.close();
  if (pale.ratio < CONTRAST) faults.push(`contrast ${pale.ratio.toFixed(2)}: "${pale.text}"`);
  if (found.width > width) faults.push(`is ${found.width} pixels wide`);
  const all = faults.concat(found.violations);
  const label = `${url.href}, ${scheme}, ${width} px`;
  console.log(`${label}: ${all.length} faults, ${found.passes} rules pass`);
  all.forEach((fault) => console.log(`  fault: ${fault}`));
  found.undecided.forEach((words) => console.log(`  undecided: ${words}`));
  return all.length;
}

function parse(words) {
  const at = words.indexOf("--shots"), shots = at < 0 ? null : words[at + 1];
  const pages = at < 0 ? words : words.toSpliced(at, 2);
  if (!pages.length || (at >= 0 && !shots)) need("a page: checks/pages.mjs [--shots DIR] PAGE…");
  const isUrl = (page) => page.startsWith("http://") || page.startsWith("https://");
  const urls = pages.map((page) => isUrl(page) ? new URL(page) : pathToFileURL(resolve(page)));
  return { shots, urls };
}

const { shots, urls } = parse(process.argv.slice(2));
const { axe, puppeteer } = modules();
const browser = await puppeteer.launch({ executablePath: browserPath(), args: FLAGS });
if (shots) mkdirSync(shots, { recursive: true });
let faults = 0;
try {
  for (const [number, url] of urls.entries()) {
    for (const scheme of SCHEMES) {
      for (const width of WIDTHS) {
        const shot = shots && join(shots, `${number + 1}-${scheme}-${width}`);
        faults += await check(browser, axe, url, { scheme, width }, shot);
      }
    }
  }
} finally {
  await browser.close();
}
process.exitCode = faults ? 1 : 0;
