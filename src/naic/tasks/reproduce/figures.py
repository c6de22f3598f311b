"""The figures of a reproduction, from its tables and from the logs of its runs."""

from collections.abc import Sequence
from pathlib import Path

from naic.files import remove_temporaries, write_atomically
from naic.tasks.charts import Bar, Dot, Line, bars, lines, scatter
from naic.tasks.reproduce.tables import TableRow


def ladder_figure(rows: Sequence[TableRow]) -> str:
    """CIDEr of each system with its interval over the images."""
    found = []
    for row in rows:
        low, high = row["intervals"].get("CIDEr") or (None, None)
        found.append(
            Bar(
                row["system"],
                100 * row["CIDEr"],
                None if low is None else 100 * low,
                None if high is None else 100 * high,
            )
        )
    return bars("CIDEr of each system, with 95 % intervals over the images", "CIDEr", found)


def speed_figure(rows: Sequence[TableRow]) -> str | None:
    """CIDEr against the time of an image; None where no time was measured."""
    dots = [
        Dot(row["system"], row["latency_ms"], 100 * row["CIDEr"])
        for row in rows
        if row["latency_ms"] is not None
    ]
    if not dots:
        return None
    what = "milliseconds for one image, from its features (logarithmic)"
    return scatter("CIDEr against latency", what, "CIDEr", dots, log_x=True)


def curves_figure(title: str, runs: dict[str, Path]) -> str | None:
    """Validation CIDEr along runs, by their names; None where there is nothing to show yet."""
    curves = [Line(name, tuple(validations(run))) for name, run in runs.items()]
    curves = [curve for curve in curves if curve.points]
    return lines(title, "epoch", "validation CIDEr", curves) if curves else None


def validations(run: Path) -> list[tuple[float, float]]:
    """Epochs and CIDEr (times 100) of a run's validations."""
    from naic.train.runlog import read_metrics

    return [
        (float(line["epoch"]), 100 * float(line["cider"]))
        for line in read_metrics(run)
        if "cider" in line
    ]


def write_figure(path: Path, svg: str | None) -> None:
    """Write it, if there is one; an older one that no longer holds goes."""
    path.parent.mkdir(exist_ok=True)
    remove_temporaries(path.parent, path.name)
    if svg is None:
        path.unlink(missing_ok=True)
    else:
        write_atomically(path, svg.encode())
