// The teacher, which writes word by word, on one axis of time with the agents.

import { button, duration, make, stillness } from "./dom.js";

const SHORTEST = 2500; // milliseconds of a replay: what is faster is shown slower

/**
 * @param {object} about `agents` of /v1/info.
 * @param {() => Promise<object>} ask for the agents and the teacher.
 */
export function createTeacher(about, ask) {
  const title = make("h3", { id: "teacher-title" }, "Word by word, and all at once");
  const element = make("section", { className: "panel clock" }, title);
  element.setAttribute("aria-labelledby", "teacher-title");
  if (!about.teacher) {
    const why =
      "Start the server with --teacher TEACHER, and a model that writes word by word does so here.";
    element.append(make("p", { className: "quiet" }, why));
    return { element, show() {} };
  }
  const start = button("Let the teacher write", "", write);
  const state = make("p", { role: "status" });
  const chart = make("div", { className: "race", hidden: true });
  element.append(make("p", { className: "ways" }, start), state, chart);
  const told = new WeakMap(); // of answers: what the teacher wrote
  let answer = null;

  function show(given) {
    answer = given;
    state.textContent = "";
    start.disabled = false;
    start.textContent = told.has(answer) ? "Play again" : "Let the teacher write";
    chart.hidden = !told.has(answer);
    if (told.has(answer)) draw(told.get(answer), false);
  }

  async function write() {
    const of = answer;
    start.disabled = true;
    try {
      if (!told.has(of)) {
        state.textContent = "The teacher writes …";
        told.set(of, (await ask()).teacher);
      }
      if (of !== answer) return;
      show(of);
      draw(told.get(of), !stillness.matches);
    } catch (error) {
      if (of === answer) state.textContent = error.message;
    } finally {
      start.disabled = of !== answer && start.disabled;
    }
  }

  function draw(teacher, moving) {
    const whole = Math.max(teacher.ms, teacher.agents_ms);
    const slow = Math.max(1, SHORTEST / whole);
    const clock = { whole, slow, moving };
    const all = lane(
      "Agents",
      teacher.agents_ms,
      [[answer.result.caption, teacher.agents_ms]],
      clock,
    );
    const words = teacher.words.map(({ text, ms }) => [text, ms]);
    chart.style.setProperty("--at", teacher.agents_ms / whole);
    const by = lane("Teacher", teacher.ms, words, clock);
    const times = (teacher.ms / teacher.agents_ms).toFixed(1);
    const pace = slow > 1 && moving ? ` Shown ${Math.round(slow)} times slower.` : "";
    state.textContent = `The agents take ${duration(teacher.agents_ms)}, the teacher ${times} times as long.${pace}`;
    chart.replaceChildren(all, by);
    chart.hidden = false;
  }

  return { element, show };
}

/** A lane of the axis: [text, milliseconds] of each thing that was said. */
function lane(name, ms, things, { whole, slow, moving }) {
  const rows = things.map(([text, at]) => {
    const line = make("span", { className: "line", "aria-hidden": "true" });
    const mark = make("span", { className: "mark" }, text, " ");
    mark.append(make("span", { className: "number quiet" }, duration(at)));
    const row = make("li", {}, line, mark);
    row.style.setProperty("--at", at / whole);
    if (moving) appear(line, mark, at * slow);
    return row;
  });
  const head = make("h4", {}, name, " ", make("span", { className: "number quiet" }, duration(ms)));
  return make("div", { className: "lane" }, head, make("ol", {}, ...rows));
}

/** Let a line grow at the pace of the clock, and its word appear at its end. */
function appear(line, mark, after) {
  line.animate({ scale: ["0 1", "1 1"] }, { duration: after });
  mark.animate({ opacity: [0, 1] }, { delay: after, duration: 120, fill: "backwards" });
}
