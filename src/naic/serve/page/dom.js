// Elements without markup: what is data stays text.

export const $ = (id) => document.getElementById(id);
export const stillness = matchMedia("(prefers-reduced-motion: reduce)");

/** An element: make("p", { className: "quiet", "aria-label": "Count" }, "text", otherElement). */
export function make(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key.includes("-") || key === "role") element.setAttribute(key, value);
    else element[key] = value;
  }
  element.append(...children);
  return element;
}

export function button(text, className, onclick) {
  return make("button", { type: "button", className, onclick }, text);
}

/** A reason, which the server gives as a clause, as a sentence. */
export function asSentence(reason) {
  const whole = reason.replace(/\.*$/, ".");
  return whole.charAt(0).toUpperCase() + whole.slice(1);
}

/** How likely: 0.713 is "71 %" on one line; near nothing and near certainty it says no more. */
export function percent(share) {
  if (share > 0.995 && share < 1) return ">99\u00a0%";
  if (share >= 0.0095 || share === 0) return `${Math.round(100 * share)}\u00a0%`;
  return share < 0.0005 ? "<0.1\u00a0%" : `${(100 * share).toFixed(1)}\u00a0%`;
}

/** A time of so many milliseconds. */
export function duration(ms) {
  if (ms >= 1000) return `${(ms / 1000).toFixed(1)} s`;
  return ms < 10 ? `${ms.toFixed(1)} ms` : `${Math.round(ms)} ms`;
}

/** With a sign, and a minus as wide as the plus. */
export function signed(value) {
  const text = Math.abs(value).toFixed(Math.abs(value) < 0.0995 ? 3 : 2);
  if (Number(text) === 0) return "0";
  return `${value < 0 ? "−" : "+"}${text}`;
}

/** How sure the model is of a whole caption, in words. */
export function sureness({ confidence, calibrated }) {
  return `${calibrated ? "right with" : "probability"} ${percent(confidence)}`;
}

/** A button that copies what `text` gives. */
export function copyButton(text) {
  const own = button("Copy", "small", async () => {
    own.textContent = (await copied(text())) ? "Copied" : "Not copied";
    setTimeout(() => (own.textContent = "Copy"), 1500);
  });
  return own;
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // There is no clipboard where the page is neither https: nor of this machine; there is this.
    const field = make("textarea", { value: text, className: "unseen" });
    const active = document.activeElement;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    active?.focus();
    return done;
  }
}
