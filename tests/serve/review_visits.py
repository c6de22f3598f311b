"""What is done in the review in a browser, step by step."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.serve.sample_photos import SAID

NAMES = ("a, b.png", 'q"uote.png', "ünï ☕.png", "=1.png", "sub/1.png", "sub/2.png", "sub/2.jpg")
ALL = len(SAID) + len(NAMES)
PASTED = "a rocket,\tready “to go”\n before dawn"  # it becomes one line
ROCKET = "a rocket, ready “to go” before dawn"
COFFEE, CAT = SAID["coffee.png"][1][1], SAID["chelsea.png"][1][0]
WOMAN = SAID["astronaut.png"][1][0]
FOCUSED = "document.activeElement.closest('article')?.getAttribute('aria-label')"
FIRST = "[...document.querySelectorAll('article textarea')].slice(0, 4).map((f) => f.value)"
MARKS = "[...document.querySelectorAll('article')].map((row) => row.dataset.mark)"
# The browser's own folder in place of one that a person chooses: the same interface.
CHOSEN = """window.showDirectoryPicker = async () =>
    (await navigator.storage.getDirectory()).getDirectoryHandle("holiday", { create: true })"""
THERE = """(async () => {
    const names = [];
    const look = async (folder, path) => {
      for await (const [name, own] of folder.entries()) {
        if (own.kind === "directory") await look(own, `${path}${name}/`);
        else names.push([path + name, await (await own.getFile()).text()]);
      }
    };
    await look(await window.showDirectoryPicker(), "");
    return Object.fromEntries(names);
  })()"""
# What a person wrote: of two photos, of which one is as in the review.
OTHERS = """(async () => {
    const folder = await window.showDirectoryPicker();
    for (const [name, text] of [["coffee.txt", "my cup\\n"], ["rocket.txt", "%s\\r\\n"]]) {
      const own = await (await folder.getFileHandle(name, { create: true })).createWritable();
      await own.write(text);
      await own.close();
    }
  })()"""
BUSY = """(() => {
    const form = document.querySelector("#review-save");
    const look = () => (window.busy ??= []).push(form.getAttribute("aria-busy"));
    new MutationObserver(look).observe(form, { attributeFilter: ["aria-busy"] });
  })()"""
ASKS = "!dispatchEvent(new Event('beforeunload', { cancelable: true }))"


class Visit:
    """Steps, of which some have a name to find again what they gave."""

    def __init__(self) -> None:
        self.steps: list[list[Any]] = []
        self._names: dict[str, int] = {}

    def do(self, *steps: Sequence[Any]) -> None:
        """Add them."""
        self.steps += map(list, steps)

    def ask(self, name: str, *step: Any) -> None:
        """Add one whose outcome counts."""
        self._names[name] = len(self.steps)
        self.steps.append(list(step))

    def press(self, *keys: str) -> None:
        """One after the other."""
        self.do(*(("press", key) for key in keys))

    def says(self, text: str) -> None:
        """Wait for what stands in the status line."""
        self.until(f"document.querySelector('#review-said').textContent.includes({text!r})")

    def until(self, so: str) -> None:
        """Wait for it."""
        self.do(("until", so))

    def told(self, given: list[Any]) -> dict[str, Any]:
        """What they gave."""
        return {name: given[place] for name, place in self._names.items()}


def editing(visit: Visit, holiday: Path) -> None:
    """By keyboard alone, from the folder on."""
    visit.do(("files", "#review-folder", [str(holiday)]))
    visit.until(f"document.querySelectorAll('article').length === {ALL}")
    visit.do(("focus", "#review-order"))
    visit.ask("names", "texts", "article .name")
    visit.press("Tab", "Tab", "Tab")
    visit.ask("reached", "value", FOCUSED)
    visit.press("Enter", "Control+a")
    visit.do(("type", PASTED))
    visit.press("Enter", "2", "j", "a", "Enter")
    visit.do(("type", " and a dog"))
    visit.press("Escape")
    visit.ask("edited", "value", FIRST)
    visit.ask("marks", "value", MARKS)
    visit.ask("count", "texts", "#review-count")
    visit.ask("restored", "value", FOCUSED)
    visit.press("u")
    visit.ask("undone", "value", FIRST)
    visit.ask("undone marks", "value", MARKS)
    visit.press("Control+z", "ArrowUp")
    visit.ask("undone twice", "value", FIRST)
    visit.ask("back", "value", FOCUSED)
    visit.press("r", "Control+y", "n")
    visit.ask("redone", "value", f"[{FIRST}, {MARKS}, {FOCUSED}]")


def changing(visit: Visit) -> None:
    """Of all captions at once."""
    texts = "[...document.querySelectorAll('article textarea')].map((field) => field.value)"
    visit.do(("focus", "#review-all summary"))
    visit.press("Enter", "Tab", "Tab")
    visit.do(("focus", "[name=find]"), ("type", "wall"))
    visit.press("Tab")
    visit.do(("type", "$& <b>brick"))
    visit.ask("would", "texts", "#review-replace output")
    visit.press("Enter")
    visit.ask("replaced", "value", texts)
    visit.do(("focus", "#review-undo"))
    visit.press("Control+z")
    visit.ask("put back", "value", texts)
    visit.press("Control+y")
    visit.do(("focus", "[name=prefix]"), ("type", "photo of "))
    visit.ask("would too", "texts", "#review-prefix output")
    visit.press("Enter")
    visit.ask("prefixed", "value", texts)
    visit.do(("focus", "#review-undo"))
    visit.press("Control+Shift+z", "Control+z")
    visit.do(("fill", "[name=prefix]", ""), ("fill", "[name=find]", ""))


def saving(visit: Visit, folder: Path) -> None:
    """In all forms."""
    visit.do(("click", "#review-files summary"))
    visit.ask("csv", "save", "#review-whole", str(folder / "captions.csv"))
    visit.do(("check", "[name=seen]"), ("choose", "#review-save select", "jsonl"))
    visit.ask("jsonl", "save", "#review-whole", str(folder / "captions.jsonl"))
    visit.do(("click", "[name=seen]"))
    for kind in ("txt", "xmp"):
        visit.do(("choose", "#review-save select", kind))
        visit.ask(kind, "save", "#review-whole", str(folder / f"{kind}.zip"))
    visit.says(f"Saved: {ALL} captions.")
    visit.do(("value", CHOSEN))
    for said in (f"Saved: {ALL} captions.", f"Left as they are: {ALL} captions."):
        visit.do(("value", "document.querySelector('#review-said').textContent = ''"))
        visit.do(("click", "#review-into"))
        visit.says(said)
    visit.ask("folder", "value", THERE)


def leaving(visit: Visit, folder: Path) -> None:
    """What did not get into a file, as another text is there, is not saved."""
    visit.ask("asks of saved", "value", ASKS)
    visit.do(("focus", "article[aria-label='holiday/coffee.png']"))
    visit.press("Enter", "Control+a")
    visit.do(("type", "cups"))
    visit.press("Enter")
    visit.do(("value", OTHERS % ROCKET), ("value", BUSY))
    for kind in ("txt", "xmp"):
        visit.do(("choose", "#review-save select", kind))
        visit.do(("value", "document.querySelector('#review-said').textContent = ''"))
        visit.do(("click", "#review-into"))
        visit.says("Saved: ")
        visit.until("!document.querySelector('#review-save').hasAttribute('aria-busy')")
        visit.ask(f"{kind} said", "texts", "#review-said")
        visit.ask(f"asks after {kind}", "value", ASKS)
    visit.ask("busy", "value", "window.busy")
    visit.do(("focus", "article[aria-label='holiday/coffee.png']"))
    visit.press("u")
    visit.do(("choose", "#review-save select", "csv"))
    visit.do(("save", "#review-whole", str(folder / "again.csv")))
    visit.ask("asks at last", "value", ASKS)


def coming_again(visit: Visit, holiday: Path) -> None:
    """What has been saved may go; what has not is asked for, and found again."""
    again = [("reload",), ("drop", [str(holiday)])]
    there = f"document.querySelectorAll('article').length === {ALL}"
    visit.do(("focus", "article[aria-label='holiday/chelsea.png']"))
    visit.press("Enter")
    visit.do(("type", " at sea"))  # the field is not left
    visit.ask(
        "draft",
        "value",
        "sessionStorage.getItem(Object.keys(sessionStorage).find((key) => "
        "key.startsWith('naic-review:holiday/chelsea.png')))",
    )
    visit.do(*again)
    visit.until(there)
    visit.ask("found again", "value", f"[{FIRST}, {MARKS}]")
    visit.ask("dropped", "texts", "article .name")
