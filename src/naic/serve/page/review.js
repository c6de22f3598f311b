// The review of captions: correct them, step back, and save them.

import { photos, subscribe, take } from "./app.js";
import { $ } from "./dom.js";
import { createChanges } from "./review-changes.js";
import { draftOf, keepDraft } from "./review-draft.js";
import { pathOf, photosAmong } from "./review-folders.js";
import { Rows } from "./review-rows.js";
import { createSaving } from "./review-saving.js";
import { nextLeft, Review, stepped } from "./review-state.js";
import { clean } from "./review-text.js";

const section = $("review");
const review = new Review();
const rows = new Rows($("review-list"), { accept, commit, restore, take: takeOther, type });
const SOON = 100; // milliseconds: captions come one by one, and rows are put in order together
let arrived = [];

/** What stands in a status line, which screen readers say. */
function say(text) {
  $("review-said").textContent = text;
}

/** Show entries as they are now, and keep what was made of them. */
function show(ids) {
  for (const id of ids) {
    const entry = review.entries.get(id);
    rows.show(entry, null);
    keepDraft(entry);
  }
  tell();
}

function tell() {
  const { left, accepted, edited } = review.counts();
  const all = left + accepted + edited;
  const empty = all === 0;
  $("review-none").hidden = !empty;
  $("review-tools").hidden = $("review-list").hidden = $("review-keys").hidden = empty;
  const waiting = photos.filter(({ status }) => status === "waiting").length;
  const parts = [`${left} of ${all} not reviewed`, `${accepted} accepted`, `${edited} edited`];
  if (waiting) parts.push(`${waiting} still without a caption`);
  $("review-count").textContent = parts.join(" · ");
  for (const [id, what] of [["review-undo", review.undoable], ["review-redo", review.redoable]]) {
    $(id).disabled = what === null;
    $(id).title = what ?? "";
  }
  changes.update();
}

function change(what, wanted) {
  const ids = review.change(what, wanted);
  show(ids);
  return ids.length;
}

const of = (id) => `the caption of ${review.entries.get(id).path}`;

/** Keep what is being written: a page may be gone before its field is left. */
function type(id, text) {
  const [entry, now] = [review.entries.get(id), clean(text)];
  keepDraft(now === entry.text ? entry : { ...entry, text: now, seen: true });
}

function commit(id, text, next) {
  const { text: before, seen } = review.entries.get(id);
  const now = clean(text);
  // To leave a field as it was says nothing; to press Enter in it does.
  if (next || now !== before) change(of(id), [[id, { text: now, seen: true }]]);
  else show([]);
  rows.show(review.entries.get(id), null);
  if (!next) return;
  say(now === before && seen ? "" : `${now === before ? "Accepted" : "Changed"}: ${now}`);
  step(1);
}

function accept(id) {
  change(of(id), [[id, { seen: true }]]);
  rows.focus(id);
  step(1);
}

function restore(id) {
  show([id]);
  rows.focus(id);
}

function takeOther(id, number) {
  const text = review.entries.get(id).others[number];
  if (text === undefined) return;
  change(of(id), [[id, { text: clean(text), seen: true }]]);
  say(`Taken: ${text}`);
}

function step(by) {
  rows.focus(stepped(rows.order, rows.current, by));
}

function move(back) {
  const done = back ? review.undo() : review.redo();
  if (!done) return say(back ? "There is nothing to undo." : "There is nothing to redo.");
  show(done.ids);
  say(`${back ? "Undone" : "Done again"}: ${done.what}.`);
  return rows.focus(done.ids[0]);
}

function order() {
  rows.arrange(review.ordered($("review-order").value));
}

function onKey(event) {
  const row = event.target.closest("article[data-id]");
  if (!row || event.target.matches("textarea") || event.altKey) return;
  if (event.ctrlKey || event.metaKey) return;
  const id = Number(row.dataset.id);
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const onButton = event.target.matches("button");
  const last = rows.order.length - 1;
  const moves = { j: 1, ArrowDown: 1, PageDown: 1, k: -1, ArrowUp: -1, PageUp: -1 };
  Object.assign(moves, { Home: -last, End: last });
  if (key in moves) step(moves[key]);
  else if (key === "Enter" && !onButton) rows.focus(id, true);
  else if (key === "a") accept(id);
  else if (key === "u") move(true);
  else if (key === "r") move(false);
  else if (key === "n") rows.focus(nextLeft(rows.order, id, review.entries));
  else if (/^[1-9]$/.test(key)) takeOther(id, Number(key) - 1);
  else return;
  event.preventDefault();
}

/** Ctrl+Z anywhere in the review but where text is being written, which has its own. */
function onUndoKey(event) {
  const key = event.key.toLowerCase();
  if (section.hidden || !(event.ctrlKey || event.metaKey) || event.altKey) return;
  if (event.target.matches?.("input, textarea, select") || !["z", "y"].includes(key)) return;
  event.preventDefault();
  move(key === "z" && !event.shiftKey);
}

function arrive(changed) {
  if (!arrived.length) setTimeout(settle, SOON);
  arrived.push(...changed);
}

function settle() {
  let more = false;
  for (const photo of arrived) {
    const caption = photo.result?.caption;
    if (photo.status !== "done" || typeof caption !== "string") continue;
    if (review.entries.has(photo.id)) continue;
    const path = pathOf(photo.file) || photo.name;
    const entry = { id: photo.id, path, key: `${path} ${photo.file.size}`, said: caption };
    entry.confidence = photo.result.confidence ?? 0;
    entry.calibrated = photo.result.calibrated === true;
    entry.others = others(caption, photo.result.alternatives);
    review.add(entry, draftOf(entry));
    rows.show(review.entries.get(photo.id), photo);
    more = true;
  }
  arrived = [];
  if (more) order();
  tell();
}

/** The caption itself and what else might be said, each once. */
function others(caption, alternatives) {
  return [...new Set([caption, ...(alternatives ?? []).map(({ text }) => text)])];
}

const changes = createChanges(review, change, say);
createSaving(review, say);
$("review-list").addEventListener("keydown", onKey);
document.addEventListener("keydown", onUndoKey);
$("review-order").onchange = order;
$("review-undo").onclick = () => move(true);
$("review-redo").onclick = () => move(false);
$("review-folder").onchange = ({ target }) => {
  const found = photosAmong(target.files);
  say(found.length ? "" : "There are no images in this folder.");
  take(found);
  target.value = "";
};
window.addEventListener("beforeunload", (event) => {
  rows.leave();
  if (review.unsaved) event.preventDefault();
});
subscribe(arrive);
arrive(photos);
tell();
