// The form that saves: what, in which form, and what came of it.

import { $ } from "./dom.js";
import { sidecars } from "./review-folders.js";
import { canSaveIntoFolder, saveArchive, saveIntoFolder, saveTable, textOf } from "./review-save.js";
import { says } from "./review-text.js";

const ABOUT = {
  csv: "A table for naic finetune, and for spreadsheets. Put it beside the folder of the photos.",
  jsonl: "A line for each photo, with what the model said and what became of it.",
  txt: "A text file for each photo: photo.txt for photo.jpg.",
  xmp: "XMP files, which photo managers read. What a person wrote in one that is there stays.",
};

const number = (count) => `${count} ${count === 1 ? "caption" : "captions"}`;

/** The ids of the entries, but for these. */
function without(entries, ids) {
  const others = new Set(ids);
  return new Set(entries.map(({ id }) => id).filter((id) => !others.has(id)));
}

/** Make the form work. */
export function createSaving(review, say) {
  const form = $("review-save");
  const { kind, seen, over } = form.elements;
  const [whole, into] = [$("review-whole"), $("review-into")];

  function offer() {
    const single = kind.value === "csv" || kind.value === "jsonl";
    $("review-about").textContent = ABOUT[kind.value];
    whole.textContent = single ? "Save" : "Save as one archive";
    into.hidden = single || !canSaveIntoFolder();
    over.parentElement.hidden = kind.value !== "txt" || into.hidden;
  }

  /** The entries to save, and what is to be said of the others. */
  function chosen() {
    const sorted = review.ordered("name").map((id) => review.entries.get(id));
    const all = sorted.filter((entry) => entry.seen || !seen.checked);
    const entries = all.filter(({ text }) => says(text));
    const notes = [];
    const empty = all.length - entries.length;
    if (empty) notes.push(`Left out, without a caption: ${empty}.`);
    const names = new Map();
    for (const { path } of entries) names.set(path, (names.get(path) ?? 0) + 1);
    const twice = [...names].find(([, count]) => count > 1);
    if (twice) notes.push(`${twice[1]} photos have the name ${twice[0]}: add them as a folder.`);
    return { entries, notes };
  }

  /** Save by `start(entries, tell)`, which gives {saved, kept, others, failed}, and say what came of it. */
  async function save(start) {
    const [{ entries, notes }, version] = [chosen(), review.version];
    if (!entries.length) return say(["Nothing to save.", ...notes].join(" "));
    form.setAttribute("aria-busy", "true");
    try {
      const tell = (done) => say(`${done} of ${entries.length} …`);
      const { saved, kept = 0, others = [], failed = [] } = await start(entries, tell);
      const parts = [`Saved: ${number(saved)}.`];
      if (kept) parts.push(`Left as they are: ${number(kept)}.`);
      if (others.length) parts.push(`Not saved, as another text is there: ${number(others.length)}.`);
      if (failed.length) parts.push(`Failed: ${failed.length}. ${failed.slice(0, 3).join(" ")}`);
      else review.keep(version, without(entries, others));
      say([...parts, ...notes].join(" "));
    } catch (error) {
      // Who closes the window for a folder has taken it back.
      say(error.name === "AbortError" ? "" : `Not saved. ${error.message}`);
    } finally {
      form.removeAttribute("aria-busy");
    }
  }

  async function archive(entries, tell) {
    if (["csv", "jsonl"].includes(kind.value)) {
      saveTable(entries, kind.value);
      return { saved: entries.length };
    }
    const existing = async (path) => (sidecars.has(path) ? textOf(sidecars.get(path)) : null);
    return saveArchive(entries, kind.value, existing, tell);
  }

  const busy = () => form.hasAttribute("aria-busy");
  form.onsubmit = (event) => {
    event.preventDefault();
    if (!busy()) save(archive);
  };
  into.onclick = () => {
    if (!busy()) save((entries, tell) => saveIntoFolder(entries, kind.value, over.checked, tell));
  };
  form.oninput = offer;
  offer();
}
