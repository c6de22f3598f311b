"""From words that were chosen to the text that people get: what is kept of them, and as what."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from naic.decode.best_first import Sentence
from naic.decode.decoding import Decoding
from naic.decode.wishes import Wanted, wanted
from naic.text.neutral import TABLE, Piece, neutral
from naic.text.vocabulary import PERIOD, Vocabulary, spell


@dataclass(frozen=True)
class Wording:
    """How sentences of a vocabulary are given to people.

    Attributes:
        vocabulary: the words.
        decoding: what was asked for.
        wanted: its words as ids.
    """

    vocabulary: Vocabulary
    decoding: Decoding
    wanted: Wanted = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "wanted", wanted(self.decoding, self.vocabulary))

    def heard(self, ids: Sequence[int]) -> int:
        """How many of the agents say something: up to the period, and not what is forbidden."""
        end = ids.index(PERIOD) + 1 if PERIOD in ids else len(ids)
        if self.wanted.forbidden:
            barred = map(self.wanted.forbidden.__contains__, ids[:end])
            return next(itertools.compress(itertools.count(), barred), end)
        return end

    def sentence(self, ids: Sequence[int]) -> tuple[int, ...]:
        """The words that are kept of what was said.

        As `Decoding.sentence` cuts it; before a forbidden word; and so that the text fits.
        """
        said = ids[: self.heard(ids)] if self.wanted.forbidden else ids
        kept = self.decoding.sentence(said, self.vocabulary)
        while not self._obeys(kept):
            kept = self.decoding.sentence(kept[:-1], self.vocabulary)
        return kept

    def _obeys(self, kept: Sequence[int]) -> bool:
        """Whether the text is short enough, and grammar brought back nothing that is forbidden."""
        most, forbid = self.decoding.max_chars, self.decoding.forbid
        if forbid and (self.decoding.neutral or self.decoding.style):
            words = {word for piece in self._pieces(kept) for word in piece.words}
            if not words.isdisjoint(forbid):
                return False
        return most is None or len(self.text(kept)) <= most

    def text(self, kept: Sequence[int]) -> str:
        """What people read."""
        style = self.decoding.style
        if style is None and not self.decoding.neutral:
            return self.vocabulary.decode(kept)
        text = spell([word for piece in self._pieces(kept) for word in piece.words])
        return text if style is None else style.spelled(text)

    def told(
        self, kept: Sequence[int], words: list[list[int]], log_probs: list[list[float]]
    ) -> list[tuple[tuple[str, float], ...]]:
        """For each word of the text what its agent could have said, (N, K), that word first.

        Nothing forbidden is told. Words that are the same without a guessed gender are one word
        with the sum of their probabilities; where several agents say one thing, "two people", it
        has the product of theirs. Of words that a style leaves out nothing is told; nor of those
        that it puts before and after, which no agent says.
        """
        word, forbidden = self.vocabulary.word, self.wanted.forbidden
        spoken = [
            [
                (word(id_), math.exp(value))
                for id_, value in zip(*own, strict=True)
                if id_ not in forbidden
            ]
            for own in zip(words[: len(kept)], log_probs, strict=False)
        ]
        if self.decoding.neutral:
            return [_merged(piece, spoken[piece.begin : piece.end]) for piece in self._pieces(kept)]
        if self.decoding.style is None:
            return [tuple(own) for own in spoken]
        return [
            ((" ".join(piece.words), spoken[piece.begin][0][1]), *spoken[piece.begin][1:])
            for piece in self._pieces(kept)
        ]

    def likelier(
        self,
        sentence: Sentence,
        words: list[list[int]],
        log_probs: list[list[float]] | list[list[list[float]]],
    ) -> Sentence:
        """The sentence with the probability of all that are the same without guessed genders.

        Each of its words, and its period, then counts with those that are the same; with
        transitions, after the word that the sentence has before it.

        Args:
            sentence: among those that the agents can say.
            words: (N, K).
            log_probs: (N, K), or in a chain (N, K, K).
        """
        if not self.decoding.neutral:
            return sentence
        total, before = 0.0, 0
        own: Any  # of one of two shapes
        for id_, ids, own in zip((*sentence.words, PERIOD), words, log_probs, strict=False):
            if id_ not in ids:  # it ends before what is forbidden, without a period
                break
            values = own if isinstance(own[0], float) else own[before]
            before = ids.index(id_)
            like = [self._same(other) == self._same(id_) for other in ids]
            total += np.logaddexp.reduce([*itertools.compress(values, like)])
        return Sentence(sentence.words, float(total))

    def _same(self, id_: int) -> str:
        word = self.vocabulary.word(id_)
        return TABLE.get(word, word)

    def _pieces(self, kept: Sequence[int]) -> list[Piece]:
        """What the words become."""
        words = [self.vocabulary.word(id_) for id_ in kept]
        said = neutral(words) if self.decoding.neutral else None
        if self.decoding.style is None:
            return said or []
        return self.decoding.style.pieces(words, said)


def _merged(piece: Piece, agents: list[list[tuple[str, float]]]) -> tuple[tuple[str, float], ...]:
    """What was said in place of some words, and how likely; of one agent also the other words.

    `agents` are those of the words, each with what it could have said, its own word first.
    """
    sure = 1.0
    tables = []
    for own in agents:
        table: dict[str, float] = {}
        for word, prob in own:
            same = TABLE.get(word, word)
            table[same] = table.get(same, 0.0) + prob
        sure *= next(iter(table.values()))
        tables.append(table)
    others = sorted(list(tables[0].items())[1:], key=lambda other: -other[1])
    alone = len(agents) == 1
    return (" ".join(piece.words), sure), *(others if alone else ())
