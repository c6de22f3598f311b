"""METEOR 1.5 by the reference program, as the public evaluation runs it.

The program matches words exactly, by stem, by synonym and by paraphrase, and prints the counts of
each image. The score is a formula of these counts (Denkowski and Lavie, 2014, with the English
"rank" parameters), and that of a set is the formula of their sums. It is written here too, so
that any subset can be scored without Java, and each run checks it against the program.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from naic.errors import MetricError, MissingExtraError
from naic.metrics import java
from naic.metrics.program import Program
from naic.metrics.score import Floats, Score

NAME = "METEOR"
PROGRAM = "meteor-1.5"
HEAP = "2G"
SECONDS, SECONDS_PER_IMAGE = 120.0, 0.1  # of the time limit: many times what it takes

ALPHA, BETA, GAMMA, DELTA = 0.85, 0.2, 0.6, 0.75
STAGE_WEIGHTS = np.array([1.0, 0.6, 0.8, 0.6])  # exact, stem, synonym, paraphrase
STATISTICS = 23  # numbers the program prints for an image
SAME = 1e-9  # within which our formula must agree with the program


def program() -> str:
    """Which build of METEOR gives the scores."""
    return PROGRAM


def meteor(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    seconds: float | None = None,
) -> Score:
    """Score tokenised sentences, one an image, against the references of the same images.

    Args:
        hypotheses: I sentences; an empty one scores 0.
        references: I lists of at least one sentence.
        seconds: the time limit; by default one that grows with the number of images.
    """
    count = len(hypotheses)
    limit = SECONDS + SECONDS_PER_IMAGE * count if seconds is None else seconds
    questions = [
        _line("SCORE", *each, hypothesis)
        for hypothesis, each in zip(hypotheses, references, strict=True)
    ]
    with java.run(
        f"METEOR of {count} images",
        ["-jar", str(_jar()), "-", "-", "-stdio", "-l", "en", "-norm"],
        heap=HEAP,
        seconds=limit,
        suspect=java.suspect_sentence(hypotheses, references),
    ) as running:
        running.send("".join(questions))
        answers = running.lines(count)
        statistics = np.array([_numbers(running, line, STATISTICS) for line in answers])
        # Not asked before each answer has been seen to be one, so no score can slip by a line.
        running.send(_line("EVAL", *answers))
        scores = np.array([_numbers(running, line, 1)[0] for line in running.lines(count + 1)])
    shares = _shares(statistics)
    per_image, value = scores[:-1], float(scores[-1])
    ours = np.append(_combine(shares), _combine(shares.sum(axis=0)))
    if not np.all(np.abs(ours - scores) <= SAME):
        why = "the program's scores are not those of METEOR 1.5 for English"
        hint = "Install its jar anew: pip install --force-reinstall pycocoevalcap==1.2"
        raise MetricError(NAME, why, hint)
    return Score(NAME, value, per_image, shares, _combine)


def _line(*parts: str) -> str:
    """One request; what the program would take for the end of a part or of a line is removed."""
    # str.split() would also cut at signs that the program keeps within a word.
    clean = (part.replace("\r", " ").replace("\n", " ").replace("|||", "") for part in parts)
    # Java drops empty parts at the end of a line, but not parts of one space.
    return " ||| ".join(clean) + " \n"


def _numbers(running: Program, line: str, count: int) -> list[float]:
    """The numbers of a line that must hold `count` finite ones."""
    try:
        numbers = [float(word) for word in line.split()]
    except ValueError:
        numbers = []
    if len(numbers) != count or not np.all(np.isfinite(numbers)):
        raise running.garbage(line)
    return numbers


def _shares(statistics: Floats) -> Floats:
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
    weighted = np.einsum("iskw,s,k->iw", matches, STAGE_WEIGHTS, kinds)  # (I, 2)
    # A sentence matched whole and in one piece has no break, so it adds no chunk to a set.
    whole = np.all(matches.sum(axis=(1, 2)) == words, axis=1) & (chunks == 1)
    columns = [lengths, weighted, np.where(whole, 0.0, chunks)[:, None]]
    return np.concatenate([*columns, matched_words.mean(axis=1, keepdims=True)], axis=1)


def _combine(sums: Floats) -> Floats:
    """(..., 6) sums of shares -> (...) METEOR."""
    our_length, their_length, our_matches, their_matches, chunks, words = np.moveaxis(sums, -1, 0)
    some = words > 0
    one = np.ones_like(words)
    precision = np.divide(our_matches, our_length, out=one.copy(), where=some)
    recall = np.divide(their_matches, their_length, out=one.copy(), where=some)
    breaks = np.divide(chunks, words, out=one.copy(), where=some)
    mean = 1 / ((1 - ALPHA) / precision + ALPHA / recall)
    return np.where(some, np.maximum(mean * (1 - GAMMA * breaks**BETA), 0.0), 0.0)


def _jar() -> Path:
    folder = java.package_folder("pycocoevalcap")
    if folder is None or not (jar := folder / "meteor" / f"{PROGRAM}.jar").is_file():
        why = "its program comes in the package pycocoevalcap, which is not installed"
        raise MissingExtraError(NAME, why, "Run: pip install 'naic[metrics]'")
    return jar
