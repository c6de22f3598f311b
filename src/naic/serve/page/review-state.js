// What was said of each photo, what a person made of it, and the steps back.

/** What has become of a caption: "left" as long as nobody has looked at it. */
export function mark({ said, text, seen }) {
  if (!seen) return "left";
  return text === said ? "accepted" : "edited";
}

/** The captions of a visit, by the photos' numbers. */
export class Review {
  entries = new Map();
  version = 0; // another one whenever a caption is
  #done = [];
  #undone = [];
  #saved = 0; // the version in which all that a person did has been saved

  /**
   * Take on a caption.
   *
   * @param entry {id, path, key, said, confidence, others: texts}; it gets `text` and `seen`.
   * @param draft {text, seen} of an earlier visit, or null.
   */
  add(entry, draft = null) {
    this.entries.set(entry.id, { ...entry, text: entry.said, seen: false, ...draft });
    if (draft) this.version++;
  }

  /** Whether something that a person did is in no file yet. */
  get unsaved() {
    return this.version !== this.#saved;
  }

  /** The entries with these ids have been saved as they were in this version. */
  keep(version, ids) {
    const theirs = ({ id, said, text, seen }) => (seen || text !== said) && !ids.has(id);
    if (![...this.entries.values()].some(theirs)) this.#saved = version;
  }

  /**
   * Change captions, as one step.
   *
   * @param wanted pairs of an id and {text, seen}, either of which may be left out.
   * @returns the ids of those that are others now.
   */
  change(what, wanted) {
    const changes = [];
    for (const [id, now] of wanted) {
      const { text, seen } = this.entries.get(id);
      const after = { text, seen, ...now };
      if (after.text === text && after.seen === seen) continue;
      changes.push({ id, before: { text, seen }, after });
    }
    if (!changes.length) return [];
    this.#done.push({ what, changes });
    this.#undone = [];
    return this.#put(changes, "after");
  }

  /** Take the last step back: {what, ids}, or null if there is none. */
  undo() {
    return this.#move(this.#done, this.#undone, "before");
  }

  /** Take the step again that was taken back last. */
  redo() {
    return this.#move(this.#undone, this.#done, "after");
  }

  get undoable() {
    return this.#done.at(-1)?.what ?? null;
  }

  get redoable() {
    return this.#undone.at(-1)?.what ?? null;
  }

  #move(from, to, which) {
    const step = from.pop();
    if (!step) return null;
    to.push(step);
    return { what: step.what, ids: this.#put(step.changes, which) };
  }

  #put(changes, which) {
    this.version++;
    for (const change of changes) Object.assign(this.entries.get(change.id), change[which]);
    return changes.map(({ id }) => id);
  }

  /** What a change of all texts would change: pairs for `change`. */
  all(made) {
    const pairs = [...this.entries.values()].map(({ id, text }) => [id, { text: made(text) }]);
    return pairs.filter(([id, { text }]) => text !== this.entries.get(id).text);
  }

  /** How many there are with each mark. */
  counts() {
    const counts = { left: 0, accepted: 0, edited: 0 };
    for (const entry of this.entries.values()) counts[mark(entry)]++;
    return counts;
  }

  /** The ids in the order that is wanted: by "name", or the least sure first. */
  ordered(by) {
    return [...this.entries.values()].sort(by === "name" ? byName : byDoubt).map(({ id }) => id);
  }
}

const names = new Intl.Collator("en", { numeric: true });
const byName = (a, b) => names.compare(a.path, b.path) || a.id - b.id;
const byDoubt = (a, b) => a.confidence - b.confidence || a.id - b.id;

/** Of the ids in their order, the one `by` places further; at the ends it stays. */
export function stepped(ids, current, by) {
  const at = ids.indexOf(current);
  if (at < 0) return ids[by > 0 ? 0 : ids.length - 1] ?? null;
  return ids[Math.max(0, Math.min(ids.length - 1, at + by))];
}

/** The next one behind `current` that nobody has looked at, and else the first; null for none. */
export function nextLeft(ids, current, entries) {
  const at = ids.indexOf(current);
  const order = [...ids.slice(at + 1), ...ids.slice(0, at + 1)];
  return order.find((id) => !entries.get(id).seen) ?? null;
}
