"""What holds of every captioner that writes word by word, beside the Transformer (test_step.py)."""

import random
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from naic.decode.decoding import Decoding
from naic.decode.policy import log_policy, spoken
from naic.decode.stepwise import greedy
from naic.errors import ConfigError
from naic.learn.losses import cross_entropy
from naic.models.captioners import CAPTIONERS
from naic.models.folder import ModelSettings, load_model, write_model
from naic.packing import PackRule, pack
from naic.text.vocabulary import BOS, NEVER, PAD, PERIOD, SPECIAL, Vocabulary
from tests.decode.naive import naive_beam, padded
from tests.models.small import FEATURES, images
from tests.models.weights import assert_same
from tests.models.writers import GRIDS, SIZES, writer

COUNTS = (4, 1, 3)
MASK = torch.arange(4) < torch.tensor(COUNTS)[:, None]
LEARNING = {"nic": 2e-2, "updown": 2e-2, "vsua": 1e-2}  # rates; others learn by less
each = pytest.mark.parametrize("name", list(SIZES))


def test_all_that_write_word_by_word_are_tested() -> None:
    assert {"causal", *SIZES} == {name for name, spec in CAPTIONERS.items() if spec.reads_words}


@each
def test_logits_of_every_caption_and_place(name: str) -> None:
    model = writer(name, dtype=torch.float32)
    words = torch.randint(4, 12, (3, 2, 6))
    logits = model(images(3).half(), MASK, words)  # as a store has them
    assert (logits.shape, logits.dtype) == ((3, 2, 6, 12), torch.float32)
    with pytest.raises(ValueError, match="needs the words"):
        model(images(3).half())


@each
def test_a_later_word_changes_nothing_before_it(name: str) -> None:
    model, features = writer(name), images(2)
    group = SIZES[name].get("group", 1)  # words that are said at once
    words = torch.randint(12, (2, 3, 6))
    with torch.no_grad():
        whole = model(features, None, words)
        for place in range(6):
            after = place - place % group + group
            other = words.clone()
            other[:, :, place:] = torch.randint(12, other[:, :, place:].shape)
            found = model(features, None, other)
            assert torch.equal(found[:, :, :after], whole[:, :, :after])
            other = words.clone()
            other[:, :, place] = (words[:, :, place] + 1) % 12
            found = model(features, None, other)
            assert bool((found[:, :, after:] != whole[:, :, after:]).all())


@each
@torch.no_grad()
def test_alone_as_in_a_batch_and_without_the_regions_that_are_not_there(name: str) -> None:
    model, features = writer(name), images(3)
    words = torch.randint(12, (3, 2, 6))
    together = model(features, MASK, words)
    noise = torch.where(MASK[..., None], features, 1e3 * torch.randn_like(features))
    assert_close(model(noise, MASK, words), together, rtol=0, atol=1e-10)
    for row, count in enumerate(COUNTS):
        own = slice(row, row + 1)
        alone = model(features[own], MASK[own], words[own])
        assert_close(alone[0], together[row], rtol=0, atol=1e-10)
        if name not in GRIDS:
            alone = model(features[own, :count], None, words[own])
            assert_close(alone[0], together[row], rtol=0, atol=1e-10)
    all_real = torch.ones_like(MASK)
    assert_close(model(features, all_real, words), model(features, None, words))


@each
@torch.no_grad()
def test_captions_of_an_image_do_not_know_of_each_other(name: str) -> None:
    model, features = writer(name), images(2)
    words = torch.randint(12, (2, 3, 6))
    alone = [model(features, None, words[:, n : n + 1]) for n in range(3)]
    assert_close(model(features, None, words), torch.cat(alone, 1), rtol=0, atol=1e-10)


@torch.no_grad()
@settings(max_examples=8, deadline=None)
@given(name=st.sampled_from(list(SIZES)), seed=st.integers(0, 1000), width=st.integers(1, 4))
def test_steps_are_the_whole_sentence_whichever_beam_goes_on(
    name: str, seed: int, width: int
) -> None:
    chance = random.Random(seed)
    model, features = writer(name, seed=seed % 7), images(3, seed=seed)
    memory = model.encode(features, MASK)
    assert (memory.batch, memory.device) == (3, features.device)
    cache = model.empty_cache(memory, width)
    sentences: list[list[list[int]]] = [[[] for _ in range(width)] for _ in range(3)]
    for place in range(model.length):
        heard = torch.tensor([[s[-1] if s else BOS for s in image] for image in sentences])
        logits = model.step(heard, torch.tensor(place), memory, cache)
        rows = [[s + [0] * (model.length - len(s)) for s in image] for image in sentences]
        whole = model(features, MASK, torch.tensor(rows))
        assert_close(logits, whole[:, :, place], rtol=0, atol=1e-10)
        parents = [[chance.randrange(width) for _ in range(width)] for _ in range(3)]
        sentences = [
            [[*image[parent], chance.randrange(model.words)] for parent in chosen]
            for image, chosen in zip(sentences, parents, strict=True)
        ]
        cache = model.follow(cache, torch.tensor(parents), torch.tensor(place))


