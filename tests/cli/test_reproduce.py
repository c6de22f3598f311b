"""`naic reproduce`: what it prints, and its exit codes."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from naic.cli.main import main
from tests.models.conftest import one_thread
from tests.tasks.reproduce.micro import write_preset

__all__ = ["one_thread"]


@pytest.fixture(scope="module")
def preset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_preset(tmp_path_factory.mktemp("cli") / "micro")


def test_a_run_and_the_same_again(
    preset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["reproduce", "--preset", str(preset), "--out", str(tmp_path / "out")]
    words += ["--quick", "--fast", "--device", "cpu"]
    assert main([*words, "--dry-run"]) == 0
    told = capsys.readouterr().out
    assert "make   naic-kd\n" in told
    assert told.endswith("Nothing was written (--dry-run).\n")
    assert main(words) == 0
    first = capsys.readouterr()
    assert "[1/6] features" in first.err
    assert "[5/6] naic-cmal" in first.err
    lines = first.out.splitlines()
    rows = [line.split() for line in lines if line.strip().startswith(("AIC", "NAIC-base", "+"))]
    assert [row[0] for row in rows[:4]] == ["AIC", "NAIC-base", "+KD", "+CMAL"]
    assert rows[2][3] == "115.5"  # the paper's CIDEr beside ours
    assert sum(line.startswith("shapes-0-") for line in lines) == 3
    for who in ("NAIC-base", "NAIC-XE (+KD)", "NAIC-CMAL"):
        assert sum(line.startswith(f"  {who} ") for line in lines) >= 3
    assert main(words) == 0
    assert capsys.readouterr() == (first.out, "")


def test_rows_that_are_missing_have_an_exit_code(
    preset: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("naic.tasks.reproduce.stage_runner.distil", stop)
    words = ["reproduce", "--preset", str(preset), "--out", str(tmp_path / "out")]
    words += ["--quick", "--fast", "--device", "cpu"]
    assert main(words) == 130
    assert capsys.readouterr().err.endswith("naic reproduce: stopped. The same command goes on.\n")
    assert main([*words, "--only-tables"]) == 3
    assert "not finished: table1: NAIC-base; table1: +KD; table1: +CMAL" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--preset", "tinny", "--out", "x"], "--preset tinny: there is no such preset"),
        (["--preset", "tiny", "--out", "x", "--tables", "a,b"], "there is no table 'a'"),
        (["--preset", "tiny", "--out", "x", "--seeds", "0"], "--seeds: 0 is not from 1"),
        (["--preset", "paper", "--out", "x", "--quick"], "has no [quick]"),
        (["--preset", "coco", "--out", "x"], "the data is yours to bring"),
        (["--preset", "tiny", "--out", "x", "--references", "y"], "with --only-tables alone"),
    ],
)
def test_bad_usage(
    words: list[str],
    told: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith("naic reproduce: ")
    assert told in error
    assert error.count("\n") == 1
    assert not Path("x").exists()


def test_nothing_heavy_is_imported_before_there_is_work() -> None:
    code = "import naic.cli.reproduce, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
