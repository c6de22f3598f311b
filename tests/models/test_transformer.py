"""What the captioner sees and does not see."""

import math
import os
import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from naic.models.config import TransformerConfig
from naic.models.layers import additive, linear, sinusoids
from naic.models.transformer import TransformerCaptioner
from naic.text.vocabulary import BOS, PAD
from tests.models.reference import reference
from tests.models.small import FEATURES, images, small


def captions(batch: int, count: int, model: TransformerCaptioner, seed: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(model.words, (batch, count, model.length), generator=generator)


@torch.no_grad()
def test_shapes() -> None:
    causal, parallel = small(causal=True), small(causal=False)
    features, words = images(3), captions(3, 5, causal)
    assert causal(features, None, words).shape == (3, 5, 6, 12)
    assert parallel(features, None, words).shape == (3, 1, 6, 12)
    memory = causal.encode(features)
    assert memory.keys.shape == memory.values.shape == (2, 3, 2, 4, 8)
    assert memory.mask is None
    assert causal.encode(features, torch.ones(3, 4, dtype=torch.bool)).mask is not None
    assert (causal.length, causal.words, causal.causal, parallel.causal) == (6, 12, True, False)


@torch.no_grad()
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("causal", [True, False])
def test_as_the_formulas_have_it(causal: bool, seed: int) -> None:
    model = small(causal=causal, seed=seed)
    features, words = images(2, seed=seed), captions(2, 1, model, seed)
    logits = model(features, None, words)
    for row in range(2):
        said = words[row, 0].tolist() if causal else None
        exact = reference(model, features[row], said)
        assert_close(logits[row, 0], exact, rtol=0, atol=1e-6)  # positions are float32


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64, torch.bfloat16])
def test_any_kind_of_float_is_taken_as_the_weights_are(dtype: torch.dtype) -> None:
    model = small(causal=False, dtype=torch.float32)
    features = images(2).to(dtype)
    logits = model(features)
    assert logits.dtype == torch.float32
    assert torch.equal(logits, model(features.float()))


def test_autocast_on_a_cpu() -> None:
    # In a process of its own: some virtual machines promise AMX to oneDNN and then die of it.
    code = """
import torch
from naic.decode.stepwise import beam_search
from naic.decode.stepwise import greedy
from tests.models.reference import reference
from tests.models.small import images, small
model = small(causal=True, dtype=torch.float32)
mask = torch.ones(2, 4, dtype=torch.bool)
words = torch.full((2, 3, 6), 5)
features = images(2).half()
with torch.autocast("cpu", torch.bfloat16):
    logits = model(features, mask, words)
    memory = model.encode(features, mask)
    assert greedy(model, memory).words.shape == (2, 6)
    assert beam_search(model, memory, 3).scores.dtype == torch.float32
assert logits.dtype == torch.float32
logits.float().sum().backward()
exact = model(features, mask, words)
assert (logits - exact).abs().max() < 0.05 * exact.abs().max(), (logits - exact).abs().max()
print("well")
"""
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == "well\n", done.stderr


@torch.no_grad()
@pytest.mark.parametrize("causal", [True, False])
def test_padded_regions_change_nothing(causal: bool) -> None:
    model = small(causal=causal)
    features, counts = images(3, regions=6), (6, 2, 4)
    words = captions(3, 2, model)
    mask = torch.arange(6) < torch.tensor(counts)[:, None]
    together = model(features, mask, words)
    for row, count in enumerate(counts):
        alone = model(features[row : row + 1, :count], None, words[row : row + 1])
        assert_close(together[row], alone[0], rtol=0, atol=1e-12)
    other = torch.where(mask[..., None], features, 1e3)
    assert_close(model(other, mask, words), together, rtol=0, atol=1e-12)
    assert not torch.allclose(model(features, None, words)[1], together[1])


@torch.no_grad()
def test_regions_have_no_order() -> None:
    model = small(causal=False)
    features = images(2)
    assert_close(model(features.flip(1)), model(features), rtol=0, atol=1e-12)


@torch.no_grad()
def test_a_causal_place_hears_only_earlier_words() -> None:
    model = small(causal=True)
    features, words = images(1), captions(1, 1, model)
    before = model(features, None, words)
    for place in range(model.length):
        changed = words.clone()
        changed[0, 0, place] = (words[0, 0, place] + 1) % model.words
        after = model(features, None, changed)
        heard = (before - after).abs().amax(-1)[0, 0]
        assert bool((heard[: place + 1] < 1e-12).all())
        assert bool((heard[place + 1 :] > 1e-6).all())


