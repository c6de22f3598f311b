// The photo, and where agents looked: all but what they looked at is darkened. Its cells can be
// pointed at, and gone through by arrow keys: then it says who looked there.

import { make, percent } from "./dom.js";

const DARK = 0.8; // of the veil where nobody looked
const SIDES = [
  ["top left", "top", "top right"],
  ["left", "middle", "right"],
  ["bottom left", "bottom", "bottom right"],
];

/**
 * @param {(cell: number | null) => [string, number][]} pointed words that looked at a cell, and
 * how much of their attention it got.
 */
export function createLook(pointed) {
  const image = make("img", { alt: "" });
  const veil = make("canvas", { "aria-hidden": "true" });
  const cells = make("div", { className: "cells", role: "grid" });
  cells.setAttribute("aria-label", "Cells of the photo");
  const frame = make("div", { className: "frame" }, veil, cells);
  const photo = make("div", { className: "photo" }, image, frame);
  const told = make("p", { className: "told quiet", role: "status" });
  const element = make("figure", { className: "look" }, photo, make("figcaption", {}, told));
  let answer = null;

  image.onload = () => {
    photo.style.setProperty("--ratio", image.naturalWidth / image.naturalHeight);
  };
  image.onerror = () => (photo.dataset.why = "This browser cannot show the photo");

  function show(of, given) {
    answer = given;
    delete photo.dataset.why;
    image.src = of.url;
    image.alt = given.result.caption;
    frame.hidden = answer.attention === null;
    photo.classList.remove("looking");
    told.textContent = answer.attention ? "" : `Where the agents looked is not known: ${why()}`;
    if (!answer.attention) return cells.replaceChildren();
    const [x0, y0, x1, y1] = answer.frame;
    const places = { left: x0, top: y0, width: x1 - x0, height: y1 - y0 };
    for (const [side, share] of Object.entries(places)) frame.style[side] = `${100 * share}%`;
    const [rows, columns] = answer.grid;
    [veil.width, veil.height] = [columns, rows];
    cells.style.gridTemplate = `repeat(${rows}, 1fr) / repeat(${columns}, 1fr)`;
    cells.replaceChildren(...Array.from({ length: rows }, (_, row) => rowOf(row, columns)));
    cells.firstChild.firstChild.tabIndex = 0;
  }

  const why = () => (answer.attention_why ?? "the server does not say why").replace(/\.*$/, ".");

  function rowOf(row, columns) {
    const own = Array.from({ length: columns }, (_, column) => {
      const cell = make("div", { role: "gridcell", tabIndex: -1 });
      cell.setAttribute("aria-label", `Row ${row + 1}, column ${column + 1}`);
      cell.dataset.cell = row * columns + column;
      return cell;
    });
    return make("div", { role: "row" }, ...own);
  }

  /** Show where an agent looked; null: show the photo as it is. */
  function of(agent, said) {
    if (!answer?.attention) return;
    photo.classList.toggle("looking", agent !== null);
    if (agent === null) return (told.textContent = "");
    const shares = answer.attention[agent];
    darken(shares);
    const word = answer.agents[agent].words[said[agent]].text;
    const name = word === "." ? "the end" : `“${word}”`;
    const [place, share] = mostly(shares, answer.grid);
    told.textContent = `Agent ${agent + 1}, ${name}, looked mostly at the ${place} (${percent(share)}).`;
  }

  function darken(shares) {
    const [least, most] = [Math.min(...shares), Math.max(...shares)];
    const context = veil.getContext("2d");
    const pixels = context.createImageData(veil.width, veil.height);
    shares.forEach((share, cell) => {
      pixels.data[4 * cell + 3] = 255 * DARK * (1 - (share - least) / (most - least || 1)) ** 1.25;
    });
    context.putImageData(pixels, 0, 0);
  }

  function pointedAt(cell) {
    if (cell === undefined) return;
    const words = pointed(Number(cell)).slice(0, 6);
    photo.classList.remove("looking");
    const each = words.map(([word, share]) => `${word} ${percent(share)}`);
    told.textContent = each.length
      ? `Here looked: ${each.join(", ")}.`
      : "No word looked here in particular.";
  }

  /** Back to the cell that has the focus, or to the word. */
  function left() {
    if (cells.contains(document.activeElement))
      return pointedAt(document.activeElement.dataset.cell);
    pointed(null);
  }

  function move(event) {
    const [rows, columns] = answer.grid;
    const at = Number(event.target.dataset.cell);
    const [row, column] = [Math.floor(at / columns), at % columns];
    const to = {
      ArrowLeft: column > 0 && at - 1,
      ArrowRight: column < columns - 1 && at + 1,
      ArrowUp: row > 0 && at - columns,
      ArrowDown: row < rows - 1 && at + columns,
      Home: row * columns,
      End: row * columns + columns - 1,
    }[event.key];
    if (event.key === "Escape") event.target.blur();
    if (to === undefined) return;
    event.preventDefault();
    if (to === false) return;
    cells.querySelector("[tabindex='0']").tabIndex = -1;
    const next = cells.querySelector(`[data-cell='${to}']`);
    next.tabIndex = 0;
    next.focus();
  }

  cells.addEventListener("keydown", move);
  cells.addEventListener("focusin", ({ target }) => pointedAt(target.dataset.cell));
  cells.addEventListener("focusout", left);
  cells.addEventListener("pointerover", ({ target }) => pointedAt(target.dataset.cell));
  cells.addEventListener("pointerleave", left);
  return { element, show, of };
}

/** In words, which ninth of the grid got most for its size, and how much of all. */
function mostly(shares, [rows, columns]) {
  const ninths = SIDES.flat().map((name) => ({ name, share: 0, cells: 0 }));
  shares.forEach((share, cell) => {
    const [row, column] = [Math.floor(cell / columns), cell % columns];
    const ninth = ninths[3 * Math.floor((3 * row) / rows) + Math.floor((3 * column) / columns)];
    ninth.share += share;
    ninth.cells += 1;
  });
  const mean = ({ share, cells }) => share / cells || 0; // they are not of one size
  const { name, share } = ninths.reduce((one, other) => (mean(other) > mean(one) ? other : one));
  return [name, share];
}
