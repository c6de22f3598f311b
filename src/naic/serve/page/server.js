// Talks with the server: the token, and errors in its own words.

import { $ } from "./dom.js";

const KEPT = "naic-token"; // in sessionStorage: it is gone with the tab
let asking = null; // one question for a token at a time, however many requests wait for it
let pause = null; // while the server has too much to do: a promise that ends when it may be asked
let about = null; // what the server says of itself

/** No answer: `status` of HTTP (0: nobody answered), `retryAfter` in seconds or null. */
export class ServerError extends Error {
  constructor(message, status = 0, retryAfter = null, body = null) {
    super(message);
    Object.assign(this, { status, retryAfter, body });
  }
}

/**
 * What the server says of a path such as "v1/caption": an object of JSON.
 *
 * @param {string} path beneath the page's own address.
 * @param {RequestInit} init as of fetch; a token is added, and asked for when it is missing.
 * @throws {ServerError} with the server's message.
 */
export async function request(path, init = {}) {
  for (;;) {
    const token = sessionStorage.getItem(KEPT);
    const answer = await send(path, init, token);
    if (answer.status === 401) {
      if (sessionStorage.getItem(KEPT) === token) await newToken(token !== null);
      continue;
    }
    const body = await answer.json().catch(() => null);
    if (answer.ok && body !== null) return body;
    const wait = Number.parseInt(answer.headers.get("retry-after"), 10);
    throw new ServerError(told(answer, body), answer.status, wait >= 0 ? wait : null, body);
  }
}

/** The same with an object as the JSON that is sent. */
export function post(path, object, init = {}) {
  const headers = { "content-type": "application/json" };
  return request(path, { ...init, method: "POST", headers, body: JSON.stringify(object) });
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

/** What `GET /v1/info` gives; it is asked once. */
export function info() {
  about ??= patiently(() => request("v1/info")).catch((error) => {
    about = null;
    throw error;
  });
  return about;
}

async function send(path, init, token) {
  const headers = new Headers(init.headers);
  if (token !== null) headers.set("authorization", `Bearer ${token}`);
  const address = new URL(path.replace(/^\/+/, ""), new URL(".", document.baseURI));
  try {
    return await fetch(address, { ...init, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError("The server cannot be reached.");
  }
}

function told(answer, body) {
  const why = body?.error?.message ?? body?.results?.[0]?.error?.why;
  return why ?? `The server answered with ${answer.status}.`;
}

/** Ask for a token until there is one; whoever comes meanwhile waits for the same answer. */
function newToken(wrong) {
  asking ??= ask(wrong).finally(() => (asking = null));
  return asking;
}

function ask(wrong) {
  const dialog = $("door");
  $("wrong").hidden = !wrong;
  dialog.showModal();
  return new Promise((resolve, reject) => {
    dialog.querySelector("form").onsubmit = (event) => {
      event.preventDefault();
      sessionStorage.setItem(KEPT, $("token").value.trim());
      dialog.close("given");
      resolve();
    };
    dialog.onclose = () => {
      $("token").value = "";
      if (dialog.returnValue !== "given")
        reject(new ServerError("The server asks for a token.", 401));
      dialog.returnValue = "";
    };
  });
}
