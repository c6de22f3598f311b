"""FNIC: which words are found, their order step by step, and the pass over the coarse caption."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from naic.decode.decoding import READABLE, Decoding
from naic.decode.policy import parallel
from naic.errors import ConfigError
from naic.learn.losses import cross_entropy
from naic.models.fnic import FNIC, OPEN, Ordered, OrderedCaptioner, OrderedConfig, ended, slots_of
from naic.text.vocabulary import BOS, PAD, PERIOD, UNK
from tests.models.small import FEATURES, images

WORDS, LENGTH, FOUND = 12, 6, 5
SIZES: dict[str, Any] = {
    "width": 16,
    "heads": 2,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "hidden": 24,
    "dropout": 0.0,
    "length": LENGTH,
    "found": FOUND,
    "order": 10,
}
MASKED = torch.arange(4) < torch.tensor([4, 2, 3])[:, None]
ONLY = pytest.mark.parametrize("seed", [0, 4, 6])


def make(seed: int = 0) -> OrderedCaptioner:
    """A random one whose scores are spread out."""
    torch.manual_seed(seed)
    model = OrderedCaptioner(OrderedConfig(**SIZES), FEATURES, WORDS).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
        model.decoder.output.weight.mul_(2)
        model.find.weight.mul_(4)
        model.point.weight.mul_(4)
        model.recall.hear.weight.mul_(3)
    return model


def captions() -> Tensor:
    """(2, 2, 6): some words are never found, one caption has no period, one is not there."""
    return torch.tensor(
        [
            [[4, 5, 4, PERIOD, PAD, PAD], [7, 8, 9, 10, 11, 4]],
            [[4, UNK, 5, 6, PERIOD, PAD], [PAD] * 6],
        ]
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_shapes_and_types(dtype: torch.dtype) -> None:
    model, features = make().to(dtype), images(2, dtype=torch.float16)
    fine = model(features)
    assert (fine.shape, fine.dtype) == ((2, 1, LENGTH, WORDS), dtype)
    said = model(features, None, captions())
    assert isinstance(said, Ordered)
    assert said.logits.shape == (2, 2, LENGTH, WORDS)
    assert said.order.shape == (2, 2, LENGTH, FOUND + 2)
    assert (said.targets.shape, said.found.shape) == ((2, 2, LENGTH), (2, WORDS))
    proposed = FNIC.propose(model, features, None, 3)
    assert proposed.words.shape == proposed.log_probs.shape == (2, LENGTH, 3)
    assert proposed.pairs is None


def test_on_the_meta_device_there_are_shapes_only() -> None:
    with torch.device("meta"):
        model = FNIC.build(OrderedConfig(**SIZES), FEATURES, WORDS)
    own = make().state_dict()
    there = model.state_dict()
    assert {name: t.shape for name, t in there.items()} == {
        name: t.shape for name, t in own.items()
    }


@pytest.mark.parametrize(("name", "value"), [("found", 0), ("order", 2000), ("length", 0)])
def test_what_cannot_be_is_refused(name: str, value: int) -> None:
    with pytest.raises(ConfigError, match=rf"model\.{name}"):
        OrderedConfig(**{**SIZES, name: value})


@torch.no_grad()
def test_the_likeliest_words_are_found_and_none_that_is_no_word() -> None:
    seen = make().look(images(3), MASKED)
    for row, slots in zip(seen.found.tolist(), seen.slots.tolist(), strict=True):
        best = sorted(range(4, WORDS), key=lambda word: -row[word])[:FOUND]
        assert slots == [OPEN, PERIOD, *best]
    few = OrderedCaptioner(OrderedConfig(**{**SIZES, "found": 99}), FEATURES, WORDS)
    assert few.look(images(1, dtype=torch.float32)).slots.shape == (1, 2 + WORDS - 4)


def test_slots_and_ends() -> None:
    slots = torch.tensor([[OPEN, PERIOD, 5, 4], [OPEN, PERIOD, 6, 9]])
    assert slots_of(captions(), slots).tolist() == [
        [[3, 2, 3, 1, -100, -100], [0, 0, 0, 0, 0, 3]],
        [[0, 0, 0, 2, 1, -100], [-100] * 6],
    ]
    words = torch.tensor([[4, PERIOD, 5, OPEN], [OPEN, 4, 5, 6], [PERIOD, 4, PERIOD, 4]])
    assert ended(words).tolist() == [[4, 0, 0, 0], [OPEN, 4, 5, 6], [0, 0, 0, 0]]


def torchs_own(model: OrderedCaptioner) -> torch.nn.GRU:
    """The same recurrent network as torch has it."""
    gru = torch.nn.GRU(16, 10).double()
    for name, layer in (("ih", model.recall.hear), ("hh", model.recall.keep)):
        getattr(gru, f"weight_{name}_l0").copy_(layer.weight)
        getattr(gru, f"bias_{name}_l0").copy_(layer.bias)
    return gru


@ONLY
@torch.no_grad()
def test_the_order_is_that_of_a_plain_loop(seed: int) -> None:
    model, features = make(seed), images(3, seed=seed)
    seen = model.look(features, MASKED)
    coarse = model.arrange(seen)
    assert len(set(coarse.flatten().tolist())) > 2
    for row in range(3):
        mean = model.encoder(features, MASKED)[0][row, : int(MASKED[row].sum())].mean(0)
        state, gru = model.begin(mean).tanh()[None], torchs_own(model)
        slots, word, said = seen.slots[row].tolist(), BOS, []
        for _ in range(LENGTH):
            _, state = gru(model.embedding.weight[word][None] * math.sqrt(16), state)
            query = model.point(state[0])
            scores = [float(query @ model.embedding.weight[slot]) for slot in slots]
            word = slots[max(range(len(slots)), key=scores.__getitem__)]
            said.append(word)
        if PERIOD in said:
            said[said.index(PERIOD) :] = [PERIOD] * (LENGTH - said.index(PERIOD))
        assert coarse[row].tolist() == said


@ONLY
@torch.no_grad()
def test_led_along_its_own_order_it_points_at_the_same(seed: int) -> None:
    model, features = make(seed), images(3, seed=seed)
    seen = model.look(features, None)
    coarse = model.arrange(seen)
    targets = slots_of(coarse[:, None], seen.slots).clamp(min=0)  # OPEN is PAD
    order, said = model.follow(seen, targets)
    assert torch.equal(said[:, 0], coarse)
    before = (coarse != PERIOD)[:, None]
    assert torch.equal(order.argmax(-1)[before], targets[before])
    assert_close(model(features), model.refine(seen.memory, said))


@torch.no_grad()
def test_captions_do_not_hear_each_other() -> None:
    model, features, words = make(), images(2), captions()
    together = model(features, None, words)
    for image in range(2):
        for caption in range(2):
            own, one = slice(image, image + 1), slice(caption, caption + 1)
            alone = model(features[own], None, words[own, one])
            assert_close(alone.order, together.order[own, one])
            assert_close(alone.logits, together.logits[own, one])


@torch.no_grad()
def test_a_later_word_never_changes_an_earlier_step_of_the_order() -> None:
    model, features = make(), images(2)
    words = captions()
    plain = model(features, None, words).order
    for place in range(LENGTH):
        other = words.clone()
        other[:, :, place:] = 6
        order = model(features, None, other).order
        assert_close(order[:, :, : place + 1], plain[:, :, : place + 1])


@torch.no_grad()
def test_the_losses_by_hand() -> None:
    model, features, words = make(), images(2), captions()
    assert FNIC.losses is not None
    found = FNIC.losses(model, features, None, words, cross_entropy)
    said = model(features, None, words)
    fine, order = said.logits.log_softmax(-1), said.order.log_softmax(-1)
    slots = model.look(features).slots.tolist()
    sums = {"words": 0.0, "order": 0.0, "found": 0.0}
    for image in range(2):
        there = set(words[image].flatten().tolist())
        for word in range(4, WORDS):
            chance = float(said.found[image, word].sigmoid())
            sums["found"] -= math.log(chance if word in there else 1 - chance)
        for caption in range(2):
            for place, word in enumerate(words[image, caption].tolist()):
                if word != PAD:
                    slot = slots[image].index(word) if word in slots[image] else 0
                    sums["words"] -= float(fine[image, caption, place, word])
                    sums["order"] -= float(order[image, caption, place, slot])
    assert {name: float(loss) for name, loss in found.items()} == pytest.approx(sums, rel=1e-6)


def test_all_weights_learn() -> None:
    model = make()
    assert FNIC.losses is not None
    found = FNIC.losses(model, images(2), None, captions(), cross_entropy)
    total = torch.stack(list(found.values())).sum()
    grads = torch.autograd.grad(total, list(model.parameters()), allow_unused=False)
    assert all(bool(grad.any()) for grad in grads)


@torch.no_grad()
def test_the_fine_caption_is_said_over_the_coarse_one() -> None:
    model, features = make(), images(3)
    seen = model.look(features, MASKED)
    logits = model(features, MASKED)
    assert torch.equal(logits, model.refine(seen.memory, model.arrange(seen)[:, None]))
    silent = model.refine(seen.memory, torch.full((3, 1, LENGTH), OPEN))
    assert not torch.isclose(logits, silent).all(-1).any()
    words = FNIC.caption(model, features, MASKED, Decoding())
    assert torch.equal(words, parallel(logits[:, 0])[0][..., 0])
    FNIC.caption(model, features, MASKED, READABLE)
    with pytest.raises(ConfigError, match="cannot follow 3 sentences"):
        FNIC.caption(model, features, MASKED, Decoding(beam=3))


@torch.no_grad()
def test_an_image_has_no_neighbours_and_no_regions_that_are_not_there() -> None:
    model, features = make(), images(3)
    together = model(features, MASKED)
    other = features.masked_fill(~MASKED[..., None], 9.0)
    for row in range(3):
        own = slice(row, row + 1)
        assert_close(model(features[own], MASKED[own]), together[own])
        assert_close(model(features[own, : int(MASKED[row].sum())]), together[own])
        assert_close(model(other[own], MASKED[own]), together[own])
