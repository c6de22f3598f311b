"""What is called a right caption, fixed before anything was fitted (docs/decisions/030).

A caption is right if

- its CIDEr-D against what people say of the image is at least what people reach: a person's caption
  of a training image against the other people's of the same image does so in three of four cases;
- every noun in it is mentioned by at least one person: the word itself, its singular or plural, or
  a synonym, as METEOR takes words for synonyms (they share a meaning in WordNet). "Person" and
  "people" are mentioned by who speaks of a man, a girl, a player.

Which words are nouns is counted in the training captions, without a tagger: words that people put
both after an article, a number, a preposition or what is between such a word and a noun, and before
a word that can follow a noun. Words that are mostly followed by "of" ("group", "top") name nothing.
"""

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from naic.data.readers.captions import read_captions
from naic.data.records import Problems
from naic.metrics.cider import DocumentFrequencies, cider
from naic.metrics.meteor.data import Lexicon, find_files, read_lexicon
from naic.text import tokenise

TRAINING = ("train", "restval")
PEOPLE = 5000  # training images of which one caption is scored against the others
QUANTILE = 0.25  # of people's scores: the threshold
SEED = 0
# Closed classes: what opens a noun phrase, and what follows one.
_PREPOSITIONS = (
    *("in", "on", "at", "with", "without", "of", "from", "into", "onto", "for", "by", "near"),
    *("under", "over", "above", "below", "behind", "between", "among", "through", "across"),
    *("along", "around", "against", "during", "beside", "inside", "outside", "toward", "towards"),
)
_OPENERS = frozenset(
    (
        *("a", "an", "the", "this", "these", "those", "some", "several", "many", "each", "every"),
        *("his", "her", "its", "their", "my", "your", "another", "any", "no", "both", "few"),
        *("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
        *_PREPOSITIONS,
    )
)
_FOLLOWERS = frozenset(
    (
        *("to", "off", "up", "down", "next", "while", "as", "that", "which", "who", "is", "are"),
        *("was", "were", "being", "has", "have", "can", *_PREPOSITIONS),
    )
)
_NO_NOUNS = frozenset(
    (
        *("and", "or", "but", "very", "so", "too", "not", "more", "most", "much", "all", "one"),
        *("it", "there", "here", "where", "what", "how", "he", "she", "they", "you", "him", "them"),
        *("other", "others", "own", "same", "someone", "something", "'s", *_OPENERS, *_FOLLOWERS),
    )
)
_ANYBODY = frozenset(("person", "persons", "people"))
_HUMANS = frozenset(
    (
        *("man", "men", "woman", "women", "boy", "boys", "girl", "girls", "child", "children"),
        *("kid", "kids", "baby", "toddler", "lady", "ladies", "guy", "guys", "gentleman", "male"),
        *("female", "adult", "adults", "family", "couple", "crowd", "player", "players", "rider"),
        *("surfer", "surfers", "skier", "skiers", "skateboarder", "snowboarder", "passengers"),
    )
)
_LEAST_USES = 6  # as for the words of a vocabulary
_MODIFIER_USES, _MODIFIER = 20, 0.2  # of a word in a noun phrase: the phrase goes on after it
_OPENED, _FOLLOWED, _BOTH = 0.1, 0.1, 0.025  # of a noun's uses at least
_OF = 2 / 3  # of its uses as a noun: it counts or places what comes after
Sentences = Sequence[Sequence[str]]


def read_people(path: Path, splits: tuple[str, ...]) -> dict[str, list[str]]:
    """The tokenised captions of each image by its id."""
    read = read_captions(str(path), splits=splits, problems=Problems())
    return {one.id: [" ".join(tokenise(own)) for own in one.captions] for one in read.images}


@dataclass(frozen=True, slots=True)
class _Uses:
    """How often each word was used: at all, within a noun phrase, before what follows one, both."""

    all: Counter[str]
    opened: Counter[str]
    followed: Counter[str]
    both: Counter[str]
    before_of: Counter[str]


def count_nouns(sentences: Sequence[str]) -> frozenset[str]:
    """The nouns among the words of these tokenised sentences, by the rule above."""
    cut = [sentence.split(" ") for sentence in sentences]
    first = _count(cut, frozenset())
    # "fire" in "a fire hydrant": seldom the last word of its phrase.
    modifiers = frozenset(
        word
        for word, opened in first.opened.items()
        if opened >= _MODIFIER_USES and first.both[word] < _MODIFIER * opened
    )
    found = _count(cut, modifiers)
    return frozenset(word for word, uses in found.all.items() if _is_noun(word, uses, found))


def _is_noun(word: str, uses: int, found: _Uses) -> bool:
    both = found.both[word]
    return (
        word not in _NO_NOUNS
        and uses >= _LEAST_USES
        and found.opened[word] >= _OPENED * uses
        and found.followed[word] >= _FOLLOWED * uses
        and both >= _BOTH * uses
        and found.before_of[word] < _OF * both
    )


def _count(sentences: Sentences, modifiers: frozenset[str]) -> _Uses:
    uses = _Uses(Counter(), Counter(), Counter(), Counter(), Counter())
    for words in sentences:
        inside = False
        for word, after in zip(words, [*words[1:], ""], strict=True):
            followed = after == "" or after in _FOLLOWERS
            uses.all[word] += 1
            uses.followed[word] += followed
            if inside and word not in _NO_NOUNS:
                uses.opened[word] += 1
                uses.both[word] += followed
                uses.before_of[word] += after == "of"
            inside = word in _OPENERS or (inside and word in modifiers)
    return uses


@dataclass(frozen=True, slots=True)
class Judge:
    """Tells right captions from wrong ones.

    Attributes:
        threshold: the CIDEr-D that a right caption has at least, as a fraction.
        nouns: the words that name something.
        frequencies: what n-grams weigh, counted over the training images.
        lexicon: METEOR's tables.
    """

    threshold: float
    nouns: frozenset[str]
    frequencies: DocumentFrequencies
    lexicon: Lexicon

    @classmethod
    def from_people(cls, training: Mapping[str, Sequence[str]]) -> "Judge":
        """Learn from what people say of training images, and from no model."""
        lexicon = read_lexicon(find_files().jar)
        frequencies = DocumentFrequencies.count(list(training.values()))
        captions, others = one_against_others(training, PEOPLE)
        scores = cider(captions, others, frequencies).per_image
        nouns = count_nouns([sentence for own in training.values() for sentence in own])
        return cls(float(np.quantile(scores, QUANTILE)), nouns, frequencies, lexicon)

    def right(self, captions: Sequence[str], people: Sentences) -> npt.NDArray[np.bool_]:
        """(I,) whether each tokenised caption is right, by what people say of the same image."""
        scores = cider(captions, people, self.frequencies).per_image
        named = [not self.unmentioned(*both) for both in zip(captions, people, strict=True)]
        right: npt.NDArray[np.bool_] = (scores >= self.threshold) & np.array(named, bool)
        return right

    def unmentioned(self, caption: str, people: Iterable[str]) -> list[str]:
        """The nouns of a caption that no person mentions."""
        said = {word for sentence in people for word in sentence.split(" ")}
        if not said.isdisjoint(_HUMANS):
            said |= _ANYBODY
        meant = {meaning for word in said for meaning in self.lexicon.meanings(word)}
        return [
            word
            for word in caption.split(" ")
            if word in self.nouns
            and said.isdisjoint({word, f"{word}s", word.removesuffix("s")})
            and meant.isdisjoint(self.lexicon.meanings(word))
        ]


def one_against_others(
    images: Mapping[str, Sequence[str]], count: int
) -> tuple[list[str], list[list[str]]]:
    """One caption each of `count` images at most, drawn by a fixed seed, and the other people's."""
    draw = random.Random(SEED)
    several = sorted(name for name, own in images.items() if len(own) > 1)
    captions, others = [], []
    for name in draw.sample(several, min(count, len(several))):
        own = list(images[name])
        captions.append(own.pop(draw.randrange(len(own))))
        others.append(own)
    return captions, others
