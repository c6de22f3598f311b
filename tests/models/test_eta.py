"""ETA: entangled attention and its gate in plain loops, and what attributes are learnt from."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from naic.errors import ConfigError
from naic.models.captioners import CAPTIONERS
from naic.models.eta import EntangledCaptioner, EntangledConfig, EntangledLayer, content_words
from naic.models.folder import ModelSettings, load_model, write_model
from naic.text.vocabulary import BOS, PAD, PERIOD, UNK, Vocabulary
from tests.models.reference import Weights, apply, attend, norm
from tests.models.small import FEATURES, images
from tests.models.writers import SIZES, writer

CONFIG = EntangledConfig(**SIZES["eta"], dropout=0.0, length=6)
ATTRIBUTES, TOLD = 7, 3  # of it
WORDS = Vocabulary.build(
    ["a dog on the grass.", "a dog and a red ball.", "the dog with a ball."], more_than=0
)
ETA = CAPTIONERS["eta"]


def model_of(words: int = 12) -> EntangledCaptioner:
    model = writer("eta", words=words)
    assert isinstance(model, EntangledCaptioner)
    return model


def looked(x: Tensor, keys: Tensor, values: Tensor, w: Weights, name: str) -> Tensor:
    """Multi-head attention of words (T, D) to keys and values (H, S, d), by the formulas."""
    query = apply(x, w, f"{name}.query")
    key, value = (part.transpose(0, 1).flatten(1) for part in (keys, values))
    return apply(attend(query, key, value, CONFIG.heads, causal=False), w, f"{name}.out")


@torch.no_grad()
def test_entangled_attention_and_its_gate_are_the_papers() -> None:
    model = model_of()
    memory = model.encode(images(1))
    layer = model.decoder.layers[1]
    assert isinstance(layer, EntangledLayer)
    w = layer.state_dict()
    x = torch.randn(1, 4, CONFIG.width, dtype=torch.float64)
    found = layer.entangle(x, memory.keys[1], memory.values[1], None)[0]
    regions, told = slice(0, 4), slice(8, 8 + TOLD)
    sought, meaning = slice(4, 8), slice(8 + TOLD, 8 + 2 * TOLD)
    k, v, query = memory.keys[1, 0], memory.values[1, 0], x[0]
    lead = query + looked(query, k[:, told], v[:, told], w, "lead_attributes")
    seen = looked(norm(lead, w, "regions_norm"), k[:, sought], v[:, sought], w, "cross")
    lead = query + looked(query, k[:, regions], v[:, regions], w, "lead_regions")
    lead = norm(lead, w, "attributes_norm")
    meant = looked(lead, k[:, meaning], v[:, meaning], w, "cross_attributes")
    for word in range(4):
        both = torch.cat((query[word], seen[word], meant[word]))
        for number in range(CONFIG.width):
            score = float(w["gate.weight"][number] @ both + w["gate.bias"][number])
            share = 1 / (1 + math.exp(-score))
            expected = share * seen[word, number] + (1 - share) * meant[word, number]
            assert float(found[word, number]) == pytest.approx(float(expected))


@torch.no_grad()
def test_the_likeliest_attributes_are_told_as_words() -> None:
    """Those of no region that is not there, each as large as it is probable."""
    model, features = model_of(), images(2)
    mask = torch.tensor([[True, True, False, False], [True] * 4])
    encoded, blocked = model.encoder(features, mask)
    scores = model.attributes.scores(encoded, blocked)
    w = {f"score.{name}": value for name, value in model.attributes.score.state_dict().items()}
    for image, regions in enumerate((2, 4)):
        by_region = apply(encoded[image, :regions], w, "score")
        for place in range(ATTRIBUTES):
            expected = max(by_region[:, place].tolist())
            assert float(scores[image, place]) == pytest.approx(expected)
    model.attributes.layers = torch.nn.ModuleList()
    told = model.attributes(scores, model.decoder)
    for image in range(2):
        order = sorted(range(ATTRIBUTES), key=lambda place: -float(scores[image, place]))[:TOLD]
        rows = []
        for place in order:
            word = model.decoder.embedding.weight[int(model.attributes.known[place])]
            share = 1 / (1 + math.exp(-float(scores[image, place])))
            rows.append(word * math.sqrt(CONFIG.width) * share)
        assert_close(told[image], model.attributes.norm(torch.stack(rows)))


def test_attributes_are_the_most_frequent_content_words() -> None:
    assert [WORDS.word(i) for i in content_words(WORDS, 4)] == ["dog", "ball", "grass", "red"]
    more = [WORDS.word(i) for i in content_words(WORDS, 6)]
    assert more[4:] == ["a", "the"]  # too few: then others
    ordinary = len(WORDS) - 4
    assert content_words(WORDS, ordinary + 2)[ordinary:] == content_words(WORDS, 2)
    model = ETA.begin(CONFIG, FEATURES, WORDS)
    assert isinstance(model, EntangledCaptioner)
    assert model.attributes.known.tolist() == content_words(WORDS, ATTRIBUTES)


def test_their_loss_is_whether_any_caption_has_the_word() -> None:
    model = ETA.begin(CONFIG, FEATURES, WORDS)
    assert isinstance(model, EntangledCaptioner)
    dog, ball, grass, red = content_words(WORDS, 4)
    words = torch.full((2, 2, 6), PAD)
    words[0, 0, :3] = torch.tensor([dog, UNK, PERIOD])
    words[0, 1, :3] = torch.tensor([dog, grass, PERIOD])
    words[1, 0, :2] = torch.tensor([red, PERIOD])  # it has no second caption
    scores = torch.randn(2, ATTRIBUTES)
    expected = 0.0
    said = [{dog, grass}, {red}]
    for image in range(2):
        for place, word in enumerate(model.attributes.known.tolist()):
            right = 1 / (1 + math.exp(-float(scores[image, place])))
            expected -= math.log(right if word in said[image] else 1 - right)
    losses = model.attributes.loss(scores, words)
    assert losses.shape == (2,)
    assert float(losses.sum()) == pytest.approx(expected / TOLD, rel=1e-5)
    assert ball not in said[0]


def test_all_of_it_learns_from_words_alone_too() -> None:
    """As rewards teach it: no weight is left out, so that processes can share the gradient."""
    model = model_of()
    words = torch.full((2, 1, 6), 5)
    plain = model(images(2), None, words)
    said = model(images(2), None, words, learn=True)
    assert isinstance(plain, Tensor)
    assert not isinstance(said, Tensor)
    assert torch.equal(said.logits, plain)
    assert ETA.losses is not None
    found = ETA.losses(model, images(2), None, words, lambda logits, _: logits.sum())
    assert torch.equal(found["words"], plain.sum())
    assert_close(found["attributes"], 6 * said.attributes.sum())  # beside each of six words
    named = dict(model.named_parameters())
    gradients = torch.autograd.grad(plain.square().sum(), list(named.values()))
    silent = [name for name, own in zip(named, gradients, strict=True) if not bool(own.any())]
    assert silent == []


def test_what_is_known_of_the_words_stays_with_the_model(tmp_path: Path) -> None:
    model = ETA.begin(CONFIG, FEATURES, WORDS)
    settings = ModelSettings("eta", FEATURES, len(WORDS), "", CONFIG)
    write_model(tmp_path / "m", model.state_dict(), settings, WORDS, "")
    loaded = load_model(tmp_path / "m").model
    assert isinstance(loaded, EntangledCaptioner)
    assert loaded.attributes.known.tolist() == content_words(WORDS, ATTRIBUTES)
    assert BOS not in loaded.attributes.known


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"model\.attributes: 0 is not from 1"):
        EntangledConfig(attributes=0)
    with pytest.raises(ConfigError, match=r"model\.told: 9 is not from 1 to the 8 attributes"):
        EntangledConfig(attributes=8, told=9)
    with pytest.raises(ConfigError, match=r"model\.width"):
        replace(CONFIG, width=15)
