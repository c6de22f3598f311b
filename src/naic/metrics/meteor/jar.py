"""METEOR 1.5 by the reference program, in Java, as the public evaluation runs it.

The program prints the counts of each image, and the scores that follow from them. The formula is
written in `score.py` too, so that any subset can be scored without the program, and each run
checks it against the program.
"""

from collections.abc import Sequence

import numpy as np

from naic.errors import MetricError
from naic.metrics import java
from naic.metrics.meteor.data import NAME, REINSTALL, find_files
from naic.metrics.meteor.normalise import clean
from naic.metrics.meteor.score import STATISTICS, combine, shares
from naic.metrics.program import Program
from naic.metrics.score import Floats, Score

HEAP = "2G"
SECONDS, SECONDS_PER_IMAGE = 120.0, 0.1  # of the time limit: many times what it takes
SAME = 1e-9  # within which our formula must agree with the program


def by_java(
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
    with _run(hypotheses, references, seconds) as running:
        answers, statistics = _ask(running, hypotheses, references)
        # Not asked before each answer has been seen to be one, so no score can slip by a line.
        running.send(_line("EVAL", *answers))
        scores = np.array([_numbers(running, line, 1)[0] for line in running.lines(count + 1)])
    own = shares(statistics)
    per_image, value = scores[:-1], float(scores[-1])
    ours = np.append(combine(own), combine(own.sum(axis=0)))
    if not np.all(np.abs(ours - scores) <= SAME):
        why = "the program's scores are not those of METEOR 1.5 for English"
        raise MetricError(NAME, why, REINSTALL)
    return Score(NAME, value, per_image, own, combine)


def counts_by_java(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], options: Sequence[str]
) -> Floats:
    """(I, 23) what the program counts, told by its own options to take other tables."""
    with _run(hypotheses, references, None, options) as running:
        return _ask(running, hypotheses, references)[1]


def _run(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    seconds: float | None,
    options: Sequence[str] = (),
) -> Program:
    count = len(hypotheses)
    return java.run(
        f"METEOR of {count} images",
        ["-jar", str(find_files().jar), "-", "-", "-stdio", "-l", "en", "-norm", *options],
        heap=HEAP,
        seconds=SECONDS + SECONDS_PER_IMAGE * count if seconds is None else seconds,
        suspect=java.suspect_sentence(hypotheses, references),
    )


def _ask(
    running: Program, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> tuple[list[str], Floats]:
    """The counts of each image, as the program prints them and as numbers."""
    pairs = zip(hypotheses, references, strict=True)
    running.send("".join(_line("SCORE", *each, hypothesis) for hypothesis, each in pairs))
    answers = running.lines(len(hypotheses))
    return answers, np.array([_numbers(running, line, STATISTICS) for line in answers])


def _line(*parts: str) -> str:
    """One request; Java drops empty parts at the end of a line, but not parts of one space."""
    return " ||| ".join(map(clean, parts)) + " \n"


def _numbers(running: Program, line: str, count: int) -> list[float]:
    """The numbers of a line that must hold `count` finite ones."""
    try:
        numbers = [float(word) for word in line.split()]
    except ValueError:
        numbers = []
    if len(numbers) != count or not np.all(np.isfinite(numbers)):
        raise running.garbage(line)
    return numbers
