// Drives the pages of `naic evaluate --html` and of `naic serve` in Chromium.
//
//     node page.mjs '{"playwright": DIR, "chromium": FILE, "page": FILE, "steps": [...]}'
//
// prints one line of JSON: what each step gave, the address of each request, messages of the
// console, questions of the browser. Steps: ["fill", place, text], ["choose", place, value],
// ["check", place], ["press", key], ["type", text] at once, ["reload"], ["drop", FILES or folders],
// ["save", place, FILE]: click, and keep what is downloaded,
// ["focus", place], ["click", place], ["hover", place], ["files", place, FILES], ["texts", place],
// ["value", JavaScript], ["until", JavaScript], ["axe", FILE of axe-core],
// ["screen", FILE or null, width, scheme, height]. Instead of "page" and "steps": "visits", a list of
// {"url": URL, "steps": [...]}, or "loads", how often to load the page, and "typed", what to type in
// its search: milliseconds from the start of a load and from each key until what follows is on the
// screen.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const wanted = JSON.parse(process.argv[2]);
const { chromium } = await import(pathToFileURL(`${wanted.playwright}/index.mjs`));
const flags = ["--no-sandbox", "--disable-gpu", "--no-first-run"];
flags.push("--disable-background-networking", "--disable-component-update", "--disable-sync");
const browser = await chromium.launch({ executablePath: wanted.chromium, args: flags });
const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
const result = { steps: [], requests: [], console: [], asked: [] };
context.on("request", (request) => result.requests.push(request.url()));
context.setDefaultTimeout(wanted.patience ?? 60_000);

async function visit(url) {
  const page = await context.newPage();
  page.on("console", (message) => result.console.push(message.text()));
  page.on("pageerror", (error) => result.console.push(String(error)));
  page.on("dialog", (dialog) => {
    result.asked.push(dialog.type());
    dialog.accept();
  });
  if (url) return await page.goto(url).then(() => page);
  await page.addInitScript(() => {
    // Called when what is there now has been painted.
    window.painted = (then) =>
      requestAnimationFrame(() => {
        const channel = new MessageChannel();
        channel.port1.onmessage = then;
        channel.port2.postMessage(0);
      });
    const look = () => {
      if (!document.querySelector("article")) return requestAnimationFrame(look);
      window.painted(() => (window.rowsAt = performance.now()));
    };
    look();
  });
  await page.goto(pathToFileURL(wanted.page).href);
  await page.waitForFunction(() => window.rowsAt);
  return page;
}

async function axe(page, file) {
  await page.evaluate(readFileSync(file, "utf8"));
  const { violations } = await page.evaluate(() => window.axe.run());
  return violations.map(({ id, nodes }) => `${id}: ${nodes[0].html}`);
}

async function screen(page, file, width, colorScheme, height = 800) {
  await page.emulateMedia({ colorScheme });
  await page.setViewportSize({ width, height });
  if (file) await page.screenshot({ path: file });
}

async function save(page, place, file) {
  const [download] = await Promise.all([page.waitForEvent("download"), page.click(place)]);
  await download.saveAs(file);
  return download.suggestedFilename();
}

/** As from a file manager: only so do folders come as folders. */
async function drop(page, files) {
  const session = await context.newCDPSession(page);
  const data = { items: [], files, dragOperationsMask: 1 };
  for (const type of ["dragEnter", "dragOver", "drop"]) {
    await session.send("Input.dispatchDragEvent", { type, x: 300, y: 300, data });
  }
}

// Not by waitForFunction: it evaluates texts within the page, where a policy forbids that.
async function until(page, so) {
  const end = Date.now() + (wanted.patience ?? 60_000);
  while (!(await page.evaluate(so))) {
    if (Date.now() > end) throw new Error("it did not happen");
    await page.waitForTimeout(20);
  }
}

async function step(page, one) {
  try {
    return (await perform(page, one)) ?? null;
  } catch (error) {
    throw new Error(`${JSON.stringify(one)}: ${error.message}`);
  }
}

async function perform(page, [what, place, more, ...others]) {
  if (what === "fill") return await page.fill(place, more);
  if (what === "choose") return (await page.selectOption(place, more))[0];
  if (what === "check") return await page.check(place);
  if (what === "press") return await page.keyboard.press(place);
  if (what === "type") return await page.keyboard.insertText(place);
  if (what === "reload") return void (await page.reload());
  if (what === "drop") return await drop(page, place);
  if (what === "save") return await save(page, place, more);
  if (what === "focus") return await page.focus(place);
  if (what === "click") return await page.click(place);
  if (what === "hover") return await page.hover(place);
  if (what === "files") return await page.setInputFiles(place, more);
  if (what === "until") return await until(page, place);
  if (what === "texts") return await page.locator(place).allTextContents();
  if (what === "value") return await page.evaluate(place);
  if (what === "axe") return await axe(page, place);
  if (what === "screen") return await screen(page, place, more, ...others);
  throw new Error(`no such step: ${what}`);
}

async function load() {
  const page = await visit();
  const first = () => performance.getEntriesByName("first-contentful-paint")[0].startTime;
  const times = { first: await page.evaluate(first), rows: await page.evaluate("rowsAt") };
  await page.waitForLoadState("load");
  return [page, times];
}

async function type(page, text) {
  await page.evaluate(() => {
    window.keys = [];
    document.addEventListener(
      "keydown",
      ({ timeStamp }) => painted(() => window.keys.push(performance.now() - timeStamp)),
      { capture: true },
    );
  });
  await page.focus("#text");
  for (const [number, key] of [...text].entries()) {
    await page.keyboard.press(key);
    await page.waitForFunction((count) => window.keys.length > count, number);
    await page.waitForTimeout(100);
  }
  return await page.evaluate("keys");
}

if (wanted.loads) {
  result.loads = [];
  for (let i = 0; i < wanted.loads; i++) {
    const [page, times] = await load();
    times.keys = await type(page, wanted.typed);
    times.elements = await page.evaluate("document.querySelectorAll('*').length");
    result.loads.push(times);
    await page.close();
  }
} else if (wanted.visits) {
  for (const { url, steps } of wanted.visits) {
    const page = await visit(url);
    const given = [];
    for (const one of steps) given.push(await step(page, one));
    result.steps.push(given);
    await page.close();
  }
} else {
  const page = await visit();
  for (const one of wanted.steps) result.steps.push(await step(page, one));
}
await browser.close();
console.log(JSON.stringify(result));
