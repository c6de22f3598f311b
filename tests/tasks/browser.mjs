// Drives the page of `naic export --web` in Chromium: what it said of photos, and what it asked for.
//
//     node browser.mjs '{"playwright": DIR, "chromium": FILE, "url": URL, "photos": [...]}'
//
// prints one line of JSON: captions and confidences in the order of the photos, the address of each
// request, messages of the console, what the page said when it had started, and seconds. Further
// wishes: "patience" in milliseconds; "escape", an address that the page must not reach; "again", a
// second visit without a network; "screenshots", a folder for them.

import { pathToFileURL } from "node:url";

const wanted = JSON.parse(process.argv[2]);
const { chromium } = await import(pathToFileURL(`${wanted.playwright}/index.mjs`));
const flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"];
flags.push("--disable-background-networking", "--disable-component-update", "--disable-sync");
const browser = await chromium.launch({ executablePath: wanted.chromium, args: flags });
const context = await browser.newContext({ serviceWorkers: "allow" });
const result = { captions: [], requests: [], console: [], seconds: [], status: [] };

async function visit(photos) {
  const page = await context.newPage();
  page.on("console", (message) => result.console.push(message.text()));
  page.on("pageerror", (error) => result.console.push(String(error)));
  const begin = Date.now();
  await page.goto(wanted.url);
  const status = page.locator("#status");
  await page.waitForFunction(() => /^(Ready|No captions)/.test(document.all.status.textContent));
  result.status.push(await status.textContent());
  result.started = (Date.now() - begin) / 1000;
  for (const photo of photos) {
    const start = Date.now();
    await page.setInputFiles("#choose", photo);
    await page.waitForSelector("#photos li[aria-busy]", { state: "detached" });
    result.seconds.push((Date.now() - start) / 1000);
    const said = page.locator("#photos li").first();
    const confidence = await said.getAttribute("data-confidence");
    result.captions.push([await said.locator(".caption").textContent(), Number(confidence)]);
  }
  return page;
}

context.on("request", (request) => result.requests.push(request.url()));
context.setDefaultTimeout(wanted.patience ?? 60_000);
const page = await visit(wanted.photos);
if (wanted.escape) {
  // What a page that was tampered with would try: the policy must hold in the worker, too.
  result.escaped = await page.evaluate(async (url) => {
    const code = `fetch(${JSON.stringify(url)}, { mode: "no-cors" }).then(
      () => postMessage("out"), () => postMessage("held"))`;
    const blob = new Blob([code], { type: "text/javascript" });
    const worker = new Worker(URL.createObjectURL(blob), { type: "module" });
    return await new Promise((done) => (worker.onmessage = ({ data }) => done(data)));
  }, wanted.escape);
}
if (wanted.again) {
  await page.evaluate(() => navigator.serviceWorker.ready.then(() => null));
  await context.setOffline(true);
  await visit(wanted.photos.slice(0, 1));
}
if (wanted.screenshots) {
  for (const colorScheme of ["light", "dark"]) {
    for (const width of [360, 900]) {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height: 800 });
      await page.screenshot({ path: `${wanted.screenshots}/${colorScheme}-${width}.png` });
    }
  }
}
await browser.close();
console.log(JSON.stringify(result));
