"""What is better: CIDEr on the photos that were kept aside, and what of a difference is chance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from naic.metrics.cider import cider
from naic.metrics.score import FEWEST_IMAGES, Score, differences, habits
from naic.text import tokenise

_TIMES, _SEED = 2000, 1


@dataclass(frozen=True, slots=True)
class Judged:
    """Captions of the photos kept aside, and how good they are, as shares of 1."""

    cider: float
    bad_endings: float
    captions: dict[str, str]


@dataclass(frozen=True, slots=True)
class Gain:
    """How much more CIDEr one has than the other, and the ends of the 95 % interval of that."""

    value: float
    low: float
    high: float


def judge(captions: Mapping[str, str], people: Mapping[str, Sequence[str]]) -> Judged:
    """Score what was said of photos against what people say of the same."""
    score = _score(captions, people)
    manner = habits([" ".join(tokenise(captions[id_])) for id_ in people])
    return Judged(score.value, manner.bad_endings, {id_: captions[id_] for id_ in people})


def compare(
    after: Mapping[str, str], before: Mapping[str, str], people: Mapping[str, Sequence[str]]
) -> Gain:
    """The paired bootstrap over the photos."""
    scores = [_score(said, people) for said in (after, before)]
    [found] = differences(scores[:1], scores[1:], times=_TIMES, seed=_SEED)
    assert found.low is not None
    assert found.high is not None
    return Gain(found.value, found.low, found.high)


def _score(captions: Mapping[str, str], people: Mapping[str, Sequence[str]]) -> Score:
    said = [" ".join(tokenise(captions[id_])) for id_ in people]
    wanted = [[" ".join(tokenise(text)) for text in own] for own in people.values()]
    return cider(said, wanted)


def in_words(gain: Gain, photos: int) -> str:
    """The difference as one would say it."""
    value, low, high = (100 * number for number in (gain.value, gain.low, gain.high))
    aside = f"on {photos:,} photos kept aside"
    few = "" if photos >= FEWEST_IMAGES else "; with so few photos the interval is a rough one"
    if gain.low > 0:
        return f"better by {low:.0f} to {high:.0f} CIDEr {aside}{few}"
    if gain.value > 0:
        chance = f"which may be chance ({low:+.0f} to {high:+.0f})"
        return f"better by {value:.1f} CIDEr {aside}, {chance}{few}"
    return f"no better {aside} ({value:+.1f} CIDEr, {low:+.0f} to {high:+.0f})"
