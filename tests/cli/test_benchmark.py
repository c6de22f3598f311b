import re
import shlex
import sys
from pathlib import Path

import pytest
import tyro

from naic.cli.main import main
from naic.tasks.benchmark.rows import BenchmarkOptions
from tests.runtime.small import NETWORK, make_model

GUIDE = Path(__file__).parents[2].joinpath("docs", "benchmark.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_model(tmp_path_factory.mktemp("models") / "model", backbone=NETWORK))


def words(model: str, *more: str, runtimes: str = "eager onnx") -> list[str]:
    plain = f"--device cpu --batches 1 2 --runtimes {runtimes} --words 3 --seconds 0.001"
    return ["benchmark", model, *plain.split(), *more]


def test_the_command(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "speed.json"
    assert main(words(model, "--against", "--out", str(out))) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[0].startswith("machine: ")
    for title in ("Features to words, batch 1", "Pixels to words, batch 1"):
        assert any(title in line for line in lines)
    found = [line for line in lines if "teacher, beam 3, no cache" in line]
    assert len(found) == 4  # of each part, how long and how many
    assert all("×" in line for line in found)
    assert any("an exported graph is one pass" in line for line in lines)
    assert lines[-1] == f"figures: {out}, and charts beside it"
    assert captured.err.splitlines()[-1].startswith("rows: 38/38, ")


def test_a_row_that_fails_is_told(
    model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert main(words(model, "--parts", "whole", "--against", "blip", runtimes="eager")) == 3
    assert "BLIP-base, greedy: transformers: cannot be imported" in capsys.readouterr().out


def test_a_dry_run_lists_the_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words("no-such-model", "--against", "--dry-run")) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 39
    assert lines[0].split() == ["eager", "float32,", "decode,", "batch", "1", "NAIC"]
    assert lines[-1] == "30 figures would be timed. Nothing was timed (--dry-run)."


def test_refusals(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark", "no-such-model", "--device", "cpu"]) == 1
    assert "no-such-model" in capsys.readouterr().err
    assert main(["benchmark", "--words", "0"]) == 2
    assert "--words" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stopped:
        main(["benchmark", "--runtimes", "magic"])
    assert stopped.value.code == 2


def test_the_guides_commands_and_options_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where no file of figures is
    lines = re.findall(r"^naic benchmark (.*)$", GUIDE, re.MULTILINE)
    rows = re.findall(r"^\| .* \| `(--[^`]+)`", GUIDE, re.MULTILINE)
    assert len(lines) >= 4
    assert len(rows) >= 10
    for line in [*lines, *rows]:
        options = tyro.cli(BenchmarkOptions, args=shlex.split(line, comments=True))
        options.check()
        assert options != BenchmarkOptions()
