"""The oracle: the public Python CIDEr-D and BLEU on sentences of ids, with df of a corpus."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from pycocoevalcap.bleu.bleu_scorer import BleuScorer
from pycocoevalcap.cider.cider_scorer import CiderScorer

from naic.text import PERIOD

Ids = Sequence[int]


class Corpus(list[Any]):
    """Looks to the public code like as many images as df was counted on."""

    images = 0

    def __len__(self) -> int:
        return self.images


class PublicCider:
    """CIDEr-D with df from training references, counted anew from their words."""

    def __init__(self, references: Sequence[Sequence[Ids]], training: Iterable[bool]) -> None:
        self.references = [[join(ids) for ids in image] for image in references]
        scorer = CiderScorer()
        for texts, counts in zip(self.references, training, strict=True):
            if counts and texts:
                scorer.cook_append("", texts)
        scorer.compute_doc_freq()
        self.images = len(scorer.crefs)
        self.frequencies = dict(scorer.document_frequency)

    def score(self, sentences: Sequence[Ids], images: Sequence[int]) -> npt.NDArray[np.float64]:
        """One score for each sentence; the references are cooked each time, as the code has it."""
        scorer = CiderScorer()
        # A copy: the public table grows with every n-gram that is looked up.
        scorer.document_frequency = defaultdict(float, self.frequencies)
        scorer.crefs = Corpus()
        scorer.crefs.images = self.images
        for sentence, image in zip(sentences, images, strict=True):
            scorer.cook_append(join(sentence), self.references[image])
        return np.array(scorer.compute_cider())


def public_bleu(references: Sequence[Ids], sentence: Ids) -> float:
    """BLEU-4 of one sentence."""
    scorer = BleuScorer(test=join(sentence), refs=[join(ids) for ids in references], n=4)
    value: float = scorer.compute_score(option="closest", verbose=0)[1][3][0]
    return value


def join(ids: Ids) -> str:
    """Ids as the words of a sentence."""
    return " ".join(map(str, ids))


def cut(ids: Ids) -> list[int]:
    """A row's sentence: up to the first period, that included."""
    row = list(ids)
    return row[: row.index(PERIOD) + 1] if PERIOD in row else row


def counterfactuals(row: Ids, alternatives: Sequence[Ids]) -> list[list[int]]:
    """The sentences of a row with one word replaced, agent by agent, alternative by alternative."""
    words = list(row)
    return [
        cut([*words[:agent], word, *words[agent + 1 :]])
        for agent, choices in enumerate(alternatives)
        for word in choices
    ]