@each
@pytest.mark.parametrize("seed", range(3))
def test_beams(name: str, seed: int) -> None:
    """A beam of one is greedy; wider ones are those of a simple search, and their scores add up."""
    spec, model, features = CAPTIONERS[name], writer(name, seed=seed), images(3, seed=seed)
    counts = (4, 4, 4) if name in GRIDS else COUNTS
    mask = torch.arange(4) < torch.tensor(counts)[:, None]
    said = greedy(model, model.encode(features, mask))
    assert spec.beams is not None
    one = spec.beams(model, features, mask, 1, 1)
    assert torch.equal(one.words[:, 0], said.words)
    assert torch.equal(spec.propose(model, features, mask, 5).words[..., 0], said.words)
    assert torch.equal(spec.caption(model, features, mask, Decoding()), said.words)
    words, scores = spec.beams(model, features, mask, 3, 3)
    assert torch.equal(spec.caption(model, features, mask, Decoding(beam=3)), words[:, 0])
    with torch.no_grad():
        log_probs = log_policy(model(features, mask, words))
    own = spoken(words)
    chosen = log_probs.gather(-1, words.where(own, PERIOD)[..., None])[..., 0]
    assert_close(scores, chosen.where(own, 0.0).sum(-1), rtol=0, atol=1e-10)
    for row, count in enumerate(counts):
        found = naive_beam(model, features[row, :count], 3)
        assert words[row].tolist() == [padded(sentence, model.length) for sentence, _ in found]


@each
def test_samples_are_drawn_by_the_policy(name: str) -> None:
    torch.manual_seed(0)
    model, draw = writer(name), CAPTIONERS[name].sample
    assert draw is not None
    words = draw(model, images(1).expand(40, -1, -1), None, 75)  # (B, S, N)
    assert words.shape == (40, 75, 6)
    assert not bool(torch.isin(words[spoken(words)], torch.tensor(NEVER)).any())
    with torch.no_grad():
        first = log_policy(model(images(1), None, torch.full((1, 1, 6), PAD)))[0, 0, 0].exp()
    shares = torch.bincount(words[:, :, 0].flatten(), minlength=12) / 3000
    assert float((shares - first).abs().max()) < 0.04


@each
def test_it_learns_a_handful_of_captions(name: str) -> None:
    """From chance, log 12 nats a word, to a tenth of a nat."""
    torch.manual_seed(1)
    spec = CAPTIONERS[name]
    model = spec.build(spec.config(**SIZES[name], dropout=0.0, length=6), FEATURES, 12)
    features = images(5, dtype=torch.float32)
    words = torch.randint(4, 12, (5, 1, 6))
    words[:, :, 4], words[:, :, 5] = PERIOD, PAD
    optimiser = torch.optim.Adam(model.parameters(), lr=LEARNING.get(name, 5e-3))
    loss = torch.tensor(0.0)
    for _ in range(80):
        loss = cross_entropy(model(features, None, words), words) / (words != PAD).sum()
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()
    assert loss.item() < 0.1
    for parameter in model.parameters():
        assert parameter.grad is not None
    said = spec.caption(model.eval(), features, None, Decoding())
    assert torch.equal(said, words[:, 0])


@each
def test_dropout_is_noise_while_it_learns_and_not_after(name: str) -> None:
    spec = CAPTIONERS[name]
    model = spec.build(spec.config(**SIZES[name], dropout=0.5, length=6), FEATURES, 12)
    features, words = images(2, dtype=torch.float32), torch.randint(12, (2, 1, 6))
    assert not torch.equal(model(features, None, words), model(features, None, words))
    model.eval()
    assert torch.equal(model(features, None, words), model(features, None, words))


@each
def test_it_comes_back_from_its_folder(name: str, tmp_path: Path) -> None:
    """And is made on torch's device "meta", where no number is drawn."""
    vocabulary = Vocabulary((*SPECIAL, "a", "circle"))
    model = writer(name, words=len(vocabulary), dtype=torch.float32)
    settings = ModelSettings(name, FEATURES, len(vocabulary), "blobs", model.config)
    write_model(tmp_path / "m", model.state_dict(), settings, vocabulary, "")
    before = torch.random.get_rng_state()
    loaded = load_model(tmp_path / "m")
    assert torch.equal(torch.random.get_rng_state(), before)
    assert loaded.settings == settings
    assert_same(loaded.model.state_dict(), model.state_dict())
    with torch.device("meta"):
        shapes = CAPTIONERS[name].build(model.config, FEATURES, len(vocabulary)).state_dict()
    assert {n: t.shape for n, t in shapes.items()} == {
        n: t.shape for n, t in model.state_dict().items()
    }


@each
def test_all_that_stands_for_words_is_packed_as_such(name: str) -> None:
    model = writer(name)
    packed = pack(model.state_dict(), PackRule(bits=4, output_bits=7))
    bits = {n.rsplit("/", 1)[0]: len(t) for n, t in packed.items() if n.endswith("/codes")}
    assert {n for n, own in bits.items() if own == 7} == {
        "decoder.output.weight",
        "decoder.embedding.weight",
    }
    assert set(bits.values()) == {4, 7}


@each
@pytest.mark.parametrize(
    ("size", "value"), [("width", 0), ("length", 0), ("length", 5000), ("dropout", 1.0)]
)
def test_sizes_that_cannot_be(name: str, size: str, value: float) -> None:
    with pytest.raises(ConfigError, match=rf"model\.{size}"):
        CAPTIONERS[name].config(**{**SIZES[name], size: value})


@each
@torch.no_grad()
def test_on_a_processor_bfloat16_says_nearly_the_same(name: str) -> None:
    """As a training step has it: mixed precision, weights of float32."""
    model = writer(name, dtype=torch.float32)
    features, words = images(3).half(), torch.randint(12, (3, 2, 6))
    exact: Tensor = model(features, MASK, words)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = model(features, MASK, words)
        said = CAPTIONERS[name].propose(model, features, MASK, 1)
    assert mixed.dtype == torch.float32
    assert float((mixed - exact).abs().max()) < 0.05 * float(exact.abs().max())
    assert said.words.shape == (3, 6, 1)
