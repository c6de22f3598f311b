"""The tables of an evaluation as text: the same figures for a terminal and for a page."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # whoever has an evaluation has it imported
    from naic.tasks.evaluate.run import Evaluation, System

HABITS = {
    "repeats": "with a word twice in a row, %",
    "bad_endings": "with a bad ending, %",
    "vocabulary": "distinct words",
    "mean_length": "words a caption",
    "empty": "empty captions",
}
_SUFFIXES = (".gz", ".xz", ".json")


@dataclass(frozen=True, slots=True)
class Figures:
    """Rows of text; the first cell of each says what its figures are of."""

    header: list[str]
    rows: list[list[str]]


def headline(evaluation: "Evaluation") -> str:
    """How many images, and how to read the figures."""
    spread = ", with 95 % intervals over the images" if evaluation.intervals else ""
    part = evaluation.signature.get("subset")  # with --subset: "10 of 4392 images"
    return f"{part or f'{len(evaluation.images):,} images'}; scores x 100{spread}"


def scores(evaluation: "Evaluation") -> Figures:
    """Values times 100, as papers print them."""
    against, spread = evaluation.against, bool(evaluation.intervals)
    header = ["metric", "score", *["95 %"] * spread]
    if against is not None:
        header += ["against", "difference", *["95 %", "p"] * spread]
    rows = []
    for name, score in evaluation.system.scores.items():
        row = [name, _hundredfold(score.value)]
        if name in evaluation.intervals:
            row.append(_interval(*evaluation.intervals[name]))
        found = evaluation.differences.get(name)
        if against is not None and found is not None:
            row += [_hundredfold(against.scores[name].value), f"{100 * found.value:+.1f}"]
            if found.low is not None and found.high is not None and found.p is not None:
                row += [_interval(found.low, found.high, "+"), f"{found.p:.3f}"]
        rows.append(row)
    return Figures(header, rows)


def further(evaluation: "Evaluation") -> Figures:
    """The scores of the systems that were scored beside the two; no rows if there are none."""
    header, rows = ["also"], {name: [name] for name in evaluation.system.scores}
    own = len(evaluation.systems) - len(evaluation.also)
    for one, name in zip(evaluation.also, labels(evaluation.systems)[own:], strict=True):
        header += [name, *["95 %"] * bool(one.intervals)]
        for metric, row in rows.items():
            score = one.system.scores.get(metric)
            row.append("" if score is None else _hundredfold(score.value))
            if one.intervals:
                row.append("" if score is None else _interval(*one.intervals[metric]))
    return Figures(header, list(rows.values()) if evaluation.also else [])


def habits(evaluation: "Evaluation") -> Figures:
    """The captions beside the human references: what is usual there shows what is not."""
    columns = [("captions", evaluation.system.habits)]
    if evaluation.against is not None:
        columns.append(("against", evaluation.against.habits))
    own = len(columns)
    names = labels(evaluation.systems)[own:]
    columns += [(name, one.system.habits) for name, one in zip(names, evaluation.also, strict=True)]
    columns.append(("references", evaluation.human))
    values = [asdict(found) for _, found in columns]
    rows = [[what, *(_habit(key, own[key]) for own in values)] for key, what in HABITS.items()]
    return Figures(["habit", *(name for name, _ in columns)], rows)


def labels(systems: Sequence["System"]) -> list[str]:
    """A short name for each file of captions: its own, with folders where these tell two apart."""
    return short_names([_bare(Path(system.name)) for system in systems])


def short_names(paths: Sequence[Path]) -> list[str]:
    """As many of the last parts of the paths as tell them apart."""
    depths = range(1, max((len(path.parts) for path in paths), default=0) + 1)
    spelt = [["/".join(path.parts[-depth:]) for path in paths] for depth in depths] or [[]]
    most = len(set(spelt[-1]))
    names = next(some for some in spelt if len(set(some)) == most)
    seen: Counter[str] = Counter()  # a file may be given twice
    for place, name in enumerate(names):
        seen[name] += 1
        if seen[name] > 1:
            names[place] = f"{name} ({seen[name]})"
    return names


def _bare(path: Path) -> Path:
    while path.suffix in _SUFFIXES and path.stem:
        path = path.with_suffix("")
    return path


def _hundredfold(value: float) -> str:
    return f"{100 * value:.1f}"


def _interval(low: float, high: float, sign: str = "") -> str:
    return f"{100 * low:{sign}.1f} to {100 * high:{sign}.1f}"


def _habit(key: str, value: float) -> str:
    if key in ("repeats", "bad_endings"):
        return f"{100 * value:.2f}"
    return f"{value:.1f}" if key == "mean_length" else f"{value:,}"


def shortcomings(evaluation: "Evaluation") -> list[str]:
    """What is not in the tables, and why."""
    lines = []
    for why in dict.fromkeys(evaluation.missing.values()):  # one line for both if an extra lacks
        names = " and ".join(name for name, own in evaluation.missing.items() if own == why)
        lines.append(f"left out {names}: {why}")
    lines += [f"{name} failed: {why}" for name, why in evaluation.failed.items()]
    if evaluation.problems:
        first = evaluation.problems[0]
        count = len(evaluation.problems)
        lines.append(f"{count:,} rows were left out, such as {first.where}: {first.why}")
    lacking = sum(picture is None for picture in evaluation.pictures)
    if lacking:
        lines.append(
            f"{lacking:,} of {len(evaluation.images):,} images have no picture in --images"
        )
    return lines
