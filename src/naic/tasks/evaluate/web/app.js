// The page: what is asked for with the controls, the rows, the keys.

import { createBlocks } from "./blocks.js";
import { choose, countMarks, pattern, score, terms, texts } from "./rows.js";

const NAMES = { repeat: "repeated word", ending: "bad ending", empty: "no word" };
const $ = (id) => document.getElementById(id);
const data = JSON.parse($("data").textContent);
const several = data.systems.length > 1;
const metrics = [...new Set(data.systems.flatMap((system) => Object.keys(system.scores)))];
const pictured = data.copies > 0 || data.links.length > 0;
const copies = new Map(); // of small pictures: those of a block that was looked at
let searched = null; // texts to search: made when they are first needed

function make(name, className, ...children) {
  const element = document.createElement(name);
  if (className) element.className = className;
  element.append(...children);
  return element;
}

function option(value, text) {
  const element = make("option", "", text);
  element.value = value;
  return element;
}

const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(1)}`;
const shown = (value) => (value === null ? "–" : value.toFixed(1));

function wish() {
  return {
    text: $("text").value,
    where: $("where").value,
    by: $("by").value,
    of: ($("of").value || "0").split(" ").map(Number),
    order: $("order").value,
    marks: [...$("marks").querySelectorAll("input:checked")].map((box) => box.value),
    who: $("who").value === "" ? null : Number($("who").value),
  };
}

/** The address of a row's picture; undefined while the file is still being read. */
function source(row) {
  if (!data.copies) return data.links[row] ?? null;
  const number = Math.floor(row / data.copies);
  if (!copies.has(number)) {
    const block = $(`copies-${number}`);
    if (!block) return document.readyState === "loading" ? undefined : null;
    copies.set(number, JSON.parse(block.textContent));
  }
  const copy = copies.get(number)[row % data.copies];
  return copy && `data:image/webp;base64,${copy}`;
}

function picture(row) {
  const address = source(row);
  if (!address) return make("div", "picture none", address === null ? "no picture" : "");
  const image = make("img");
  image.loading = "lazy";
  image.decoding = "async";
  image.alt = `Image ${data.ids[row]}`;
  const lost = make("div", "picture none", "not found");
  image.addEventListener("error", () => place.replaceWith(lost));
  image.src = address;
  const place = make(data.copies ? "div" : "a", "picture", image);
  if (!data.copies) {
    place.href = address;
    place.target = "_blank";
    place.rel = "noreferrer";
  }
  return place;
}

function caption(system, row) {
  const text = make("bdi");
  for (const [piece, marks] of system.pieces[row] ?? [[system.captions[row], ""]]) {
    text.append(marks ? make("mark", marks, piece) : piece);
  }
  const flags = (system.marks[row] ?? []).map((mark) => make("span", `flag ${mark}`, NAMES[mark]));
  return make("p", "caption", text, ...flags.flatMap((flag) => [" ", flag]));
}

function scores(system, row, by) {
  const known = metrics.filter((metric) => metric in system.scores);
  const each = known.map((metric) => {
    const label = make("span", "label", metric);
    return make("span", metric === by ? "by" : "", label, " ", shown(system.scores[metric][row]));
  });
  return make("p", "scores", ...each.flatMap((element) => [element, " "]));
}

function draw(row, place) {
  const { by, of } = asked;
  const id = make("h2", "", make("bdi", "", data.ids[row]));
  id.id = `row-${row}`;
  const head = make("div", "head", make("span", "place", `${place + 1}`), " ", id);
  if (by && of.length > 1) {
    const value = score(data, row, by, of);
    head.append(make("span", "apart", value === null ? "–" : `${signed(value)} ${by}`));
  }
  const systems = data.systems.map((system) => {
    const name = several ? [make("h3", "", make("bdi", "", system.name))] : [];
    const about = make("div", "about", ...name, scores(system, row, by));
    return make("div", "system", about, caption(system, row));
  });
  const lines = data.references[row].map((text) => make("li", "", make("bdi", "", text)));
  const references = make("ul", "references", ...lines);
  references.setAttribute("aria-label", "References");
  const article = make("article", "", head, make("div", "said", ...systems), references);
  if (pictured) article.prepend(picture(row));
  article.tabIndex = 0;
  article.setAttribute("aria-labelledby", id.id);
  article.setAttribute("aria-posinset", place + 1);
  article.setAttribute("aria-setsize", found.length);
  return article;
}

/** Colour what was searched for, where the browser can do so without changing the page. */
function highlight() {
  if (!window.Highlight) return;
  const ranges = [];
  const wanted = terms(asked.text).map(pattern);
  const walker = document.createTreeWalker($("rows"), NodeFilter.SHOW_TEXT);
  while (wanted.length && walker.nextNode()) {
    const node = walker.currentNode;
    const text = node.data.toLowerCase();
    if (text.length !== node.length || !node.parentElement.closest("bdi")) continue;
    for (const { 0: part, index } of wanted.flatMap((term) => [...text.matchAll(term)])) {
      const range = new Range();
      range.setStart(node, index);
      range.setEnd(node, index + part.length);
      ranges.push(range);
    }
  }
  CSS.highlights.set("found", new Highlight(...ranges));
}

const list = $("rows");
const blocks = createBlocks(list, draw, highlight);
let asked = wish();
let found = [];

function update() {
  asked = wish();
  searched ??= texts(data);
  found = choose(data, searched, asked);
  $("of").disabled = $("order").disabled = !asked.by;
  const all = data.ids.length.toLocaleString("en");
  const some = found.length.toLocaleString("en");
  $("count").textContent = found.length === data.ids.length ? `${all} images` : `${some} of ${all}`;
  list.hidden = !found.length; // a list without anything in it says nothing
  blocks.show(found);
  const top = list.getBoundingClientRect().top + window.scrollY - bar();
  if (window.scrollY > top) window.scrollTo(0, top);
}

/** How much of the screen's top the controls cover. */
function bar() {
  const style = getComputedStyle($("tools"));
  return style.position === "sticky" ? $("tools").offsetHeight : 0;
}

function countFlags() {
  const counts = countMarks(data, wish().who);
  for (const label of $("marks").children) {
    label.querySelector(".count").textContent = counts[label.dataset.mark].toLocaleString("en");
  }
}

function fillControls() {
  const names = data.systems.map((system) => system.name);
  $("by").append(...metrics.map((metric) => option(metric, metric)));
  $("by").append(option("", "as in the references"));
  $("of").append(...names.map((name, i) => option(`${i}`, name)));
  const [first, ...others] = names;
  $("of").append(...others.map((name, i) => option(`0 ${i + 1}`, `${first} − ${name}`)));
  $("who").append(option("", "any system"), ...names.map((name, i) => option(`${i}`, name)));
  $("of").parentElement.hidden = $("who").parentElement.hidden = !several;
  $("tools").querySelector(".order").hidden = !metrics.length;
  for (const [mark, name] of Object.entries(NAMES)) {
    const box = make("input");
    box.type = "checkbox";
    box.value = mark;
    const text = make("span", `flag ${mark}`, name);
    const label = make("label", "", box, text, " ", make("span", "count"));
    label.dataset.mark = mark;
    $("marks").append(label, " ");
  }
  countFlags();
}

function onKey(event) {
  const row = event.target.closest?.("article");
  if (!row || event.ctrlKey || event.metaKey || event.altKey) return;
  const place = Number(row.getAttribute("aria-posinset")) - 1;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const to = { j: place + 1, k: place - 1, PageDown: place + 1, PageUp: place - 1 };
  Object.assign(to, { Home: 0, End: found.length - 1 });
  if (key === "/") $("text").select();
  else if (key in to) blocks.focus(to[key]);
  else return;
  event.preventDefault();
}

fillControls();
document.body.classList.toggle("pictured", pictured);
$("tools").hidden = false;
document.querySelector(".keys").hidden = false;
$("tools").addEventListener("submit", (event) => event.preventDefault());
$("tools").addEventListener("input", update);
$("who").addEventListener("input", countFlags);
list.addEventListener("keydown", onKey);
new ResizeObserver(() => {
  document.documentElement.style.scrollPaddingTop = `${bar() + 8}px`;
}).observe($("tools"));
update();
if (data.copies && document.readyState === "loading") {
  document.addEventListener("DOMContentLoaded", update);
}
