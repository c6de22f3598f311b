"""What `naic finetune` prints."""

import csv
import json
import shlex
from pathlib import Path

import pytest

from naic.cli.main import main
from tests.runtime.small import NETWORK, make_model
from tests.tasks.finetune.tuning import damage, make_blind, scene_words, write_table

SCENES = 12


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path / "images", SCENES)
    make_blind(tmp_path / "model", scene_words(SCENES, without="there"))
    return tmp_path


def finetune(words: str) -> int:
    return main(["finetune", *shlex.split(words)])


def test_a_dry_run_says_what_would_be_done(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert finetune("images/captions.csv --out out --model model --dry-run") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:5] == [
        "model:     model",
        "images:    10 to learn from, 2 kept aside (at random: there is no split called val)",
        'style:     with a capital, "." last; with it the model says 0% of your captions already',
        "new words: 1: there",
        "training:  20 epochs, 20 steps",
    ]
    assert lines[-1] == "Nothing was written (--dry-run)."
    assert not (folder / "out").exists()


@pytest.mark.parametrize("form", ["csv", "jsonl"])
@pytest.mark.parametrize("place", ["", "images", "tables/new"])
def test_what_was_captioned_can_be_learnt_from(
    folder: Path, capsys: pytest.CaptureFixture[str], form: str, place: str
) -> None:
    """Caption, correct, tune: the table is taken as it was written, wherever it lies."""
    make_model(folder / "says", backbone=NETWORK, says="cat")
    (folder / place).mkdir(parents=True, exist_ok=True)
    table = str(Path(place, f"said.{form}"))
    wanted = f"--format {form} --out {table} --confidence --alternatives 2 --device cpu"
    assert main(["caption", "images", "--model", "says", *wanted.split()]) == 0
    capsys.readouterr()
    assert finetune(f"{table} --out out --model model --dry-run") == 0
    assert "images:    10 to learn from, 2 kept aside" in capsys.readouterr().out


def test_it_tunes_and_prints_both_scores(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage(folder / "images" / "000.png")
    words = "images/captions.csv --out out --model model --epochs 1 --device cpu --seed 3"
    assert finetune(words) == 3  # an image could not be used
    printed = capsys.readouterr()
    assert "\nbefore:    CIDEr " in printed.out
    assert "\nafter:     CIDEr " in printed.out
    assert "\nmodel:     out/best\n" in printed.out
    assert "1 could not be used (all of them in out/report.json)" in printed.err
    assert finetune(words) == 3  # finished: it only tells of it again
    again = capsys.readouterr()
    assert again.out == printed.out
    assert "xe:" not in again.err


def test_all_faults_of_a_table_are_told_before_anything_is_made(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = folder / "images" / "captions.csv"
    (folder / "images" / "000.png").write_bytes(b"no image")
    table.write_text(
        f"{table.read_text()}gone.png,a box,\n001.png\n002.png,?,\n003.png,a box,Train\n"
    )
    for further in ("", " --dry-run"):
        assert finetune(f"images/captions.csv --out out --model model{further}") == 1
        told = capsys.readouterr().err
        assert "naic finetune: images/captions.csv: 5 things in it cannot be used" in told
        for kind in ("image not found", "too few cells", "caption without a word"):
            assert f"  1 x {kind}. " in told
        assert "  1 x image: it is plain text" in told
        last = len(table.read_text().splitlines())
        assert f"row {last} (line {last}): there is no split 'Train'" in told
        assert not (folder / "out").exists()
    words = "images/captions.csv --out out --model model --dry-run --skip-bad"
    assert finetune(words) == 3
    printed = capsys.readouterr()
    assert "images:    8 to learn from, 2 kept aside" in printed.out
    assert "  1 x image not found\n      such as captions.csv, row " in printed.err


def test_how_a_table_was_read_is_told_once(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By semicolons and in Windows-1252, as Excel saves it in much of Europe."""
    table = folder / "images" / "captions.csv"
    rows = list(csv.reader(table.read_text().splitlines()))
    with table.open("w", newline="", encoding="cp1252") as file:
        csv.writer(file, delimiter=";").writerows([*rows, ["000.png", "Ein Käse; klein.", ""]])
    assert finetune("images/captions.csv --out out --model model --dry-run") == 0
    told = [own for own in capsys.readouterr().err.splitlines() if "Windows-1252" in own]
    assert len(told) == 1
    assert told[0].startswith(
        "naic finetune: images/captions.csv: it is not UTF-8, and was read as"
    )
    assert "'Käse' on line" in told[0]


@pytest.mark.parametrize("kept", ["as it was", "weights"])
def test_weights_that_are_no_better_are_told_of(
    folder: Path, capsys: pytest.CaptureFixture[str], kept: str
) -> None:
    """Both scores are there to be seen; whoever does not look at them is told."""
    words = "images/captions.csv --out out --model model --epochs 1 --device cpu"
    assert finetune(words) == 0
    report = json.loads((folder / "out/report.json").read_text())
    report["kept"] = kept
    (folder / "out/report.json").write_text(json.dumps(report))
    capsys.readouterr()
    assert finetune(words) == 0
    no_better = "match your captions no\nbetter than the model without them"
    assert (no_better in capsys.readouterr().err) is (kept == "as it was")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("images/captions.csv --out out --epochs 0", 2, "--epochs: 0 is below 1"),
        ("images/captions.csv --out out --model model --device gpu", 2, "'gpu' is no device"),
        ("images/captions.csv --out out --device gpu --dry-run", 2, "'gpu' is no device"),
        ("missing.csv --out out --model model", 1, "missing.csv: there is no such file"),
        ("images/captions.csv --out out --model images", 1, "is no model folder"),
    ],
)
def test_refusals(
    folder: Path, capsys: pytest.CaptureFixture[str], words: str, code: int, said: str
) -> None:
    assert finetune(words) == code
    assert said in capsys.readouterr().err
    assert not (folder / "out").exists()
