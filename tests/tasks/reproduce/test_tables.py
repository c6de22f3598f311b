"""Rows, markdown, pages: from scores to what people read."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naic.metrics.score import interval
from naic.tasks.evaluate.options import NAMES
from naic.tasks.reproduce.gallery import Example, mark, read_examples, write_pages
from naic.tasks.reproduce.judging import Scored, ends
from naic.tasks.reproduce.report import curves_figure, ladder_figure, speed_figure
from naic.tasks.reproduce.tables import add_latency, make_row, markdown
from tests.tasks.evaluate.evaluations import embedded


def scored(cider: float, meteor: float | None = None, drawn: list[float] | None = None) -> Scored:
    values: dict[str, float | None] = dict.fromkeys(NAMES, 0.5)
    values |= {"CIDEr": cider, "METEOR": meteor, "repeats": 0.25, "bad_endings": 0.0, "facts": None}
    return Scored(Path("captions/x.json"), values, {"CIDEr": drawn} if drawn else {}, "signed", {})


def test_a_row_of_one_seed() -> None:
    row = make_row("+CMAL", [scored(1.2, drawn=[1.0, 1.1, 1.2])], "ladder")
    assert (row["system"], row["CIDEr"], row["seeds"], row["spread"]) == ("+CMAL", 1.2, 1, {})
    assert row["intervals"]["CIDEr"] == pytest.approx([1.005, 1.195])
    assert (row["METEOR"], row["facts"]) == (None, None)
    assert row["paper"]["CIDEr"] == 1.24
    assert make_row("fill on, XE", [scored(1.0)], "fill")["paper"] is None


def test_a_row_of_several_seeds() -> None:
    row = make_row("+CMAL", [scored(1.0, 0.3), scored(1.2, 0.5)], "ladder")
    assert row["CIDEr"] == pytest.approx(1.1)
    assert row["spread"]["CIDEr"] == pytest.approx(0.2 / 2**0.5)
    assert [own["CIDEr"] for own in row["per_seed"]] == [1.0, 1.2]


def test_a_mean_is_of_all_seeds_or_of_none() -> None:
    row = make_row("+CMAL", [scored(1.0, 0.3), scored(1.2, None)], "ladder")
    assert row["METEOR"] is None
    assert "METEOR" not in row["spread"]


def test_the_interval_of_several_seeds_is_that_of_their_mean() -> None:
    """Set by set: seeds that err on different images make up for each other."""
    assert ends([[0.0, 1.0], [1.0, 0.0]]) == [0.5, 0.5]
    assert ends([[], []]) is None


@given(st.lists(st.floats(0, 2), min_size=2, max_size=30))
def test_the_interval_of_one_seed_is_its_own(values: list[float]) -> None:
    import numpy as np

    assert ends([values]) == pytest.approx(interval(np.array(values)))


def test_markdown_shows_the_paper_and_what_is_missing() -> None:
    rows = [make_row(name, [scored(1.2, drawn=[1.0, 1.4])], "ladder") for name in ("+KD", "+CMAL")]
    add_latency(rows, {"AIC beam 3": 30.0, "NAIC": 2.0}, 11)
    lines = markdown(rows).splitlines()
    assert lines[0].split("|")[1:5] == ["  ", " B1 ", " B2 ", " B3 "]
    cells = [cell.strip() for cell in lines[3].split("|")[1:-1]]
    assert cells[0] == "+CMAL"
    assert cells[5] == "n/a"  # METEOR
    assert cells[7] == "120.0 (101.0 to 139.0) [124.0]"
    assert cells[-2:] == ["2.00 [16]", "15.00× [13.9×]"]
    assert "true %" not in lines[0]  # no image has facts
    assert "ms: one image from its features, eager; the teacher writes 11 words," in lines[-1]


def test_markdown_of_several_seeds() -> None:
    row = make_row("k = 2", [scored(1.0), scored(1.2)], "topk") | {"last_validation_cider": 0.9}
    text = markdown([row])
    assert "| 110.0 ± 14.1 [124.0] |" in text
    assert text.splitlines()[2].endswith("| 90.0 |")
    assert "Means of 2 seeds" in text


def test_a_system_without_a_time_has_no_speedup() -> None:
    rows = [make_row("+KD", [scored(1.0)], "ladder")]
    add_latency(rows, {"NAIC": 2.0}, 11)
    assert (rows[0]["latency_ms"], rows[0]["speedup"]) == (2.0, None)
    add_latency(rows, {}, None)
    assert rows[0]["latency_ms"] is None
    teacher = [make_row("AIC XE beam 1", [scored(1.0)], "ladder")]
    add_latency(teacher, {"NAIC": 2.0}, 11)  # a student's time is not the teacher's
    assert teacher[0]["latency_ms"] is None
    assert speed_figure(rows) is None


def test_the_ladder_as_a_figure() -> None:
    rows = [make_row(name, [scored(c)], "ladder") for name, c in (("+KD", 1.0), ("+CMAL", 1.2))]
    assert ladder_figure(rows).count("<rect") == 2
    assert ladder_figure(rows).count('class="whisker"') == 0
    rows.append(make_row("+unlabelled", [scored(1.3, drawn=[1.2, 1.4])], "ladder"))
    assert ladder_figure(rows).count('class="whisker"') == 3


def test_curves_are_the_validations_of_the_log(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    lines = [
        {"step": 1, "epoch": 0.5, "loss": 2.0},
        {"step": 2, "epoch": 1.0, "cider": 0.4},
        {"step": 4, "epoch": 2.0, "cider": 0.6},
    ]
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    (tmp_path / "one" / "metrics.jsonl").write_text(text)
    figure = curves_figure("C", {"cf": tmp_path / "one", "sc": tmp_path / "none"})
    assert figure is not None
    assert figure.count("<polyline") == 1
    assert curves_figure("C", {"sc": tmp_path / "none"}) is None


@pytest.mark.parametrize(
    ("caption", "marked"),
    [
        ("a girl girl riding a bike .", "a girl [girl] riding a bike ."),
        ("a a a", "a [a] [a]"),
        ("A a dog.", "A [a] dog."),
        ("a dog dog.", "a dog [dog.]"),
        ("a girl a girl", "a girl a girl"),
        (". a dog", ". a dog"),
        ("", ""),
    ],
)
def test_repeated_words_are_marked(caption: str, marked: str) -> None:
    assert mark(caption, "[", "]") == marked


@given(st.lists(st.sampled_from(["a", "dog", "<b>", "&"]), max_size=8))
def test_marks_change_no_words(words: list[str]) -> None:
    assert mark(" ".join(words), "[", "]").replace("[", "").replace("]", "") == " ".join(words)


def test_pages_hold_text_and_no_markup(tmp_path: Path) -> None:
    examples = [Example("<i>", "", {"human": "a | & b", "NAIC-base": "<b> <b> x"})]
    write_pages(tmp_path, examples, "test")
    page = (tmp_path / "captions.html").read_text()
    assert "<i>" not in page
    assert "<b>" not in page
    data = embedded(page)
    assert (data["ids"], data["references"], data["links"]) == (["<i>"], [["a | & b"]], [])
    (system,) = data["systems"]
    assert (system["name"], system["captions"]) == ("NAIC-base", ["<b> <b> x"])
    assert system["pieces"]["0"] == [["<b> ", ""], ["<b>", "repeat"], [" x", ""]]
    assert "| NAIC-base | <b> **<b>** x |" in (tmp_path / "captions.md").read_text()
    assert r"| human | a \| & b |" in (tmp_path / "captions.md").read_text()
    assert read_examples(tmp_path) == examples
    kept = tmp_path / "captions.json"
    kept.write_text(kept.read_text().replace('"human"', '"people"'))  # as it was written before
    assert read_examples(tmp_path) == examples
