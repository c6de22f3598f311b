from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.distributed
from torch import Tensor, nn

from naic.data.features import FeatureStore
from naic.data.shapes.phrasing import captions as captions_of
from naic.data.shapes.scenes import facts, make_scene
from naic.decode.decoding import Decoding
from naic.decode.stepwise import Beams
from naic.errors import DataError
from naic.metrics.cider import cider
from naic.models.contract import CaptionerSpec, Proposed
from naic.text import PAD, Vocabulary, tokenise
from naic.train import validate as validate_module
from naic.train.validate import Validator
from tests.data.stores import make_store

LENGTH = 16
SCENES = [make_scene(0, i) for i in range(9)]
CAPTIONS = [captions_of(scene) for scene in SCENES]
VOCABULARY = Vocabulary.build([text for own in CAPTIONS for text in own], more_than=0)
ROWS = [8, 1, 2, 3, 5, 6, 7]  # not all, and not in order
REGIONS = [3, 1, 2, 4, 2, 3, 1, 2, 4]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    known = [facts(scene) for scene in SCENES]
    folder = tmp_path_factory.mktemp("stores") / "store"
    return make_store(folder, CAPTIONS, regions=REGIONS, facts=known)


class Parrot(nn.Module):
    """Knows every image by its features, whose mean is near its row, and says what it was told."""

    def __init__(self, says: Callable[[int], str]) -> None:
        super().__init__()
        self.says = says
        self.shapes: list[tuple[int, ...]] = []
        self.modes: list[bool] = []
        self.widths: list[int] = []

    def say(self, features: Tensor, mask: Tensor | None, width: int) -> Tensor:
        self.shapes.append(tuple(features.shape))
        self.modes.append(self.training or torch.is_grad_enabled())
        self.widths.append(width)
        real = torch.ones(features.shape[:2]) if mask is None else mask.float()
        total = (features.float().mean(-1) * real).sum(1) / real.sum(1)
        rows = total.round().long().tolist()
        return torch.tensor([VOCABULARY.encode(self.says(row), LENGTH) for row in rows])


def parroting() -> CaptionerSpec:
    def build(config: object, features: int, words: int) -> nn.Module:
        raise AssertionError

    def propose(model: Parrot, features: Tensor, mask: Tensor | None, choices: int) -> Proposed:
        words = model.say(features, mask, 1)[..., None]
        return Proposed(words, torch.zeros(words.shape))

    def beams(model: Parrot, features: Tensor, mask: Tensor | None, width: int, keep: int) -> Beams:
        words = model.say(features, mask, width)[:, None]
        return Beams(words, torch.zeros(len(words), 1))

    return CaptionerSpec(object, build, propose, beams)


def first_caption(row: int) -> str:
    return CAPTIONS[row][0]


