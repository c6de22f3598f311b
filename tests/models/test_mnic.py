"""MNIC: what is masked while it learns, its passes one by one, and how long its sentences are."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from naic.decode.decoding import READABLE, Decoding
from naic.decode.policy import spoken
from naic.errors import ConfigError
from naic.learn.losses import cross_entropy
from naic.models.mnic import MASK, MNIC, Filled, MaskedCaptioner, MaskedConfig, hide, ranks
from naic.text.vocabulary import NEVER, PAD, PERIOD, UNK
from tests.models.small import FEATURES, images

WORDS, LENGTH = 12, 6
SIZES: dict[str, Any] = {
    "width": 16,
    "heads": 2,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "hidden": 24,
    "dropout": 0.0,
    "length": LENGTH,
}
MASKED = torch.arange(4) < torch.tensor([4, 2, 3])[:, None]


def make(passes: int = 3, seed: int = 0) -> MaskedCaptioner:
    """A random one whose scores and lengths are spread out."""
    torch.manual_seed(seed)
    model = MaskedCaptioner(MaskedConfig(**SIZES, passes=passes), FEATURES, WORDS).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
        model.decoder.output.weight.mul_(2)
        model.lengths.weight.mul_(4)
    return model


def captions() -> Tensor:
    """(2, 3, 6): of 3 words, of 6 without a period, of 1; one with UNK, one that is not there."""
    return torch.tensor(
        [
            [[4, 5, 6, PERIOD, PAD, PAD], [7, 8, 9, 10, 11, 4], [5, PERIOD, PAD, PAD, PAD, PAD]],
            [[4, UNK, 5, 6, PERIOD, PAD], [PAD] * 6, [7, 4, PERIOD, PAD, PAD, PAD]],
        ]
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_shapes_and_types(dtype: torch.dtype) -> None:
    model, features = make().to(dtype), images(2, dtype=torch.float16)
    first = model(features)
    assert isinstance(first, Tensor)
    assert (first.shape, first.dtype) == ((2, 1, LENGTH, WORDS), dtype)
    said = model(features, None, shown=captions())
    assert isinstance(said, Filled)
    assert (said.logits.shape, said.lengths.shape) == ((2, 3, LENGTH, WORDS), (2, LENGTH))
    proposed = MNIC.propose(model, features, None, 3)
    assert proposed.words.shape == proposed.log_probs.shape == (2, LENGTH, 3)
    assert proposed.words.dtype == torch.int64
    assert proposed.pairs is None


def test_on_the_meta_device_there_are_shapes_only() -> None:
    with torch.device("meta"):
        model = MNIC.build(MaskedConfig(**SIZES), FEATURES, WORDS)
    own = make().state_dict()
    assert {n: t.shape for n, t in model.state_dict().items()} == {
        n: t.shape for n, t in own.items()
    }


@pytest.mark.parametrize(("name", "value"), [("passes", 0), ("passes", 65), ("width", 15)])
def test_what_cannot_be_is_refused(name: str, value: int) -> None:
    with pytest.raises(ConfigError, match=rf"model\.{name}"):
        MaskedConfig(**{**SIZES, name: value})


def test_ranks_are_places_in_the_order_of_the_values() -> None:
    values = torch.tensor([[0.3, 0.1, 0.3, -1.0, math.inf], [2.0, 2.0, 2.0, 2.0, 2.0]])
    assert ranks(values).tolist() == [[2, 1, 3, 0, 4], [0, 1, 2, 3, 4]]


def test_each_number_of_words_is_masked_as_often() -> None:
    torch.manual_seed(0)
    words = captions()[0].expand(3000, -1, -1)
    shown, targets = hide(words)
    for caption, count in enumerate((3, 6, 1)):
        own, hidden, told = words[0, caption], targets[:, caption] != PAD, shown[:, caption]
        numbers = torch.bincount(hidden.sum(-1), minlength=count + 1) / len(words)
        assert numbers[0] == 0
        assert_close(numbers[1:], torch.full((count,), 1 / count), atol=0.04, rtol=0)
        assert not hidden[:, count:].any()
        assert torch.equal(told, torch.where(hidden, MASK, torch.where(own > 3, own, PERIOD)))
        assert torch.equal(targets[:, caption], torch.where(hidden, own, PAD))
        shares = hidden[:, :count].float().mean(0)  # each place as often as the others
        assert_close(shares, torch.full((count,), (count + 1) / (2 * count)), atol=0.04, rtol=0)


def test_what_is_not_said_is_not_masked() -> None:
    shown, targets = hide(captions())
    assert (shown[1, 1] == PERIOD).all()
    assert (targets[1, 1] == PAD).all()
    assert shown[1, 0, 4] == PERIOD
    assert not ((targets == PERIOD) | (targets == MASK) & (shown == MASK)).any()


@torch.no_grad()
def test_the_losses_by_hand() -> None:
    model, features, words = make(), images(2), captions()
    assert MNIC.losses is not None
    torch.manual_seed(5)
    found = MNIC.losses(model, features, None, words, cross_entropy)
    torch.manual_seed(5)
    shown, targets = hide(words)
    logits, lengths = model(features, None, shown=shown)
    likely, long = logits.log_softmax(-1), lengths.log_softmax(-1)
    said, counted, of_lengths = 0.0, 0, 0.0
    for image, caption in ((0, 0), (0, 1), (0, 2), (1, 0), (1, 2)):
        own = words[image, caption].tolist()
        count = sum(word not in (PERIOD, PAD) for word in own)
        of_lengths -= float(long[image, count - 1])
        for place, word in enumerate(targets[image, caption].tolist()):
            if word != PAD:
                said, counted = said - float(likely[image, caption, place, word]), counted + 1
    assert found.keys() == {"words", "length"}
    assert float(found["words"]) == pytest.approx(said / counted * (3 + 6 + 1 + 4 + 2), rel=1e-6)
    assert float(found["length"]) == pytest.approx(of_lengths, rel=1e-6)


def test_all_weights_learn_and_what_is_told_is_heard() -> None:
    model, words = make(), captions()
    assert MNIC.losses is not None
    total = torch.stack(list(MNIC.losses(model, images(2), None, words, cross_entropy).values()))
    grads = torch.autograd.grad(total.sum(), list(model.parameters()), allow_unused=False)
    assert all(bool(grad.any()) for grad in grads)
    shown = torch.full((2, 2, LENGTH), MASK)
    shown[0, 1, 2] = 7
    logits = model(images(2), None, shown=shown).logits
    same = torch.isclose(logits[:, 0], logits[:, 1]).all(-1)  # (2, 6)
    assert same[1].all()
    assert not same[0].any()


def by_hand(model: MaskedCaptioner, features: Tensor, mask: Tensor | None) -> tuple[Any, Any]:
    """The sentence of one image and its words' log-probabilities, by mask-predict word by word."""
    first = model(features, mask, shown=torch.full((1, 1, LENGTH), MASK))
    likely = first.lengths[0].log_softmax(-1).tolist()
    length = max(range(LENGTH), key=likely.__getitem__) + 1
    words, sure = [MASK] * length, [0.0] * length
    for past in range(model.config.passes):
        hide_count = length * (model.config.passes - past) // model.config.passes
        for place in sorted(range(length), key=lambda n: (sure[n], n))[:hide_count]:
            words[place] = MASK
        told = torch.tensor([[words + [PERIOD] * (LENGTH - length)]])
        logits = model(features, mask, shown=told).logits[0, 0]
        for place in range(length):
            if words[place] == MASK:
                allowed = logits[place].clone()
                allowed[[PERIOD, *NEVER]] = -math.inf
                chances = allowed.log_softmax(-1).tolist()
                words[place] = max(range(WORDS), key=chances.__getitem__)
                sure[place] = chances[words[place]]
    end = [likely[length - 1], *[0.0] * LENGTH] if length < LENGTH else []
    return (words + [PERIOD] * LENGTH)[:LENGTH], (sure + end)[:LENGTH]