@torch.no_grad()
def test_the_first_word_follows_bos() -> None:
    model = small(causal=True)
    words = captions(1, 1, model)
    before = model(images(1), None, words)
    model.decoder.embedding.weight[BOS] = torch.randn(16)
    assert bool(((model(images(1), None, words) - before).abs().amax(-1) > 1e-6).all())


@torch.no_grad()
def test_every_agent_hears_every_other() -> None:
    model = small(causal=False)
    before = model(images(1))
    for place in range(model.length):
        code = model.decoder.positions[place].clone()
        model.decoder.positions[place] = torch.randn(16)
        moved = (model(images(1)) - before).abs().amax(-1)[0, 0]
        assert bool((moved > 1e-6).all())
        model.decoder.positions[place] = code


@torch.no_grad()
def test_agents_hear_no_words() -> None:
    model = small(causal=False)
    features, words = images(2), captions(2, 3, model)
    assert torch.equal(model(features, None, words), model(features, None))
    assert not any("embedding" in name for name, _ in model.named_parameters())


def test_a_causal_captioner_asks_for_words() -> None:
    with pytest.raises(ValueError, match="needs the words"):
        small(causal=True)(images(1))


@torch.no_grad()
def test_five_captions_for_the_price_of_one_encoding() -> None:
    model = small(causal=True)
    features, words = images(3), captions(3, 5, model)
    mask = torch.arange(4) < torch.tensor([4, 3, 2])[:, None]
    rows = []
    for module in (model.encoder, model.decoder.remember_all):
        module.register_forward_hook(lambda _, inputs, __: rows.append(len(inputs[0])))
    together = model(features, mask, words)
    assert rows == [3, 3]
    for caption in range(5):
        alone = model(features, mask, words[:, caption : caption + 1])
        assert_close(together[:, caption], alone[:, 0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("causal", [True, False])
def test_every_parameter_learns(causal: bool) -> None:
    model = small(causal=causal)
    words = torch.arange(12).view(1, 2, 6)  # all of them, so that every embedding is used
    weights = torch.randn(12, dtype=torch.float64)
    (model(images(1), None, words).softmax(-1) * weights).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert float(parameter.grad.abs().sum()) > 0, name


@torch.no_grad()
def test_padding_after_the_period_is_harmless() -> None:
    model = small(causal=True)
    words = captions(1, 1, model)
    padded = words.clone()
    padded[..., 3:] = PAD
    before, after = model(images(1), None, words), model(images(1), None, padded)
    assert_close(before[:, :, :4], after[:, :, :4], rtol=0, atol=1e-12)
    assert bool(after.isfinite().all())


def test_dropout_is_for_training() -> None:
    config = TransformerConfig(16, 2, 1, 1, 24, dropout=0.5, length=4)
    model = TransformerCaptioner(config, FEATURES, 9, causal=False).double()
    features = images(2)
    assert not torch.equal(model(features), model(features))
    model.eval()
    assert torch.equal(model(features), model(features))


def test_positions_are_sines_and_cosines() -> None:
    codes = sinusoids(5, 6)
    for place in range(5):
        for pair in range(3):
            angle = place / 10000 ** (2 * pair / 6)
            assert codes[place, 2 * pair].item() == pytest.approx(math.sin(angle), abs=1e-7)
            assert codes[place, 2 * pair + 1].item() == pytest.approx(math.cos(angle), abs=1e-7)


def test_how_weights_start() -> None:
    torch.manual_seed(0)
    model = TransformerCaptioner(TransformerConfig(64, 4, 1, 1, 96), 40, 500, causal=True)
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            assert not bool(module.bias.any()), name
    assert model.decoder.embedding.weight.std().item() == pytest.approx(64**-0.5, rel=0.02)
    bound = math.sqrt(6 / (64 + 64))
    for block in linear(64, 64, blocks=3).weight.chunk(3):
        assert 0.98 * bound < block.abs().max().item() <= bound
    assert model.decoder.output.weight.abs().max().item() <= math.sqrt(6 / (64 + 500))


def test_what_is_saved_is_learnt() -> None:
    model = small(causal=True)
    assert set(model.state_dict()) == {name for name, _ in model.named_parameters()}


def test_additive_mask() -> None:
    mask = additive(torch.tensor([[True, False]]), torch.float16)
    assert mask.dtype == torch.float16
    assert mask.tolist() == [[0.0, -math.inf]]
