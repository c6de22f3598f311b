"""A teacher that writes word by word, beside the agents."""

from pathlib import Path

import numpy as np
import pytest

from naic.backbones.inside import backbone_digest, backbone_tensors
from naic.errors import BackboneError, ConfigError, NaicError
from naic.models.folder import load_model
from naic.runtime.captioner import Captioner
from naic.runtime.writer import Writer, Written, load_writer
from tests.runtime.small import LENGTH, NETWORK, PIXELS, make_model

IMAGES = np.random.default_rng(0).integers(0, 256, (3, PIXELS, PIXELS, 3), np.uint8)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A student with a backbone, and teachers that see in each of the three ways."""
    folder = tmp_path_factory.mktemp("home")
    make_model(folder / "student", backbone=NETWORK)
    own = backbone_digest(backbone_tensors(load_model(folder / "student").model.state_dict()))
    make_model(folder / "inside", "causal", seed=5, backbone=NETWORK)
    make_model(folder / "features", "causal", seed=6, digest=own)
    make_model(folder / "ends", "causal", digest=own, says=".")
    return folder


def writer(home: Path, teacher: str) -> Writer:
    return load_writer(str(home / teacher), home / "student", "cpu", "float32")


def check(written: Written) -> None:
    times = [seconds for _, seconds in written.words]
    assert times == sorted(times)
    assert times[0] > 0
    assert written.seconds == times[-1]
    assert written.agents > 0


def test_one_with_a_backbone_writes_what_it_says_by_itself(home: Path) -> None:
    both = writer(home, "inside")
    alone = Captioner(home / "inside", device="cpu", runtime="eager")
    for image in IMAGES:
        written = both(image)
        check(written)
        said = alone.engine(image[None]).words[0, :, 0].tolist()
        ids = said[: said.index(0) + 1] if 0 in said else said
        assert [alone.vocabulary.id(word) for word, _ in written.words] == ids
        assert written.caption == alone.vocabulary.decode(ids)


def test_one_that_learnt_from_the_models_features_sees_with_its_backbone(home: Path) -> None:
    """As the rescorer has it: the same features, halves of floats."""
    import torch

    from naic.decode.stepwise import greedy

    both = writer(home, "features")
    student, teacher = load_model(home / "student").model, load_model(home / "features").model
    for image in IMAGES:
        with torch.no_grad():
            seen = student.backbone(torch.from_numpy(image)[None]).half()  # type: ignore[operator]
            wanted = greedy(teacher, teacher.encode(seen.float())).words[0].tolist()  # type: ignore
        written = both(image)
        check(written)
        found = [teacher_word for teacher_word, _ in written.words]
        vocabulary = load_model(home / "features").vocabulary
        assert found == [vocabulary.word(id_) for id_ in wanted[: len(found)]]
        assert len(found) == LENGTH or found[-1] == "."


def test_its_words_end_with_the_period(home: Path) -> None:
    written = writer(home, "ends")(IMAGES[0])
    assert [word for word, _ in written.words] == ["."]
    assert written.caption == ""


def test_what_cannot_write_beside_the_model_is_told(home: Path) -> None:
    with pytest.raises(ConfigError, match="does not write word by word"):
        writer(home, "student")
    make_model(home / "larger", "causal", backbone=NETWORK, pixels=2 * PIXELS)
    with pytest.raises(ConfigError, match="128 pixels a side"):
        writer(home, "larger")
    make_model(home / "stranger", "causal", digest="0" * 64)
    with pytest.raises(BackboneError, match="other weights than those installed"):
        writer(home, "stranger")
    with pytest.raises(NaicError, match="there is no such model"):
        writer(home, "nobody")
    (home / "graph").mkdir()
    (home / "graph" / "model.onnx").touch()
    with pytest.raises(ConfigError, match="exported graph"):
        load_writer(str(home / "inside"), home / "graph", "cpu", "float32")
