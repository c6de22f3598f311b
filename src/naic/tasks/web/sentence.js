// From the words that the graph proposes to the sentence that `naic caption` says: the likeliest
// one without a word twice in a row, cut where a sentence can end.

const PERIOD = 0;
const IMPOSSIBLE = -1e4; // finite: a word of probability 0 is better than none
const LEAST = 1.1754943508222875e-38; // of a float32: the logarithm of 0 is none

/**
 * The caption of one image.
 *
 * said: agents N, top K; words (N, K) with the likeliest first, confidences (N, K), and of a model
 * whose neighbours hear each other pairs (N-1, K, K), else null; all of them flat.
 * language: spelled, endings, clitics, compounds, style, as page.json has them.
 */
export function caption(said, language) {
  check(said, language.spelled.length);
  const { agents, top, words, pairs } = said;
  const scores = Float32Array.from(said.confidences, (value) => Math.log(Math.max(value, LEAST)));
  const chosen = withoutRepeats({ ...said, scores });
  const own = pairs ? heardOf({ ...said, scores }, chosen) : (n) => scores[n * top + chosen[n]];
  const spoken = chosen.map((place, n) => words[n * top + place]);
  const period = spoken.indexOf(PERIOD);
  const end = period < 0 ? agents : period;
  let logarithm = 0; // of all words and of the period
  for (let n = 0; n < Math.min(end + 1, agents); n++) logarithm += own(n);
  let kept = end;
  while (kept > 1 && language.endings.includes(spoken[kept - 1])) kept--;
  return { text: styled(spoken.slice(0, kept), language), confidence: Math.exp(logarithm) };
}

/** Words as a sentence in the style of the model, if it has one. */
export function styled(ids, language) {
  const { style } = language;
  if (!style) return written(ids, language);
  const text = written(restyled(ids, style, language.spelled), language);
  const whole = text && inCase(style.around[0] + text + style.around[1], style);
  return !whole || whole.endsWith(style.end) ? whole : whole + style.end;
}

/** Without the words that are left out, others replaced, and "a" or "an" as the next one wants. */
function restyled(ids, { begin, close, table, articles, vowel }, spelled) {
  const first = `${ids.slice(0, begin.length)}` === `${begin}` ? begin.length : 0;
  const end = ids.length - close.length;
  const last = `${ids.slice(Math.max(end, 0))}` === `${close}` ? end : ids.length;
  const pieces = ids
    .map((id, at) => ({ at, said: at >= first && at < last ? [...(table[id] ?? [id])] : [] }))
    .filter(({ said }) => said.length);
  const changed = (piece) => piece && `${piece.said}` !== `${ids[piece.at]}`;
  const wantsAn = new RegExp(`^(?:${vowel})`);
  pieces.forEach((piece, n) => {
    const after = pieces[n + 1];
    const gone = (after ? after.at : ids.length) !== piece.at + 1;
    if (!gone && !changed(piece) && !changed(after)) return;
    [...piece.said.slice(1), ...(after ? after.said.slice(0, 1) : [])].forEach((id, at) => {
      const an = wantsAn.test(spelled[id].toLowerCase());
      if (articles.includes(piece.said[at])) piece.said[at] = articles[an ? 1 : 0];
    });
  });
  return pieces.flatMap(({ said }) => said);
}

/** A text with large letters where the style wants them. */
function inCase(text, { case: wanted, small }) {
  if (wanted === "lower") return text;
  if (wanted === "upper") return text.toUpperCase();
  const every = wanted === "sentence" ? "u" : "gu";
  const word = new RegExp("(^|\\s)([^\\p{L}\\p{N}_\\s]*)([\\p{L}\\p{N}_])(\\S*)", every);
  return text.replace(word, (own, space, signs, letter, rest, at) => {
    const kept = wanted === "title" && at > 0 && small.includes(own.trim());
    return kept ? own : space + signs + letter.toUpperCase() + rest;
  });
}

/** Words as a sentence: "'s" joined to the word before it, nothing between brackets and words. */
export function written(ids, { spelled, clitics, compounds }) {
  let text = "";
  ids.forEach((id, i) => {
    const before = ids[i - 1];
    const clitic = i > 0 && clitics[id] && !clitics[id].includes(before);
    const joined = clitic || compounds.some(([one, other]) => one === before && other === id);
    const bracket = (i > 0 && "([{".includes(spelled[before])) || ")]}".includes(spelled[id]);
    text += (i === 0 || joined || bracket ? "" : " ") + spelled[id];
  });
  return text;
}

