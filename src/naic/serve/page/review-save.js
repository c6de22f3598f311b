// Captions as files: tables, and a file beside each photo, in a folder or as an archive.

import { patiently, post } from "./app.js";
import { besides, safePath, zip } from "./review-files.js";
import { mark } from "./review-state.js";
import { clean, csv, jsonl } from "./review-text.js";

const AT_ONCE = 4; // requests for XMP files

export const canSaveIntoFolder = () => typeof window.showDirectoryPicker === "function";

/** A table of the entries: "csv" or "jsonl". */
export function saveTable(entries, kind) {
  const rows = entries.map((entry) => ({ path: entry.path, caption: entry.text }));
  if (kind === "csv") return download("captions.csv", [csv(rows)], "text/csv");
  const more = entries.map((entry, i) => ({ ...rows[i], review: mark(entry), said: entry.said }));
  return download("captions.jsonl", [jsonl(more)], "application/jsonl");
}

/**
 * A file beside each photo, in one archive.
 *
 * @param there gives the text of a file that is there, by its path, or null.
 * @param tell is called with the number of files that are made.
 * @returns {saved, kept, others: ids, failed: texts}: kept are those that are there and need no
 * change, others those for which there is a file with another text, which stays.
 */
export async function saveArchive(entries, kind, there, tell) {
  const { files, ...told } = await made(entries, kind, there, true, tell);
  if (files.length) download(`captions-${kind}.zip`, zip(files), "application/zip");
  return { saved: files.length, ...told };
}

/** The same in a folder that is chosen; without `over` texts that are there stay. */
export async function saveIntoFolder(entries, kind, over, tell) {
  const chosen = await window.showDirectoryPicker({ mode: "readwrite", id: "naic-review" });
  const paths = await fromWithin(chosen, entries);
  const own = entries.map((entry, i) => ({ ...entry, path: paths[i] }));
  const there = (path) => read(chosen, path);
  const { files, ...told } = await made(own, kind, there, over, tell);
  let saved = 0;
  for (const [path, text] of files) {
    try {
      await write(chosen, path, text);
      tell(++saved);
    } catch (error) {
      told.failed.push(`${path}: ${error.message}`);
    }
  }
  return { saved, ...told };
}

/** Paths from the folder that was chosen: it may be the one that all paths begin with. */
async function fromWithin(chosen, entries) {
  const start = `${chosen.name}/`;
  const within = entries.every(({ path }) => path.startsWith(start));
  const deeper = within && (await chosen.getDirectoryHandle(chosen.name).catch(() => null));
  return entries.map(({ path }) => (within && !deeper ? path.slice(start.length) : path));
}

/** The files that are to be written, and what came of the rest. */
async function made(entries, kind, there, over, tell) {
  const paths = entries.map(({ path }) => path);
  const [names, whole] = [besides(paths, `.${kind}`), paths.map((path) => `${safePath(path)}.xmp`)];
  const first = new Map(paths.map((path, i) => [path, i]).reverse()); // of several of one name
  const [files, others, failed] = [new Array(entries.length), [], []];
  let [kept, done, next] = [0, 0, 0];

  async function one(i) {
    const [entry, name] = [entries[i], names[i]];
    try {
      let [path, old] = [name, await there(name)];
      if (kind === "xmp" && name !== whole[i] && first.get(entry.path) === i) {
        // Of that name is darktable's, which goes before Adobe's.
        const longer = await there(whole[i]);
        if (longer !== null) [path, old] = [whole[i], longer];
      }
      const { text, said } = kind === "xmp" ? await xmp(entry, old) : txt(entry, old, over);
      if (text !== old) files[i] = [path, text];
      else if (said) kept++;
      if (!said) others.push(entry.id);
    } catch (error) {
      failed.push(`${entry.path}: ${error.message}`);
    }
    tell(++done);
  }

  async function work() {
    while (next < entries.length) await one(next++);
  }

  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return { files: files.filter(Boolean), kept, others, failed };
}

/** What a text file is to be, and whether it says the caption. */
function txt(entry, old, over) {
  const said = old === null || over || clean(old) === entry.text;
  return { text: old === null || over ? `${entry.text}\n` : old, said };
}

/** The same of an XMP file. */
async function xmp(entry, existing) {
  // What a person changed is not the model's any more: it has no confidence.
  const confidence = entry.text === entry.said ? entry.confidence : null;
  const body = { name: entry.path, caption: entry.text, confidence, existing };
  const { xmp: text, said } = await patiently(() => post("v1/xmp", body));
  return { text, said };
}

async function folderOf(folder, path, create) {
  const names = path.split("/");
  const file = names.pop();
  for (const name of names) folder = await folder.getDirectoryHandle(name, { create });
  return [folder, file];
}

/** The text of a file that is there, or null. */
async function read(folder, path) {
  try {
    const [own, name] = await folderOf(folder, path, false);
    return await textOf(await (await own.getFileHandle(name)).getFile());
  } catch (error) {
    if (error.name === "NotFoundError") return null;
    throw error;
  }
}

/** The text of a file, with the mark that may stand at its beginning; it must be UTF-8. */
export async function textOf(file) {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  try {
    return decoder.decode(await file.arrayBuffer());
  } catch (error) {
    if (error.name !== "TypeError") throw error;
    throw new Error(`${file.name} is no UTF-8 text. It is left as it is.`);
  }
}

/** Write it whole or not at all: the browser puts it in place when it is closed. */
async function write(folder, path, text) {
  const [own, name] = await folderOf(folder, path, true);
  const stream = await (await own.getFileHandle(name, { create: true })).createWritable();
  await stream.write(text);
  await stream.close();
}

function download(name, parts, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(parts, { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // it may still be being read
}
