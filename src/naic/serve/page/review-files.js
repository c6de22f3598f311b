// Many small files as one: their names made safe, and a zip archive of them.

const LONGEST = 200; // bytes of a name: file systems take 255, and a copy may be given a longer one
const MOST_FILES = 0xffff; // more would take another kind of archive
const MOST_BYTES = 0xffffffff;
const DEVICES = /^(con|prn|aux|nul|com\d|lpt\d)(\.|$)/i; // no files on Windows, whatever follows
const encoder = new TextEncoder();

/** A path that leads to no other folder than the one it is unpacked in, on any system. */
export function safePath(path) {
  const parts = path.split(/[/\\]/).map(safeName).filter(Boolean);
  return parts.join("/") || "photo";
}

function safeName(name) {
  const drive = /^([a-z]):/i; // Windows would go there
  const plain = name.replace(/[\p{Cc}\p{Cs}]/gu, "_").replace(/^ +|[. ]+$/g, "").replace(drive, "$1_");
  return shortened(DEVICES.test(plain) ? `_${plain}` : plain);
}

/** A long name cut before its suffix. */
function shortened(name) {
  if (encoder.encode(name).length <= LONGEST) return name;
  const [, start, suffix] = /^(.*?)((?:\.\w{1,8}){0,2})$/su.exec(name);
  let [length, kept] = [encoder.encode(suffix).length, ""];
  for (const letter of start) {
    length += encoder.encode(letter).length;
    if (length > LONGEST) break;
    kept += letter;
  }
  return kept.trimEnd() + suffix;
}

/** A photo's name without what says that it is a JPEG, as naic takes it off. */
export function withoutSuffix(path) {
  return path.replace(/(?<=[^/])\.[^./]*$/, "");
}

/**
 * For each photo the name of the file beside it: `photo.txt` of `photo.jpg`; of photos that differ
 * in nothing but the suffix `photo.jpg.txt` and `photo.png.txt`; and of two of one name a number.
 */
export function besides(paths, suffix) {
  const fold = (text) => text.normalize("NFC").toLowerCase();
  const stems = new Map();
  for (const path of new Set(paths.map(fold))) {
    const stem = withoutSuffix(path);
    stems.set(stem, (stems.get(stem) ?? 0) + 1);
  }
  const taken = new Set();
  return paths.map((path) => {
    const shared = stems.get(withoutSuffix(fold(path))) > 1;
    const base = safePath(shared ? path : withoutSuffix(path));
    for (let number = 1; ; number++) {
      const name = `${base}${number > 1 ? ` (${number})` : ""}${suffix}`;
      if (taken.has(fold(name))) continue;
      taken.add(fold(name));
      return name;
    }
  });
}

const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  for (let bit = 0; bit < 8; bit++) byte = byte & 1 ? 0xedb88320 ^ (byte >>> 1) : byte >>> 1;
  return byte;
});

/** The checksum that archives carry. */
export function crc32(bytes) {
  let sum = 0xffffffff;
  for (const byte of bytes) sum = TABLE[(sum ^ byte) & 0xff] ^ (sum >>> 8);
  return (sum ^ 0xffffffff) >>> 0;
}

/**
 * A zip archive of texts, as parts for a Blob; nothing is compressed, for captions are short.
 *
 * @param {[string, string][]} files names and texts.
 * @param {Date} date of all of them.
 */
export function zip(files, date = new Date()) {
  if (files.length > MOST_FILES) throw new Error(`An archive holds ${MOST_FILES} files at most.`);
  const [parts, index] = [[], []];
  let place = 0;
  for (const [path, text] of files) {
    const [name, content] = [encoder.encode(path), encoder.encode(text)];
    const about = header(name, content, date);
    parts.push(record(0x04034b50, [[20, 2]], about), name, content);
    // Made on Unix, where a file can be read by all and written by its owner.
    const more = [[0, 2], [0, 2], [0, 2], [0o100644 * 0x10000, 4], [place, 4]];
    index.push(record(0x02014b50, [[0x0314, 2], [20, 2]], [...about, ...more]), name);
    place += 30 + name.length + content.length;
  }
  const size = index.reduce((sum, part) => sum + part.length, 0);
  if (place + size > MOST_BYTES) throw new Error("The captions are too long for one archive.");
  const count = [files.length, 2];
  const end = [[0, 2], [0, 2], count, count, [size, 4], [place, 4], [0, 2]];
  return [...parts, ...index, record(0x06054b50, [], end)];
}

/** What both a file's own record and the index say of it: UTF-8 names, stored, when, how long. */
function header(name, content, date) {
  const time = (date.getHours() << 11) | (date.getMinutes() << 5) | (date.getSeconds() >> 1);
  const years = Math.min(127, Math.max(0, date.getFullYear() - 1980));
  const day = (years << 9) | ((date.getMonth() + 1) << 5) | date.getDate();
  const sizes = [[crc32(content), 4], [content.length, 4], [content.length, 4]];
  return [[0x0800, 2], [0, 2], [time, 2], [day, 2], ...sizes, [name.length, 2], [0, 2]];
}

/** Numbers of so many bytes each, the lowest byte first. */
function record(signature, ...groups) {
  const fields = [[signature, 4], ...groups.flat()];
  const bytes = fields.flatMap(([value, length]) =>
    Array.from({ length }, (_, i) => Math.floor(value / 256 ** i) % 256),
  );
  return Uint8Array.from(bytes);
}
