"""Sampling: words as often as the policy says, and the log-probabilities of what was sampled."""

import math
from collections import Counter

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from naic.decode.policy import choose, log_policy, spoken
from naic.decode.stepwise import sample
from naic.errors import ConfigError
from naic.models.transformer import TransformerCaptioner
from naic.text.vocabulary import NEVER, PAD, PERIOD
from tests.decode.naive import padded, score, sentences
from tests.models.small import images, small

LOGITS = torch.tensor([0.5, 9.0, 9.0, 9.0, 2.0, 1.0, -1.0, -3.0], dtype=torch.float64)


def chi_square(counts: Tensor, expected: Tensor) -> float:
    return float(((counts - expected) ** 2 / expected).sum())


def test_words_come_as_often_as_they_should() -> None:
    torch.manual_seed(0)
    log_probs = log_policy(LOGITS)
    draws = choose(log_probs.expand(40_000, -1))
    counts = torch.bincount(draws, minlength=8)
    assert counts[list(NEVER)].tolist() == [0, 0, 0]
    kept = [0, 4, 5, 6, 7]
    # 4 degrees of freedom: 18.5 is exceeded once in a thousand
    assert chi_square(counts[kept], 40_000 * log_probs[kept].exp()) < 18.5


def test_sentences_come_as_often_as_they_should() -> None:
    torch.manual_seed(1)
    model = small(causal=True, words=6, length=2)
    image, total = images(1), 4000
    memory = model.encode(image.expand(200, -1, -1))
    words = sample(model, memory, samples=total // 200).words.flatten(0, 1)
    seen = Counter(tuple(sentence) for sentence in words.tolist())
    every = sentences(6, 2)
    assert len(every) == 7
    expected = torch.tensor([total * math.exp(score(model, image[0], s)) for s in every])
    assert float(expected.sum()) == pytest.approx(total)
    counts = torch.tensor([seen[tuple(padded(s, 2))] for s in every])
    assert int(counts.sum()) == total
    large = expected > 5
    assert int(large.sum()) >= 4
    # at most 6 degrees of freedom: 22.5 is exceeded once in a thousand
    assert chi_square(counts[large], expected[large]) < 22.5


def recomputed(model: TransformerCaptioner, features: Tensor, words: Tensor) -> Tensor:
    with torch.no_grad():
        log_probs = log_policy(model(features, None, words))
    own = spoken(words)
    chosen = log_probs.gather(-1, words.where(own, PERIOD)[..., None])[..., 0]
    return chosen.where(own, 0.0)


def test_log_probs_are_those_of_the_distribution_sampled() -> None:
    torch.manual_seed(2)
    for seed in range(4):
        model = small(causal=True, seed=seed)
        features = images(3, seed=seed)
        said = sample(model, model.encode(features), samples=5)
        assert said.words.shape == said.log_probs.shape == (3, 5, 6)
        expected = recomputed(model, features, said.words)
        assert_close(said.log_probs, expected, rtol=0, atol=1e-10)
        own = spoken(said.words)
        assert bool((said.words == PAD)[~own].all())
        assert not bool(torch.isin(said.words[own], torch.tensor(NEVER)).any())


def test_samples_of_an_image_differ() -> None:
    torch.manual_seed(3)
    model = small(causal=True)
    words = sample(model, model.encode(images(2)), samples=20).words
    for image in words.tolist():
        assert len({tuple(sentence) for sentence in image}) > 10


def test_the_seed_decides() -> None:
    model = small(causal=True)
    memory = model.encode(images(2))
    first, second, third = (
        (torch.manual_seed(seed), sample(model, memory, samples=4).words)[1] for seed in (5, 5, 6)
    )
    assert torch.equal(first, second)
    assert not torch.equal(first, third)


def test_special_words_are_never_said() -> None:
    model = small(causal=True)
    with torch.no_grad():
        model.decoder.output.bias[list(NEVER)] += 100
    words = sample(model, model.encode(images(3)), samples=9).words
    assert not bool(torch.isin(words[spoken(words)], torch.tensor(NEVER)).any())


def test_no_samples_are_refused() -> None:
    model = small(causal=True)
    with pytest.raises(ConfigError) as caught:
        sample(model, model.encode(images(1)), samples=0)
    assert caught.value.what == "samples"
