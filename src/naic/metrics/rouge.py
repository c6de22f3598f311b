"""ROUGE-L, number for number that of the public COCO evaluation."""

from collections.abc import Sequence

import numpy as np

from naic.metrics.ngrams import check_pairs
from naic.metrics.score import Score, mean_score

_BETA_SQUARED = 1.2**2  # recall counts for more than precision


def rouge_l(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Score:
    """ROUGE_L: the F-measure of the longest common subsequence, mean over the images.

    As in the public code, the best precision and the best recall may come from two references.

    Args:
        hypotheses: one tokenised sentence an image.
        references: the tokenised references of the same images.
    """
    check_pairs(hypotheses, references)
    scores = [_image_score(*pair) for pair in zip(hypotheses, references, strict=True)]
    return mean_score("ROUGE_L", np.array(scores, np.float64))


def _image_score(hypothesis: str, references: Sequence[str]) -> float:
    # The public code cuts at " " alone: U+00A0 stays inside a token, and "" is one token that is
    # empty, so an empty hypothesis has the score 1 if one of its references is empty as well.
    words = hypothesis.split(" ")
    places: dict[str, int] = {}  # word -> a bit for each place where the hypothesis has it
    for place, word in enumerate(words):
        places[word] = places.get(word, 0) | 1 << place
    precision = recall = 0.0
    for reference in references:
        others = reference.split(" ")
        common = _common(places, len(words), others)
        precision = max(precision, common / len(words))
        recall = max(recall, common / len(others))
    if precision == 0:
        return 0.0
    return (1 + _BETA_SQUARED) * precision * recall / (recall + _BETA_SQUARED * precision)


def _common(places: dict[str, int], length: int, others: list[str]) -> int:
    """The length of the longest common subsequence, a whole row of the usual table at a time.

    In a row the table grows by 0 or 1 from one place of the hypothesis to the next. `level` has a
    bit 1 where it does not grow, and one addition carries a match over a run of such places.
    """
    level = everything = (1 << length) - 1
    for word in others:
        if word in places:
            match = level & places[word]
            level = (level + match) | (level - match)
    return length - (level & everything).bit_count()
