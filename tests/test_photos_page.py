"""docs/results/photos.md: verdicts are of captions, and come to the models by the key."""

import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from benchmarks.photo_sheet import SHEET, Entry, entries, write_key, write_sheet

ROOT = Path(__file__).parent.parent
PAGE: Callable[[Path, Path], str] = runpy.run_path(str(ROOT / "docs/results/photos_page.py"))[
    "photos"
]
SOURCE = """[[sources]]
name = "somewhere"
repository = "some/where"
commit = "c0ffee"
folder = "in here"
licences = "its README"
"""
NUMBER = 42
Runs = dict[str, dict[str, Any]]
Answer = tuple[str, str]  # main, false


def make_runs(same: int = 2) -> Runs:
    """Two models that agree on the first photographs."""
    names = [f"photo-{number}" for number in range(NUMBER)]
    runs = {}
    for who in ("old", "new"):
        said = [
            {"id": name, "caption": f"a | of {name}" + (f" by {who}" if i >= same else "")}
            for i, name in enumerate(names)
        ]
        about = {"command": f"python {who}", "naic": "1.2.3", "model_sha256": who * 32}
        runs[who] = {**about, "photos": said}
    return runs


def write(folder: Path, answer: Callable[[Entry], Answer], runs: Runs | None = None) -> str:
    """The page, of a sheet that was filled in so."""
    asked = entries(make_runs(), seed=1)
    write_key(asked, make_runs(), 1, folder / "key.json")
    tables = ['judge = "A judge who saw nothing else."\n']
    for own in asked:
        main, false = answer(own)
        tables.append(
            f"[[entries]]\nnumber = {own.number}\ncaption = {json.dumps(own.caption)}\n"
            f'main = "{main}"\nfalse = "{false}"\nreason = "{main and "Because."}"\n'
        )
    (folder / "judgements.toml").write_text("\n".join(tables), encoding="utf-8")
    return write_page(folder, runs or make_runs())


def write_page(folder: Path, runs: Runs) -> str:
    listed = [
        f'[[photos]]\nid = "{photo["id"]}"\nsource = "somewhere"\nfile = "{photo["id"]} |.jpg"\n'
        f'author = "me"\nlicence = "CC0-1.0"\nmain = "thing {photo["id"]}"\n'
        for photo in runs["new"]["photos"]
    ]
    (folder / "photos.toml").write_text("\n".join([SOURCE, *listed]), encoding="utf-8")
    for who, name in (("old", "photos-before.json"), ("new", "photos.json")):
        (folder / name).write_text(json.dumps(runs[who]), encoding="utf-8")
    return PAGE(folder, folder)


def by_number(main: dict[str, int], clean: dict[str, int]) -> Callable[[Entry], Answer]:
    """Right, and nothing false, in the first so many of each model."""

    def answer(own: Entry) -> Answer:
        number, who = int(own.photo.removeprefix("photo-")), own.by[0]
        right, false = number < main[who], number >= clean[who]
        return ("right" if right else "wrong", "a clock" if false else "")

    return answer


def test_each_model_gets_the_verdicts_of_its_own_captions(tmp_path: Path) -> None:
    page = write(tmp_path, by_number({"old": 30, "new": 40}, {"old": 10, "new": 20}))
    assert page.startswith("# 42 photographs from elsewhere\n")
    assert "A judge who saw nothing else.\n" in page
    assert "| the main thing is right | 30 | 40 |\n| nothing is false | 10 | 20 |\n" in page
    assert "| both | 10 | 20 |\n" in page
    assert "not judged" not in page
    link = "https://github.com/some/where/blob/c0ffee/in%20here"
    assert (
        f"| [photo-15]({link}/photo-15%20%7C.jpg) | thing photo-15 "
        "| a \\| of photo-15 by old | right, false: a clock. Because. "
        "| a \\| of photo-15 by new | right, nothing false. Because. | CC0-1.0, me |\n"
    ) in page
    assert (
        "| a \\| of photo-0 | right, nothing false. Because. | a \\| of photo-0 | right, " in page
    )


@pytest.mark.parametrize(
    ("main", "old", "new", "held"),
    [
        (38, 10, 20, ("reached", "reached")),
        (37, 10, 19, ("**missed**", "**missed**")),
        (42, 30, 34, ("reached", "reached")),
    ],
)
def test_the_targets(main: int, old: int, new: int, held: tuple[str, str], tmp_path: Path) -> None:
    page = write(tmp_path, by_number({"old": 36, "new": main}, {"old": old, "new": new}))
    assert f"| the main thing is right in at least 38 | {main} | {held[0]} |" in page
    assert f"| {new}, and {old} with the old | {held[1]} |" in page


