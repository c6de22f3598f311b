"""New words: which of the model's words each stands in for, and sentences that say it.

A parallel model that is shown people's sentences with a word it does not know learns the word and
forgets how to build a sentence: its agents agree on sentences of their own. So a new word is learnt
inside those. What the model says in its place is found by what the captions leave out: of photos
that people call "velo", the model says "bike", and nobody who speaks of a velo says that.
"""

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from naic.text import tokenise

if TYPE_CHECKING:
    from torch import Tensor

# Shares of the photos with a new word: of those by which a word stands in for it, and of the best.
_LEAST, _BESIDE_BEST = 0.1, 0.25
_MOST = 4  # words that one may stand in for
_LESS_LIKELY = 2.0  # nats that a new word begins below what it stands in for: that is right so far


class Pair(NamedTuple):
    """What the model says of a photo, and the words of all that people say of it."""

    said: list[str]
    people: frozenset[str]


def pairs_of(said: Mapping[str, str], captions: Mapping[str, Sequence[str]]) -> dict[str, Pair]:
    """By the photos' ids, of those that the model has said something of."""
    return {
        id_: Pair(tokenise(said[id_]), frozenset(word for text in own for word in tokenise(text)))
        for id_, own in captions.items()
        if id_ in said
    }


def stand_ins(word: str, pairs: Sequence[Pair]) -> tuple[str, ...]:
    """The model's words in the place of a new one, the best first; none where nothing fits."""
    here = [pair for pair in pairs if word in pair.people]
    there = [pair for pair in pairs if word not in pair.people]
    used = frozenset[str]().union(*(pair.people for pair in here))
    often = Counter(said for pair in here for said in {*pair.said} - used)
    elsewhere = Counter(said for pair in there for said in {*pair.said} - pair.people)
    scores = {
        said: count / len(here) - elsewhere[said] / max(1, len(there))
        for said, count in often.items()
    }
    ranked = sorted(scores, key=lambda said: (-scores[said], said))[:_MOST]
    if not ranked:
        return ()
    least = max(_LEAST, _BESIDE_BEST * scores[ranked[0]])
    return tuple(said for said in ranked if scores[said] >= least)


def with_new_words(
    pairs: Mapping[str, Pair],
    captions: Mapping[str, Sequence[str]],
    found: Mapping[str, tuple[str, ...]],
    known: Container[str],
) -> dict[str, str]:
    """For each photo with a new word a sentence that says it, for each other the model's own.

    The model's sentence with the word in the place of its stand-in; where it says none of these,
    the shortest caption that people gave with the word and in words that are `known`, the new ones
    among them. They are tokens, with single spaces between them.
    """
    return {id_: _sentence(pair, captions[id_], found, known) for id_, pair in pairs.items()}


def _sentence(
    pair: Pair,
    captions: Sequence[str],
    found: Mapping[str, tuple[str, ...]],
    known: Container[str],
) -> str:
    words = list(pair.said)
    for new, instead in found.items():
        if new not in pair.people or new in words:
            continue
        place = next((words.index(word) for word in instead if word in words), None)
        if place is not None:
            words[place] = new
            continue
        with_it = [own for own in (tokenise(text) for text in captions) if new in own]
        if sayable := [own for own in with_it if all(word in known for word in own)]:
            words = min(sayable, key=lambda own: (len(own), own))
    return " ".join(words)


def grow(
    weights: "dict[str, Tensor]", found: Sequence[Sequence[int]], unknown: int
) -> "dict[str, Tensor]":
    """Room for more words, each of which begins like those that it stands in for, but rarer.

    So it is expected where they were, and its neighbours are theirs; what makes it another word is
    left to learn. One that stands in for none begins like an unknown word.

    Args:
        weights: of the captioner.
        found: for each new word the ids of those that it stands in for.
        unknown: the id of the unknown word.
    """
    import torch

    from naic.models.chain import TRANSITIONS

    grown = dict(weights)
    alike = [list(own) or [unknown] for own in found]
    tables = [f"{TRANSITIONS}{side}.weight" for side in ("before", "after")]
    for name in ("decoder.output.weight", "decoder.output.bias", *tables):
        if name in grown and alike:
            rows = torch.stack([grown[name][own].mean(0) for own in alike])
            if name.endswith("bias"):
                rows = rows - _LESS_LIKELY
            grown[name] = torch.cat([grown[name], rows])
    return grown
