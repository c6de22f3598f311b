// The lattice: a column for each agent with its words, the likeliest first; the words that are said
// are joined by a line. Arrow keys move between words, Enter says the word.

import { make, percent, signed } from "./dom.js";

const LEAST = 0.01; // words less likely than that are left out,
const FEWEST = 5; // but for so many,
const MOST = 8; // and these are enough
const SMALL = 0.02; // bars are as high as the largest advantage, or this
const SVG = "http://www.w3.org/2000/svg";

/**
 * @param {{pointed: (agent: number | null) => void, chosen: (agent: number, word: number) => void}} on
 */
export function createLattice(on) {
  const list = make("ol", { className: "lattice" });
  const thread = document.createElementNS(SVG, "svg");
  thread.setAttribute("aria-hidden", "true");
  thread.append(document.createElementNS(SVG, "path"));
  const hint = make(
    "p",
    { className: "quiet hint", id: "lattice-hint" },
    "Point at a word to see where its agent looked; choose another word to let it say that. Words in ",
    "grey come after the end. Keys: arrows, Enter, Escape.",
  );
  const heading = make("h3", { id: "lattice-title" }, "What each agent thinks of");
  const frame = make("div", { className: "loom" }, thread, list);
  list.setAttribute("aria-labelledby", "lattice-title");
  const element = make("div", {}, heading, hint, frame);
  let columns = []; // {item, bar, value, words: Map(word -> button)}
  let now = null; // {said, end}
  let pinned = null; // the agent whose word has the focus, or was last chosen

  function show(answer) {
    columns = answer.agents.map(column);
    list.replaceChildren(...columns.map(({ item }) => item));
    [pinned, now] = [null, null];
  }

  function column(agent, n) {
    const words = new Map();
    agent.words.forEach((word, w) => {
      const own = w < FEWEST || (word.confidence >= LEAST && w < MOST) || w === agent.said;
      if (own) words.set(w, wordButton(word, n, w));
    });
    const bar = make("span", { className: "bar" });
    const value = make("span", { className: "value number" });
    const worth = make("p", { className: "worth", hidden: true }, bar, value);
    const group = make("div", { className: "choices", role: "group" }, ...words.values());
    group.setAttribute("aria-label", `Agent ${n + 1}`);
    const title = make("p", { className: "agent", "aria-hidden": "true" }, String(n + 1));
    return { item: make("li", {}, worth, title, group), bar, value, worth, words, group };
  }

  const short = (share) => (share < 0.0005 ? "~0" : percent(share).replace("\u00a0", ""));

  function wordButton({ text, confidence }, agent, word) {
    const own = make("button", { type: "button", className: "word", tabIndex: -1 });
    const name = text === "." ? "end" : text;
    own.append(make("span", { className: text === "." ? "text end" : "text" }, name), " ");
    own.append(make("span", { className: "number" }, short(confidence)));
    own.setAttribute("aria-label", `${name}, ${percent(confidence)}`);
    own.style.setProperty("--shade", Math.sqrt(confidence).toFixed(3));
    own.onclick = () => on.chosen(agent, word);
    own.onfocus = () => {
      pinned = agent;
      rove(own);
      on.pointed(agent);
    };
    own.onpointerenter = ({ pointerType }) => pointerType === "mouse" && on.pointed(agent);
    own.dataset.agent = agent;
    own.dataset.word = word;
    return own;
  }

  /** Which word of each agent is said, and which agent ends the sentence. */
  function choose(said, end) {
    now = { said, end };
    columns.forEach(({ item, words }, n) => {
      item.classList.toggle("silent", n > end);
      item.classList.toggle("first", n === end + 1);
      for (const [w, own] of words) own.setAttribute("aria-pressed", w === said[n]);
    });
    if (!list.querySelector("[tabindex='0']")) rove(columns[0].words.get(said[0]));
    draw();
  }

  function rove(own) {
    list.querySelector("[tabindex='0']")?.setAttribute("tabindex", "-1");
    own.tabIndex = 0;
  }

  /** Bars of what each agent's word is worth, or none. */
  function weigh(worth) {
    const most = Math.max(SMALL, ...(worth ?? []).map(Math.abs));
    columns.forEach(({ bar, value, worth: place, group }, n) => {
      place.hidden = worth === null;
      const own = worth?.[n] ?? 0;
      place.classList.toggle("below", own < 0);
      bar.style.blockSize = `${(50 * Math.abs(own)) / most}%`;
      value.textContent = signed(own);
      const told = worth === null ? "" : `, advantage ${signed(own)}`;
      group.setAttribute("aria-label", `Agent ${n + 1}${told}`);
    });
    draw();
  }

  /** Highlight agents that looked at a cell: [agent, share]. */
  function mark(lookers) {
    const found = new Set(lookers.map(([agent]) => agent));
    columns.forEach(({ item }, n) => item.classList.toggle("marked", found.has(n)));
  }

  /** The line through the words that are said, row by row of the page. */
  function draw() {
    const origin = frame.getBoundingClientRect();
    let path = "";
    let [row, height] = [null, 0]; // of the word before
    columns.slice(0, now ? now.end + 1 : 0).forEach(({ item, words }, n) => {
      const box = words.get(now.said[n]).getBoundingClientRect();
      const [x, y] = [box.left - origin.left, box.top + box.height / 2 - origin.top];
      const joined = row === item.offsetTop;
      path += joined ? `C${x - 6} ${height} ${x - 6} ${y} ${x} ${y}` : `M${x} ${y}`;
      path += `H${x + box.width}`;
      [row, height] = [item.offsetTop, y];
    });
    thread.firstChild.setAttribute("d", path);
  }

  new ResizeObserver(draw).observe(list);

  function move(event) {
    const { agent, word } = event.target.dataset;
    if (event.key === "Escape") {
      pinned = null;
      return on.pointed(null);
    }
    const next = target(event.key, Number(agent), Number(word));
    if (!next) return;
    event.preventDefault();
    next.focus();
  }

  function target(key, agent, word) {
    const own = shownWords(columns[agent]);
    const at = own.findIndex((one) => one.dataset.word === String(word));
    const to = { ArrowLeft: agent - 1, ArrowRight: agent + 1, Home: 0, End: columns.length - 1 };
    if (key === "ArrowUp") return own[at - 1];
    if (key === "ArrowDown") return own[at + 1];
    const there = columns[to[key]];
    return there && (shownWords(there)[at] ?? shownWords(there).at(-1));
  }

  const shownWords = ({ words }) => [...words.values()].filter((own) => own.offsetParent !== null);

  list.addEventListener("keydown", move);
  const again = () => on.pointed(pinned);
  list.addEventListener("pointerleave", again);
  return { element, show, choose, weigh, mark, again };
}
