// The list of captions: one row for each photo, made once and changed where something changes.
// The browser lays out those that are near the screen (content-visibility in review.css).

import { make, sureness } from "./dom.js";
import { mark } from "./review-state.js";

const KEYS = 9; // alternatives that a digit can take

/**
 * The rows in `list`.
 *
 * @param on {type(id, text), commit(id, text, next), restore(id), take(id, number), accept(id)}:
 * what a person does.
 */
export class Rows {
  current = null;
  #rows = new Map();
  #order = [];
  #entered = false; // until then it is the first row that is reached by Tab

  constructor(list, on) {
    this.list = list;
    this.on = on;
    list.addEventListener("focusin", ({ target }) => this.#enter(target));
  }

  /** A row for a new entry, or what it says now. */
  show(entry, photo) {
    const row = this.#rows.get(entry.id) ?? this.#made(entry, photo);
    const now = mark(entry);
    row.dataset.mark = now;
    row.querySelector(".mark").textContent = now;
    const field = row.querySelector("textarea");
    if (field.value !== entry.text) field.value = entry.text;
    for (const button of row.querySelectorAll(".others button")) {
      button.setAttribute("aria-pressed", button.value === entry.text);
    }
    return row;
  }

  /** Put the rows into this order; what already is in it stays where it is. */
  arrange(ids) {
    const active = document.activeElement;
    let before = this.list.firstElementChild;
    for (const id of ids) {
      const row = this.#rows.get(id);
      if (row === before) before = before.nextElementSibling;
      else this.list.insertBefore(row, before);
    }
    this.#order = ids;
    ids.forEach((id, i) => {
      const row = this.#rows.get(id);
      if (row.ariaPosInSet !== `${i + 1}`) row.setAttribute("aria-posinset", i + 1);
      if (row.ariaSetSize !== `${ids.length}`) row.setAttribute("aria-setsize", ids.length);
    });
    if (active !== document.activeElement) active.focus({ preventScroll: true });
    if (!this.#entered && ids.length) this.#turnTo(ids[0]);
  }

  get order() {
    return this.#order;
  }

  /** Put the focus on a row, or into its field. */
  focus(id, field = false) {
    const row = this.#rows.get(id);
    if (!row) return;
    const place = field ? row.querySelector("textarea") : row;
    place.focus({ preventScroll: true });
    if (field) place.setSelectionRange(place.value.length, place.value.length);
    row.scrollIntoView({ block: "nearest" });
  }

  /** Have the text that is being written committed, as when its field is left. */
  leave() {
    const field = document.activeElement;
    if (field?.matches("textarea") && this.list.contains(field)) field.onchange();
  }

  #enter(target) {
    const row = target.closest("article[data-id]");
    if (!row) return;
    this.#entered = true;
    this.#turnTo(Number(row.dataset.id));
  }

  /** One row is reached by Tab, with what is in it; the arrows lead to the others. */
  #turnTo(id) {
    if (id === this.current) return;
    for (const [own, index] of [[this.current, -1], [id, 0]]) {
      const row = this.#rows.get(own);
      row?.classList.toggle("current", index === 0);
      for (const each of row ? [row, ...row.querySelectorAll("textarea, button")] : []) {
        each.tabIndex = index;
      }
    }
    this.current = id;
  }

  #made(entry, photo) {
    const image = make("img", { loading: "lazy", decoding: "async", src: photo.url, alt: "" });
    const name = make("bdi", { className: "name" }, entry.path);
    const sure = make("span", { className: "sure" }, sureness(entry));
    const head = make("p", { className: "head" }, name, sure, make("span", { className: "mark" }));
    const row = make("article", { className: "entry", tabIndex: -1, "aria-label": entry.path });
    row.dataset.id = entry.id;
    const buttons = this.#others(entry);
    const accept = make("button", { type: "button", className: "accept", tabIndex: -1 }, "Accept");
    accept.onclick = () => this.on.accept(entry.id);
    accept.setAttribute("aria-label", `Accept the caption of ${entry.path}`);
    row.append(make("div", { className: "thumb" }, image), head, this.#field(entry), accept, buttons);
    this.#rows.set(entry.id, row);
    return row;
  }

  #field(entry) {
    const field = make("textarea", { rows: 1, spellcheck: true, tabIndex: -1 });
    field.setAttribute("aria-label", `Caption of ${entry.path}`);
    field.oninput = () => this.on.type(entry.id, field.value);
    field.onchange = () => this.on.commit(entry.id, field.value, false);
    field.onkeydown = (event) => {
      if (event.isComposing) return;
      if (event.key === "Enter") {
        event.preventDefault();
        this.on.commit(entry.id, field.value, true);
      } else if (event.key === "Escape") {
        event.preventDefault();
        this.on.restore(entry.id);
      }
    };
    return field;
  }

  #others(entry) {
    const buttons = entry.others.slice(0, KEYS).map((text, i) => {
      const key = make("kbd", {}, `${i + 1}`);
      const button = make("button", { type: "button", value: text, tabIndex: -1 }, key, " ", text);
      button.onclick = () => this.on.take(entry.id, i);
      return make("li", {}, button);
    });
    const list = make("ul", { className: "others" }, ...buttons);
    list.setAttribute("aria-label", "Alternatives");
    return list;
  }
}
