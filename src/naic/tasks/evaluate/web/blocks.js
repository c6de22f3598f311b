// A long list of which only what is near the screen is in the page. The rest is empty blocks, as
// high as they were or will be: the scrollbar tells the truth, and what is drawn for a search is
// as little for ten thousand rows as for ten.

const SIZE = 20; // rows in a block
const NEAR = "1200px 0px"; // what is so near is drawn before it is seen

/** The rows of `list`, made by `draw(row, place)`; `changed` is called when some came or went. */
export function createBlocks(list, draw, changed) {
  let rows = [];
  let blocks = [];
  let height = 0; // of a row, as far as is known
  let width = 0;
  const numbers = new WeakMap();
  const watch = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) (isIntersecting ? fill : clear)(target);
      changed();
    },
    { rootMargin: NEAR },
  );

  function fill(block) {
    if (block.firstChild) return;
    const first = numbers.get(block) * SIZE;
    block.append(...rows.slice(first, first + SIZE).map((row, i) => draw(row, first + i)));
    block.style.height = "";
  }

  function clear(block) {
    if (!block.firstChild || block.contains(document.activeElement)) return;
    block.style.height = `${block.offsetHeight}px`;
    block.replaceChildren();
  }

  function guess() {
    const full = blocks.find((block) => block.firstChild);
    if (full) height = full.offsetHeight / full.childElementCount;
    blocks.forEach((block, i) => {
      const count = Math.min(SIZE, rows.length - i * SIZE);
      if (!block.firstChild) block.style.height = `${height * count}px`;
    });
  }

  function show(chosen) {
    watch.disconnect();
    rows = chosen;
    blocks = Array.from({ length: Math.ceil(rows.length / SIZE) }, (_, number) => {
      const block = document.createElement("div");
      numbers.set(block, number);
      return block;
    });
    if (blocks.length) fill(blocks[0]);
    list.replaceChildren(...blocks);
    guess();
    for (const block of blocks) watch.observe(block);
    changed();
  }

  /** Put the focus on the row at this place of the list. */
  function focus(place) {
    if (!rows.length) return;
    const at = Math.max(0, Math.min(rows.length - 1, place));
    const block = blocks[Math.floor(at / SIZE)];
    fill(block);
    const row = block.children[at % SIZE];
    row.focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
    changed();
  }

  new ResizeObserver(() => {
    if (list.offsetWidth === width) return;
    width = list.offsetWidth;
    guess();
  }).observe(list);
  return { show, focus };
}