function check({ agents, top, words, confidences, pairs }, size) {
  const known = words.length === agents * top && words.every((id) => id >= 0 && id < size);
  const sure = confidences.length === words.length && confidences.every((value) => value >= 0);
  const finite = !pairs || (pairs.length === (agents - 1) * top * top && pairs.every(isFinite));
  if (!(known && sure && finite)) throw new Error("the model gives no words: use a whole copy");
}

/** Which of its words each agent says, by a place in K, so that no sentence has a repeat. */
function withoutRepeats(said) {
  const { agents, top, words, pairs } = said;
  const chosen = pairs ? best(said, true) : new Array(agents).fill(0);
  for (let n = 1; n < agents && top > 1; n++) {
    const before = words[(n - 1) * top + chosen[n - 1]];
    if (before === PERIOD) break;
    if (before === words[n * top + chosen[n]]) return best(said, false);
  }
  return chosen;
}

/**
 * The choices of the likeliest sentence, by dynamic programming over the agents; sums are float32,
 * as in naic. Without pairs the agents after the period count too, so that sentences of different
 * length can be compared.
 */
function best({ agents, top, words, scores, pairs }, repeats) {
  const own = scores.map((value) => Math.max(value, IMPOSSIBLE));
  const before = new Float32Array(agents * top); // the best sentence before an agent's word
  const from = new Int32Array(agents * top); // which word of the agent before it has
  for (let at = 0; at < top; at++) {
    before[at] = !repeats && words[at] === PERIOD ? -Infinity : 0; // to say nothing is no way out
  }
  for (let n = 1; n < agents; n++) {
    for (let j = 0; j < top; j++) {
      let most = -Infinity;
      for (let i = 0; i < top; i++) {
        const earlier = (n - 1) * top + i;
        const same = !repeats && words[earlier] === words[n * top + j];
        if (words[earlier] === PERIOD || same) continue;
        const reached = n === 1 ? own[earlier] : Math.fround(before[earlier] + own[earlier]);
        const way = Math.fround(reached + (pairs ? pairs[((n - 1) * top + i) * top + j] : 0));
        if (way > most) {
          most = way;
          from[n * top + j] = i;
        }
      }
      before[n * top + j] = most;
    }
  }
  const after = pairs ? new Float32Array(agents) : remaining(own, agents, top);
  let last = 0;
  let most = -Infinity;
  for (let at = 0; at < agents * top; at++) {
    if (words[at] !== PERIOD && at < (agents - 1) * top) continue; // no end
    const total = Math.fround(Math.fround(before[at] + own[at]) + after[Math.floor(at / top)]);
    if (total > most) [most, last] = [total, at];
  }
  const chosen = new Array(agents).fill(0);
  for (let n = Math.floor(last / top), j = last % top; n >= 0; j = from[n * top + j], n--) {
    chosen[n] = j;
  }
  return chosen;
}

/** What the likeliest words of all agents after each one add. */
function remaining(own, agents, top) {
  const sums = new Float32Array(agents);
  let total = 0;
  for (let n = 0; n < agents; n++) sums[n] = total = Math.fround(total + own[n * top]);
  return sums.map((sum) => total - sum);
}

/** The logarithm of an agent's probability of its word after the word before it, by agent. */
function heardOf({ agents, top, words, scores, pairs }, chosen) {
  const own = Float64Array.from(scores, (value) => Math.max(value, IMPOSSIBLE));
  for (let n = agents - 2; n >= 0; n--) { // of all that can come after each word
    for (let i = 0; i < top; i++) {
      if (words[n * top + i] === PERIOD) continue;
      own[n * top + i] += logSumExp(top, (j) => {
        return own[(n + 1) * top + j] + pairs[(n * top + i) * top + j];
      });
    }
  }
  return (n) => {
    const score = (j) => {
      return own[n * top + j] + (n && pairs[((n - 1) * top + chosen[n - 1]) * top + j]);
    };
    return score(chosen[n]) - logSumExp(top, score);
  };
}

function logSumExp(count, score) {
  const scores = Array.from({ length: count }, (_, at) => score(at));
  const most = Math.max(...scores);
  return most + Math.log(scores.reduce((sum, value) => sum + Math.exp(value - most), 0));
}
