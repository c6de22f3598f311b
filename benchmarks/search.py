"""How long it takes to find the sentences of a model with transitions, beside the way before.

    python benchmarks/search.py --batch 1 16

From what a network proposes to captions as text, on the host (`naic.runtime.sentences.write`). The
way before is kept here: masks over all pairs of words, a search that writes down where each word
came from as it goes, and all probabilities in logarithms, agent by agent, of every word after every
other. Both take turns in one run; what they say is compared first. The times are of the process,
so that others on the machine count less, and the least of several rounds.
"""

import argparse
import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from naic.decode.decoding import CHOICES, IMPOSSIBLE, READABLE, LogProbs, Words
from naic.runtime.captioner import shipped_model
from naic.runtime.sentences import Caption, Proposals, _caption, write
from naic.runtime.wording import Wording
from naic.text.vocabulary import PERIOD, SPECIAL, Vocabulary

AGENTS, CANDIDATES = 16, 16
ENDING = 10  # the agent, from 0 on, from which on sentences end
ROUNDS, CALLS = 12, 50


def proposals(batch: int, vocabulary: Vocabulary, seed: int = 0) -> Proposals:
    """Random ones as a trained network's: each agent is sure of few words, and near ones agree."""
    random = np.random.default_rng(seed)
    usual = [i for i, word in enumerate(vocabulary.words) if word.isalpha() and i >= len(SPECIAL)]
    shape = (batch, AGENTS, CANDIDATES)
    words = random.choice(usual[:2000], (batch, AGENTS + 1, CANDIDATES))
    words[:, 1:, CANDIDATES // 2 :] = words[:, :-1, CANDIDATES // 2 :]  # as neighbours' are
    words = words[:, 1:].copy()
    words[:, :ENDING, -1] = words[:, ENDING:, 0] = PERIOD
    chances = random.dirichlet(np.full(CANDIDATES, 0.1), shape[:2])
    log_probs = np.log(-np.sort(-chances) + 1e-9).astype(np.float32)
    pairs = random.normal(0, 1, (batch, AGENTS - 1, CANDIDATES, CANDIDATES)).astype(np.float32)
    return Proposals(words, log_probs, pairs)


def before(said: Proposals, vocabulary: Vocabulary) -> list[Caption]:
    """The captions as they were found before."""
    words, log_probs = (array.tolist() for array in _spoken(said))
    rows = zip(words, log_probs, strict=True)
    wording = Wording(vocabulary, READABLE)
    return [_caption(wording, None, *row, None) for row in rows]


def _spoken(said: Proposals) -> tuple[Words, LogProbs]:
    words, log_probs, pairs = said
    assert pairs is not None
    chosen = _best(words, log_probs, pairs, repeats=True)
    first = np.take_along_axis(words, chosen[..., None], -1)[..., 0]
    speaking = ~np.logical_or.accumulate(first == PERIOD, axis=1)
    repeats = ((first[:, 1:] == first[:, :-1]) & speaking[:, 1:]).any(1)
    if repeats.any():
        those = words[repeats], log_probs[repeats], pairs[repeats]
        chosen[repeats] = _best(*those, repeats=False)
    after = _told(words, log_probs, pairs)
    heard = np.concatenate((chosen[:, :1], chosen[:, :-1]), axis=1)
    own = np.take_along_axis(after, heard[..., None, None], 2)[:, :, 0]  # (B, N, K)
    ranks = np.argsort(np.argsort(-own, axis=-1, kind="stable"), axis=-1)
    ranks = np.where(np.arange(words.shape[-1]) == chosen[..., None], -1, ranks)
    order = np.argsort(ranks, axis=-1)[..., :CHOICES]
    spoken = np.take_along_axis(words, order, -1)
    return spoken, np.take_along_axis(own, order, -1)


def _best(words: Words, log_probs: LogProbs, pairs: LogProbs, *, repeats: bool) -> Any:  # noqa: ANN401
    rows, agents, choices = words.shape
    log_probs = np.maximum(log_probs, IMPOSSIBLE)
    said, own = words[:, :-1, None, :], words[:, 1:, :, None]
    barred = np.broadcast_to(said == PERIOD, np.broadcast_shapes(said.shape, own.shape))
    barred = barred if repeats else barred | (said == own)
    heard = np.where(barred, -np.inf, pairs.swapaxes(2, 3)).astype(log_probs.dtype)
    reached = np.empty_like(log_probs)
    silent = (words[:, 0] == PERIOD) & (not repeats)
    reached[:, 0] = np.where(silent, -np.inf, log_probs[:, 0])
    came_from = np.zeros(words.shape, np.intp)
    for agent in range(1, agents):
        reach = reached[:, agent - 1, None] + heard[:, agent - 1]  # (b, K, K)
        came_from[:, agent] = reach.argmax(-1)
        reached[:, agent] = reach.max(-1) + log_probs[:, agent]
    ends = words == PERIOD
    ends[:, -1] = True
    total = np.where(ends, reached, -np.inf)
    end, last = np.divmod(total.reshape(rows, -1).argmax(1), choices)
    each = np.arange(rows)
    chosen = np.zeros((rows, agents), np.intp)
    for agent in range(agents - 1, -1, -1):
        inside = agent <= end
        chosen[inside, agent] = last[inside]
        last = np.where(inside, came_from[each, agent, last], last)
    return chosen


def _told(words: Words, log_probs: LogProbs, pairs: LogProbs) -> npt.NDArray[np.float64]:
    batch, agents, choices = words.shape
    own = np.maximum(log_probs.astype(np.float64), IMPOSSIBLE)
    found = np.empty((batch, agents, choices, choices))
    onward = np.zeros((batch, choices))
    for agent in range(agents - 1, -1, -1):
        scores = (own[:, agent] + onward)[:, None, :]
        if agent:
            scores = scores + pairs[:, agent - 1]
        most = scores.max(-1)
        every = most + np.log(np.exp(scores - most[..., None]).sum(-1))
        found[:, agent] = scores - every[..., None]
        if agent:
            onward = np.where(words[:, agent - 1] == PERIOD, 0.0, every)
    return found


def check_same(old: list[Caption], new: list[Caption]) -> None:
    """The same words and others in their places; probabilities to what float64 can hold."""
    for one, other in zip(old, new, strict=True):
        kept, now = (
            [[word for word, _ in place.alternatives] for place in caption.words]
            for caption in (one, other)
        )
        if one.text != other.text or kept != now:
            raise SystemExit(f"{one.text!r} was said before, and now {other.text!r}")
        if not math.isclose(one.confidence, other.confidence, rel_tol=1e-9):
            raise SystemExit(f"{one.text!r}: {one.confidence} before, and now {other.confidence}")


def least(*ways: Callable[[], object]) -> list[float]:
    """Milliseconds of a call of each, in turns."""
    found = [math.inf] * len(ways)
    for _ in range(ROUNDS):
        for number, way in enumerate(ways):
            start = time.process_time()
            for _ in range(CALLS):
                way()
            found[number] = min(found[number], (time.process_time() - start) / CALLS * 1e3)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the search for the likeliest sentence.")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 16], help="images at once")
    args = parser.parse_args()
    vocabulary = Vocabulary.load(shipped_model() / "vocab.json")
    for batch in args.batch:
        said = proposals(batch, vocabulary)
        check_same(before(said, vocabulary), write(said, None, vocabulary, READABLE))
        alone = Proposals(said.words[..., :CHOICES], said.log_probs[..., :CHOICES])
        old, new, none = least(
            partial(before, said, vocabulary),
            partial(write, said, None, vocabulary, READABLE),
            partial(write, alone, None, vocabulary, READABLE),
        )
        print(
            f"batch {batch}: {old / batch:.3f} ms an image before, {new / batch:.3f} now "
            f"({old / new:.1f} times as fast); without transitions {none / batch:.3f}"
        )


if __name__ == "__main__":
    main()
