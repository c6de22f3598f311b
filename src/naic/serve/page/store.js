// The photos of this visit and their captions: a few are asked for at a time.

import { asSentence } from "./dom.js";
import { info, patiently, request } from "./server.js";

const AT_ONCE = 4;
const ALTERNATIVES = 4; // whole sentences, the caption among them
const FORM_BYTES = 4096; // of a form beside its file, at most
const listeners = new Set();
const queue = [];
let running = 0;
let taken = 0;

/**
 * All photos in the order in which they came:
 * {id, name, file, url, status: "waiting" | "done" | "failed", result, error}.
 * `result` is as one of `POST /v1/caption`, `error` is a text, `url` one for an <img>.
 */
export const photos = [];

/** Call `listener(changed)` with the array of photos that are new or changed, each time. */
export function subscribe(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tell(...changed) {
  for (const listener of listeners) listener(changed);
}

/** Take on files, and have them captioned. */
export function take(files) {
  const added = [...files].map((file) => ({
    id: ++taken,
    name: file.name || `photo ${taken}`,
    file,
    url: URL.createObjectURL(file),
    status: "waiting",
    result: null,
    error: null,
  }));
  if (!added.length) return;
  photos.push(...added);
  queue.push(...added);
  tell(...added);
  work();
}

/** Ask once more for the captions of photos that have none. */
export function retry(...failed) {
  for (const photo of failed) Object.assign(photo, { status: "waiting", error: null });
  queue.push(...failed);
  tell(...failed);
  work();
}

function work() {
  while (running < AT_ONCE && queue.length) {
    running++;
    caption(queue.shift()).finally(() => {
      running--;
      work();
    });
  }
}

async function caption(photo) {
  try {
    const body = await patiently(() => asked(photo));
    const [result] = body.results;
    Object.assign(photo, { status: "done", result });
  } catch (error) {
    // Who does not give a token is not asked for it again by each of the photos that wait.
    const failed = error.status === 401 ? [photo, ...queue.splice(0)] : [photo];
    for (const one of failed) Object.assign(one, { status: "failed", error: reason(error) });
    return tell(...failed);
  }
  tell(photo);
}

async function asked(photo) {
  const { limits } = await info();
  if (photo.file.size + FORM_BYTES > limits.body) {
    const most = Math.floor(limits.body / 1e6);
    throw new Error(`The file is larger than the ${most} MB that this server takes.`);
  }
  const form = new FormData();
  form.append("files", photo.file, photo.name);
  form.append("alternatives", Math.min(ALTERNATIVES, limits.alternatives));
  return request("v1/caption", { method: "POST", body: form });
}

function reason(error) {
  const own = error.body?.results?.[0]?.error;
  if (!own) return error.message;
  return asSentence([own.why, own.hint].filter(Boolean).join(". "));
}