@pytest.mark.parametrize("passes", [1, 2, 4, 9])
@torch.no_grad()
def test_the_passes_are_those_of_a_plain_loop(passes: int) -> None:
    lengths, changed = set(), 0
    for seed in range(3):
        model, features = make(passes, seed), images(3, seed=seed)
        proposed = MNIC.propose(model, features, MASKED, 4)
        once = MNIC.propose(make(1, seed), features, MASKED, 4)
        changed += int((once.words[..., 0] != proposed.words[..., 0]).sum())
        for row in range(3):
            words, sure = by_hand(model, features[row : row + 1], MASKED[row : row + 1])
            assert proposed.words[row, :, 0].tolist() == words
            assert proposed.log_probs[row, :, 0].tolist() == pytest.approx(sure)
            lengths.add(words.index(PERIOD) if PERIOD in words else LENGTH)
    assert len(lengths) > 1
    assert bool(changed) == (passes > 1)


@torch.no_grad()
def test_proposals_are_best_first_and_can_be_said() -> None:
    model, features = make(), images(3)
    words, log_probs, _ = MNIC.propose(model, features, MASKED, 100)
    assert words.shape[-1] == WORDS - len(NEVER) - 1  # neither what is no word, nor the period
    assert not torch.isin(words, torch.tensor(NEVER)).any()
    assert (log_probs[..., 1:] <= log_probs[..., :-1]).all()
    said = spoken(words[..., 0])
    assert_close(
        log_probs.exp().sum(-1)[said & (words[..., 0] != PERIOD)].min(), torch.tensor(1.0).double()
    )
    assert torch.equal(MNIC.caption(model, features, MASKED, Decoding()), words[..., 0])
    readable = MNIC.caption(model, features, MASKED, READABLE)
    twice = (readable[:, 1:] == readable[:, :-1]) & (readable[:, 1:] != PERIOD)
    assert not twice.any()
    assert torch.equal(spoken(readable), said)  # as long as before
    with pytest.raises(ConfigError, match="cannot follow 3 sentences"):
        MNIC.caption(model, features, MASKED, Decoding(beam=3))


@torch.no_grad()
def test_an_image_has_no_neighbours_and_no_regions_that_are_not_there() -> None:
    model, features = make(), images(3)
    together = MNIC.propose(model, features, MASKED, 2)
    other = features.masked_fill(~MASKED[..., None], 9.0)
    for row in range(3):
        own = slice(row, row + 1)
        alone = MNIC.propose(model, features[own], MASKED[own], 2)
        cut = MNIC.propose(model, features[own, : int(MASKED[row].sum())], None, 2)
        hidden = MNIC.propose(model, other[own], MASKED[own], 2)
        for found in (alone, cut, hidden):
            assert torch.equal(found.words, together.words[own])
            assert_close(found.log_probs, together.log_probs[own])
