"""METEOR's counts of an image, and the formula that makes a score of them.

The formula is that of Denkowski and Lavie (2014) with the English "rank" parameters. The score of
an image depends on 23 counts against its best reference, and that of a set on their sums.
"""

import numpy as np

from naic.metrics.meteor.stages import Match, Sentence
from naic.metrics.score import Floats

ALPHA, BETA, GAMMA, DELTA = 0.85, 0.2, 0.6, 0.75
WEIGHTS = (1.0, 0.6, 0.8, 0.6)  # exact, stem, synonym, paraphrase
STATISTICS = 23


def count(ours: Sentence, theirs: Sentence, matches: list[Match]) -> list[int]:
    """The 23 counts, in the program's order (see `shares`), of an alignment."""
    stages = [0] * 16  # for each stage: our content words, theirs, our function words, theirs
    chunks, our_matched, their_matched = 0, 0, 0
    their_end, our_end = -1, -1
    for start, their_count, at, our_count, stage in matches:
        for function in ours.is_function[at : at + our_count]:
            stages[4 * stage + (2 if function else 0)] += 1
        for function in theirs.is_function[start : start + their_count]:
            stages[4 * stage + (3 if function else 1)] += 1
        our_matched += our_count
        their_matched += their_count
        if start != their_end or at != our_end:
            chunks += 1
        their_end, our_end = start + their_count, at + our_count
    lengths = [len(ours.words), len(theirs.words)]
    functions = [sum(ours.is_function), sum(theirs.is_function)]
    return [*lengths, *functions, *stages, chunks, our_matched, their_matched]


def score_of(counts: list[int]) -> float:
    """The score, added up in the program's order: of two references, rounding may decide."""
    our_words, their_words, our_functions, their_functions = counts[:4]
    chunks, our_matched, their_matched = counts[20:]
    if not our_matched:
        return 0.0
    ours = theirs = 0.0
    for stage, weight in enumerate(WEIGHTS):
        ours += counts[4 + 4 * stage] * weight * DELTA
        theirs += counts[5 + 4 * stage] * weight * DELTA
    for stage, weight in enumerate(WEIGHTS):
        ours += counts[6 + 4 * stage] * weight * (1 - DELTA)
        theirs += counts[7 + 4 * stage] * weight * (1 - DELTA)
    precision = ours / (DELTA * (our_words - our_functions) + (1 - DELTA) * our_functions)
    recall = theirs / (DELTA * (their_words - their_functions) + (1 - DELTA) * their_functions)
    mean = 1 / ((1 - ALPHA) / precision + ALPHA / recall)
    whole = our_matched == our_words and their_matched == their_words and chunks == 1
    breaks = 0.0 if whole else chunks / ((our_matched + their_matched) / 2)
    return float(max(mean * (1 - GAMMA * breaks**BETA), 0.0))


def shares(statistics: Floats) -> Floats:
    """(I, 23) the program's counts -> (I, 6) the sums the formula needs, for each image.

    In the order of the program, where "ours" is the hypothesis and "theirs" the best reference:
    our words, theirs, our function words, theirs; for each of four stages our matched content
    words, theirs, our matched function words, theirs; chunks, our matched words, theirs.
    """
    words, functions = statistics[:, 0:2], statistics[:, 2:4]  # (I, 2): ours, theirs
    matches = statistics[:, 4:20].reshape(-1, 4, 2, 2)  # (I, stage, content/function, ours/theirs)
    chunks, matched_words = statistics[:, 20], statistics[:, 21:23]
    lengths = DELTA * (words - functions) + (1 - DELTA) * functions  # (I, 2)
    kinds = np.array([DELTA, 1 - DELTA])
    weighted = np.einsum("iskw,s,k->iw", matches, np.array(WEIGHTS), kinds)  # (I, 2)
    # A sentence matched whole and in one piece has no break, so it adds no chunk to a set.
    whole = np.all(matches.sum(axis=(1, 2)) == words, axis=1) & (chunks == 1)
    columns = [lengths, weighted, np.where(whole, 0.0, chunks)[:, None]]
    return np.concatenate([*columns, matched_words.mean(axis=1, keepdims=True)], axis=1)


def combine(sums: Floats) -> Floats:
    """(..., 6) sums of shares -> (...) METEOR."""
    our_length, their_length, our_matches, their_matches, chunks, words = np.moveaxis(sums, -1, 0)
    some = words > 0
    one = np.ones_like(words)
    precision = np.divide(our_matches, our_length, out=one.copy(), where=some)
    recall = np.divide(their_matches, their_length, out=one.copy(), where=some)
    breaks = np.divide(chunks, words, out=one.copy(), where=some)
    mean = 1 / ((1 - ALPHA) / precision + ALPHA / recall)
    return np.where(some, np.maximum(mean * (1 - GAMMA * breaks**BETA), 0.0), 0.0)
