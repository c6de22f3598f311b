"""Words under control: what people wish of a caption's words, and how the agents comply.

A forbidden word is not cut out of a sentence: the agents have other words, and among all sentences
of these the likeliest is said. A preferred one gets a bonus in the same search. No probability
changes by it: what is told of a word or a sentence is the model's own opinion.
"""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt

from naic.decode.best_first import Sentence, n_best
from naic.decode.decoding import (
    IMPOSSIBLE,
    READABLE,
    Decoding,
    LogProbs,
    Paths,
    Words,
    likeliest_words,
    paths,
    speaking,
    way_back,
    without_repeats,
)
from naic.text.style import Style
from naic.text.tokeniser import single_words
from naic.text.vocabulary import Vocabulary

# Nats, of a preferred word: it may be 20 times less likely than what is said otherwise. With 5 the
# model inside naic put "a white dog" where a cake was.
BONUS = 3.0


class Wishes(TypedDict, total=False):
    """What may be wished of the words of a caption, as keyword arguments of a `Captioner`.

    Attributes:
        max_words: what has more of them is cut, at a word that can end a sentence.
        max_chars: what is longer is cut, likewise; characters of the text.
        forbid: words that are not said: "man woman", or ["man", "woman"].
        prefer: words that are said rather than others, where the agents consider them.
        neutral: person, people, child and the like instead of guessed genders.
        style: whether the model's own style is used, if it has one; by default it is.
    """

    max_words: int | None
    max_chars: int | None
    forbid: str | Iterable[str]
    prefer: str | Iterable[str]
    neutral: bool
    style: bool


def as_decoding(wishes: Wishes, alternatives: int, style: Style | None = None) -> Decoding:
    """How captions for people are found with these wishes, of a model that has a style or none.

    Raises:
        ConfigError: one of the wishes cannot be.
        TypeError: there is no such wish.
    """
    if unknown := sorted(wishes.keys() - Wishes.__annotations__.keys()):
        raise TypeError(f"got an unexpected keyword argument {unknown[0]!r}")
    return replace(
        READABLE,
        alternatives=alternatives,
        max_words=wishes.get("max_words"),
        max_chars=wishes.get("max_chars"),
        forbid=single_words("forbid", wishes.get("forbid", ())),
        prefer=single_words("prefer", wishes.get("prefer", ())),
        neutral=wishes.get("neutral", False),
        style=style if wishes.get("style", True) else None,
    )


class Wanted(NamedTuple):
    """What is wished of the words, as their ids; those that the model does not know are none.

    Attributes:
        forbidden: those that are not said.
        preferred: those that are said rather than others.
    """

    forbidden: frozenset[int] = frozenset()
    preferred: frozenset[int] = frozenset()


def wanted(decoding: Decoding, vocabulary: Vocabulary) -> Wanted:
    """The words of a decoding as ids."""
    lists = (decoding.forbid, decoding.prefer)
    known = (frozenset(vocabulary.id(word) for word in own if word in vocabulary) for own in lists)
    return Wanted(*known)


def as_wanted(
    words: Words, log_probs: LogProbs, pairs: LogProbs | None, wanted: Wanted, *, repeats: bool
) -> npt.NDArray[np.intp]:
    """Which of its words each agent says if some are forbidden, and others preferred.

    It is the likeliest sentence without a forbidden word, where a preferred one counts as if it
    were e^BONUS times as likely. A caption that says nothing forbidden, and whose agents consider
    nothing preferred, stays as it is; a preferred word that it says already has no bonus, or it
    would soon be said again.

    Where there is no such sentence, since all words of an agent are forbidden, one agent says a
    forbidden word: before it the sentence ends. As many agents as can be come before that one.

    Args:
        words: (B, N, K) as the next two an argument of `without_repeats`.
        log_probs: (B, N, K).
        pairs: (B, N-1, K, K) or None.
        wanted: the words.
        repeats: whether a word may be said twice in a row.

    Returns:
        (B, N) places in K.
    """
    find = likeliest_words if repeats else without_repeats
    chosen = find(words, log_probs, pairs)
    said = words[np.arange(len(words))[:, None], np.arange(words.shape[1]), chosen]  # (B, N)
    said = np.where(speaking(said), said, -1)
    barred = np.isin(words, list(wanted.forbidden))  # (B, N, K)
    liked = np.isin(words, list(wanted.preferred))
    if liked.any():
        liked &= (words[..., None] != said[:, None, None]).all(-1)
    again = np.isin(said, list(wanted.forbidden)).any(1) | liked.any((1, 2))  # (B,)
    if again.any():
        scores = np.maximum(log_probs[again], IMPOSSIBLE)
        scores[barred[again]] = -np.inf
        rest = scores.max(-1)  # (b, N): a bonus is for what is said
        rest[rest == -np.inf] = 0.0
        scores[liked[again]] += BONUS
        heard = None if pairs is None else pairs[again]
        found = paths(words[again], scores, heard, rest, repeats=repeats)
        chosen[again] = _likeliest(found, scores)
    return chosen


def likeliest_without(
    forbidden: frozenset[int],
    words: list[list[int]],
    log_probs: list[list[float]] | list[list[list[float]]],
) -> Iterator[Sentence]:
    """All sentences of one image without a forbidden word, as `n_best` finds them.

    They end before an agent whose words are all forbidden; none are found if that is the first.
    """
    if forbidden:
        kept = [[k for k, word in enumerate(own) if word not in forbidden] for own in words]
        kept = list(itertools.takewhile(bool, kept))
        words = [[own[k] for k in places] for own, places in zip(words, kept, strict=False)]
        log_probs = _of_places(log_probs, kept)
    if words:
        yield from n_best(words, log_probs)


def _of_places(log_probs: Any, kept: list[list[int]]) -> Any:  # noqa: ANN401 - of two shapes
    """The log-probabilities of these words of each agent: (N, K), or in a chain (N, K, K)."""
    if kept and not isinstance(log_probs[0][0], float):
        before = [[0], *kept]  # the first agent hears nobody: its rows are all the same
        return [
            [[own[i][k] for k in places] for i in heard]
            for own, places, heard in zip(log_probs, kept, before, strict=False)
        ]
    return [[own[k] for k in places] for own, places in zip(log_probs, kept, strict=False)]


def _likeliest(found: Paths, scores: LogProbs) -> npt.NDArray[np.intp]:
    """(b, N) the choices of the best whole sentences, or of what comes nearest to one."""
    best = found.total.argmax(1)
    end, last = np.divmod(best, scores.shape[2])
    stuck = np.flatnonzero(np.isneginf(found.total[np.arange(len(best)), best]))
    reach = np.isfinite(found.reached[stuck]).any(2).sum(1)  # agents that can speak, below N
    end[stuck] = np.maximum(reach - 1, 0)
    last[stuck] = found.reached[stuck, end[stuck]].argmax(1)
    chosen = way_back(found, end, last)
    chosen[stuck, reach] = scores[stuck, reach].argmin(1)  # a word that is forbidden
    return chosen
