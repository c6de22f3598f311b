"""The page of captions: what is in its file, and that all of it is text."""

import base64
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naic.tasks.evaluate.options import EvaluateOptions
from naic.tasks.evaluate.page import PARTS, SCRIPTS, Contents, Said, in_script, page
from naic.tasks.evaluate.report import write_reports
from naic.tasks.evaluate.run import evaluate
from naic.tasks.evaluate.tables import Figures, habits, labels, scores
from tests.tasks.evaluate.evaluations import (
    SCENES,
    embedded,
    first_captions,
    next_captions,
    write_results,
)
from tests.tasks.evaluate.test_pictures import photo

EVIL = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "<!-- <script>",
    "]]> &lt; &amp; \" ' `",
    "\u2028 \u2029 \u202e \0 \ud800 \U0001f600",
    "{{data}} {{copies}} \\u003c",
]


class Tags(HTMLParser):
    """Every tag of a page with its attributes, and the text in each script."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.found and self.found[-1][0] in ("script", "style") and data.strip():
            self.scripts.append(data)


def made(contents: Contents) -> str:
    return b"".join(page(contents)).decode("utf-8")


def evil() -> Contents:
    """Everything that can come from outside, as bad as it can be."""
    return Contents(
        title=EVIL[1],
        notes=EVIL,
        ids=EVIL,
        references=[EVIL] * len(EVIL),
        systems=[Said(text, EVIL, {text: [0.5] * len(EVIL)}) for text in EVIL],
        tables=[Figures(EVIL, [EVIL])],
        facts=[(text, text) for text in EVIL[:4]],
        links=EVIL,
    )


def test_whatever_is_said_it_adds_no_tag() -> None:
    contents = evil()
    plain = replace(
        contents,
        title="x",
        notes=["x"] * len(EVIL),
        ids=["x"],
        references=[["x"]],
        systems=[Said("x", ["x"])],
        tables=[Figures(["x"] * len(EVIL), [["x"] * len(EVIL)])],
        facts=[("x", "x")] * 4,
        links=["x"],
    )
    bad, good = Tags(_surrogates(made, contents)), Tags(made(plain))
    assert [tag for tag, _ in bad.found] == [tag for tag, _ in good.found]
    allowed = ("content", "aria-label")
    for (_, one), (_, other) in zip(bad.found, good.found, strict=True):
        assert one.keys() == other.keys()
        assert {k: v for k, v in one.items() if k not in allowed} == {
            k: v for k, v in other.items() if k not in allowed
        }


def _surrogates(make: Callable[[Contents], str], contents: Contents) -> str:
    """Half a character can be in data only: a note is text that was encoded before."""
    visible = [text.encode("utf-8", "replace").decode() for text in EVIL]
    return make(replace(contents, notes=visible, tables=[Figures(visible, [visible])]))


def test_what_was_said_is_what_the_page_has() -> None:
    data = embedded(_surrogates(made, evil()))
    assert data["ids"] == EVIL
    assert data["references"] == [EVIL] * len(EVIL)
    assert data["links"] == EVIL
    for system, name in zip(data["systems"], EVIL, strict=True):
        assert (system["name"], system["captions"]) == (name, EVIL)
        assert system["scores"] == {name: [50.0] * len(EVIL)}


@given(st.text() | st.sampled_from(EVIL))
def test_json_in_a_script(text: str) -> None:
    written = in_script([text])
    assert json.loads(written) == [text]
    assert written.isascii()
    assert not set(written) & set("<>&")


def test_the_policy_lets_nothing_in() -> None:
    text = made(Contents("t", [], ["1"], [["a"]], [Said("s", ["a"])]))
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)
    assert policy is not None
    rules = dict(rule.split(" ", 1) for rule in policy[1].split("; "))
    scripts = Tags(text).scripts
    assert len(scripts) == 3  # the style, the data, the script
    digests = {_digest(script) for script in scripts}
    assert rules["script-src"] in digests
    assert rules["style-src"] in digests
    del rules["script-src"], rules["style-src"]
    nothing = ("default-src", "img-src", "base-uri", "form-action")
    assert rules == dict.fromkeys(nothing, "'none'")
    assert not re.search(r"https?:|//cdn|style=|\son\w+=|<link|url\(", text)
    assert "</" not in scripts[-1]
    assert "<!--" not in scripts[-1]
    assert not re.search(r"^(import|export) ", scripts[-1], re.MULTILINE)
    assert "innerHTML" not in scripts[-1]
    pictured = made(Contents("t", [], ["1"], [["a"]], [Said("s", ["a"])], links=["a.jpg"]))
    assert "img-src 'self' file:; " in pictured
    copied = made(Contents("t", [], ["1"], [["a"]], [Said("s", ["a"])], copies=["QQ=="]))
    assert "img-src data:; " in copied


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_small_copies_come_behind_all_else_in_blocks() -> None:
    count = 250
    contents = Contents(
        "t",
        [],
        [str(i) for i in range(count)],
        [["a"]] * count,
        [Said("s", ["a"] * count)],
        copies=(f"copy{i}" if i % 2 else None for i in range(count)),
    )
    text = made(contents)
    blocks = re.findall(r'<script type="application/json" id="copies-(\d+)">([^<]*)</script>', text)
    assert [name for name, _ in blocks] == ["0", "1", "2"]
    copies = [copy for _, block in blocks for copy in json.loads(block)]
    assert copies == [f"copy{i}" if i % 2 else None for i in range(count)]
    assert text.index("copies-0") > text.rindex('"use strict"')


@pytest.fixture
def with_page(options: EvaluateOptions, tmp_path: Path) -> EvaluateOptions:
    return replace(options, html=tmp_path / "out" / "page.html")


def test_an_evaluation_as_a_page(with_page: EvaluateOptions, tmp_path: Path) -> None:
    first = list(first_captions())[:2]
    for name in first:
        photo(tmp_path / "photos" / f"{name}.png")
    for name in ("out", "third"):
        (tmp_path / name).mkdir()
    other = write_results(tmp_path / "other.json", first_captions(which=1))
    options = replace(
        with_page,
        against=other,
        also=(write_results(tmp_path / "third" / "other.json", first_captions()), other),
        images=(tmp_path / "photos",),
    )
    found = evaluate(options)
    write_reports(found, options)
    text = (tmp_path / "out" / "page.html").read_text(encoding="utf-8")
    data = embedded(text)
    assert data["ids"] == [image.id for image in found.images]
    assert data["references"] == [list(image.captions) for image in found.images]
    assert data["links"] == [f"../photos/{name}.png" for name in first] + [None] * (SCENES - 2)
    here = tmp_path.name
    names = [f"{here}/results", f"{here}/other", "third/other", f"{here}/other (2)"]
    assert [system["name"] for system in data["systems"]] == names
    assert list(data["systems"][0]["scores"]) == ["CIDEr", "Bleu_4", "ROUGE_L"]
    for system, own in zip(found.systems, data["systems"], strict=True):
        assert own["captions"] == system.captions
        cider = (100 * system.scores["CIDEr"].per_image).round(2).tolist()
        assert own["scores"]["CIDEr"] == pytest.approx(cider, abs=0.011)
    marked = data["systems"][0]["marks"]
    assert marked == {str(SCENES - 1): ["repeat", "ending"]}  # "a a", as the table counts
    for cell in (cell for table in (scores, habits) for row in table(found).rows for cell in row):
        assert f">{cell}<" in text
    assert found.system.sha256[:12] in text
    assert f"58 of {SCENES} images have no picture in --images" in text


def test_without_pictures_the_page_says_so(with_page: EvaluateOptions, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    write_reports(evaluate(with_page), with_page)
    text = (tmp_path / "out" / "page.html").read_text(encoding="utf-8")
    assert "This page has no pictures: they are shown with --images DIR." in text
    assert embedded(text)["links"] == []


def test_the_same_evaluation_gives_the_same_page(
    with_page: EvaluateOptions, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    other = replace(with_page, html=tmp_path / "again.htm")
    for options in (with_page, other):
        write_reports(evaluate(options), options)
    pages = [path.read_bytes() for path in (tmp_path / "out/page.html", tmp_path / "again.htm")]
    assert pages[0] == pages[1]


def test_names_of_systems(with_page: EvaluateOptions, tmp_path: Path) -> None:
    files = ("a/results.json.gz", "b/results.json", "b/results.json")
    captions = next_captions()
    found = evaluate(replace(with_page, html=None))
    named = [replace(found.system, name=name, captions=list(captions.values())) for name in files]
    assert labels(named[:1]) == ["results"]
    assert labels(named[:2]) == ["a/results", "b/results"]
    assert labels(named) == ["a/results", "b/results", "b/results (2)"]


def test_all_parts_are_used() -> None:
    assert {path.name for path in PARTS.iterdir()} == {"index.html", "style.css", *SCRIPTS}
