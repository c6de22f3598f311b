"""The page of captions in a real browser: rows, order, keys, pictures, and nothing from outside."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks.web_page import served

from naic.data.shapes import dataset
from naic.tasks.evaluate.options import EvaluateOptions
from naic.tasks.evaluate.report import write_reports
from naic.tasks.evaluate.run import Evaluation, evaluate
from tests import chromium
from tests.chromium import find_tools
from tests.tasks.evaluate.evaluations import first_captions, write_results

SCENES = 300
EVIL = (
    "a a <script>hacked = 1</script><img src=x onerror=hacked=1><!-- \u2028 </script> \u202e with"
)
Drive = Callable[[Path, list[list[Any]]], dict[str, Any]]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def tools() -> tuple[Path, str]:
    return find_tools()


@pytest.fixture
def drive(tools: tuple[Path, str]) -> Drive:
    return lambda page, steps: chromium.drive(tools, page=str(page), steps=steps)


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., tuple[Path, Evaluation]]:
    """A page of two systems, one of which says what no page should obey."""
    said = first_captions(SCENES)
    ids = list(said)
    turned = dict(zip(ids, [*list(said.values())[1:], "a red red circle with"], strict=True))
    turned[ids[0]] = EVIL
    (tmp_path / "photos").mkdir()
    for record in dataset.records(60):
        record.image.load().save(tmp_path / "photos" / f"{record.id}.png")
    options = EvaluateOptions(
        write_results(tmp_path / "turned.json", turned),
        str(SCENES),
        fast=True,
        bootstrap=100,
        against=write_results(tmp_path / "own.json", said),
        html=tmp_path / "page.html",
    )

    def make(**more: Any) -> tuple[Path, Evaluation]:
        own = replace(options, **more)
        evaluation = evaluate(own)
        write_reports(evaluation, own)
        assert own.html is not None
        return own.html, evaluation

    return make


def worst_first(evaluation: Evaluation) -> list[int]:
    scores = (100 * evaluation.system.scores["CIDEr"].per_image).round(2).tolist()
    return sorted(range(SCENES), key=lambda row: (scores[row], row))


def test_rows_filter_order_and_keys(
    made: Callable[..., tuple[Path, Evaluation]], drive: Drive, tmp_path: Path
) -> None:
    page, evaluation = made(images=(tmp_path / "photos",))
    ids = [image.id for image in evaluation.images]
    place = "document.activeElement.getAttribute('aria-posinset')"
    (tmp_path / "photos" / f"{ids[0]}.png").unlink()  # the page is there, a picture is gone
    with served(tmp_path) as address:
        steps: list[list[Any]] = [
            ["texts", "article h2"],
            ["texts", "#count"],
            ["fill", "#text", "script"],
            ["texts", "article bdi"],
            ["texts", "article .picture"],
            ["fill", "#text", "no such word"],
            ["texts", "#count"],
            ["fill", "#text", ""],
            ["check", "#marks input[value=repeat]"],
            ["texts", "article h2"],
            ["texts", "mark.repeat"],
            ["choose", "#who", "1"],
            ["texts", "#count"],
            ["choose", "#who", ""],
            ["value", "document.querySelector('#marks input').click()"],
            ["choose", "#of", "0 1"],
            ["choose", "#order", "best"],
            ["texts", ".apart"],
            ["choose", "#by", ""],
            ["texts", "article h2"],
            ["focus", "article"],
            ["press", "End"],
            ["value", place],
            ["press", "k"],
            ["value", place],
            ["press", "Home"],
            ["press", "j"],
            ["value", place],
            ["value", "document.querySelectorAll('article').length"],
            ["press", "/"],
            ["value", "document.activeElement.id"],
            ["value", "typeof hacked"],
            ["value", f"fetch({address!r}, {{mode: 'no-cors'}}).then(() => 'out', () => 'held')"],
            ["value", "document.body.append(Object.assign(document.createElement('script'),"
             " {text: 'hacked = 2'}))"],
            ["value", "typeof hacked"],
        ]  # fmt: skip
        found = drive(page, steps)
    told = iter(given for (what, *_), given in zip(steps, found["steps"], strict=True)
                if what in ("texts", "value") and given is not None)  # fmt: skip
    order = worst_first(evaluation)
    first = next(told)
    assert first == [ids[row] for row in order[: len(first)]]
    assert 20 <= len(first) < SCENES
    assert next(told) == [f"{SCENES} images"]
    texts = next(told)
    assert texts[:5] == [ids[0], "turned", EVIL, "own", evaluation.systems[1].captions[0]]
    assert texts[5:] == list(evaluation.images[0].captions)
    assert next(told) == ["not found"]
    assert next(told) == [f"0 of {SCENES}"]
    repeating = {ids[0], ids[-1]}
    assert set(next(told)) == repeating
    assert sorted(next(told)) == ["a", "red"]
    assert next(told) == [f"0 of {SCENES}"]
    apart = [float(text.split()[0].replace("−", "-")) for text in next(told)]
    assert apart == sorted(apart, reverse=True)
    assert next(told)[:20] == ids[:20]
    assert [next(told) for _ in range(3)] == [str(SCENES), str(SCENES - 1), "2"]
    assert next(told) < 200
    assert next(told) == "text"
    assert next(told) == "undefined"
    assert next(told) == "held"
    assert next(told) == "undefined"
    assert next(told, None) is None
    assert all(asked.startswith(f"file://{tmp_path}/") for asked in found["requests"])
    messages = [text for text in found["console"] if "Content Security Policy" not in text]
    assert all(f"{ids[0]}.png" in text or "ERR_FILE_NOT_FOUND" in text for text in messages)


@pytest.mark.parametrize("embed", [False, True])
def test_pictures_are_seen(
    embed: bool, made: Callable[..., tuple[Path, Evaluation]], drive: Drive, tmp_path: Path
) -> None:
    page, evaluation = made(images=(tmp_path / "photos",), embed=embed)
    id_ = evaluation.images[59].id
    if embed:
        shutil.rmtree(tmp_path / "photos")
    width = "(async () => { const image = document.querySelector('article img');"
    width += " await image.decode(); return image.naturalWidth; })()"
    found = drive(page, [["fill", "#text", id_], ["value", width], ["texts", "#count"]])
    assert found["steps"][1] > 10
    assert found["steps"][2] == [f"1 of {SCENES}"]
    assert found["console"] == []


def test_axe_finds_nothing(
    made: Callable[..., tuple[Path, Evaluation]],
    drive: Drive,
    tools: tuple[Path, str],
    tmp_path: Path,
) -> None:
    axe = ["axe", str(tools[0] / "axe-core" / "axe.min.js")]
    steps: list[list[Any]] = []
    for scheme in ("light", "dark"):
        for width in (1280, 360):
            screen = str(tmp_path / f"{scheme}-{width}.png")
            steps += [["screen", screen, width, scheme], axe]
            steps += [["fill", "#text", "nothing has this"], axe, ["fill", "#text", ""]]
            wider = "document.documentElement.scrollWidth - innerWidth"
            steps += [["value", wider], ["check", "#marks input[value=ending]"], axe]
    page, _ = made(images=(tmp_path / "photos",))
    found = drive(page, steps)
    results = list(zip((what for what, *_ in steps), found["steps"], strict=True))
    assert [given for what, given in results if what == "axe"] == [[]] * 12
    assert all(given <= 0 for what, given in results if what == "value")  # no sideways scrolling
