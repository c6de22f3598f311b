from pathlib import Path

import pytest

from naic.cli.main import main
from naic.models.folder import load_model
from naic.models.transformer import TransformerCaptioner
from naic.runtime.graphs import precisions
from naic.runtime.skeleton import PRECISIONS, graph_names
from tests.tasks.packs import NETWORK, make_model


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    student, out = make_model(tmp_path / "student"), tmp_path / "packed"
    words = ["pack", str(student), "--out", str(out)]
    assert main([*words, "--dry-run"]) == 0
    dry = capsys.readouterr().out.splitlines()
    assert dry[-1] == "Nothing was written (--dry-run)."
    assert not out.exists()
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:-3] == dry[:-1]
    assert [line.split()[0] for line in lines] == [
        "backbone:",
        "encoder:",
        "decoder:",
        "words:",
        "its",
        "size:",
        "model:",
        "graphs",
        "graphs:",
    ]
    assert lines[-1] == "graphs:   beside the weights"
    assert precisions(out) == PRECISIONS
    graphs = {name for precision in PRECISIONS for name in graph_names(precision)}
    size = sum(path.stat().st_size for path in out.iterdir() if path.name not in graphs)
    assert f"size:     {size:,} bytes in all" in lines[5]
    model = load_model(out).model
    assert isinstance(model, TransformerCaptioner)
    assert model.config.backbone == NETWORK


def test_refusals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    student = make_model(tmp_path / "student", digest="0" * 64)
    words = ["pack", str(student), "--out", str(tmp_path / "packed")]
    assert main([*words, "--bits", "13"]) == 2
    assert "naic pack: --bits: 13 is not from 2 to 12" in capsys.readouterr().err
    assert main(words) == 2
    assert "the backbone's own weights will not do" in capsys.readouterr().err
    assert main(["pack", str(tmp_path / "none"), "--out", str(tmp_path / "packed")]) == 1
    assert "is no model folder" in capsys.readouterr().err
    assert not (tmp_path / "packed").exists()
