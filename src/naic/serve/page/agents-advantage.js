// What each agent's word is worth: references are typed, and the server counts, as CMAL does.

import { asSentence, make, percent, signed } from "./dom.js";
import { patiently, post } from "./server.js";

const PAUSE = 250; // milliseconds without a key before the server is asked
const TOPK = 2; // words of an agent that are tried in its place, as in the paper

/**
 * @param {object} about `agents` of /v1/info.
 * @param {(worth: number[] | null) => void} weighed hears each agent's advantage.
 */
export function createAdvantage(about, weighed) {
  const title = make("h3", { id: "advantage-title" }, "What each word is worth");
  const element = make("section", { className: "panel weights" }, title);
  element.setAttribute("aria-labelledby", "advantage-title");
  if (!about.references) {
    const why =
      about.references_why ??
      "Start the server with --references STORE, and it counts that as you type captions of your own.";
    element.append(make("p", { className: "quiet" }, asSentence(why)));
    return { element, show() {}, ask() {}, point() {} };
  }
  const field = make("textarea", { id: "references", rows: 3, spellcheck: true });
  const label = make("label", { htmlFor: "references" }, "Captions by people, one per line");
  const told = make("p", { className: "reward", role: "status" });
  const outcomes = make("div", { className: "outcomes" });
  const note = make(
    "p",
    { className: "quiet hint" },
    `The reward is CIDEr-D, with how often words are in ${about.references}. An agent's advantage is what the `,
    `sentence loses on average when that agent says one of its ${TOPK} likeliest words in its place.`,
  );
  element.append(note, make("p", {}, label, field), told, outcomes);
  let own = null; // {answer, said, references} of the photo
  let counted = null; // what the server said
  let agent = null;
  let timer = 0;
  let running = new AbortController();

  function show(given) {
    own = given;
    field.value = own.references;
    [counted, agent] = [null, null];
    told.textContent = "";
    outcomes.replaceChildren();
    weighed(null);
  }

  /** Have it counted anew, after a pause. */
  function ask() {
    clearTimeout(timer);
    running.abort();
    own.references = field.value;
    if (lines().length) timer = setTimeout(count, PAUSE, own);
    else if (counted) show(own);
  }

  const lines = () => field.value.split("\n").filter((line) => /[\p{L}\p{N}]/u.test(line));

  async function count(of) {
    const { signal } = (running = new AbortController());
    const agents = of.answer.agents.map(({ words }) => words);
    const body = { agents, said: of.said, references: lines(), topk: TOPK };
    try {
      const found = await patiently(() => post("v1/advantage", body, { signal }));
      if (signal.aborted || of !== own) return;
      counted = found;
      weighed(found.agents.map(({ advantage }) => advantage));
      tell(`Reward ${found.reward.toFixed(2)}: “${found.sentence}”`, found.unknown);
      point(agent);
    } catch (error) {
      if (error.name !== "AbortError" && !signal.aborted) tell(error.message, [], true);
    }
  }

  function tell(text, unknown, failed = false) {
    told.textContent = text;
    told.classList.toggle("error", failed);
    if (!unknown.length) return;
    const words = `Not in the vocabulary: ${unknown.join(", ")}.`;
    told.append(make("span", { className: "quiet unknown" }, words));
  }

  /** Show what would come of the words of one agent. */
  function point(pointed) {
    agent = pointed ?? agent;
    if (!counted || agent === null) return;
    const { advantage, outcomes: rows } = counted.agents[agent];
    const head = make("tr", {}, ...["If it says", "share", "reward", "sentence"].map(headed));
    const caption = make("caption", {}, `Agent ${agent + 1}: advantage ${signed(advantage)}`);
    const body = make("tbody", {}, ...rows.map(outcome));
    const table = make("table", {}, caption, make("thead", {}, head), body);
    outcomes.replaceChildren(rows.length ? table : make("p", { className: "quiet" }, nothing()));
  }

  const headed = (text) => make("th", { scope: "col" }, text);
  const nothing = () =>
    `Agent ${agent + 1}: advantage ${signed(0)}, nothing changes with its word.`;

  function outcome({ text, share, reward, sentence }) {
    const word = make("th", { scope: "row" }, text === "." ? "end" : text);
    const numbers = [percent(share), reward.toFixed(2)];
    const cells = numbers.map((value) => make("td", { className: "number" }, value));
    return make("tr", {}, word, ...cells, make("td", {}, sentence));
  }

  field.oninput = ask;
  return { element, show, ask, point };
}
