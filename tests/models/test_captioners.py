"""Each line of the table builds its captioner and lets it speak as asked."""

import pytest
import torch

from naic.decode.decoding import Decoding
from naic.decode.policy import log_policy, parallel, spoken
from naic.decode.stepwise import beam_search, greedy
from naic.errors import ConfigError
from naic.models.captioners import CAPTIONERS, captioner_spec
from naic.models.config import TransformerConfig
from naic.models.transformer import TransformerCaptioner
from naic.text.vocabulary import NEVER
from tests.models.small import FEATURES, images, small

MASK = torch.arange(4) < torch.tensor([4, 2, 3])[:, None]


@pytest.mark.parametrize(("name", "causal"), [("causal", True), ("parallel", False)])
def test_builds_what_its_name_says(name: str, causal: bool) -> None:
    spec = CAPTIONERS[name]
    assert spec.config is TransformerConfig
    config = TransformerConfig(16, 2, 1, 1, 24, length=7)
    model = spec.build(config, FEATURES, 11)
    assert isinstance(model, TransformerCaptioner)
    assert (model.causal, model.config, model.length, model.words) == (causal, config, 7, 11)
    assert model.encoder.project.in_features == FEATURES


def test_a_captioner_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match=r"no captioner 'rnn'.*There are: causal, parallel"):
        captioner_spec("rnn")


def test_causal_captions() -> None:
    model, features = small(causal=True), images(3)
    caption = CAPTIONERS["causal"].caption
    memory = model.encode(features, MASK)
    assert torch.equal(caption(model, features, MASK, Decoding()), greedy(model, memory).words)
    wide = beam_search(model, memory, 4).words[:, 0]
    assert torch.equal(caption(model, features, MASK, Decoding(beam=4)), wide)


def test_parallel_captions() -> None:
    model, features = small(causal=False), images(3)
    caption = CAPTIONERS["parallel"].caption
    expected = parallel(model(features, MASK)[:, 0])[0][..., 0]
    assert torch.equal(caption(model, features, MASK, Decoding()), expected)
    with pytest.raises(ConfigError, match=r"cannot follow 3 sentences.*Give beam = 1"):
        caption(model, features, MASK, Decoding(beam=3))


@pytest.mark.parametrize("name", ["causal", "parallel"])
def test_samples(name: str) -> None:
    torch.manual_seed(0)
    model, features = small(causal=name == "causal"), images(3)
    draw = CAPTIONERS[name].sample
    assert draw is not None
    words = draw(model, features, MASK, 30)
    assert words.shape == (3, 30, 6)
    assert not bool(torch.isin(words[spoken(words)], torch.tensor(NEVER)).any())
    for image in words.tolist():
        assert len({tuple(sentence) for sentence in image}) > 5


def test_agents_are_sampled_each_by_its_own_policy() -> None:
    torch.manual_seed(0)
    model, features = small(causal=False), images(1)
    draw = CAPTIONERS["parallel"].sample
    assert draw is not None
    words = draw(model, features, None, 4000)[0]  # (S, N)
    with torch.no_grad():
        probs = log_policy(model(features))[0, 0].exp()
    for agent in range(model.length):
        shares = torch.bincount(words[:, agent], minlength=model.words) / 4000
        assert float((shares - probs[agent]).abs().max()) < 0.04
