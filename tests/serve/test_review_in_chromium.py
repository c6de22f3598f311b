"""The review in a real browser: by keyboard, and what is saved of it.

With NAIC_SCREENS=docs the picture in the documentation is made anew.
"""

import json
import os
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from naic.tasks.caption.metadata.mark import ALT_TEXT, DESCRIPTION
from naic.tasks.caption.metadata.sidecar import held
from naic.tasks.finetune.plan import FinetuneOptions, make_plan, read_own_captions
from naic.text import Vocabulary
from naic.text.vocabulary import SPECIAL
from tests.chromium import drive, find_tools
from tests.serve.sample_photos import FOLDER, SAID, Knowing
from tests.serve.standing import photo, serving
from tests.tasks.caption.metadata.packets import LIGHTROOM

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

pytestmark = pytest.mark.slow


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


@pytest.fixture(scope="module")
def holiday(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of photos, and of what lies about in such folders."""
    folder = tmp_path_factory.mktemp("review") / "holiday"
    (folder / "sub").mkdir(parents=True)
    for name in SAID:
        shutil.copy(FOLDER / name, folder)
    for number, name in enumerate(NAMES):
        (folder / name).write_bytes(photo(250 - 9 * number, 40, 40 + 20 * number))
    (folder / "coffee.xmp").write_bytes(LIGHTROOM)
    (folder / "notes.txt").write_text("no photo")
    (folder / ".hidden.png").write_bytes(photo(1))
    return folder


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


def coming_again(visit: Visit, holiday: Path) -> None:
    """What has been saved may go; what has not is asked for, and found again."""
    again = [("reload",), ("drop", [str(holiday)])]
    there = f"document.querySelectorAll('article').length === {ALL}"
    visit.do(("focus", "article[aria-label='holiday/chelsea.png']"))
    visit.press("a")
    visit.do(*again)
    visit.until(there)
    visit.ask("found again", "value", f"[{FIRST}, {MARKS}]")
    visit.ask("dropped", "texts", "article .name")


@pytest.fixture(scope="module")
def seen(holiday: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the visit gave by name, and what the browser told."""
    tools = find_tools()
    axe = ["axe", str(tools[0] / "axe-core" / "axe.min.js")]
    screens = Path(os.environ.get("NAIC_SCREENS", holiday.parent)).absolute()
    visit = Visit()
    editing(visit, holiday)
    visit.do(["value", "scrollTo(0, 0)"])
    visit.do(["screen", str(screens / "serve-review.png"), 1040, "light", 700])
    changing(visit)
    saving(visit, holiday.parent)
    for width, scheme in ((1280, "light"), (360, "dark")):
        visit.do(["screen", str(holiday.parent / f"{width}-{scheme}.png"), width, scheme])
        visit.ask(f"wider {width} {scheme}", "value", "document.body.scrollWidth - innerWidth")
        visit.ask(f"axe {width} {scheme}", *axe)
    coming_again(visit, holiday)
    with serving(Knowing()) as server:
        one = {"url": f"{server.url}/#review", "steps": visit.steps}
        found = drive(tools, visits=[one], patience=30_000)
    found["url"] = server.url
    return visit.told(found["steps"][0]), found


def test_edited_undone_and_done_again_by_keyboard(seen: tuple[dict[str, Any], Any]) -> None:
    told, _ = seen
    assert told["names"][:4] == [f"holiday/{name}" for name in SAID]
    assert set(told["names"][4:]) == {f"holiday/{name}" for name in NAMES}
    assert told["reached"] == "holiday/rocket.jpg"
    after, left = [ROCKET, COFFEE, WOMAN, CAT], ["left"] * len(NAMES)
    assert told["edited"] == after
    assert told["marks"] == ["edited", "edited", "accepted", "left", *left]
    assert told["count"] == [f"{ALL - 3} of {ALL} not reviewed · 1 accepted · 2 edited"]
    assert told["restored"] == "holiday/chelsea.png"
    assert told["undone"] == after
    assert told["undone marks"] == ["edited", "edited", "left", "left", *left]
    assert told["undone twice"] == [ROCKET, SAID["coffee.png"][1][0], WOMAN, CAT]
    assert told["back"] == "holiday/rocket.jpg"
    assert told["redone"] == [after, told["marks"], "holiday/chelsea.png"]


def test_all_at_once_is_one_step(seen: tuple[dict[str, Any], Any]) -> None:
    told, _ = seen
    before = told["put back"]
    assert before[:4] == told["edited"]
    assert told["replaced"] == [text.replace("wall", "$& <b>brick") for text in before]
    (would,) = told["would"]
    assert would.startswith(f"Would change {len(NAMES)} captions, such as “a $& <b>brick of colour")
    assert told["would too"][0].startswith(f"Would change {ALL} captions, such as “photo of a ")
    assert told["prefixed"] == [f"photo of {text}" for text in told["replaced"]]


def test_finetune_reads_the_csv(seen: tuple[dict[str, Any], Any], holiday: Path) -> None:
    told, _ = seen
    assert told["csv"] == "captions.csv"
    options = FinetuneOptions(str(holiday.parent / "captions.csv"), holiday.parent / "runs")
    plan = make_plan(options, read_own_captions(options), Vocabulary(SPECIAL))
    found = {record.image.name: record.captions for record in plan.reading.records}
    expected = dict(zip(told["names"], told["replaced"], strict=True))
    assert found == {str(holiday.parent / name): (text,) for name, text in expected.items()}
    assert (plan.learnt_from, plan.held_out, plan.problems) == (ALL - 2, 2, [])


def test_other_forms(seen: tuple[dict[str, Any], Any], holiday: Path) -> None:
    told, _ = seen
    expected = dict(zip(told["names"], told["replaced"], strict=True))
    lines = (holiday.parent / "captions.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert [(row["path"], row["caption"]) for row in rows] == sorted([*expected.items()][:3])
    assert [row["review"] for row in rows] == ["accepted", "edited", "edited"]
    with zipfile.ZipFile(holiday.parent / "txt.zip") as archive:
        texts = {name: archive.read(name).decode() for name in archive.namelist()}
    assert texts["holiday/a, b.txt"] == expected["holiday/a, b.png"] + "\n"
    assert texts["holiday/sub/2.jpg.txt"] == expected["holiday/sub/2.jpg"] + "\n"
    assert len(texts) == ALL


def test_xmp_files_keep_what_a_person_wrote(
    seen: tuple[dict[str, Any], Any], holiday: Path
) -> None:
    told, _ = seen
    with zipfile.ZipFile(holiday.parent / "xmp.zip") as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    coffee, woman = (held(files[f"holiday/{name}.xmp"], name) for name in ("coffee", "astronaut"))
    assert coffee.texts == {DESCRIPTION: "Ours & theirs", ALT_TEXT: COFFEE}
    assert coffee.mark is None  # it is a person's now
    assert woman.texts == {DESCRIPTION: WOMAN, ALT_TEXT: WOMAN}
    assert woman.mark is not None
    assert woman.mark.confidence == "0.6233"
    names = {name.removeprefix("holiday/") for name in files}
    assert {*told["folder"]} == names  # the folder that was chosen is the one that they begin with
    assert held(told["folder"]["coffee.xmp"].encode(), "x").texts[DESCRIPTION] == COFFEE


def test_a_reload_loses_nothing(seen: tuple[dict[str, Any], Any]) -> None:
    told, found = seen
    assert found["asked"] == ["beforeunload"]
    texts, marks = told["found again"]
    assert texts == told["edited"]
    assert marks[:4] == ["edited", "edited", "accepted", "accepted"]
    assert {*told["dropped"]} == {*told["names"]}


def test_for_everybody_and_from_nowhere_else(seen: tuple[dict[str, Any], Any]) -> None:
    told, found = seen
    assert [given for name, given in told.items() if name.startswith("axe")] == [[]] * 2
    assert all(given <= 0 for name, given in told.items() if name.startswith("wider"))
    assert found["console"] == []
    own = (found["url"] + "/", "blob:" + found["url"] + "/")
    assert [url for url in found["requests"] if not url.startswith(own)] == []
