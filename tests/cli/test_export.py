from pathlib import Path

import pytest

from naic.cli.main import main
from naic.runtime.captioner import Captioner
from tests.tasks.packs import NETWORK, make_model


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, out = make_model(tmp_path / "model", backbone=NETWORK), tmp_path / "graph"
    words = ["export", str(model), "--out", str(out)]
    assert main([*words, "--dry-run"]) == 0
    dry = capsys.readouterr().out.splitlines()
    assert dry[-1] == "Nothing was written (--dry-run)."
    assert not out.exists()
    assert main(words) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert captured.err == ""  # the packages have much to say of themselves
    size = (out / "model.onnx").stat().st_size
    assert lines == [*dry[:-1], f"size:     {size:,} bytes", f"graph:    {out}/model.onnx"]
    assert lines[:2] == ["images:   64 x 64 pixels", "words:    16 agents, 7 words"]
    assert Captioner(out / "model.onnx", device="cpu").engine.precision == "float32"


def test_refusals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    none, out = str(tmp_path / "none"), str(tmp_path / "graph")
    assert main(["export", none, "--out", out]) == 1
    assert "is no model folder" in capsys.readouterr().err
    assert main(["export", none, "--out", str(tmp_path)]) == 2
    assert "--out: " in capsys.readouterr().err
    with pytest.raises(SystemExit) as stopped:
        main(["export", none, "--out", out, "--precision", "bfloat16"])
    assert stopped.value.code == 2
