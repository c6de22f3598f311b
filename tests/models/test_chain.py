"""The chain against a list of all its sentences: N = 3 agents, K = 4 candidates, float64."""

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from naic.decode.decoding import Decoding, likeliest_words, without_repeats
from naic.decode.policy import log_policy
from naic.errors import ConfigError
from naic.models.captioners import CAPTIONERS, take_weights
from naic.models.chain import (
    Chain,
    Steps,
    Transitions,
    divergence,
    entropy,
    log_normaliser,
    log_prob,
    marginals,
    sample,
    steps,
    tempered,
    viterbi,
)
from naic.models.config import TransformerConfig
from naic.models.transformer import TransformerCaptioner
from naic.text.vocabulary import NEVER, PERIOD
from tests.models.small import FEATURES, images, small

AGENTS, CHOICES, WORDS = 3, 4, 9
Sentence = tuple[int, ...]


def chain_of(seed: int = 0, batch: int = 2, strength: float = 1.0) -> Chain:
    """Candidates in an order of chance; the last image's have the period but once."""
    generator = torch.Generator().manual_seed(seed)
    sayable = [word for word in range(WORDS) if word not in NEVER]
    words = torch.stack(
        [
            torch.tensor(sayable)[torch.randperm(len(sayable), generator=generator)[:CHOICES]]
            for _ in range(batch * AGENTS)
        ]
    ).view(batch, AGENTS, CHOICES)
    words[0, 1:, 2] = torch.where((words[0, 1:] == PERIOD).any(-1), words[0, 1:, 2], PERIOD)
    scores = torch.randn(words.shape, generator=generator, dtype=torch.float64)
    pairs = torch.randn(batch, AGENTS - 1, CHOICES, CHOICES, generator=generator).double()
    return Chain(words, scores, strength * pairs)


def listed(chain: Chain, row: int) -> dict[Sentence, Tensor]:
    """The score of every sentence of an image: to its first period and with it."""
    found: dict[Sentence, Tensor] = {}
    for places in itertools.product(range(CHOICES), repeat=AGENTS):
        said = [int(chain.words[row, n, i]) for n, i in enumerate(places)]
        end = said.index(PERIOD) if PERIOD in said else AGENTS - 1
        score = chain.scores[row, 0, places[0]]
        for n in range(end):
            score = score + chain.pairs[row, n, places[n], places[n + 1]]
            score = score + chain.scores[row, n + 1, places[n + 1]]
        found[tuple(said[: end + 1])] = score
    return found


def chances(chain: Chain, row: int) -> dict[Sentence, Tensor]:
    scores = listed(chain, row)
    normaliser = torch.stack(list(scores.values())).logsumexp(0)
    return {sentence: (score - normaliser).exp() for sentence, score in scores.items()}


def padded(sentence: Sentence, agents: int = AGENTS) -> list[int]:
    return [*sentence, *[PERIOD] * (agents - len(sentence))]


def best_without_repeats(chain: Chain, row: int) -> tuple[Sentence, bool]:
    """The best sentence that has no repeat, and whether the best of all has one.

    Where that has one, somebody speaks: to say nothing is no way out.
    """
    words, own, pairs = (part[row].tolist() for part in chain)
    found: dict[Sentence, float] = {}
    for places in itertools.product(range(len(words[0])), repeat=len(words)):
        said = [words[n][i] for n, i in enumerate(places)]
        end = said.index(PERIOD) if PERIOD in said else len(said) - 1
        score = sum(own[n][i] for n, i in enumerate(places[: end + 1]))
        both = enumerate(itertools.pairwise(places[: end + 1]))
        found[tuple(said[: end + 1])] = score + sum(pairs[n][i][j] for n, (i, j) in both)
    best = max(found, key=lambda sentence: found[sentence])
    repeats = any(a == b for a, b in itertools.pairwise(best))
    calm = [s for s in found if all(a != b for a, b in itertools.pairwise(s))]
    if repeats:
        calm = [sentence for sentence in calm if sentence[0] != PERIOD]
    return max(calm, key=lambda sentence: found[sentence]), repeats


def decoded(chain: Chain, *, repeats: bool) -> list[list[int]]:
    """As `naic caption` decodes it, up to the period."""
    words, own, pairs = (part.numpy() for part in chain)
    find = likeliest_words if repeats else without_repeats
    said = np.take_along_axis(words, find(words, own, pairs)[..., None], -1)[..., 0].tolist()
    ends = [one.index(PERIOD) if PERIOD in one else len(one) for one in said]
    return [padded(tuple(one[:end]), len(one)) for one, end in zip(said, ends, strict=True)]


