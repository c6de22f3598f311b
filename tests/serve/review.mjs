// Drives the review of captions in Chromium.
//
//     node review.mjs '{"playwright": DIR, "chromium": FILE, "url": URL, "axe": FILE, "steps": [...]}'
//
// prints one line of JSON: what each step gave, the address of each request, messages of the
// console, questions of the browser. Steps: ["add", place, FILES], ["count", place, number] and
// ["says", place, text]: wait until it is so, ["value", JavaScript], ["texts", place], ["tab", place]: press Tab until this has the focus,
// ["press", keys...], ["type", text], ["choose", place, value], ["save", place, FILE]: click and
// keep what is downloaded, ["reload"], ["look", width, scheme, FILE or null]: what axe finds, and
// by how many pixels the page is too wide.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const wanted = JSON.parse(process.argv[2]);
const { chromium } = await import(pathToFileURL(`${wanted.playwright}/index.mjs`));
const flags = ["--no-sandbox", "--disable-gpu", "--no-first-run"];
flags.push("--disable-background-networking", "--disable-component-update", "--disable-sync");
const browser = await chromium.launch({ executablePath: wanted.chromium, args: flags });
const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
context.setDefaultTimeout(wanted.patience ?? 60_000);
const page = await context.newPage();
const result = { steps: [], requests: [], console: [], asked: [] };
context.on("request", (request) => result.requests.push(request.url()));
page.on("console", (message) => result.console.push(message.text()));
page.on("pageerror", (error) => result.console.push(String(error)));
page.on("dialog", (dialog) => {
  result.asked.push(dialog.type());
  dialog.accept();
});

async function tab(place) {
  for (let i = 0; i < 60; i++) {
    if (await page.evaluate((own) => document.activeElement.matches(own), place)) return;
    await page.keyboard.press("Tab");
  }
  throw new Error(`Tab does not lead to ${place}`);
}

async function save(place, file) {
  const [download] = await Promise.all([page.waitForEvent("download"), page.click(place)]);
  await download.saveAs(file);
  return download.suggestedFilename();
}

async function look(width, colorScheme, file) {
  await page.emulateMedia({ colorScheme });
  await page.setViewportSize({ width, height: 900 });
  const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  if (file) await page.screenshot({ path: file });
  await page.evaluate(readFileSync(wanted.axe, "utf8"));
  const { violations } = await page.evaluate(() => window.axe.run());
  return [wider, violations.map(({ id, nodes }) => `${id}: ${nodes[0].html}`)];
}

async function step([what, place, ...more]) {
  if (what === "add") return await page.setInputFiles(place, more[0]);
  if (what === "count") return await page.locator(place).nth(more[0] - 1).waitFor({ state: "attached" });
  if (what === "says") return await page.locator(place, { hasText: more[0] }).first().waitFor();
  if (what === "value") return await page.evaluate(place);
  if (what === "texts") return await page.locator(place).allTextContents();
  if (what === "tab") return await tab(place);
  if (what === "type") return await page.keyboard.insertText(place);
  if (what === "choose") return (await page.selectOption(place, more[0]))[0];
  if (what === "save") return await save(place, more[0]);
  if (what === "reload") return void (await page.reload());
  if (what === "look") return await look(place, ...more);
  if (what !== "press") throw new Error(`no such step: ${what}`);
  for (const key of [place, ...more]) await page.keyboard.press(key);
}

await page.goto(wanted.url);
for (const [i, one] of wanted.steps.entries()) {
  try {
    result.steps.push((await step(one)) ?? null);
  } catch (error) {
    error.message = `step ${i}, ${JSON.stringify(one)}: ${error.message}\n${result.console}`;
    throw error;
  }
}
await browser.close();
console.log(JSON.stringify(result));
