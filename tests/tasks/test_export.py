"""Exporting: one folder, whole or not at all, that says what is in it."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from naic.cli.main import main
from naic.errors import CheckpointError, ConfigError, MissingExtraError
from naic.runtime import ready
from naic.runtime.captioner import Captioner
from naic.runtime.graphs import precisions
from naic.runtime.load import load_whole
from naic.tasks.export import ExportReport, export_model
from naic.tasks.export_options import ExportOptions
from naic.text.vocabulary import Vocabulary
from tests.tasks.packs import CARD, NETWORK, VOCABULARY, make_model


def test_the_folder_has_all_that_it_takes(tmp_path: Path) -> None:
    model, out = make_model(tmp_path / "model", backbone=NETWORK), tmp_path / "graph"
    options = ExportOptions(model, out=out, precision="int8")
    guess = export_model(replace(options, dry_run=True))
    assert not out.exists()
    done = export_model(options)
    assert {path.name for path in out.iterdir()} == {
        "model.onnx",
        "vocab.json",
        "config.json",
        "README.md",
    }
    weights = sum(p.numel() for p in load_whole(model).whole.parameters())
    size = (out / "model.onnx").stat().st_size
    assert done == ExportReport("int8", 64, 16, len(VOCABULARY), weights, size)
    assert guess == replace(done, bytes=None)
    assert Vocabulary.load(out / "vocab.json") == VOCABULARY
    facts = json.loads((out / "config.json").read_text())
    assert (facts["pixels"], facts["agents"], facts["top"]) == (64, 16, 4)
    assert facts["input"].startswith("pixels: uint8 (batch, 64, 64, 3)")
    assert facts["outputs"][1] == "confidences: float32 (batch, 16, 4)"
    engine = Captioner(out, device="cpu").engine
    assert (engine.runtime, engine.precision) == ("onnx", "int8")
    assert list(tmp_path.glob(".saving-*")) == []


def test_the_card_says_how_it_was_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model(tmp_path / "model", backbone=NETWORK)
    export_model(ExportOptions(model, out=tmp_path / "with a card"))
    card = (tmp_path / "with a card" / "README.md").read_text()
    command = f"naic export {model} --out '{tmp_path}/with a card' --precision float32"
    assert card.startswith(f"{CARD}\n## Export\n\n```sh\n{command}\n```\n")
    assert "8 bits" not in card
    (model / "README.md").unlink()
    monkeypatch.setattr(ready, "SHIPPED", model)
    export_model(ExportOptions(out=tmp_path / "shipped", precision="int8"))
    card = (tmp_path / "shipped" / "README.md").read_text()
    assert card.startswith("# model\n\n## Export\n\n```sh\nnaic export --out ")
    assert "rounded to 8 bits: it does not always say what the model says." in card


def test_what_cannot_be_is_refused_before_there_is_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_model(tmp_path / "model", backbone=NETWORK)
    with pytest.raises(ConfigError, match=r"--out: .* is there already"):
        export_model(ExportOptions(model, out=model))
    out = tmp_path / "graph"
    options = ExportOptions(tmp_path / "none", out=out)
    with pytest.raises(CheckpointError, match="is no model folder"):
        export_model(options)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'naic\[onnx\]'"):
        export_model(replace(options, dry_run=True))
    assert not out.exists()


def test_graphs_beside_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = make_model(tmp_path / "model", backbone=NETWORK)
    assert main(["export", str(model), "--beside", "--precision", "float32"]) == 0
    assert f"graphs:   beside the weights in {model}" in capsys.readouterr().out
    assert precisions(model) == ("float32",)
    assert Captioner(model, device="cpu").engine.runtime == "onnx"
    before = {path.name: path.read_bytes() for path in model.iterdir()}
    export_model(ExportOptions(model, beside=True, precision="float32"))
    assert {path.name: path.read_bytes() for path in model.iterdir()} == before


def test_what_does_not_go_with_beside_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no other model was named"):
        ExportOptions(beside=True).check()
    with pytest.raises(ConfigError, match="and nowhere else"):
        ExportOptions(tmp_path, out=tmp_path / "out", beside=True).check()