@pytest.mark.parametrize("seed", range(3))
def test_normaliser_and_probabilities(seed: int) -> None:
    chain = chain_of(seed)
    for row in range(2):
        scores = listed(chain, row)
        assert any(len(sentence) < AGENTS for sentence in scores)
        exact = torch.stack(list(scores.values())).logsumexp(0)
        assert_close(log_normaliser(chain)[row], exact, rtol=0, atol=1e-12)
        own = Steps(*(part[row : row + 1] for part in steps(chain)))
        said = torch.tensor([[padded(sentence) for sentence in scores]])
        found = log_prob(own, said).sum(-1)[0].exp()
        assert_close(found, torch.stack(list(chances(chain, row).values())), rtol=0, atol=1e-12)
        assert float(found.sum()) == pytest.approx(1, abs=1e-12)


def test_what_comes_after_the_period_does_not_count_and_strangers_cannot_be_said() -> None:
    chain = chain_of()
    sentence = next(s for s in listed(chain, 0) if len(s) == 2)
    one, two = padded(sentence), [*sentence, 7]
    found = log_prob(steps(chain), torch.tensor([[one, two]] * 2))[0]
    assert torch.equal(found[0], found[1])
    assert found[0, 2] == 0
    missing = next(word for word in range(4, WORDS) if word not in chain.words[0, 0])
    assert log_prob(steps(chain), torch.tensor([[[missing, 4, 4]]] * 2))[0, 0, 0] == -torch.inf


@pytest.mark.parametrize("seed", range(3))
def test_marginals_and_entropy(seed: int) -> None:
    chain = chain_of(seed)
    found, unsure = marginals(steps(chain)), entropy(steps(chain))
    for row in range(2):
        exact = torch.zeros(AGENTS, CHOICES, dtype=torch.float64)
        listing = chances(chain, row)
        for sentence, chance in listing.items():
            for agent, word in enumerate(sentence):
                exact[agent] += chance * (chain.words[row, agent] == word)
        assert_close(found[row], exact, rtol=0, atol=1e-12)
        whole = -sum(float(p * p.log()) for p in listing.values())
        assert float(unsure[row].sum()) == pytest.approx(whole, abs=1e-12)


def test_at_another_temperature() -> None:
    """p^(1 / T), normalised; the likeliest sentence stays the likeliest."""
    chain = chain_of(1)
    flat = tempered(chain, 2.5)
    assert torch.equal(viterbi(flat), viterbi(chain))
    for row in range(2):
        before, found = chances(chain, row), chances(flat, row)
        total = sum(float(p) ** 0.4 for p in before.values())
        for sentence, chance in found.items():
            assert float(chance) == pytest.approx(float(before[sentence]) ** 0.4 / total, abs=1e-12)


def test_divergence_from_another_chain_of_the_same_words() -> None:
    one, two = chain_of(0), chain_of(1)._replace(words=chain_of(0).words)
    found = divergence(steps(one), steps(two)).sum(1)
    for row in range(2):
        mine, other = chances(one, row), chances(two, row)
        exact = sum(float(p * (p / other[sentence]).log()) for sentence, p in mine.items())
        assert float(found[row]) == pytest.approx(exact, abs=1e-12)
        assert exact > 0.1
    assert not divergence(steps(one), steps(one)).any()


def test_the_likeliest_sentence() -> None:
    repeated = 0
    for chain in map(chain_of, range(5)):
        found, calm = viterbi(chain).tolist(), decoded(chain, repeats=False)
        assert decoded(chain, repeats=True) == found
        for row in range(2):
            scores = listed(chain, row)
            best = max(scores, key=lambda sentence: float(scores[sentence]))
            assert found[row] == padded(best)
            best, repeats = best_without_repeats(chain, row)
            assert calm[row] == padded(best)
            repeated += repeats
    assert repeated


def test_samples_come_as_often_as_they_should() -> None:
    chain = chain_of(1)
    torch.manual_seed(0)
    said = sample(steps(chain), 40_000)
    for row in range(2):
        counts = Counter(map(tuple, said[row].tolist()))
        frequencies = {sentence: count / 40_000 for sentence, count in counts.items()}
        for sentence, chance in chances(chain, row).items():
            p = float(chance)
            away = frequencies.pop(tuple(padded(sentence)), 0.0) - p
            assert abs(away) < 5 * (p * (1 - p) / 40_000) ** 0.5 + 1e-4
        assert not frequencies, "what is no sentence was said"


def test_gradients() -> None:
    chain = chain_of(2)
    said = torch.tensor(
        [[padded(s) for s in itertools.islice(listed(chain, row), 9)] for row in (0, 1)]
    )
    inputs = (chain.scores.requires_grad_(), chain.pairs.requires_grad_())

    def everything(scores: Tensor, pairs: Tensor) -> tuple[Tensor, ...]:
        own = Chain(chain.words, scores, pairs)
        told, other = steps(own), steps(chain_of(3)._replace(words=chain.words))
        probabilities = log_prob(told, said).sum(-1)
        return log_normaliser(own), probabilities, entropy(told), divergence(told, other)

    assert torch.autograd.gradcheck(everything, inputs)


