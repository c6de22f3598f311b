"""The log of looks: what it says, when it is written, and that no line is lost or half there."""

import dataclasses
import hashlib
import json
import multiprocessing
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naic.cli.main import main
from naic.errors import ConfigError, WriteError
from naic.tasks.evaluate.options import EvaluateOptions, default_log
from naic.tasks.evaluate.report import append_lines, log_test_evaluation
from naic.tasks.evaluate.run import evaluate
from tests.data.readers.helpers import write_json

IMAGES = {"train": 2, "test": 3, "val": 1}


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EvaluateOptions:
    """Captions of the test split, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    rows = ["image,caption,split"]
    ids = [(n, split) for n, split in enumerate(s for s, c in IMAGES.items() for _ in range(c))]
    rows += [f"{n}.jpg,a dog number {n},{split}" for n, split in ids]
    Path("people.csv").write_text("\n".join(rows) + "\n")
    said = [{"image_id": n, "caption": f"a dog number {n}"} for n, s in ids if s == "test"]
    write_json(Path("said.json"), said)
    return EvaluateOptions(Path("said.json"), "people.csv", split=("test",), fast=True, bootstrap=0)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_line_says_it_all(options: EvaluateOptions) -> None:
    options = dataclasses.replace(options, why="the one figure of the paper")
    evaluation = evaluate(options)
    assert log_test_evaluation(evaluation, options) == Path("test-evaluations.jsonl")
    (line,) = lines(Path("test-evaluations.jsonl"))
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", line.pop("time"))
    assert line.pop("signature").startswith(f"naic {line['naic']}|")
    assert line.pop("naic") == evaluation.signature["naic"]
    assert line == {
        "captions": "said.json",
        "sha256": hashlib.sha256(Path("said.json").read_bytes()).hexdigest(),
        "references": "people.csv",
        "data": evaluation.signature["data"],
        "split": ["test"],
        "images": 3,
        "scores": {n: round(s.value, 6) for n, s in evaluation.system.scores.items()},
        "why": "the one figure of the paper",
    }
    assert line["scores"]["Bleu_4"] == 1


def test_the_committed_log_is_taken_where_it_is(options: EvaluateOptions) -> None:
    committed = Path("docs/results/test-evaluations.jsonl")
    committed.parent.mkdir(parents=True)
    assert default_log() == Path("test-evaluations.jsonl")
    committed.touch()
    log_test_evaluation(evaluate(options), options)
    own = dataclasses.replace(options, log=Path("own.jsonl"))
    log_test_evaluation(evaluate(own), own)
    assert len(lines(committed)) == len(lines(Path("own.jsonl"))) == 1
    assert not Path("test-evaluations.jsonl").exists()


def test_further_systems_have_lines_too(options: EvaluateOptions) -> None:
    Path("more.json").write_bytes(Path("said.json").read_bytes())
    options = dataclasses.replace(options, also=(Path("more.json"),), html=Path("page.html"))
    evaluation = evaluate(options)
    assert not Path("page.html").exists()  # nobody sees a figure before it is in the log
    log = log_test_evaluation(evaluation, options)
    assert log is not None
    assert [line["captions"] for line in lines(log)] == ["said.json", "more.json"]


def test_what_is_a_look(options: EvaluateOptions) -> None:
    """Not naming the split does not hide it; a figure of other images is none."""
    unnamed = dataclasses.replace(options, split=(), subset=True)
    assert log_test_evaluation(evaluate(unnamed), unnamed) is not None
    write_json(Path("val.json"), [{"image_id": 5, "caption": "a dog"}])
    val = dataclasses.replace(options, results=Path("val.json"), split=("val",))
    assert log_test_evaluation(evaluate(val), val) is None
    every = [{"image_id": n, "caption": "a dog"} for n in range(6)]
    write_json(Path("all.json"), every)
    mixed = dataclasses.replace(options, results=Path("all.json"), split=())
    assert log_test_evaluation(evaluate(mixed), mixed) is None
    named = dataclasses.replace(mixed, split=("train", "val", "test"))
    assert log_test_evaluation(evaluate(named), named) is not None
    assert [line["split"] for line in lines(Path("test-evaluations.jsonl"))] == [
        ["test"],
        ["test", "train", "val"],
    ]


def test_what_is_logged_is_what_was_scored(options: EvaluateOptions) -> None:
    """A pipe can be read only once, and a file may change meanwhile."""
    before = hashlib.sha256(Path("said.json").read_bytes()).hexdigest()
    evaluation = evaluate(options)
    Path("said.json").write_text("[]")
    log_test_evaluation(evaluation, options)
    assert [line["sha256"] for line in lines(Path("test-evaluations.jsonl"))] == [before]


def test_two_systems_are_two_looks(options: EvaluateOptions) -> None:
    write_json(Path("other.json"), [{"image_id": n, "caption": "a cat"} for n in (2, 3, 4)])
    both = dataclasses.replace(options, against=Path("other.json"), bootstrap=100)
    log_test_evaluation(evaluate(both), both)
    first, second = lines(Path("test-evaluations.jsonl"))
    assert (first["captions"], second["captions"]) == ("said.json", "other.json")
    assert first["scores"]["CIDEr"] > second["scores"]["CIDEr"]


def test_it_is_logged_before_it_is_shown(
    options: EvaluateOptions, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["evaluate", "said.json", "--references", "people.csv", "--split", "test", "--fast"]
    assert main([*words, "--bootstrap", "0", "--why", "here"]) == 0
    assert capsys.readouterr().out.endswith("logged:    test-evaluations.jsonl\n")
    assert lines(Path("test-evaluations.jsonl"))[0]["why"] == "here"
    Path("test-evaluations.jsonl").unlink()
    Path("test-evaluations.jsonl").mkdir()
    assert main([*words, "--bootstrap", "0"]) == 2
    said = capsys.readouterr()
    assert "--log: test-evaluations.jsonl is a folder" in said.err
    assert "CIDEr" not in said.out


@pytest.mark.parametrize(
    ("over", "told"),
    [
        (
            {"log": Path("x"), "split": ("val",)},
            "--log: only evaluations on the split 'test' are logged",
        ),
        ({"why": "x", "split": ("val",)}, "--why: only evaluations"),
        ({"log": Path("said.json")}, "said.json is RESULTS too"),
        ({"log": Path("nowhere/x")}, "the folder nowhere does not exist"),
        ({"log": Path("x.json"), "json": Path("x.json")}, "x.json is --json too"),
    ],
)
def test_logs_that_cannot_be(options: EvaluateOptions, over: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(told)):
        dataclasses.replace(options, **over).check()


def test_a_disk_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match="cannot be written"):
        append_lines(tmp_path / "no" / "log.jsonl", [{}])


def test_an_editor_that_left_no_newline(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"a": 1}')
    append_lines(path, [{"b": 2}])
    assert lines(path) == [{"a": 1}, {"b": 2}]


def test_a_writer_that_is_killed_leaves_the_log_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.jsonl"
    append_lines(path, [{"a": 1}])

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("naic.files.os.fsync", killed)
    with pytest.raises(KeyboardInterrupt):
        append_lines(path, [{"b": 2}])
    monkeypatch.undo()
    assert lines(path) == [{"a": 1}]
    append_lines(path, [{"c": 3}])  # and is not locked for ever
    assert lines(path) == [{"a": 1}, {"c": 3}]
    assert [left.name for left in tmp_path.iterdir()] == ["log.jsonl"]


def _write_many(path: Path, who: int) -> None:
    for number in range(20):
        append_lines(path, [{"who": who, "number": number}])


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_many, args=(path, who)) for who in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    found = lines(path)
    for who in range(2):
        assert [one["number"] for one in found if one["who"] == who] == list(range(20))


@given(st.lists(st.lists(st.text(), min_size=1, max_size=3), max_size=4))
def test_lines_come_back_in_order(
    tmp_path_factory: pytest.TempPathFactory, calls: list[list[str]]
) -> None:
    path = tmp_path_factory.mktemp("logs") / "log.jsonl"
    path.touch()
    for call in calls:
        append_lines(path, [{"why": text} for text in call])
    found = path.read_bytes().split(b"\n")[:-1]
    assert [json.loads(line)["why"] for line in found] == [t for call in calls for t in call]


def test_the_committed_log_is_whole() -> None:
    """Lines are only ever added to it: each is whole, and none is older than the one before."""
    found = lines(Path(__file__).parents[3] / "docs" / "results" / "test-evaluations.jsonl")
    keys = {"time", "captions", "sha256", "references", "data", "split", "images", "scores"}
    assert all(keys <= line.keys() for line in found)
    times = [line["time"] for line in found]
    assert times == sorted(times)
