"""What a run has logged is read as it counts, whatever became of the file."""

import json
import math
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naic.tasks.show.journal import read_journal
from tests.tasks.show.runs import LINES, make_run, training, validation


def test_training_and_validations_are_told_apart(tmp_path: Path) -> None:
    found = read_journal(make_run(tmp_path))
    assert [row["step"] for row in found.training] == [5, 10, 15]
    assert [row["cider"] for row in found.validations] == [0.75]
    assert found.last == found.training[-1]
    assert found.again == 0


def test_a_half_line_at_the_end_and_one_in_the_middle(tmp_path: Path) -> None:
    make_run(
        tmp_path, tail=b'{"step": 20, "lo{"step": 20}\n{"step": 25, "loss": 1.0}\n{"step": 30, '
    )
    found = read_journal(tmp_path)
    assert [row["step"] for row in found.training] == [5, 10, 15, 25]


def test_of_steps_that_were_made_again_the_later_lines_count(tmp_path: Path) -> None:
    again = [training(10, loss=7.0), validation(10, 0.5), training(12, loss=6.0)]
    found = read_journal(make_run(tmp_path, [*LINES, *again]))
    assert [(row["step"], row["loss"]) for row in found.training] == [(5, 3), (10, 7), (12, 6)]
    assert [row["cider"] for row in found.validations] == [0.5]
    assert found.again == 3  # two of training, one of a validation


def test_no_numbers_and_odd_steps(tmp_path: Path) -> None:
    lines = [
        training(5, loss="nan", gradient="inf", word="x", none=None, yes=True, huge=10**400),
        {"step": -1, "loss": 1.0},
        {"step": 2**60, "loss": 1.0},
    ]
    (row,) = read_journal(make_run(tmp_path, lines)).training
    assert math.isnan(row["loss"])
    assert row["gradient"] == row["huge"] == math.inf
    assert {"word", "none", "yes"}.isdisjoint(row)


def test_an_empty_run(tmp_path: Path) -> None:
    for found in (read_journal(tmp_path), read_journal(make_run(tmp_path, []))):
        assert found.last is None
        assert found.training == found.validations == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run")


@given(steps=st.lists(st.integers(0, 30), max_size=40))
def test_steps_are_in_order_and_the_last_word_counts(folder: Path, steps: list[int]) -> None:
    text = [json.dumps({"step": step, "line": float(i)}) + "\n" for i, step in enumerate(steps)]
    (folder / "metrics.jsonl").write_text("".join(text))
    found = read_journal(folder)
    kept = [int(row["line"]) for row in found.training]
    assert [row["step"] for row in found.training] == [steps[i] for i in kept]
    assert all(steps[a] <= steps[b] for a, b in pairwise(kept))
    assert found.again == len(steps) - len(kept)
    if steps:
        assert kept[-1] == len(steps) - 1