@pytest.mark.parametrize("batch", [1, 3, 7, 100])
def test_every_image_gets_its_own_caption(batch: int, store: FeatureStore) -> None:
    parrot = Parrot(first_caption)
    validator = Validator(store, ROWS, VOCABULARY, batch=batch)
    found = validator.validate(parrot, parroting(), Decoding(3))
    assert list(found.captions) == [f"r{row}" for row in ROWS]
    for row in ROWS:
        assert tokenise(found.captions[f"r{row}"]) == tokenise(CAPTIONS[row][0])
    assert found.facts == 1.0
    assert set(parrot.widths) == {3}
    assert set(parrot.shapes) == {(min(batch, 7), 4, 3)}  # one shape, the last batch included
    assert len(parrot.shapes) == -(-7 // batch)


def test_cider_is_that_of_the_public_evaluation(store: FeatureStore) -> None:
    found = Validator(store, ROWS, VOCABULARY).validate(
        Parrot(lambda row: CAPTIONS[(row + 1) % 9][2]), parroting(), Decoding()
    )
    said = [" ".join(tokenise(CAPTIONS[(row + 1) % 9][2])) for row in ROWS]
    references = [[" ".join(tokenise(text)) for text in CAPTIONS[row]] for row in ROWS]
    assert found.cider == cider(said, references).value
    assert (
        0
        < found.cider
        < Validator(store, ROWS, VOCABULARY)
        .validate(Parrot(first_caption), parroting(), Decoding())
        .cider
    )


def test_habits_and_facts_are_shares(store: FeatureStore) -> None:
    sayings = {8: "a a circle", 1: "a circle with a", 2: "the the"}
    found = Validator(store, ROWS, VOCABULARY).validate(
        Parrot(lambda row: sayings.get(row, CAPTIONS[row][0])), parroting(), Decoding()
    )
    assert found.repeats == 2 / 7
    assert found.bad_endings == 2 / 7
    assert found.facts == 4 / 7


def test_without_facts_there_is_no_share_of_true_captions(tmp_path: Path) -> None:
    plain = make_store(tmp_path / "store", CAPTIONS)
    parrot = Parrot(first_caption)
    found = Validator(plain, ROWS, VOCABULARY).validate(parrot, parroting(), Decoding())
    assert found.facts is None


@pytest.mark.parametrize("training", [True, False])
def test_the_model_is_left_as_it_was(training: bool, store: FeatureStore) -> None:
    parrot = Parrot(first_caption).train(training)
    validator = Validator(store, ROWS, VOCABULARY)
    validator.validate(parrot, parroting(), Decoding())
    assert parrot.modes == [False]  # neither dropout nor gradients while it captioned
    assert parrot.training is training

    def fail(row: int) -> str:
        raise RuntimeError("out of words")

    parrot.says = fail
    with pytest.raises(RuntimeError, match="out of words"):
        validator.validate(parrot, parroting(), Decoding())
    assert parrot.training is training


def test_references_are_tokenised_once(
    store: FeatureStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def spy(caption: str) -> list[str]:
        asked.append(caption)
        return tokenise(caption)

    monkeypatch.setattr(validate_module, "tokenise", spy)
    validator = Validator(store, ROWS, VOCABULARY)
    assert len(asked) == sum(len(CAPTIONS[row]) for row in ROWS)
    for _ in range(2):
        asked.clear()
        validator.validate(Parrot(first_caption), parroting(), Decoding())
        assert len(asked) == len(ROWS)  # the captions of the model


@pytest.mark.parametrize("world", [2, 3, 9])
def test_processes_share_the_images_and_all_know_the_result(
    world: int, store: FeatureStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gathering is acted by the test: first each says its part, then each hears all."""
    expected = Validator(store, ROWS, VOCABULARY).validate(
        Parrot(first_caption), parroting(), Decoding()
    )
    validators = [
        Validator(store, ROWS, VOCABULARY, batch=2, rank=rank, world=world) for rank in range(world)
    ]
    parts: list[list[str]] = []

    class HeardError(Exception):
        pass

    def speak(heard: list[list[str]], own: list[str]) -> None:
        parts.append(own)
        raise HeardError

    def hear(heard: list[list[str]], own: list[str]) -> None:
        heard[:] = parts

    monkeypatch.setattr(torch.distributed, "all_gather_object", speak)
    for validator in validators:
        with pytest.raises(HeardError):
            validator.validate(Parrot(first_caption), parroting(), Decoding())
    assert [len(part) for part in parts] == [len(ROWS[rank::world]) for rank in range(world)]
    monkeypatch.setattr(torch.distributed, "all_gather_object", hear)
    for validator in validators:
        assert validator.validate(Parrot(first_caption), parroting(), Decoding()) == expected


def test_images_that_cannot_be_compared_are_refused(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", [["a circle"], []])
    with pytest.raises(DataError, match="'r1' has no captions to be compared with"):
        Validator(store, [0, 1], VOCABULARY)
    with pytest.raises(DataError, match="no image to validate with"):
        Validator(store, [], VOCABULARY)


def test_padding_after_the_end_is_no_word(store: FeatureStore) -> None:
    """An autoregressive result is PAD after the period, a parallel one has words there."""

    class Chatterer(Parrot):
        def say(self, features: Tensor, mask: Tensor | None, width: int) -> Tensor:
            words = super().say(features, mask, width)
            return words.where(words != PAD, VOCABULARY.id("circle"))

    quiet, chatty = Parrot(first_caption), Chatterer(first_caption)
    own = parroting()
    validator = Validator(store, ROWS, VOCABULARY)
    assert validator.validate(chatty, own, Decoding()) == validator.validate(quiet, own, Decoding())
