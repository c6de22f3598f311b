"""What `naic evaluate` prints, and its exit codes."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from naic.cli.main import main
from naic.data import shapes
from naic.errors import MetricError, MissingExtraError, NaicError
from naic.metrics.score import Score
from naic.tasks import evaluate as task


@pytest.fixture
def results(tmp_path: Path) -> str:
    rows = [{"image_id": r.id, "caption": r.captions[0]} for r in shapes.records(12, 0)]
    path = tmp_path / "results.json"
    path.write_text(json.dumps(rows), encoding="utf-8")
    return str(path)


def test_the_tables(results: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "o.json"
    words = ["evaluate", results, "--references", "12", "--fast", "--json", str(out)]
    assert main(words) == 0
    said = capsys.readouterr()
    lines = [line.split() for line in said.out.splitlines()]
    assert lines[0][:2] == ["12", "images;"]
    assert ["Bleu_4", "100.0", "100.0", "to", "100.0"] in lines
    assert ["habit", "captions", "people"] in lines
    assert ["empty", "captions", "0", "0"] in lines
    value = json.loads(out.read_text(encoding="utf-8"))
    low, high = value["intervals"]["CIDEr"]
    shown = [f"{100 * number:.1f}" for number in (value["CIDEr"], low, high)]
    assert ["CIDEr", shown[0], shown[1], "to", shown[2]] in lines
    assert said.out.splitlines()[-1] == f"signature: {value['signature_line']}"
    assert said.err == ""
    assert said.out.isascii()


def test_two_systems(results: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["evaluate", results, "--references", "12", "--fast", "--against", results]
    assert main([*words, "--bootstrap", "100"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["habit", "captions", "against", "people"] in lines
    (rouge,) = (line for line in lines if line[:1] == ["ROUGE_L"])
    assert rouge[-6:] == ["100.0", "+0.0", "+0.0", "to", "+0.0", "1.000"]


def test_without_intervals(results: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", results, "--references", "12", "--fast", "--bootstrap", "0"]) == 0
    said = capsys.readouterr().out
    assert ["ROUGE_L", "100.0"] in [line.split() for line in said.splitlines()]
    assert "95 %" not in said


def failing(error: NaicError) -> object:
    def score(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Score:
        raise error

    return score


def test_what_is_not_installed_is_one_line(
    results: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    error = MissingExtraError("Java", "is missing", "Install Java.")
    monkeypatch.setattr(task, "meteor", failing(error))
    monkeypatch.setattr(task, "spice", failing(error))
    assert main(["evaluate", results, "--references", "12"]) == 0
    said = "naic evaluate: left out METEOR and SPICE: Java: is missing. Install Java.\n"
    assert capsys.readouterr().err == said
    assert main(["evaluate", results, "--references", "12", "--metrics", "METEOR"]) == 1
    assert capsys.readouterr().err == "naic evaluate: Java: is missing. Install Java.\n"


def test_what_fails_is_reported_and_the_rest_kept(
    results: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "meteor", failing(MetricError("METEOR", "died", "Look.")))
    assert main(["evaluate", results, "--references", "12", "--metrics", "METEOR", "Bleu"]) == 3
    said = capsys.readouterr()
    assert said.err == "naic evaluate: METEOR failed: METEOR: died. Look.\n"
    assert "Bleu_4" in said.out
    assert main(["evaluate", results, "--references", "12", "--metrics", "METEOR"]) == 1


def test_errors(results: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", results, "--references", "14", "--fast"]) == 1
    assert "2 of the 14 images to be scored have no caption" in capsys.readouterr().err
    assert main(["evaluate", results, "--references", "12", "--bootstrap", "3"]) == 2
    assert main(["evaluate", results, "--references", "12", "--split", "nosuch"]) == 2


def test_bad_rows_that_were_left_out_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "t.csv"
    table.write_text("image,caption\n1.jpg,a dog\n2.jpg,a cat\n2.jpg,...\n", encoding="utf-8")
    results = tmp_path / "r.json"
    rows = [{"image_id": n, "caption": "a dog"} for n in (1, 2)]
    results.write_text(json.dumps(rows), encoding="utf-8")
    words = ["evaluate", str(results), "--references", str(table), "--fast", "--skip-bad"]
    assert main(words) == 3
    assert "1 rows of the dataset were left out, such as t.csv, row 4" in capsys.readouterr().err
