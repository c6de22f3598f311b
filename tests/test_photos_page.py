"""docs/results/photos.md: a verdict is of a caption, and only what counts is counted."""

import json
import runpy
from collections.abc import Callable
from pathlib import Path

import pytest

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
NUMBER = 24


def write(folder: Path, verdicts: dict[int, str], more: str = "") -> str:
    """The page of 24 photographs that count and two that do not, with these verdicts."""
    ids = [f"photo-{number}" for number in range(NUMBER + 2)]
    listed = [
        f'[[photos]]\nid = "{name}"\nsource = "somewhere"\nfile = "{name} |.jpg"\nauthor = "me"\n'
        f'licence = "CC0-1.0"\nmain = "thing {name}"\n'
        for name in ids
    ]
    (folder / "photos.toml").write_text("\n".join([SOURCE, *listed]), encoding="utf-8")
    said = [
        {"id": name, "counts": number < NUMBER, "caption": f"a | of {name}", "words": []}
        for number, name in enumerate(ids)
    ]
    run = {"command": "python it", "naic": "1.2.3", "model_sha256": "ab" * 32, "photos": said}
    (folder / "photos.json").write_text(json.dumps(run), encoding="utf-8")
    tables = [
        f'[photo-{number}]\ncaption = "a | of photo-{number}"\nverdict = "{verdict}"\n'
        f'note = "note {number}"\n'
        for number, verdict in verdicts.items()
    ]
    (folder / "judgements.toml").write_text("\n".join([*tables, more]), encoding="utf-8")
    return PAGE(folder, folder)


def test_each_photograph_has_its_link_caption_and_verdict(tmp_path: Path) -> None:
    page = write(tmp_path, {0: "right", 1: "wrong", 2: ""})
    link = "https://github.com/some/where/blob/c0ffee/in%20here"
    assert (
        f"| [photo-0]({link}/photo-0%20%7C.jpg) | thing photo-0 | a \\| of photo-0 "
        "| right: note 0 | CC0-1.0, me |\n"
    ) in page
    assert "| a \\| of photo-1 | wrong: note 1 |" in page
    assert "| a \\| of photo-2 | not judged |" in page
    assert "| a \\| of photo-3 | not judged |" in page
    assert page.startswith("# 24 photographs from elsewhere\n")
    assert page.index("photo-23]") < page.index("## The others") < page.index("photo-24]")


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        (18, 0, "right in 18 of 24.** At least 18 were asked for: reached."),
        (17, 7, "right in 17 of 24.** At least 18 were asked for: **missed**."),
        (17, 6, "right in 17 of 24.** At least 18 were asked for; 1 are not judged."),
        (0, 0, "right in 0 of 24.** At least 18 were asked for; 24 are not judged."),
    ],
)
def test_the_total(right: int, wrong: int, said: str, tmp_path: Path) -> None:
    verdicts = dict.fromkeys(range(right), "right")
    verdicts |= dict.fromkeys(range(right, right + wrong), "wrong")
    assert said in write(tmp_path, verdicts)


def test_those_that_do_not_count_are_not_counted(tmp_path: Path) -> None:
    page = write(tmp_path, {NUMBER: "right", NUMBER + 1: "right"})
    assert "right in 0 of 24" in page
    assert f"right: note {NUMBER + 1}" in page


def test_a_verdict_falls_when_the_model_says_something_else(tmp_path: Path) -> None:
    old = '[photo-5]\ncaption = "a dog"\nverdict = "right"\nnote = "of old"\n'
    page = write(tmp_path, {}, more=old)
    assert "right in 0 of 24" in page
    assert "of old" not in page


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ('[photo-5]\ncaption = "a | of photo-5"\nverdict = "rihgt"\n', "photo-5: 'rihgt'"),
        ('[foto-5]\ncaption = ""\nverdict = "right"\n', "there is no photograph foto-5"),
    ],
)
def test_a_slip_of_the_judge_is_named(table: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=why):
        write(tmp_path, {}, more=table)


def test_the_check_against_coco_is_told(tmp_path: Path) -> None:
    assert "Not in COCO" not in write(tmp_path, {})
    bits = {"copied": {"photo-1": 4, "photo-2": 23}, "nearest": {"photo-1": 70, "photo-2": 35}}
    found = {"images": 116287, "bits": 256, **bits}
    (tmp_path / "photo-copies.json").write_text(json.dumps(found), encoding="utf-8")
    page = " ".join(write(tmp_path, {}).split())
    assert "the 116,287 images" in page
    assert "at most 23 bits; the nearest image of COCO differs in 35." in page
