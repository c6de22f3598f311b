// What was reviewed, kept in this tab: a page that is loaded again by mistake loses no correction.

const PREFIX = "naic-review:"; // in sessionStorage: it is gone with the tab

/** What was made of this photo before the page was loaded again: {text, seen}, or null. */
export function draftOf({ key }) {
  try {
    const { text, seen } = JSON.parse(sessionStorage.getItem(PREFIX + key));
    return typeof text === "string" ? { text, seen: seen === true } : null;
  } catch {
    return null; // there is none
  }
}

/** Keep what was made of it, or forget what is as the model said it. */
export function keepDraft({ key, said, text, seen }) {
  try {
    if (text === said && !seen) sessionStorage.removeItem(PREFIX + key);
    else sessionStorage.setItem(PREFIX + key, JSON.stringify({ text, seen }));
  } catch {
    // There is no room: the browser still asks before the page goes.
  }
}