def test_without_pairs_it_is_the_policy_of_agents_by_themselves() -> None:
    torch.manual_seed(0)
    logits = torch.randn(2, AGENTS, WORDS, dtype=torch.float64)
    transitions = Transitions(WORDS, 8, 2, choices=100).double()  # fresh, and over all words
    assert transitions.choices == WORDS - len(NEVER)
    chain = transitions.chain(logits, torch.randn(2, AGENTS, 2, dtype=torch.float64))
    assert not chain.pairs.any()
    assert_close(log_normaliser(chain), torch.zeros(2, dtype=torch.float64), rtol=0, atol=1e-12)
    said = torch.tensor([[[4, 5, 8], [4, PERIOD, PERIOD]]] * 2)
    own = log_policy(logits)[:, None].expand(-1, 2, -1, -1).gather(-1, said[..., None])[..., 0]
    own[:, 1, 2] = 0  # it does not speak
    assert_close(log_prob(steps(chain), said), own, rtol=0, atol=1e-12)


@torch.no_grad()
def test_pairs_as_the_formula_has_them() -> None:
    torch.manual_seed(0)
    transitions = Transitions(WORDS, 8, 2, CHOICES).double()
    torch.nn.init.normal_(transitions.after.weight)
    words, context = chain_of().words, torch.randn(2, AGENTS, 2, dtype=torch.float64)
    found = transitions.pairs(words, context)
    for b, n, i, j in itertools.product(
        range(2), range(AGENTS - 1), range(CHOICES), range(CHOICES)
    ):
        one = transitions.before.weight[words[b, n, i]]
        two = transitions.after.weight[words[b, n + 1, j]]
        exact = sum(one[r] * (1 + context[b, n + 1, r]) * two[r] for r in range(2))
        assert float(found[b, n, i, j]) == pytest.approx(float(exact), abs=1e-12)


def chained(seed: int = 0) -> TransformerCaptioner:
    """A small captioner whose agents hear each other; all its weights are by chance."""
    plain = small(causal=False, seed=seed)
    config = replace(plain.config, transitions=3, choices=4)
    model = TransformerCaptioner(config, FEATURES, 12, causal=False).double().eval()
    take_weights(model, plain.state_dict())
    assert model.transitions is not None
    for parameter in model.transitions.parameters():
        torch.nn.init.normal_(parameter)
    return model


@torch.no_grad()
def test_a_captioner_with_fresh_transitions_says_what_it_said() -> None:
    plain = small(causal=False)
    config = replace(plain.config, transitions=3, choices=4)
    model = TransformerCaptioner(config, FEATURES, 12, causal=False).double().eval()
    reset = take_weights(model, plain.state_dict()).reset
    assert len(reset) == 4
    assert all(name.startswith("decoder.transitions.") for name in reset)
    logits, context = model(images(2))
    assert torch.equal(logits, plain(images(2)))
    assert context.shape == (2, 1, 6, 3)
    assert model.transitions is not None
    assert not model.transitions.chain(logits[:, 0], context[:, 0]).pairs.any()


def test_every_parameter_learns() -> None:
    model = chained()
    assert model.transitions is not None
    logits, context = model(images(1))
    chain = model.transitions.chain(logits[:, 0], context[:, 0])
    loss = log_prob(steps(chain), viterbi(chain)[:, None]).sum()
    found = torch.autograd.grad(loss, list(model.parameters()))
    for (name, _), gradient in zip(model.named_parameters(), found, strict=True):
        assert float(gradient.abs().sum()) > 0, name


@torch.no_grad()
def test_it_is_decoded_and_sampled_as_a_chain() -> None:
    model, spec, features = chained(), CAPTIONERS["parallel"], images(3)
    assert spec.sample is not None
    assert model.transitions is not None
    logits, context = model(features)
    chain = model.transitions.chain(logits[:, 0], context[:, 0])
    found = spec.caption(model, features, None, Decoding())
    assert torch.equal(found, viterbi(chain))
    calm = spec.caption(model, features, None, Decoding(repeats=False))
    for row, said in enumerate(calm.tolist()):
        assert said == padded(best_without_repeats(chain, row)[0], len(said))
    torch.manual_seed(0)
    drawn = spec.sample(model, features, None, 5)
    torch.manual_seed(0)
    assert torch.equal(drawn, sample(steps(chain), 5))


def test_what_cannot_be() -> None:
    with pytest.raises(ConfigError, match="causal captioner hears all"):
        TransformerCaptioner(TransformerConfig(16, 2, 1, 1, 24, transitions=2), 5, 9, causal=True)
    for wrong in (-1, 5000):
        with pytest.raises(ConfigError, match=f"{wrong} is not from"):
            TransformerConfig(transitions=wrong)
    with pytest.raises(ConfigError, match="1 is not from 2"):
        TransformerConfig(choices=1)
