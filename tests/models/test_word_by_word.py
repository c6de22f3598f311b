"""What all captioners with a Transformer's decoder must keep to, whatever their encoder is."""

import pytest
import torch
from torch.testing import assert_close

from naic.decode.decoding import Decoding
from naic.decode.policy import log_policy, spoken
from naic.models.captioners import CAPTIONERS
from naic.text.vocabulary import NEVER
from tests.models.small import FEATURES, WORD_BY_WORD, images, small_of
from tests.models.test_step import stepwise

MASK = torch.arange(4) < torch.tensor([4, 2, 3])[:, None]


@pytest.fixture(params=WORD_BY_WORD)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def words_of(name: str, captions: int = 2) -> torch.Tensor:
    """(3, C, 6) of words that can be said."""
    generator = torch.Generator().manual_seed(len(name))
    return torch.randint(max(NEVER) + 1, 12, (3, captions, 6), generator=generator)


@pytest.mark.parametrize("kind", [torch.float32, torch.float16])
def test_features_of_any_kind_give_logits_of_the_models(name: str, kind: torch.dtype) -> None:
    model = small_of(name)
    logits = model(images(3).to(kind), MASK, words_of(name))
    assert logits.shape == (3, 2, 6, 12)
    assert logits.dtype == torch.float64
    assert bool(logits.isfinite().all())


def test_its_weights_have_shapes_without_numbers(name: str) -> None:
    own = small_of(name).state_dict()
    with torch.device("meta"):
        build = CAPTIONERS[name].build
        shapes = build(WORD_BY_WORD[name], FEATURES, 12).state_dict()
    assert {key: value.shape for key, value in shapes.items()} == {
        key: value.shape for key, value in own.items()
    }
    assert all(value.is_meta for value in shapes.values())


@torch.no_grad()
def test_a_word_changes_nothing_before_it(name: str) -> None:
    model, words = small_of(name), words_of(name)
    before = model(images(3), MASK, words)
    for place in range(6):
        changed = words.clone()
        changed[..., place] = 4 + (changed[..., place] - 3) % 8
        after = model(images(3), MASK, changed)
        assert torch.equal(after[:, :, : place + 1], before[:, :, : place + 1])
        if place < 5:
            assert not torch.allclose(after[:, :, place + 1], before[:, :, place + 1])


@torch.no_grad()
def test_a_batch_is_its_images_one_by_one(name: str) -> None:
    model, words = small_of(name), words_of(name)
    whole = model(images(3), MASK, words)
    for row in range(3):
        own = slice(row, row + 1)
        alone = model(images(3)[own], MASK[own], words[own])
        assert_close(alone, whole[own], rtol=0, atol=1e-10)


@torch.no_grad()
def test_regions_that_are_not_there_are_not_seen(name: str) -> None:
    model, words, features = small_of(name), words_of(name), images(3)
    whole = model(features, MASK, words)
    other = features.where(MASK[..., None], 7.0)
    assert torch.equal(model(other, MASK, words), whole)
    assert not torch.allclose(model(other, None, words), whole)
    every = torch.ones_like(MASK)
    assert_close(model(features, every, words), model(features, None, words))


def test_steps_with_a_cache_are_the_whole_sentence(name: str) -> None:
    model, words = small_of(name), words_of(name, 4)
    with torch.no_grad():
        whole = model(images(3), MASK, words)
    assert_close(stepwise(model, images(3), MASK, words), whole, rtol=0, atol=1e-10)


@torch.no_grad()
def test_beam_1_is_greedy_and_scores_are_sums(name: str) -> None:
    model, spec, features = small_of(name), CAPTIONERS[name], images(3)
    assert spec.beams is not None
    greedy = spec.caption(model, features, MASK, Decoding())
    assert torch.equal(spec.beams(model, features, MASK, 1, 1).words[:, 0], greedy)
    found = spec.beams(model, features, MASK, 4, 4)
    policy = log_policy(model(features, MASK, found.words))
    said = policy.gather(-1, found.words[..., None])[..., 0]
    sums = said.where(spoken(found.words), 0.0).sum(-1)
    assert_close(found.scores, sums, rtol=0, atol=1e-5, check_dtype=False)
    assert torch.equal(spec.caption(model, features, MASK, Decoding(beam=4)), found.words[:, 0])


def test_it_samples_its_own_policy(name: str) -> None:
    """The shares of the first words are their probabilities."""
    torch.manual_seed(0)
    model, spec = small_of(name), CAPTIONERS[name]
    assert spec.sample is not None
    words = spec.sample(model, images(1).expand(40, -1, -1), None, 50)[:, :, 0].flatten()
    with torch.no_grad():
        probs = log_policy(model(images(1), None, words_of(name)[:1]))[0, 0, 0].exp()
    shares = torch.bincount(words, minlength=12) / 2000
    assert float((shares - probs).abs().max()) < 0.05
