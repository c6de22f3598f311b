"""Model folders: whole or refused, and nothing in them is run."""

import ast
import os
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save
from torch import Tensor, nn

from naic.errors import CheckpointError, VocabularyError, WriteError
from naic.models import folder as folder_module
from naic.models.captioners import CAPTIONERS
from naic.models.config import TransformerConfig
from naic.models.contract import CaptionerSpec, Proposed
from naic.models.folder import ModelSettings, load_model, write_model
from naic.text.vocabulary import SPECIAL, Vocabulary
from naic.train import checkpoint as checkpoint_module
from tests.models.weights import assert_same

VOCABULARY = Vocabulary((*SPECIAL, "a", "circle"))


@dataclass(frozen=True)
class TinyConfig:
    width: int = 3
    name: str = 'q"uote'


@dataclass(frozen=True)
class SeeingConfig(TinyConfig):
    backbone: str = ""


def _build_tiny(config: TinyConfig, features: int, words: int) -> nn.Module:
    return nn.Sequential(nn.Linear(features, config.width), nn.Linear(config.width, words))


def _propose(*_: object) -> Proposed:
    raise AssertionError


TINY = CaptionerSpec(TinyConfig, _build_tiny, _propose)
SETTINGS = ModelSettings("tiny", 5, len(VOCABULARY), "efficientnet-lite2", TinyConfig())


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CAPTIONERS, "tiny", TINY)


def write_tiny(folder: Path, settings: ModelSettings = SETTINGS) -> dict[str, Tensor]:
    weights = dict(_build_tiny(TinyConfig(), 5, len(VOCABULARY)).state_dict())
    write_model(folder, weights, settings, VOCABULARY, "# Tiny\n")
    return weights


def test_a_model_comes_back_as_it_was(tmp_path: Path) -> None:
    weights = write_tiny(tmp_path / "model")
    assert {path.name for path in (tmp_path / "model").iterdir()} == {
        "model.safetensors",
        "config.toml",
        "vocab.json",
        "README.md",
    }
    assert list(tmp_path.iterdir()) == [tmp_path / "model"]
    loaded = load_model(tmp_path / "model")
    assert_same(loaded.model.state_dict(), weights)
    assert loaded.settings == SETTINGS
    assert loaded.vocabulary == VOCABULARY
    assert loaded.spec is TINY
    assert not loaded.model.training
    assert (tmp_path / "model" / "README.md").read_text() == "# Tiny\n"


def test_it_says_which_plug_ins_it_was_made_with_if_there_were_any(tmp_path: Path) -> None:
    write_tiny(tmp_path / "plain")
    assert "made_with" not in (tmp_path / "plain" / "config.toml").read_text()
    own = replace(SETTINGS, made_with=("mine", "other.one"))
    write_tiny(tmp_path / "model", own)
    assert load_model(tmp_path / "model").settings == own


@pytest.mark.parametrize(
    "name", ["tempting", "./tempting.py", "tempting\nnaic: all is well", "\x1b[2J"]
)
@pytest.mark.parametrize("inside", [False, True])
def test_what_it_was_made_with_is_told_and_never_imported(
    name: str, inside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unknown captioner, or a backbone inside a known one."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "tempting.py").write_text("raise RuntimeError('it was imported')\n")
    write_tiny(tmp_path / "model", replace(SETTINGS, made_with=(name,)))
    path = tmp_path / "model" / "config.toml"
    if inside:
        spec = replace(TINY, holds_backbone=True, config=SeeingConfig)
        monkeypatch.setitem(CAPTIONERS, "tiny", spec)
        path.write_text(path.read_text() + 'backbone = "unheard"\n')
    else:
        path.write_text(path.read_text().replace('"tiny"', '"unheard"'))
    with pytest.raises(CheckpointError) as caught:
        load_model(tmp_path / "model")
    assert "asks for a plug-in" in caught.value.hint
    assert ("--plugin tempting (" in caught.value.hint) == (name == "tempting")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("value", ['"mine"', "[1]", "{ a = 1 }"])
def test_plug_ins_that_are_no_list_of_texts_are_refused(value: str, tmp_path: Path) -> None:
    write_tiny(tmp_path / "model")
    path = tmp_path / "model" / "config.toml"
    path.write_text(f"made_with = {value}\n{path.read_text()}")
    with pytest.raises(CheckpointError, match="made_with"):
        load_model(tmp_path / "model")


@pytest.mark.parametrize("captioner", CAPTIONERS)
def test_our_own_captioners_come_back(captioner: str, tmp_path: Path) -> None:
    kind = CAPTIONERS[captioner].config
    sizes = {"width": 8, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "hidden": 16}
    own = {field.name for field in fields(kind)}
    config = kind(length=4, **{name: size for name, size in sizes.items() if name in own})
    model = CAPTIONERS[captioner].build(config, 5, len(VOCABULARY))
    settings = ModelSettings(captioner, 5, len(VOCABULARY), "", config)
    write_model(tmp_path / "m", model.state_dict(), settings, VOCABULARY, "")
    loaded = load_model(tmp_path / "m")
    assert loaded.settings == settings
    assert_same(loaded.model.state_dict(), model.state_dict())
    text = (tmp_path / "m" / "config.toml").read_text().replace("width = 8", 'width = "8"')
    (tmp_path / "m" / "config.toml").write_text(text)
    with pytest.raises(CheckpointError, match=r"model\.width"):
        load_model(tmp_path / "m")


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    with pytest.raises(CheckpointError, match="is there already"):
        write_tiny(tmp_path / "model")
    assert list((tmp_path / "model").iterdir()) == []


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WriteError, match="model: the disk is full"):
        write_tiny(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(WriteError, match=r"model: cannot be written \(Not a directory\)"):
        write_tiny(tmp_path / "file" / "model")


@pytest.mark.parametrize("name", ["model.safetensors", "config.toml", "vocab.json"])
def test_a_missing_file_is_named(name: str, tmp_path: Path) -> None:
    write_tiny(tmp_path / "model")
    (tmp_path / "model" / name).unlink()
    with pytest.raises(CheckpointError, match=f"is no model folder: it has no {name}"):
        load_model(tmp_path / "model")


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('"tiny"', '"huge"', r"there is no captioner 'huge'\. There are: .*tiny"),
        ("features = 5", "features = 5\nspeed = 3", "speed"),
        ("width = 3", "wdith = 3", r"config\.toml: model\.wdith: there is no such key"),
        ("features = 5", 'features = "5"', r"config\.toml: features: '5' is not a whole number"),
        ("words = 6", "words = 7", r"vocab\.json: has 6 words, and config\.toml tells of 7"),
        ("features = 5", "features = = 5", "is no valid TOML"),
        ("[model]", "[modle]", "model"),
    ],
)
def test_a_config_that_cannot_be_is_refused(old: str, new: str, why: str, tmp_path: Path) -> None:
    write_tiny(tmp_path / "model")
    path = tmp_path / "model" / "config.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(CheckpointError, match=why):
        load_model(tmp_path / "model")


