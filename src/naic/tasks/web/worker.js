// Decodes photos, runs the graph and words the captions, beside the page so that it stays responsive.

import { caption } from "./sentence.js";
import { averaged, reduction, squared } from "./resize.js";

const MOST_PIXELS = 2 ** 27; // as naic opens: 512 MB decoded
const MOST_THREADS = 4; // more gain little
// Products of weights that have 8 bits are computed in float32, as everywhere.
const EXACTLY = { extra: { session: { qdq_matmulnbits_accuracy_level: "1" } } };
const JPEG = [0xff, 0xd8, 0xff];
const here = (name) => new URL(name, import.meta.url).href;

const captioner = start().then(
  (made) => (postMessage({ ready: true }), made),
  (error) => postMessage({ broken: error.message }),
);
let turn = captioner; // one photo at a time

onmessage = ({ data: { id, photo } }) => {
  turn = turn.then(async () => {
    const made = await captioner;
    if (!made) return;
    try {
      postMessage({ id, caption: await describe(photo, made) });
    } catch (error) {
      postMessage({ id, error: error.message });
    }
  });
};

async function start() {
  const facts = await (await fetched("page.json")).json();
  const runtime = await import(here(facts.runtime.files[0])).catch(() => null);
  if (!runtime) throw new Error(facts.runtime.hint);
  runtime.env.wasm.wasmPaths = { wasm: here(facts.runtime.files[1]) };
  const cores = Math.min(navigator.hardwareConcurrency ?? 1, MOST_THREADS);
  runtime.env.wasm.numThreads = self.crossOriginIsolated ? cores : 1;
  const session = await runtime.InferenceSession.create(await graphOf(facts), EXACTLY);
  return { facts, runtime, session };
}

/** The bytes of the graph: kept by the browser since the last visit, or downloaded. */
async function graphOf({ graph, bytes }) {
  const kept = await self.caches?.open("naic").catch(() => undefined); // none where not secure
  const found = await kept?.match(here(graph));
  const content = new Uint8Array(bytes);
  let done = 0;
  const reader = (found ?? (await fetched(graph))).body.getReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    if (done + part.value.length > bytes) break;
    content.set(part.value, done);
    done += part.value.length;
    if (!found) postMessage({ progress: done / bytes });
  }
  if (done !== bytes) throw new Error(`${graph} came cut short: load the page again`);
  if (kept && !found) {
    await forgetOthers(kept);
    await kept.put(here(graph), new Response(content)).catch(() => {}); // no room: as it was
  }
  return content;
}

/** Graphs of earlier versions of this page; others on this host may have theirs. */
async function forgetOthers(kept) {
  for (const { url } of await kept.keys()) {
    if (url.startsWith(here("model-"))) await kept.delete(url);
  }
}

async function fetched(name) {
  const answer = await fetch(here(name));
  if (!answer.ok) throw new Error(`${name} cannot be loaded (${answer.status})`);
  return answer;
}

async function describe(photo, { facts, runtime, session }) {
  const side = facts.pixels;
  const pixels = await pixelsOf(photo, side);
  const input = new runtime.Tensor("uint8", pixels, [1, side, side, 3]);
  const { words, confidences, pairs } = await session.run({ pixels: input });
  const [, agents, top] = words.dims;
  const said = {
    agents,
    top,
    words: Array.from(words.data, Number),
    confidences: confidences.data,
    pairs: pairs?.data,
  };
  return caption(said, facts);
}

/** A photo as the network takes it: upright, in sRGB, on white, squashed to RGB (side, side). */
async function pixelsOf(photo, side) {
  const bitmap = await createImageBitmap(photo, { imageOrientation: "from-image" }).catch(() => {
    throw new Error("this browser cannot open it as an image");
  });
  const { width, height } = bitmap;
  if (width * height > MOST_PIXELS) throw new Error("it has too many pixels: scale it down first");
  // Without a GPU, whose colours may differ by a rounding.
  const canvas = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
  canvas.fillStyle = "white";
  canvas.fillRect(0, 0, width, height);
  canvas.drawImage(bitmap, 0, 0);
  bitmap.close();
  const rgba = canvas.getImageData(0, 0, width, height).data;
  const begin = new Uint8Array(await photo.slice(0, JPEG.length).arrayBuffer());
  const factor = JPEG.every((byte, i) => byte === begin[i]) ? reduction(width, height, side) : 1;
  const small = factor > 1 ? averaged(rgba, width, height, factor) : { pixels: rgba, width, height };
  return squared(small.pixels, small.width, small.height, side);
}
