"""CTC: the loss is the sum over all paths, and the places say what the contract asks for."""

import math
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from naic.decode.decoding import READABLE, Decoding
from naic.decode.policy import log_policy
from naic.errors import ConfigError
from naic.learn.losses import cross_entropy
from naic.models.captioners import take_weights
from naic.models.ctc import CTC, PlacesCaptioner, PlacesConfig, log_likelihood
from naic.models.transformer import PARALLEL
from naic.text.vocabulary import NEVER, PAD, PERIOD, UNK
from tests.decode.test_prefixes import collapsed
from tests.models.small import FEATURES, images
from tests.models.writers import TRANSFORMER

WORDS, LENGTH = 7, 3
SIZES: dict[str, Any] = {**TRANSFORMER, "dropout": 0.0, "length": LENGTH}
MASKED = torch.arange(4) < torch.tensor([4, 2, 3])[:, None]


def make(seed: int = 0, **more: Any) -> PlacesCaptioner:
    """A random one whose scores are spread out."""
    torch.manual_seed(seed)
    model = PlacesCaptioner(PlacesConfig(**SIZES, **more), FEATURES, WORDS).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
        model.decoder.output.weight.mul_(2)
    return model


def captions() -> Tensor:
    """(2, 3, 3): of all lengths, with the same word in a row, UNK, and one that is not there."""
    return torch.tensor(
        [
            [[4, 5, 6], [4, 4, 4], [5, PERIOD, PAD]],
            [[6, UNK, PERIOD], [PAD, PAD, PAD], [PERIOD, PAD, PAD]],
        ]
    )


def by_enumeration(log_probs: Tensor, caption: list[int]) -> float:
    """The logarithm of the sum over all V^T paths that collapse to a caption."""
    said = tuple(word for word in caption if word not in (PERIOD, PAD))
    paths = product({*said, PERIOD}, repeat=len(log_probs))
    chances = [
        math.exp(sum(float(log_probs[n, word]) for n, word in enumerate(path)))
        for path in paths
        if collapsed(path) == said
    ]
    return math.log(sum(chances))


@pytest.mark.parametrize("places", [5, 6, 7])
def test_the_likelihood_is_the_sum_over_all_paths(places: int) -> None:
    logits = 2 * torch.randn(2, places, WORDS, dtype=torch.float64)
    found = log_likelihood(logits, captions())
    log_probs = logits.log_softmax(-1)
    for image, caption in ((0, 0), (0, 1), (0, 2), (1, 0), (1, 2)):
        own = captions()[image, caption].tolist()
        assert float(found[image, caption]) == pytest.approx(by_enumeration(log_probs[image], own))


def test_a_caption_that_does_not_fit_its_places_has_no_path() -> None:
    """Three times the same word needs five places."""
    found = log_likelihood(torch.zeros(1, 4, WORDS), captions()[:1])
    assert float(found[0, 1]) < -1e8
    assert bool((found[0, [0, 2]] > -20).all())


def test_value_and_gradient_are_those_of_torchs_own_loss() -> None:
    torch.manual_seed(2)
    words = torch.randint(4, 30, (6, 1, 16))
    lengths = torch.tensor([16, 1, 8, 15, 3, 12])
    words = words.where(torch.arange(16) < lengths[:, None, None], PAD)
    words[0, 0, 4:9] = words[0, 0, 4]
    logits = (3 * torch.randn(6, 32, 30)).requires_grad_()
    own = -log_likelihood(logits, words).sum()
    log_probs = logits.transpose(0, 1).log_softmax(-1)  # (T, B, V)
    whole = torch.full((6,), 32)
    other = torch.nn.functional.ctc_loss(
        log_probs, words[:, 0], whole, lengths, blank=PERIOD, reduction="sum"
    )
    assert_close(own, other)
    grads = [torch.autograd.grad(loss, logits)[0] for loss in (own, other)]
    assert_close(*grads, rtol=1e-4, atol=1e-5)


def test_gradients_are_finite_however_sure_it_is() -> None:
    """Also of a caption that is not there, and of one that seems impossible."""
    assert CTC.losses is not None
    logits = torch.full((2, 6, WORDS), -300.0)
    logits[..., 4] = 300.0
    logits.requires_grad_()
    found = log_likelihood(logits, captions())
    assert bool(found.isfinite().all())
    (grad,) = torch.autograd.grad(found.sum(), logits)
    assert bool(grad.isfinite().all())
    assert bool(grad.any())


def test_the_loss_is_that_of_the_captions_that_are_there() -> None:
    model, features = make(), images(2)
    assert CTC.losses is not None
    found = CTC.losses(model, features, None, captions(), cross_entropy)
    log_probs = model(features)[:, 0].detach().log_softmax(-1)
    there = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 2))
    own = [by_enumeration(log_probs[i], captions()[i, c].tolist()) for i, c in there]
    assert found.keys() == {"words"}
    assert float(found["words"].detach()) == pytest.approx(-sum(own))
    weights = list(model.parameters())
    grads = torch.autograd.grad(found["words"], weights, allow_unused=False)
    assert all(bool(grad.any()) and bool(grad.isfinite().all()) for grad in grads)


def test_bfloat16_is_summed_in_float32() -> None:
    logits = 2 * torch.randn(2, 6, WORDS)
    found = log_likelihood(logits.bfloat16(), captions())
    assert found.dtype == torch.float32
    assert_close(found, log_likelihood(logits.bfloat16().float(), captions()))


