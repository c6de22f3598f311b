"""Agents that hear each other a little: a linear chain over each agent's likeliest words.

All agents still speak at the same moment, after one pass through the network, but a pair of
neighbouring words has a score of its own. A sentence ends at its first period or with the last
agent, e, and is said with a probability proportional to

    exp(Σ_{n ≤ e} log π_n(w_n) + Σ_{n < e} pair_n(w_n, w_{n+1})),

a conditional random field (Sun et al., 2019) over the K likeliest words of each agent. What the
agents after the period would say is no part of it. If all pairs have score 0 and K is all words,
this is the policy of agents that do not hear each other, and the normaliser is 1.

Everything here is exact, in log-space and in at least float32; N steps of small tensor work that
never waits for the host. B images, N agents, K candidates, S sentences of an image, r the rank.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from naic.decode.policy import log_policy, spoken
from naic.models.layers import linear
from naic.text.vocabulary import NEVER, PERIOD

TRANSITIONS = "decoder.transitions."  # how the names of their weights begin in a captioner


class ChainScores(NamedTuple):
    """What a captioner with transitions answers.

    Attributes:
        logits: (B, 1, N, V) as those of a captioner without.
        context: (B, 1, N, r) how each agent weighs what it hears.
    """

    logits: Tensor
    context: Tensor


class Chain(NamedTuple):
    """All sentences of the candidates, and what each is worth.

    Attributes:
        words: (B, N, K) int64 the candidates of each agent, no word twice.
        scores: (B, N, K) their log-probabilities for an agent by itself.
        pairs: (B, N - 1, K, K) what it adds that agent n says its i-th and n + 1 its j-th.
    """

    words: Tensor
    scores: Tensor
    pairs: Tensor


class Steps(NamedTuple):
    """The same distribution, as what an agent says given the word before.

    Attributes:
        words: (B, N, K) int64 the candidates.
        first: (B, K) log-probabilities of the first agent's words.
        then: (B, N - 1, K, K) of agent n + 1 saying its j-th, if agent n has said its i-th. After
            a period they are probabilities too, of what is no part of the sentence.
    """

    words: Tensor
    first: Tensor
    then: Tensor


class Transitions(nn.Module):
    """The score of each pair of neighbouring words: low rank, and weighed by the image.

    A table of all pairs would have V² numbers; two tables of V·r hold what words do to each other,
    and the agent that comes second, which has seen the image, weighs each of the r parts. At first
    `after` and `context` are zero, and so is every pair: agents that have learnt without
    transitions go on from exactly what they say.

    Attributes:
        before: (V, r) a word as the one before.
        after: (V, r) a word as the one after.
        context: the hidden state of an agent, (..., D), to its weights less 1, (..., r).
        choices: K, the candidates of each agent; at most the words that can be said.
    """

    def __init__(self, words: int, width: int, rank: int, choices: int) -> None:
        super().__init__()
        self.before = nn.Embedding(words, rank)
        self.after = nn.Embedding(words, rank)
        self.context = linear(width, rank)
        nn.init.zeros_(self.after.weight)
        nn.init.zeros_(self.context.weight)
        self.choices = min(choices, words - len(NEVER))

    def pairs(self, words: Tensor, context: Tensor) -> Tensor:
        """(B, N - 1, K, K) Σ_r before[w]_r · (1 + context_{n+1})_r · after[w']_r.

        Args:
            words: (B, N, K) candidates.
            context: (B, N, r); that of the first agent, who hears nobody, is not used.
        """
        with torch.autocast(words.device.type, enabled=False):
            weights = 1 + context[:, 1:, None].to(self.before.weight.dtype)  # (B, N - 1, 1, r)
            before = self.before(words[:, :-1]) * weights  # (B, N - 1, K, r)
            after = self.after(words[:, 1:])  # (B, N - 1, K, r)
            pairs: Tensor = before @ after.transpose(-1, -2)
            return pairs.to(torch.promote_types(pairs.dtype, torch.float32))

    def chain(self, logits: Tensor, context: Tensor, words: Tensor | None = None) -> Chain:
        """The chain over the likeliest words of each agent, or over `words`.

        Args:
            logits: (B, N, V).
            context: (B, N, r).
            words: (B, N, K) other candidates, such as those of another model to compare with.
        """
        log_probs = log_policy(logits)
        if words is None:
            words = log_probs.topk(self.choices).indices
        return Chain(words, log_probs.gather(-1, words), self.pairs(words, context))


def tempered(chain: Chain, temperature: float) -> Chain:
    """The distribution ∝ p^(1 / temperature): above 1 flatter, with the same likeliest sentence."""
    return Chain(chain.words, chain.scores / temperature, chain.pairs / temperature)


def messages(chain: Chain) -> Tensor:
    """(B, N, K) β: the logarithm of all that can come after agent n has said its i-th word.

    0 after a period and after the last agent: the one way to go on is to stop.
    """
    last = torch.zeros_like(chain.scores[:, -1])  # (B, K)
    found = [last]
    for agent in range(chain.words.shape[1] - 2, -1, -1):
        after = _onward(chain, agent, found[-1]).logsumexp(-1)  # (B, K)
        found.append(after.masked_fill(chain.words[:, agent] == PERIOD, 0.0))
    return torch.stack(found[::-1], 1)


def _onward(chain: Chain, agent: int, best: Tensor) -> Tensor:
    """(B, K, K) going on from agent n's i-th word by the next one's j-th, of `best` (B, K)."""
    return chain.pairs[:, agent] + (chain.scores[:, agent + 1] + best)[:, None]


def log_normaliser(chain: Chain) -> Tensor:
    """(B,) log Z, the logarithm of the sum over all sentences."""
    return (chain.scores[:, 0] + messages(chain)[:, 0]).logsumexp(-1)


def steps(chain: Chain) -> Steps:
    """What each agent says given the word before, with gradients."""
    onward = messages(chain) + chain.scores  # (B, N, K)
    then = chain.pairs + onward[:, 1:, None]  # (B, N - 1, K, K)
    return Steps(chain.words, onward[:, 0].log_softmax(-1), then.log_softmax(-1))


@torch.no_grad()
def sample(steps: Steps, samples: int) -> Tensor:
    """(B, S, N) sentences drawn from the chain; after its period a sentence is all periods."""
    batch, agents, choices = steps.words.shape
    noise = torch.empty(
        agents, batch, samples, choices, dtype=steps.first.dtype, device=steps.first.device
    ).exponential_()
    # As in `choose`: the largest of p / e is drawn with probability p, and nothing is waited for.
    chances = steps.first[:, None]  # (B, 1, K)
    places = [(chances.exp() / noise[0]).argmax(-1)]  # (B, S) each
    for agent in range(1, agents):
        heard = places[-1][..., None].expand(-1, -1, choices)
        chances = steps.then[:, agent - 1].gather(1, heard)  # (B, S, K)
        places.append((chances.exp() / noise[agent]).argmax(-1))
    return _said(steps.words, torch.stack(places, -1))


def _said(words: Tensor, places: Tensor) -> Tensor:
    """(B, S, N) the words at these places among the candidates (B, N, K), up to the period."""
    own = words[:, None].expand(-1, places.shape[1], -1, -1)  # (B, S, N, K)
    said = own.gather(-1, places[..., None])[..., 0]
    return said.where(spoken(said), PERIOD)


def log_prob(steps: Steps, said: Tensor) -> Tensor:
    """(B, S, N) of each word given the one before; the sum over N is that of the sentence.

    0 after the period, and -inf for a word that is no candidate.

    Args:
        steps: of the chain.
        said: (B, S, N) int64; what comes after a period does not count.
    """
    choices = steps.words.shape[-1]
    found = steps.words[:, None] == said[..., None]  # (B, S, N, K)
    places = found.long().argmax(-1)  # (B, S, N)
    first = steps.first.gather(1, places[..., 0])  # (B, S)
    both = places[..., :-1] * choices + places[..., 1:]  # (B, S, N - 1)
    then = steps.then.flatten(2).gather(-1, both.transpose(1, 2)).transpose(1, 2)
    values = torch.cat((first[..., None], then), -1)
    values = values.where(found.any(-1), -torch.inf)
    return values.where(spoken(said), 0.0)


@torch.no_grad()
def viterbi(chain: Chain) -> Tensor:
    """(B, N) the sentence with the highest probability; after its period it is all periods."""
    agents = chain.words.shape[1]
    best = torch.zeros_like(chain.scores[:, -1])  # (B, K), as `messages` with a maximum
    onward = []
    for agent in range(agents - 2, -1, -1):
        onward.append(_onward(chain, agent, best))  # (B, K, K)
        best = onward[-1].amax(-1).masked_fill(chain.words[:, agent] == PERIOD, 0.0)
    places = [(chain.scores[:, 0] + best).argmax(-1, keepdim=True)]  # (B, 1) each
    for table in reversed(onward):
        heard = places[-1][..., None].expand(-1, -1, table.shape[-1])
        places.append(table.gather(1, heard)[:, 0].argmax(-1, keepdim=True))
    return _said(chain.words, torch.cat(places, -1)[:, None])[:, 0]


def marginals(steps: Steps) -> Tensor:
    """(B, N, K) the probability that agent n speaks and says its i-th word.

    Their sum over K is the probability that it speaks at all.
    """
    found = [steps.first.exp()]
    for agent, then in enumerate(steps.then.unbind(1)):
        speaking = found[-1].masked_fill(steps.words[:, agent] == PERIOD, 0.0)  # (B, K)
        found.append((speaking[..., None] * then.exp()).sum(1))  # a product would be rounded
    return torch.stack(found, 1)


def entropy(steps: Steps, reached: Tensor | None = None) -> Tensor:
    """(B, N) of each agent's word given the one before, in nats, as often as it speaks.

    The sum over N is the entropy of the sentence.

    Args:
        steps: of the chain.
        reached: (B, N, K) their `marginals`; detached, nothing is paid for longer sentences.
    """
    reached = marginals(steps) if reached is None else reached
    first = -(steps.first.exp() * steps.first).sum(-1, keepdim=True)  # (B, 1)
    unsure = -(steps.then.exp() * steps.then).sum(-1)  # (B, N - 1, K)
    speaking = reached[:, :-1].masked_fill(steps.words[:, :-1] == PERIOD, 0.0)
    return torch.cat((first, (speaking * unsure).sum(-1)), 1)


def divergence(steps: Steps, others: Steps, reached: Tensor | None = None) -> Tensor:
    """(B, N) KL(p ‖ p_others) of each agent's word given the one before, as often as it speaks.

    The sum over N is the KL of the sentences, in nats.

    Args:
        steps: of the chain.
        others: of another chain over the same candidates.
        reached: as in `entropy`.
    """
    reached = marginals(steps) if reached is None else reached
    first = (steps.first.exp() * (steps.first - others.first)).sum(-1, keepdim=True)  # (B, 1)
    apart = (steps.then.exp() * (steps.then - others.then)).sum(-1)  # (B, N - 1, K)
    speaking = reached[:, :-1].masked_fill(steps.words[:, :-1] == PERIOD, 0.0)
    return torch.cat((first, (speaking * apart).sum(-1)), 1)
