"""Student and teacher: of one shape, seeing alike, and the teacher never done early."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from naic.errors import CheckpointError, ConfigError
from naic.models.captioners import CAPTIONERS
from naic.models.folder import ModelSettings, load_model, write_model
from naic.models.nic import Nic, NicConfig
from naic.runtime.load import load_whole
from naic.runtime.sentences import Proposals
from naic.tasks.benchmark import models as models_module
from naic.tasks.benchmark.models import Contest, Way, make_pairs, transformer_base
from naic.text.vocabulary import PAD, PERIOD, SPECIAL, Vocabulary
from tests.runtime.small import CHAIN, LENGTH, NETWORK, PIXELS, WORDS, make_model

CPU = torch.device("cpu")
WAYS = [Way(), *(Way(True, width, cached) for width in (1, 3) for cached in (True, False))]
WRITERS = [name for name, spec in CAPTIONERS.items() if spec.reads_words and name != "causal"]
SEEING = [name for name in WRITERS if CAPTIONERS[name].holds_backbone]  # other Transformers
AGAIN = [name for name in SEEING if name != "satic"]  # word by word


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    make_model(folder / "seeing", backbone=NETWORK)
    make_model(folder / "backbone")
    make_model(folder / "chain", backbone=NETWORK, transitions=4)
    make_model(folder / "teacher", "causal", backbone=NETWORK, seed=7)
    make_model(folder / "ends", "causal", backbone=NETWORK, says=".")
    for name in WRITERS:
        make_model(folder / name, name, backbone=NETWORK if name in SEEING else "", seed=7)
    return folder


def ring(student: Path, teacher: Path | None = None, *, words: int = 4) -> Contest:
    loaded = load_whole(student)
    return Contest(loaded, make_pairs(loaded, teacher, words), CPU)


def said(made: Contest, part: str, way: Way, batch: int = 2, runtime: str = "eager") -> Proposals:
    found = made.runner(part, way, runtime, "float32", batch)()
    assert isinstance(found, Proposals)
    return found


@pytest.mark.parametrize("name", ["seeing", "backbone"])
@pytest.mark.parametrize("way", WAYS)
def test_features_are_said_as_their_pixels(models: Path, name: str, way: Way) -> None:
    made = ring(models / name)
    whole, decode = (said(made, part, way, 1) for part in ("whole", "decode"))
    assert whole.words.shape[:2] == (1, 4 if way.causal else LENGTH)
    assert np.array_equal(whole.words[..., 0], decode.words[..., 0])
    assert np.allclose(whole.log_probs, decode.log_probs, atol=1e-2)  # float16 on the way


@pytest.mark.parametrize("way", [Way(), Way(causal=True)])
def test_a_student_with_transitions_has_a_teacher_without(models: Path, way: Way) -> None:
    found = said(ring(models / "chain"), "decode", way)
    assert found.words.shape == ((2, 4, 1) if way.causal else (2, LENGTH, CHAIN))
    assert (found.pairs is None) == way.causal


@pytest.mark.parametrize("way", WAYS[1:])
@pytest.mark.parametrize("teacher", ["teacher", "ends", *AGAIN])
def test_a_teacher_writes_all_its_words(models: Path, teacher: str, way: Way) -> None:
    made = ring(models / "seeing", models / teacher, words=5)
    words = said(made, "whole", way, 3).words
    assert words.shape == (3, 5, 1)
    assert not np.isin(words, (PERIOD, PAD)).any()


@pytest.mark.parametrize("teacher", ["teacher", *AGAIN])
def test_the_caches_make_no_difference_to_the_words(models: Path, teacher: str) -> None:
    made = ring(models / "seeing", models / teacher)
    for width in (1, 3):
        ways = (Way(True, width, cached) for cached in (True, False))
        with_, without = (said(made, "whole", way).words for way in ways)
        assert np.array_equal(with_, without)


@pytest.mark.parametrize("name", WRITERS)
def test_a_captioner_of_another_kind_stands_in_the_teachers_place(models: Path, name: str) -> None:
    for student in ("seeing", "backbone"):
        made = ring(models / student, models / name, words=5)
        for way in (Way(True), Way(True, 3)):
            whole, decode = (said(made, part, way, 2).words for part in ("whole", "decode"))
            assert whole.shape == (2, 5, 1)
            assert not np.isin(whole, (PERIOD, PAD)).any()
            assert np.array_equal(whole[0], decode[0])
    with pytest.raises(ConfigError, match="MODEL: it writes word by word"):
        make_pairs(load_whole(models / name), None, 4)


def test_one_of_other_words_or_features_is_refused(models: Path, tmp_path: Path) -> None:
    loaded = load_whole(models / "seeing")
    vocabulary = Vocabulary((*SPECIAL, "a"))
    for name, features, words in (("words", 1280, vocabulary), ("small", 5, WORDS)):
        config = NicConfig(width=8, length=LENGTH)
        made = ModelSettings("nic", features, len(words), NETWORK, config)
        weights = Nic(config, features, len(words)).state_dict()
        write_model(tmp_path / name, weights, made, words, "")
    with pytest.raises(ConfigError, match=r"--teacher: .*words has other words"):
        make_pairs(loaded, tmp_path / "words", 4)
    with pytest.raises(ConfigError, match=r"--teacher: .* of size 5, and these have 1280"):
        make_pairs(loaded, tmp_path / "small", 4)


@pytest.mark.parametrize("name", ["teacher", *AGAIN])
def test_a_teacher_has_its_own_weights_and_the_students_backbone(models: Path, name: str) -> None:
    made = ring(models / "seeing", models / name)
    pair = made.pairs["whole"]
    taught = load_whole(models / name).whole.model.state_dict()
    assert pair.teacher is not None
    student, teacher = pair.student.model.state_dict(), pair.teacher.model.state_dict()
    assert pair.teacher.backbone is pair.student.model.backbone
    assert not any(key.startswith("backbone.") for key in teacher)
    assert pair.teacher.spec is load_whole(models / name).whole.spec
    name = "decoder.output.weight"
    assert torch.equal(teacher[name], taught[name])
    assert not torch.equal(teacher[name], student[name])
    other = ring(models / "seeing").pairs["whole"].teacher
    assert other is not None
    assert torch.equal(other.model.state_dict()[name], student[name])


def test_words_as_text(models: Path) -> None:
    made = ring(models / "seeing")
    captions = made.runner("whole", Way(text=True), "eager", "float32", 2)()
    assert isinstance(captions, list)
    assert len(captions) == 2
    assert all(isinstance(caption, str) for caption in captions)


def test_onnx_says_the_same(models: Path) -> None:
    made = ring(models / "seeing")
    eager, exported = (said(made, "whole", Way(), 2, runtime) for runtime in ("eager", "onnx"))
    assert np.array_equal(eager.words[..., 0], exported.words[..., 0])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torch's own, while it compiles
def test_compiled_it_says_the_same(models: Path) -> None:
    made = ring(models / "seeing", models / "teacher")
    for way in (Way(), Way(True, 1), Way(True, 3)):
        for part in ("decode", "whole"):
            eager = said(made, part, way)
            compiled = said(made, part, way, runtime="compile")
            assert np.array_equal(eager.words[..., 0], compiled.words[..., 0])


def test_what_cannot_be_compared_is_refused(models: Path, tmp_path: Path) -> None:
    loaded = load_whole(models / "seeing")
    with pytest.raises(ConfigError, match="MODEL: it writes word by word"):
        make_pairs(load_whole(models / "teacher"), None, 4)
    with pytest.raises(ConfigError, match=f"--words: 7 is not from 1 to {LENGTH}"):
        make_pairs(loaded, None, LENGTH + 1)
    with pytest.raises(ConfigError, match="says all words at once"):
        make_pairs(loaded, models / "seeing", 4)
    with pytest.raises(CheckpointError, match="is no model folder"):
        make_pairs(loaded, tmp_path, 4)


def test_another_shape_is_refused(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded, found = load_whole(models / "seeing"), load_model(models / "teacher")
    config = replace(found.settings.model, heads=4)
    found = found._replace(settings=replace(found.settings, model=config))
    monkeypatch.setattr("naic.tasks.benchmark.teachers.load_model", lambda _: found)
    with pytest.raises(ConfigError, match=r"--teacher: heads is 4 in .*, and 2 in the student"):
        make_pairs(loaded, models / "teacher", 4)


def test_the_papers_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its vocabulary and backbone made small, which are not what is tested here."""
    monkeypatch.setattr(models_module, "BASE_WORDS", 30)
    monkeypatch.setattr(models_module, "BASE_BACKBONE", NETWORK)
    monkeypatch.setattr(models_module, "BASE_PIXELS", PIXELS)
    loaded, pairs = transformer_base(2)
    made = Contest(loaded, pairs, CPU)
    config = loaded.settings.model
    assert (config.encoder_layers, config.decoder_layers, config.width) == (6, 6, 512)
    assert pairs["decode"].inputs(3).shape == (3, 36, 2048)
    for part in ("decode", "whole"):
        assert said(made, part, Way()).words.shape == (2, 16, 5)
        assert said(made, part, Way(True, 3)).words.shape == (2, 2, 1)


@pytest.mark.gpu
@pytest.mark.parametrize("part", ["decode", "whole"])
@pytest.mark.parametrize("way", WAYS)
def test_graphs_say_what_eager_says(models: Path, part: str, way: Way) -> None:
    loaded = load_whole(models / "seeing")
    pairs = make_pairs(loaded, models / "teacher", 4)
    made = Contest(loaded, pairs, torch.device("cuda"))
    for batch in (1, 4):
        graph, eager = (
            made.runner(part, way, runtime, "bfloat16", batch)() for runtime in ("graph", "eager")
        )
        assert isinstance(graph, Proposals)
        assert isinstance(eager, Proposals)
        assert np.array_equal(graph.words[..., 0], eager.words[..., 0])
    assert next(loaded.whole.parameters()).dtype == torch.float32  # the one on the host
