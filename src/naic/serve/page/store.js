// The photos of this visit and their captions: a few are asked for at a time.

import { request } from "./server.js";

const AT_ONCE = 4;
const ALTERNATIVES = 4; // whole sentences, the caption among them
const listeners = new Set();
const queue = [];
let running = 0;
let pause = null; // the server has too much to do: a promise that ends when it may be asked again
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
    Object.assign(photo, { status: "failed", error: reason(error) });
  }
  tell(photo);
}

function asked(photo) {
  const form = new FormData();
  form.append("files", photo.file, photo.name);
  form.append("alternatives", ALTERNATIVES);
  return request("v1/caption", { method: "POST", body: form });
}

/** What `ask` gives; while the server says that it has too much to do, wait as long as it says. */
export async function patiently(ask) {
  for (;;) {
    await pause;
    try {
      return await ask();
    } catch (error) {
      if (error.status !== 429 && !(error.status === 503 && error.retryAfter !== null)) throw error;
      const wait = new Promise((done) => setTimeout(done, 1000 * (error.retryAfter ?? 1)));
      pause = wait;
      wait.then(() => pause === wait && (pause = null));
    }
  }
}

function reason(error) {
  const own = error.body?.results?.[0]?.error;
  if (!own) return error.message;
  return [own.why, own.hint].filter(Boolean).join(". ").replace(/\.*$/, ".");
}