def test_model_must_be_a_table(tmp_path: Path) -> None:
    write_tiny(tmp_path / "model")
    path = tmp_path / "model" / "config.toml"
    path.write_text(path.read_text().split("[model]")[0] + "model = 3\n")
    with pytest.raises(CheckpointError, match="model is no table"):
        load_model(tmp_path / "model")


def test_a_broken_vocabulary_is_refused(tmp_path: Path) -> None:
    write_tiny(tmp_path / "model")
    (tmp_path / "model" / "vocab.json").write_text("{}")
    with pytest.raises(VocabularyError):
        load_model(tmp_path / "model")


def test_foreign_weights_are_refused_with_a_few_names(tmp_path: Path) -> None:
    write_tiny(tmp_path / "model")
    path = tmp_path / "model" / "model.safetensors"
    path.write_bytes(save({f"layer{i}.weight": torch.ones(1) for i in range(5)}))
    with pytest.raises(CheckpointError) as caught:
        load_model(tmp_path / "model")
    assert "4 missing (0.weight, 0.bias, 1.weight, …)" in caught.value.why
    assert "5 not known (layer0.weight, layer1.weight, layer2.weight, …)" in caught.value.why


def test_weights_of_another_shape_are_refused(tmp_path: Path) -> None:
    write_tiny(tmp_path / "model", replace(SETTINGS, features=9))
    with pytest.raises(CheckpointError) as caught:
        load_model(tmp_path / "model")
    assert "1 of another shape (0.weight is (3, 5), not (3, 9))" in caught.value.why


class Bomb:
    """Unpickling it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_pickled_file_is_refused_and_not_run(zipped: bool, tmp_path: Path) -> None:
    write_tiny(tmp_path / "model")
    path, trace = tmp_path / "model" / "model.safetensors", tmp_path / "it ran"
    torch.save({"0.weight": Bomb(trace)}, path, _use_new_zipfile_serialization=zipped)
    assert trace.name.encode() in path.read_bytes()
    with pytest.raises(CheckpointError, match="safetensors only; nothing in it was run"):
        load_model(tmp_path / "model")
    assert not trace.exists()
    path.rename(path.with_suffix(".pt"))  # by its other name torch would not unpickle it
    torch.load(path.with_suffix(".pt"), weights_only=False)  # the trap is a real one
    assert trace.exists()


def test_nothing_here_can_unpickle() -> None:
    for module in (folder_module, checkpoint_module):
        assert module.__file__ is not None
        for node in ast.walk(ast.parse(Path(module.__file__).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                assert "pickle" not in ast.dump(node)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert (node.value.id, node.attr) != ("torch", "load")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("width = 8", "width = 80000000"),
        ("hidden = 16", "hidden = 1000000000000"),
        ("encoder_layers = 1", "encoder_layers = 1000000000"),
        ("length = 4", "length = 1000000000000"),
        ("features = 5", "features = 1000000000000000000"),
        ("features = 5", "features = -5"),
    ],
)
def test_settings_that_ask_for_the_impossible_are_refused(
    old: str, new: str, tmp_path: Path
) -> None:
    """Before any memory is asked for."""
    config = TransformerConfig(
        width=8, heads=2, encoder_layers=1, decoder_layers=1, hidden=16, length=4
    )
    model = CAPTIONERS["causal"].build(config, 5, len(VOCABULARY))
    settings = ModelSettings("causal", 5, len(VOCABULARY), "", config)
    write_model(tmp_path / "m", model.state_dict(), settings, VOCABULARY, "")
    path = tmp_path / "m" / "config.toml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(CheckpointError):
        load_model(tmp_path / "m")
