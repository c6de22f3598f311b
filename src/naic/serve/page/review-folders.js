// Photos of whole folders, each with its path from the folder that was given.

const paths = new WeakMap(); // of files that were found in a folder that was dropped
const IMAGE = /\.(jpe?g|jpe|jfif|mpo|a?png|webp|gif|bmp|dib|tiff?|p[pgbnf]m|avifs?)$/i;

/** XMP files that lay beside photos, by their paths. */
export const sidecars = new Map();

/** Where a photo lies in the folder that was given, and else its name. */
export const pathOf = (file) => paths.get(file) || file.webkitRelativePath || file.name;

/** Of a folder's files those to caption; what is hidden, and what is no image, is passed over. */
export function photosAmong(files) {
  const found = [];
  for (const file of files) {
    const path = pathOf(file);
    if (/(^|\/)\./.test(path)) continue;
    if (/\.xmp$/i.test(path)) sidecars.set(path, file);
    else if (IMAGE.test(path)) found.push(file);
  }
  return found;
}

/** What was dropped, as files: folders with all that is in them. */
export async function dropped({ items, files }) {
  // They are gone when the event is over: all are asked for before anything is waited for.
  const entries = [...items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.some((entry) => entry.isDirectory)) return [...files];
  const found = [];
  // What cannot be read, such as a folder without permission, does not keep the others away.
  for (const entry of entries) await gather(entry, found).catch(() => {});
  return photosAmong(found);
}

async function gather(entry, found) {
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
    paths.set(file, entry.fullPath.replace(/^\//, ""));
    found.push(file);
    return;
  }
  const reader = entry.createReader();
  const inside = [];
  for (;;) {
    // A browser gives a hundred at a time.
    const more = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!more.length) break;
    inside.push(...more);
  }
  inside.sort((a, b) => (a.name < b.name ? -1 : 1));
  for (const own of inside) await gather(own, found).catch(() => {});
}
