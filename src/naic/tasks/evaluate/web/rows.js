// Which rows are shown, and in what order: arithmetic on the page's data, without a page.

/** What is searched for, in lower case: words, and words that stand together in quotes. */
export function terms(text) {
  const found = text.toLowerCase().matchAll(/"([^"]+)"?|[^\s"]+/g);
  return [...found].map(([whole, quoted]) => (quoted ?? whole).trim()).filter(Boolean);
}

// A word is found where a word begins: "man" is not in "woman". Scripts that part no words with
// spaces have no such places; in ids, 42 may be anywhere.
const SPACED = "[\\p{Script=Latin}\\p{Script=Greek}\\p{Script=Cyrillic}\\p{M}\\p{N}]";

/** A pattern for the places of a text in lower case where something searched for is. */
export function pattern(term) {
  const text = term.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
  const begins = new RegExp(`^${SPACED}`, "u").test(term) ? `(?<!${SPACED})` : "";
  return new RegExp(begins + text, "gu");
}

/** What is searched, of each row: made once, so that a keystroke is a comparison of strings. */
export function texts(data) {
  const lower = (parts) => parts.join("\n").toLowerCase();
  return data.ids.map((id, row) => ({
    ids: id.toLowerCase(),
    captions: lower(data.systems.map((system) => system.captions[row])),
    references: lower(data.references[row]),
  }));
}

function has(text, where, term, found) {
  if (where !== "captions" && where !== "references" && text.ids.includes(term)) return true;
  if (where === "ids") return false;
  const fields = where ? [where] : ["captions", "references"];
  return fields.some((field) => text[field].includes(term) && text[field].search(found) >= 0);
}

/** The marks of a row's captions: by one system, or by any if `who` is null. */
export function marksOf(data, row, who) {
  const systems = who === null ? data.systems : [data.systems[who]];
  return new Set(systems.flatMap((system) => system.marks[row] ?? []));
}

/** How many rows have each mark. */
export function countMarks(data, who) {
  const counts = { repeat: 0, ending: 0, empty: 0 };
  for (let row = 0; row < data.ids.length; row++) {
    for (const mark of marksOf(data, row, who)) counts[mark]++;
  }
  return counts;
}

/** A row's score, or how much more one system has than another; null where there is none. */
export function score(data, row, by, [one, other]) {
  const value = data.systems[one].scores[by]?.[row] ?? null;
  if (other === undefined || value === null) return value;
  const less = data.systems[other].scores[by]?.[row] ?? null;
  return less === null ? null : value - less;
}

/** The rows that are wanted, in the order that is wanted; without a score last. */
export function choose(data, texts, wish) {
  const wanted = terms(wish.text).map((term) => [term, pattern(term)]);
  const rows = [];
  for (let row = 0; row < data.ids.length; row++) {
    if (!wanted.every(([term, found]) => has(texts[row], wish.where, term, found))) continue;
    if (wish.marks.length) {
      const found = marksOf(data, row, wish.who);
      if (!wish.marks.some((mark) => found.has(mark))) continue;
    }
    rows.push(row);
  }
  if (!wish.by) return rows;
  const values = new Map(rows.map((row) => [row, score(data, row, wish.by, wish.of)]));
  const sign = wish.order === "best" ? -1 : 1;
  return rows.sort((a, b) => {
    const [one, other] = [values.get(a), values.get(b)];
    if (one === null || other === null) return (one === null) - (other === null) || a - b;
    return sign * (one - other) || a - b;
  });
}
