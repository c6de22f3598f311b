"""How words are chosen: the one place that validation, tables, `naic caption` and cards share.

Each agent names its likeliest word, and now and then two neighbours name the same one ("a girl
girl riding"). Training makes that rare, not impossible. What the agents would have said instead is
known, too: among all sentences of their likeliest words, `without_repeats` takes the one with the
highest probability that has no such repeat. A caption without a repeat stays as it is.

Of a model with transitions between neighbours (a chain, `decode/chains.py`) no agent's word can be
told without the others': the likeliest sentence is found by the same dynamic programme, with
repeats or without.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from naic.errors import ConfigError
from naic.text.vocabulary import BAD_ENDINGS, PERIOD, Vocabulary

if TYPE_CHECKING:  # few models have one
    from naic.text.style import Style

Words = npt.NDArray[np.int64]
LogProbs = npt.NDArray[np.floating[Any]]
IMPOSSIBLE = -1e4  # finite: a word of probability 0 is better than none
CHOICES = 5  # likeliest words of an agent to choose from: more change nothing
MOST_ALTERNATIVES = 100
MANY = (
    32  # images whose sentences are found at once: from here on calls of numpy are few beside them
)
_BAD_ENDINGS = frozenset(BAD_ENDINGS)


@dataclass(frozen=True, slots=True)
class Decoding:
    """How the captions of a captioner are found. By default as the paper's, so that training shows.

    What is wished of the words for people (`max_chars` to `style`) is seen to where sentences are
    written for them, `runtime/sentences.py`; validation and tables know nothing of it.

    Attributes:
        beam: Sentences followed at a time; 1 is greedy.
        repeats: Whether agents who speak at once may say a word twice in a row.
        bad_endings: Whether a sentence may end in the middle of a thought, as in "a dog with a".
        max_words: Of a sentence; None: any number.
        alternatives: Sentences to give for each image, the caption counted; 0: the caption alone.
        max_chars: Of the text of a sentence; None: any number.
        forbid: Words that are not said.
        prefer: Words that are said rather than others, where the agents consider them.
        neutral: Whether words that guess a gender are replaced (`text/neutral.py`).
        style: How what is said is written then (`text/style.py`); None: as the model does.
    """

    beam: int = 1
    repeats: bool = True
    bad_endings: bool = True
    max_words: int | None = None
    alternatives: int = 0
    max_chars: int | None = None
    forbid: tuple[str, ...] = ()
    prefer: tuple[str, ...] = ()
    neutral: bool = False
    style: "Style | None" = None

    def __post_init__(self) -> None:
        if self.beam < 1:
            raise ConfigError("beam", f"{self.beam} is below 1", "Give 1 (greedy) or more.")
        if self.max_words is not None and self.max_words < 1:
            raise ConfigError("max_words", f"{self.max_words} is below 1", "Try 8.")
        if self.max_chars is not None and self.max_chars < 1:
            raise ConfigError("max_chars", f"{self.max_chars} is below 1", "Try 125.")
        if both := sorted({*self.forbid} & {*self.prefer}):
            why = f"{', '.join(map(repr, both))} cannot be forbidden and preferred"
            raise ConfigError("prefer", why, "Leave one of the two out.")
        if self.neutral:
            from naic.text.neutral import SAID

            if said := sorted(SAID.intersection(self.forbid)):
                why = f"{', '.join(map(repr, said))} is what neutral captions say instead"
                raise ConfigError("forbid", why, "Leave one of the two out.")
        if self.style and (said := sorted(self.style.puts_in.intersection(self.forbid))):
            why = f"{', '.join(map(repr, said))} is what the model's style puts in"
            raise ConfigError(
                "forbid", why, "Allow it, or ask for no style: --no-style of naic caption."
            )
        if not 0 <= self.alternatives <= MOST_ALTERNATIVES:
            why = f"{self.alternatives} is not from 0 to {MOST_ALTERNATIVES}"
            raise ConfigError("alternatives", why, "Try 3.")

    def sentence(self, ids: Sequence[int], vocabulary: Vocabulary) -> tuple[int, ...]:
        """The words that are kept of what was said: up to its period, and to the limit.

        Without bad endings, up to the last word that can end a sentence; at least one of them.
        """
        end = ids.index(PERIOD) if PERIOD in ids else len(ids)
        end = min(end, self.max_words or end)
        while not self.bad_endings and end > 1 and vocabulary.word(ids[end - 1]) in _BAD_ENDINGS:
            end -= 1
        return tuple(ids[:end])

    def describe(self) -> str:
        """In a few words for people: "beam 3"."""
        parts = [f"beam {self.beam}"]
        parts += ["no repeats"] if not self.repeats else []
        parts += ["no loose endings"] if not self.bad_endings else []
        parts += [f"at most {self.max_words} words"] if self.max_words else []
        return ", ".join(parts)


READABLE = Decoding(repeats=False, bad_endings=False)  # for people, as `naic caption` gives them


def likeliest_words(
    words: Words, log_probs: LogProbs, pairs: LogProbs | None
) -> npt.NDArray[np.intp]:
    """Which of its words each agent says if nothing is ruled out, (B, N) places in K.

    Without transitions, its likeliest one; with `pairs`, the one of the likeliest sentence. The
    arguments are those of `without_repeats`.
    """
    if pairs is None:
        return np.zeros(words.shape[:2], np.intp)
    scores = np.maximum(log_probs, IMPOSSIBLE)
    return _best(words, scores, pairs, repeats=True)


def without_repeats(
    words: Words, log_probs: LogProbs, pairs: LogProbs | None = None
) -> npt.NDArray[np.intp]:
    """Which of its words each agent says, so that no sentence has a repeat.

    Args:
        words: (B, N, K) the K likeliest words of each agent, best first; K of at least 2, so that
            there always is such a sentence.
        log_probs: (B, N, K) theirs.
        pairs: (B, N-1, K, K) of a model with transitions: what is added to the score of a sentence
            in which agent n says its i-th word and agent n+1 its j-th; None: there are none.

    Returns:
        (B, N) places in K. The agents after the period keep their likeliest words.
    """
    if words.shape[-1] < 2:
        why = "with one word each the agents have nothing to choose from"
        raise ConfigError("alternatives", why, f"Ask for {CHOICES}.")
    chosen = likeliest_words(words, log_probs, pairs)
    rows, agents, _ = words.shape
    repeats = _repeats(words[np.arange(rows)[:, None], np.arange(agents), chosen])
    if repeats.any():
        heard = None if pairs is None else pairs[repeats]
        scores = np.maximum(log_probs[repeats], IMPOSSIBLE)
        chosen[repeats] = _best(words[repeats], scores, heard, repeats=False)
    return chosen


def speaking(said: Words) -> npt.NDArray[np.bool_]:
    """(B, N) whether a word comes before the first period."""
    return ~np.logical_or.accumulate(said == PERIOD, axis=1)


def _repeats(said: Words) -> npt.NDArray[np.bool_]:
    """(B,) whether a word before the first period is said twice in a row."""
    same = said[:, 1:] == said[:, :-1]
    return np.asarray((same & speaking(said)[:, 1:]).any(1))


def _best(
    words: Words, scores: LogProbs, pairs: LogProbs | None, *, repeats: bool
) -> npt.NDArray[np.intp]:
    """(b, N) the choices of the likeliest sentences."""
    found = paths(words, scores, pairs, scores[..., 0], repeats=repeats)
    end, last = np.divmod(found.total.argmax(1), words.shape[-1])  # of equals, the first
    return way_back(found, end, last)


class Paths(NamedTuple):
    """All sentences of the agents, as far as it takes to find the likeliest.

    Attributes:
        heard: (b, N-1, K, K) what is added if agent n says its i-th word and n+1 its j-th.
        reached: (b, N, K) the score of the best sentence up to a word, if it goes on after it.
        total: (b, N·K) of the best sentence that ends with a word; -inf where none may.
    """

    heard: LogProbs
    reached: LogProbs
    total: LogProbs


def paths(
    words: Words, scores: LogProbs, pairs: LogProbs | None, rest: LogProbs, *, repeats: bool
) -> Paths:
    """By dynamic programming over the agents, for scores (b, N, K): of a word not to be said -inf.

    A sentence ends at its period or with the last agent. To compare sentences of different length,
    agents that do not hear each other count after the period, too, with their likeliest words
    (`rest`, b, N), which they say anyway. In a chain a sentence has a score of its own, which is
    compared.

    Of one image the arrays are so small that each call of numpy counts: an agent takes three, and
    all that can be done for all agents at once is.
    """
    ends = words == PERIOD
    onward = np.where(ends, -np.inf, scores)  # (b, N, K): nothing is said after a period
    heard = _heard(words, pairs, repeats=repeats).astype(scores.dtype, copy=False)
    # (b, N, K) the best sentence before an agent's word, and with it if the sentence goes on
    before, reached = np.zeros_like(scores), np.empty_like(scores)
    if not repeats:
        before[:, 0] = np.where(ends[:, 0], -np.inf, 0.0)  # to say nothing is no way out
    reached[:, 0] = onward[:, 0]
    by_agent = [array.swapaxes(0, 1) for array in (reached, heard, before, onward, reached)]
    steps = zip(*by_agent[:2], *(array[1:] for array in by_agent[2:]), strict=False)
    for ago, pair, best, own, now in steps:
        _highest(ago, pair, best)
        np.add(best, own, out=now)
    total = before + scores
    if pairs is None:
        total += (rest.sum(1, keepdims=True) - np.cumsum(rest, 1))[..., None]
    ends[:, -1] = True
    return Paths(heard, reached, np.where(ends, total, -np.inf).reshape(len(words), -1))


def _highest(ago: LogProbs, pair: LogProbs, out: LogProbs) -> None:
    """(b, K) the highest sum before each word, of what was reached (b, K) and of pairs (b, K, K).

    Of many images as one long row each and by halves, which is twice as fast as numpy's own way
    with rows of K numbers.
    """
    rows, width = ago.shape
    if rows < MANY:
        np.maximum.reduce(ago[..., None] + pair, 1, out=out)
        return
    most = np.repeat(ago, width, axis=1)
    most += pair.reshape(rows, -1)
    left = width
    while left > 1:
        left -= left // 2  # of an odd number, the one in the middle is compared with itself
        most = np.maximum(most[:, : left * width], most[:, -left * width :])
    out[:] = most


def way_back(
    found: Paths, end: npt.NDArray[np.intp], last: npt.NDArray[np.intp]
) -> npt.NDArray[np.intp]:
    """(b, N) the choices of sentences that end with agent `end` (b,) and its choice `last` (b,).

    Which word is the best before another is asked here, of those that are said; to know it of all
    takes longer than all the rest.
    """
    rows = np.arange(len(end))
    agents = found.reached.shape[1]
    chosen = np.zeros((agents, len(end)), np.intp)
    chosen[end, rows] = last
    inside = np.arange(agents)[:, None] <= end  # (N, b)
    for agent in range(end.max(initial=0), 0, -1):
        before = found.reached[:, agent - 1] + found.heard[rows, agent - 1, :, chosen[agent]]
        np.copyto(chosen[agent - 1], before.argmax(1), where=inside[agent])
    return chosen.T


def _heard(words: Words, pairs: LogProbs | None, *, repeats: bool) -> LogProbs:
    """(b, N-1, K, K) what is added if agent n says its i-th word and n+1 its j-th, [i, j].

    Without repeats there is no way to say the same.
    """
    if repeats and pairs is not None:
        return pairs
    same = words[:, :-1, :, None] == words[:, 1:, None, :]
    same &= not repeats
    return np.where(same, -np.inf, 0.0 if pairs is None else pairs)
