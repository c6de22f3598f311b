"""Which words and phrases of a caption can stand for which of a reference: METEOR's four stages."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from naic.metrics.meteor.data import Lexicon, utf16
from naic.metrics.meteor.phrases import Found, Phrases
from naic.metrics.meteor.stemmer import stem

EXACT, STEM, SYNONYM, PARAPHRASE = range(4)


class Match(NamedTuple):
    """Some words of the reference (theirs) that match some of the caption (ours)."""

    theirs: int  # the first of their words
    their_count: int
    ours: int
    our_count: int
    stage: int


@dataclass(frozen=True, slots=True, eq=False)
class Word:
    """What is known of a word.

    Attributes:
        key: words are the same where this is; Java's hash of the word, as in the program.
        stem: likewise for stems.
        meanings: of WordNet.
        is_function: whether it is a word of little meaning.
    """

    key: int
    stem: int
    meanings: frozenset[int]
    is_function: bool


@dataclass(frozen=True, slots=True, eq=False)
class Sentence:
    """A sentence with all that matching and counting need of it, word by word."""

    words: list[Word]
    keys: list[int]
    is_function: list[bool]
    phrases: Found


class Index:
    """Where each key, stem and meaning occurs in a caption: made once for all its references."""

    def __init__(self, sentence: Sentence) -> None:
        self.sentence = sentence
        self.keys: dict[int, list[int]] = {}
        self.stems: dict[int, list[int]] = {}
        self.meanings: dict[int, list[int]] = {}
        for place, word in enumerate(sentence.words):
            self.keys.setdefault(word.key, []).append(place)
            self.stems.setdefault(word.stem, []).append(place)
            for meaning in word.meanings:
                self.meanings.setdefault(meaning, []).append(place)


class Vocabulary:
    """Words met so far, each worked out once."""

    def __init__(self, lexicon: Lexicon) -> None:
        self.lexicon = lexicon
        self._known: dict[str, Word] = {}

    def word(self, text: str) -> Word:
        """What is known of a word in small letters."""
        if (known := self._known.get(text)) is None:
            units = utf16(text)
            known = self._known[text] = Word(
                key=java_hash(units),
                stem=java_hash(stem(units)),
                meanings=self.lexicon.meanings(text),
                is_function=text in self.lexicon.function_words,
            )
        return known

    def sentence(self, texts: Sequence[str], phrases: Found) -> Sentence:
        """A sentence of words in small letters."""
        words = [self.word(text) for text in texts]
        return Sentence(
            words, [word.key for word in words], [word.is_function for word in words], phrases
        )


def java_hash(units: str) -> int:
    """Java's hash of a text: the program compares words by it alone.

    Two different words may share one ("p0" and "nn" do), and then they match.
    """
    value = 0
    for unit in units:
        value = (31 * value + ord(unit)) & 0xFFFFFFFF
    return value


def find_matches(ours: Index, theirs: Sentence, phrases: Phrases) -> list[list[Match]]:
    """For each word of the reference the matches that begin there, in the program's order."""
    found: list[list[Match]] = [[] for _ in theirs.words]
    if ours.sentence.keys == theirs.keys:  # the same sentence: nothing but the words themselves
        for place, key in enumerate(theirs.keys):
            found[place] = [Match(place, 1, at, 1, EXACT) for at in ours.keys[key]]
        return found
    for place, word in enumerate(theirs.words):
        same = ours.keys.get(word.key, ())
        own = [Match(place, 1, at, 1, EXACT) for at in same]
        stems = ours.stems.get(word.stem, ())
        own += [Match(place, 1, at, 1, STEM) for at in stems if at not in same]
        if not word.meanings.isdisjoint(ours.meanings):
            shared = word.meanings & ours.meanings.keys()
            places = {at for meaning in shared for at in ours.meanings[meaning]}
            own += [Match(place, 1, at, 1, SYNONYM) for at in sorted(places.difference(same))]
        found[place] = own
    _add_paraphrases(found, ours.sentence.phrases, theirs.phrases, phrases)
    return found


def _add_paraphrases(
    found: list[list[Match]], ours: Found, theirs: Found, phrases: Phrases
) -> None:
    """What their phrases can mean among ours, then what ours can mean among theirs."""
    for start, count, number in theirs.sources:
        ranked = phrases.ranked(number)
        if not ranked.keys().isdisjoint(ours.targets):
            for target in _in_order(ranked, ours):
                for at, our_count in ours.targets[target]:
                    found[start].append(Match(start, count, at, our_count, PARAPHRASE))
    for start, count, number in ours.sources:
        ranked = phrases.ranked(number)
        if not ranked.keys().isdisjoint(theirs.targets):
            for target in _in_order(ranked, theirs):
                for at, their_count in theirs.targets[target]:
                    found[at].append(Match(at, their_count, start, count, PARAPHRASE))


def _in_order(ranked: dict[int, list[int]], sentence: Found) -> list[int]:
    """The paraphrases that the sentence has, as the table lists them."""
    shared = [(rank, one) for one in ranked.keys() & sentence.targets for rank in ranked[one]]
    return [one for _, one in sorted(shared)]
