"""The review in a real browser: by keyboard, and what is saved of it.

With NAIC_SCREENS=docs the picture in the documentation is made anew.
"""

import json
import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

from naic.tasks.caption.metadata.mark import ALT_TEXT, DESCRIPTION
from naic.tasks.caption.metadata.sidecar import held
from naic.tasks.finetune.plan import FinetuneOptions, make_plan, read_own_captions
from naic.text import Vocabulary
from naic.text.vocabulary import SPECIAL
from tests.chromium import drive, find_tools
from tests.serve.review_visits import (
    ALL,
    CAT,
    COFFEE,
    NAMES,
    ROCKET,
    WOMAN,
    Visit,
    changing,
    coming_again,
    editing,
    leaving,
    saving,
)
from tests.serve.sample_photos import FOLDER, SAID, Knowing
from tests.serve.standing import photo, serving
from tests.tasks.caption.metadata.packets import LIGHTROOM

pytestmark = pytest.mark.slow


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
    leaving(visit, holiday.parent)
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


def test_what_another_text_kept_out_is_not_saved(seen: tuple[dict[str, Any], Any]) -> None:
    told, _ = seen
    assert told["txt said"] == [
        f"Saved: {ALL - 2} captions. Left as they are: 1 caption. "
        "Not saved, as another text is there: 1 caption."
    ]
    (xmp,) = told["xmp said"]
    assert xmp.endswith("Not saved, as another text is there: 1 caption.")
    assert [told[f"asks {when}"] for when in ("of saved", "after txt", "after xmp", "at last")] == [
        *(False, True, True, False)
    ]
    assert told["busy"] == ["true", None] * 2


def test_a_reload_loses_nothing(seen: tuple[dict[str, Any], Any]) -> None:
    told, found = seen
    assert found["asked"] == ["beforeunload"]
    texts, marks = told["found again"]
    assert texts == [*told["edited"][:3], f"{CAT} at sea"]
    assert marks[:4] == ["edited", "edited", "accepted", "edited"]
    assert json.loads(told["draft"]) == {"text": texts[3], "seen": True}
    assert {*told["dropped"]} == {*told["names"]}


def test_for_everybody_and_from_nowhere_else(seen: tuple[dict[str, Any], Any]) -> None:
    told, found = seen
    assert [given for name, given in told.items() if name.startswith("axe")] == [[]] * 2
    assert all(given <= 0 for name, given in told.items() if name.startswith("wider"))
    assert found["console"] == []
    own = (found["url"] + "/", "blob:" + found["url"] + "/")
    assert [url for url in found["requests"] if not url.startswith(own)] == []