@pytest.mark.parametrize("places", [2, 3])
def test_shapes(places: int) -> None:
    model = make(places=places)
    assert (model.length, model.config.length) == (LENGTH, LENGTH)
    assert model(images(2)).shape == (2, 1, places * LENGTH, WORDS)
    proposed = CTC.propose(model, images(3), MASKED, 2)
    assert proposed.words.shape == proposed.log_probs.shape == (3, LENGTH, 2)
    assert proposed.pairs is None
    with torch.device("meta"):
        made = CTC.build(PlacesConfig(**SIZES, places=places), FEATURES, WORDS)
    assert {n: t.shape for n, t in made.state_dict().items()} == {
        n: t.shape for n, t in model.state_dict().items()
    }


def test_it_starts_from_a_student_of_words() -> None:
    """No weight is its own: only how many places there are differs."""
    student = PARALLEL.build(PARALLEL.config(**SIZES), FEATURES, WORDS)
    taken = take_weights(make(), student.state_dict())
    assert (taken.reset, taken.unused) == ((), ())


@pytest.mark.parametrize(
    ("name", "value"), [("places", 1), ("places", 17), ("transitions", 4), ("width", 15)]
)
def test_what_cannot_be_is_refused(name: str, value: int) -> None:
    with pytest.raises(ConfigError, match=rf"model\.{name}"):
        PlacesConfig(**{**SIZES, name: value})


@torch.no_grad()
def test_what_is_said() -> None:
    model, features = make(18), images(3)
    said = CTC.caption(model, features, MASKED, Decoding())
    path = log_policy(model(features, MASKED)[:, 0]).argmax(-1).tolist()
    expected = [[*collapsed(tuple(own)), *[PERIOD] * LENGTH][:LENGTH] for own in path]
    assert said.tolist() == expected
    assert len({tuple(row) for row in expected}) > 1
    readable = CTC.caption(model, features, MASKED, READABLE)
    assert not ((readable[:, 1:] == readable[:, :-1]) & (readable[:, 1:] != PERIOD)).any()


@torch.no_grad()
def test_the_search_scores_sentences_by_all_their_paths() -> None:
    model, features = make(3), images(3)
    assert CTC.beams is not None
    words, scores = CTC.beams(model, features, MASKED, 4, 3)
    assert (words.shape, scores.shape) == ((3, 3, LENGTH), (3, 3))
    assert bool((scores[:, 1:] <= scores[:, :-1]).all())
    assert not torch.isin(words[words != PAD], torch.tensor(NEVER)).any()
    log_probs = log_policy(model(features, MASKED)[:, 0])
    for row in range(3):
        assert len({tuple(own) for own in words[row].tolist()}) == 3
        for own, score in zip(words[row].tolist(), scores[row].tolist(), strict=True):
            assert score == pytest.approx(by_enumeration(log_probs[row], own))
            ends = own.index(PERIOD) if PERIOD in own else LENGTH
            assert PAD not in own[:ends]
            assert set(own[ends + 1 :]) <= {PAD}
    assert torch.equal(CTC.caption(model, features, MASKED, Decoding(beam=4)), words[:, 0])
    with pytest.raises(ConfigError, match="do not fit"):
        CTC.beams(model, features, MASKED, 2, 3)


@torch.no_grad()
def test_where_there_are_fewer_sentences_the_rest_are_empty() -> None:
    """With one word and three places of two kinds there are three sentences, and no more."""
    assert CTC.beams is not None
    config = PlacesConfig(**{**SIZES, "length": 1}, places=3)
    model = PlacesCaptioner(config, FEATURES, 5).eval()
    words, scores = CTC.beams(model, images(2, dtype=torch.float32), None, 4, 4)
    assert scores.isneginf().sum(1).tolist() == [2, 2]
    assert sorted(words[0, :2, 0].tolist()) == [PERIOD, 4]
    assert (words[:, 2:, 0] == PERIOD).all()


@torch.no_grad()
def test_an_image_has_no_neighbours_and_no_regions_that_are_not_there() -> None:
    model, features = make(), images(3)
    together = CTC.propose(model, features, MASKED, 2)
    other = features.masked_fill(~MASKED[..., None], 9.0)
    for row in range(3):
        own = slice(row, row + 1)
        cut = CTC.propose(model, features[own, : int(MASKED[row].sum())], None, 2)
        hidden = CTC.propose(model, other[own], MASKED[own], 2)
        for found in (cut, hidden):
            assert torch.equal(found.words, together.words[own])
            assert_close(found.log_probs, together.log_probs[own])


def test_it_learns_captions_that_other_students_mix_up() -> None:
    """Two captions of one image, the second a word later; and of one with a word said twice."""
    torch.manual_seed(1)
    config = PlacesConfig(**{**SIZES, "length": 5, "encoder_layers": 1, "decoder_layers": 1})
    model = PlacesCaptioner(config, FEATURES, 12)
    features = images(2, dtype=torch.float32)
    words = torch.tensor([[[4, 5, 6, 0, 3], [7, 4, 5, 6, 0]], [[8, 8, 9, 10, 0], [8, 8, 9, 10, 0]]])
    assert CTC.losses is not None
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(35):
        loss = CTC.losses(model, features, None, words, cross_entropy)["words"]
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()
    assert CTC.beams is not None
    best = CTC.beams(model.eval(), features, None, 3, 2).words
    for row in range(2):
        told = [[word for word in own if word != PAD] for own in words[row].tolist()]
        assert [word for word in best[row, 0].tolist() if word != PAD] in told
