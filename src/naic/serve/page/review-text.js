// Captions as text: made one line, changed all at once, and as the tables that naic reads.

const BLANKS = /[\s\p{Cc}\p{Zl}\p{Zp}]+/gu; // newlines and whatever else makes no letter
const NO_TEXT = /[\p{Cs}\ufffe\uffff]/gu; // halves of characters, and what XML cannot hold
const FORMULA = /^[=+\-@\t\r]/; // what a spreadsheet takes for a formula
const GUARDED = /^'*[=+\-@\t\r]/; // the same, and what we would write for one
const LETTER = "[\\p{L}\\p{M}\\p{N}_]";

/** A caption as it is kept: one line, without blanks around it. */
export function clean(text) {
  return text.replace(NO_TEXT, "").replace(BLANKS, " ").trim();
}

/** Whether anything is said: without a letter or a digit naic finetune takes it for no caption. */
export const says = (text) => /[\p{L}\p{N}]/u.test(text);

/** The caption with `prefix` before it, unless it begins with that already, or is empty. */
export function prefixed(text, prefix) {
  if (!text || !prefix.trim() || text.startsWith(prefix.trimStart())) return text;
  return clean(prefix + text);
}

/**
 * The caption with each `find` replaced: as it is written, capitals and all.
 *
 * `words`: only where it stands as a whole, so that "man" is not found in "woman".
 */
export function replaced(text, find, by, words) {
  if (!find) return text;
  const plain = find.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
  const before = words && startsAsWord(find) ? `(?<!${LETTER})` : "";
  const after = words && startsAsWord([...find].reverse().join("")) ? `(?!${LETTER})` : "";
  const made = text.replace(new RegExp(before + plain + after, "gu"), () => by);
  return made === text ? text : clean(made);
}

const startsAsWord = (text) => new RegExp(`^${LETTER}`, "u").test(text);

/**
 * A table as `naic caption --out captions.csv` writes it, which naic finetune reads.
 *
 * The mark at its beginning tells spreadsheets that it is UTF-8; naic passes over it.
 */
export function csv(rows) {
  const lines = rows.map(({ path, caption }) => {
    const safe = GUARDED.test(caption) ? `'${caption}` : caption;
    return `${cell(FORMULA.test(path) ? `./${path}` : path)},${cell(safe)}\n`;
  });
  return `\ufeffpath,caption\n${lines.join("")}`;
}

const cell = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

/** An object a line, in ASCII as `naic caption` writes it: a path may be any name. */
export function jsonl(rows) {
  const pair = ([name, value]) => `${ascii(name)}: ${ascii(value)}`;
  const line = (row) => `{${Object.entries(row).map(pair).join(", ")}}\n`;
  return rows.map(line).join("");
}

function ascii(value) {
  const escaped = (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return JSON.stringify(value).replace(/[\u007f-\uffff]/g, escaped);
}