def test_a_sheet_that_is_half_filled_in_has_no_targets(tmp_path: Path) -> None:
    page = write(tmp_path, lambda own: ("right", "") if own.by == ("new",) else ("", ""))
    assert "| not judged | 42 | 2 |" in page
    assert "set beforehand" not in page


def test_without_a_sheet_there_are_captions_alone(tmp_path: Path) -> None:
    page = write_page(tmp_path, make_runs())
    assert "Nobody has judged these captions yet." in page
    assert "the main thing is right" not in page
    assert "| a \\| of photo-3 by old | not judged | a \\| of photo-3 by new | not judged |" in page


def test_a_verdict_falls_when_the_model_says_something_else(tmp_path: Path) -> None:
    runs = make_runs()
    runs["new"]["photos"][1]["caption"] = "a dog"
    page = write(tmp_path, lambda _: ("right", ""), runs)
    assert "| not judged | 0 | 1 |" in page
    assert "| a dog | not judged |" in page


def test_the_earlier_judge_is_told(tmp_path: Path) -> None:
    write(tmp_path, by_number({"old": 30, "new": 40}, {"old": 10, "new": 20}))
    for name in ("judgements.toml", "key.json"):
        path = tmp_path / name
        path.rename(path.with_stem(f"{path.stem}-before"))
    runs, earlier = make_runs(), make_runs()
    runs["old"] = earlier["new"]  # what was new then is old now
    (tmp_path / "photos-earlier.json").write_text(json.dumps(earlier["old"]), encoding="utf-8")
    page = " ".join(write_page(tmp_path, runs).split())
    assert "Nobody has judged these captions yet." in page
    assert "right in 40 of the old model's captions and nothing false in 20; " in page
    assert "of the one before that, in 30 and 10." in page


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (('main = "right"', 'main = "rihgt"'), r"1: 'rihgt'"),
        (('reason = "Because."', 'reason = ""'), "1: there is no reason"),
        (('main = "right"\nfalse = ""', 'main = ""\nfalse = "a dog"'), "1: `main` is not filled"),
        (("number = 1\n", "number = 1000\n"), "key.json has no entry 1000"),
    ],
)
def test_a_slip_of_the_judge_is_named(change: tuple[str, str], why: str, tmp_path: Path) -> None:
    write(tmp_path, lambda _: ("right", ""))
    sheet = tmp_path / "judgements.toml"
    sheet.write_text(sheet.read_text("utf-8").replace(*change, 1), encoding="utf-8")
    with pytest.raises(ValueError, match=why):
        write_page(tmp_path, make_runs())


def test_the_check_against_coco_is_told(tmp_path: Path) -> None:
    assert "Not in COCO" not in write_page(tmp_path, make_runs())
    bits = {"copied": {"photo-1": 4, "photo-2": 23}, "nearest": {"photo-1": 70, "photo-2": 35}}
    found = {"images": 116287, "bits": 256, **bits}
    (tmp_path / "photo-copies.json").write_text(json.dumps(found), encoding="utf-8")
    page = " ".join(write_page(tmp_path, make_runs()).split())
    assert "the 116,287 images" in page
    assert "at most 23 bits; the nearest image of COCO differs in 35." in page


def test_the_sheet_tells_nothing_of_models_and_names(tmp_path: Path) -> None:
    asked = entries(make_runs(), seed=1)
    assert len(asked) == 2 * NUMBER - 2
    assert asked == entries(make_runs(), seed=1) != entries(make_runs(), seed=2)
    assert sum(own.by == ("old", "new") for own in asked) == 2
    (tmp_path / "elephant.jpg").write_bytes(b"pixels")
    plain = [Entry(own.number, own.photo, own.by, "a thing") for own in asked]
    files = {own.photo: tmp_path / "elephant.jpg" for own in asked}
    write_sheet(plain, files, tmp_path / "out")
    sheet = (tmp_path / "out" / SHEET).read_text("utf-8")
    assert not any(word in sheet for word in ("old", "new", "photo-", "elephant"))
    assert len(list((tmp_path / "out/photos").iterdir())) == NUMBER
