// The view of one photo's agents: asks the server for them, and joins the parts of the view.

import { createAdvantage } from "./agents-advantage.js";
import { createLattice } from "./agents-lattice.js";
import { createLook } from "./agents-look.js";
import { createTeacher } from "./agents-teacher.js";
import { $, button, copyButton, duration, make, sureness } from "./dom.js";
import { info, patiently, request } from "./server.js";
import { photos, subscribe } from "./store.js";

const END = "."; // the word that ends a sentence
const ASKING = "Asking the agents …";
const NO_AGENTS = "The model of this server writes word by word: it has no agents.";

const known = new Map(); // of photos: what the agents said, {answer, said, references}
const asked = new Set(); // photos that the server is being asked about
let visible = false;
let newest = 0; // number of the last photo that came
let current = null; // the photo that is shown
let parts = null; // of the view, when it has been made

/** Show the view, or leave it; `id` is the photo's number, or NaN for the one of before. */
export function showAgents(shown, id) {
  visible = shown;
  current = photos.find((photo) => photo.id === id) ?? current ?? photos.at(-1) ?? null;
  if (visible) show();
}

subscribe((changed) => {
  const added = changed.find((photo) => photo.id > newest);
  if (added) {
    newest = photos.at(-1).id;
    current = added;
    if (visible) location.hash = `#agents/${added.id}`; // which shows it
  }
});

function show() {
  const at = photos.indexOf(current);
  $("agents-none").hidden = current !== null;
  $("agents-steps").hidden = photos.length < 2;
  if (current === null) return;
  const place = photos.length > 1 ? ` (${at + 1} of ${photos.length})` : "";
  $("agents-photo").replaceChildren(make("bdi", {}, current.name), place);
  $("agents-before").disabled = at === 0;
  $("agents-after").disabled = at === photos.length - 1;
  if (known.has(current)) present(current);
  else if (asked.has(current)) tell(ASKING);
  else ask(current);
}

for (const [name, by] of [
  ["agents-before", -1],
  ["agents-after", 1],
]) {
  $(name).onclick = () => (location.hash = `#agents/${photos[photos.indexOf(current) + by].id}`);
}

/** What the server says of a photo's agents, with the teacher or without. */
async function agentsOf(photo, teacher) {
  const form = new FormData();
  form.append("files", photo.file, photo.name);
  if (teacher) form.append("teacher", "true");
  return patiently(() => request("v1/agents", { method: "POST", body: form }));
}

async function ask(photo) {
  asked.add(photo);
  tell(ASKING);
  try {
    if (!(await info()).agents) return tell(NO_AGENTS);
    const answer = await agentsOf(photo, false);
    const said = answer.agents.map((agent) => agent.said);
    known.set(photo, { answer, said, references: "" });
    if (visible && current === photo) present(photo);
  } catch (error) {
    if (current === photo) tell(error.message, true);
  } finally {
    asked.delete(photo);
  }
}

function tell(text, failed = false) {
  $("agents-state").textContent = text;
  $("agents-state").classList.toggle("error", failed);
  $("agents-again").hidden = !failed;
  $("agents-view").hidden = true;
}

$("agents-again").onclick = () => ask(current);

/** The sentence of chosen words: up to the first agent that ends it. */
function sentenceOf(answer, said) {
  const words = answer.agents.map((agent, n) => agent.words[said[n]].text);
  return words.slice(0, endOf(answer, said)).join(" ");
}

/** The agent that ends the sentence of chosen words, or their number. */
function endOf(answer, said) {
  const end = answer.agents.findIndex((agent, n) => agent.words[said[n]].text === END);
  return end < 0 ? said.length : end;
}

async function present(photo) {
  const about = await info();
  if (!visible || current !== photo) return;
  parts ??= createView(about);
  $("agents-state").textContent = "";
  $("agents-again").hidden = true;
  $("agents-view").hidden = false;
  if (parts.photo === photo) return;
  parts.photo = photo;
  const own = known.get(photo);
  parts.look.show(photo, own.answer);
  parts.lattice.show(own.answer);
  parts.advantage.show(own);
  parts.teacher.show(own.answer);
  showSaid();
}

/** All that depends on which words are said. */
function showSaid() {
  const { answer, said } = known.get(parts.photo);
  const changed = answer.agents.some((agent, n) => agent.said !== said[n]);
  parts.lattice.choose(said, endOf(answer, said));
  parts.caption.textContent = changed ? sentenceOf(answer, said) : answer.result.caption;
  parts.sure.textContent = changed ? "words of your choice" : sureness(answer.result);
  parts.pace.textContent = `${answer.agents.length} agents in ${duration(answer.ms)}`;
  parts.reset.hidden = !changed;
  parts.advantage.ask();
}

function createView(about) {
  const made = { caption: make("p", { className: "caption" }), photo: null };
  made.sure = make("span");
  made.pace = make("span");
  made.reset = button("Back to what they said", "small", () => {
    const own = known.get(made.photo);
    own.said = own.answer.agents.map((agent) => agent.said);
    showSaid();
  });
  const copy = copyButton(() => made.caption.textContent);
  copy.setAttribute("aria-label", "Copy the caption");
  connect(made, about);
  const facts = make("p", { className: "facts quiet" }, made.sure, made.pace, copy, made.reset);
  const said = make("div", { className: "spoken" }, made.caption, facts);
  const thoughts = make("div", { className: "thoughts" }, said, made.lattice.element);
  const seen = make("div", { className: "seen" }, made.look.element, thoughts);
  $("agents-view").replaceChildren(seen, made.advantage.element, made.teacher.element);
  return made;
}

/** The parts, and what they tell each other. */
function connect(made, about) {
  made.lattice = createLattice({
    pointed: (agent) => {
      made.look.of(agent, known.get(made.photo).said);
      if (agent !== null) made.advantage.point(agent);
    },
    chosen: (agent, word) => {
      const { said } = known.get(made.photo);
      said[agent] = word;
      showSaid();
      made.look.of(agent, said);
    },
  });
  made.look = createLook((cell) => {
    const { answer, said } = known.get(made.photo);
    const found = cell === null ? [] : lookers(answer, endOf(answer, said), cell);
    made.lattice.mark(found);
    if (cell === null) made.lattice.again();
    return found.map(([n, share]) => [answer.agents[n].words[said[n]].text, share]);
  });
  made.advantage = createAdvantage(about.agents, (worth) => made.lattice.weigh(worth));
  made.teacher = createTeacher(about.agents, () => agentsOf(made.photo, true));
}

/** Which agents of the sentence looked at a cell more than at most others: [agent, share]. */
function lookers(answer, end, cell) {
  const even = 1 / answer.attention[0].length;
  return answer.attention
    .slice(0, end)
    .map((shares, agent) => [agent, shares[cell]])
    .filter(([, share]) => share > 2 * even)
    .sort(([, one], [, other]) => other - one);
}
