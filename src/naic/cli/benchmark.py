"""`naic benchmark [MODEL]`."""

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from naic.cli.main import FAILED, SOME_SKIPPED, parse
from naic.cli.screen import progress
from naic.progress import Callbacks
from naic.tasks.benchmark.report import Report
from naic.tasks.benchmark.rows import BenchmarkOptions, Row
from naic.tasks.benchmark.run import benchmark, dry_run

HELP = """Time captions: NAIC against a causal teacher of the same shape, and against others.

Both models always run in the same runtime and precision, and take turns. A ratio is how many times
as long as NAIC a model takes. Exit code 3 means: done, but some rows could not be timed, and say
why."""
OPTIONS = BenchmarkOptions  # what the verb takes: shell completion finds it here
TITLES = {"decode": "Features to words", "whole": "Pixels to words"}


def run(arguments: Sequence[str]) -> int:
    """Parse, time, show."""
    options = parse(BenchmarkOptions, "benchmark", HELP, arguments)
    if options.dry_run:
        _list(dry_run(options))
        return 0
    report = benchmark(options, Callbacks(progress=progress))
    _show(report)
    if options.out is not None:
        print(f"figures: {options.out}, and charts beside it")
    states = [row.state for row in report.rows]
    if "timed" not in states:
        return FAILED
    return SOME_SKIPPED if "failed" in states else 0


def _list(rows: Sequence[Row]) -> None:
    for row in rows:
        where = f"{row.runtime} {row.precision}, {row.part}, batch {row.batch}"
        print(f"{where:<40} {row.name}{f': left out, {row.why}' if row.why else ''}")
    count = sum(row.state == "planned" for row in rows)
    print(f"{count} figures would be timed. Nothing was timed (--dry-run).")


def _show(report: Report) -> None:
    # Rows of figures are of no use when they are broken: a file has room for them.
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    about = report.machine
    packages = ", ".join(f"{name} {version}" for name, version in about["packages"].items())
    print(f"machine: {about['processor']}, {about['cores']} cores, {about['threads']} threads")
    print(f"device:  {about['device']}; {packages}, Python {about['python']}")
    model = report.model
    said = [model["name"], f"{model['weights']:,} weights"]
    if {"encoder_layers", "decoder_layers", "width"} <= model.keys():
        layers = f"{model['encoder_layers']} + {model['decoder_layers']}"
        said.append(f"{layers} layers of {model['width']}")
    print(f"model:   {', '.join([*said, model['sight']])}")
    for part, title in TITLES.items():
        rows = [row for row in report.rows if row.part == part]
        if rows:
            console.print(_latency(title, rows))
            console.print(_throughput(title, rows))
    reasons = {(row.runtime, row.part, row.name): row.why for row in report.rows if row.why}
    for (runtime, part, name), why in reasons.items():
        print(f"- {runtime}, {part}, {name}: {why}")
    for note in report.notes:
        print(f"- {note}")


def _latency(title: str, rows: Sequence[Row]) -> Table:
    """The smallest batch: how long one waits."""
    batch = min(row.batch for row in rows)
    table = Table(title=f"{title}, batch {batch}")
    for name in ("runtime", "model"):
        table.add_column(name)
    for name in ("median ms", "p99 ms", "repeats", "to NAIC", "as used"):
        table.add_column(name, justify="right")
    for row in rows:
        if row.batch != batch:
            continue
        if row.median_ms is None or row.p99_ms is None:
            table.add_row(f"{row.runtime} {row.precision}", row.name, row.state)
            continue
        figures = (f"{row.median_ms:.3f}", f"{row.p99_ms:.3f}", f"{row.repeats:,}")
        ratios = (_times(row.ratio), _times(row.ratio_as_used))
        table.add_row(f"{row.runtime} {row.precision}", row.name, *figures, *ratios)
    return table


def _throughput(title: str, rows: Sequence[Row]) -> Table:
    """All batches: how much gets done."""
    batches = sorted({row.batch for row in rows})
    table = Table(title=f"{title}, images a second (time to NAIC's) by batch")
    for name in ("runtime", "model"):
        table.add_column(name)
    for batch in batches:
        table.add_column(str(batch), justify="right")
    by_place = {(row.runtime, row.precision, row.name, row.batch): row for row in rows}
    for runtime, precision, name in dict.fromkeys(key[:3] for key in by_place):
        found = [by_place.get((runtime, precision, name, batch)) for batch in batches]
        table.add_row(f"{runtime} {precision}", name, *map(_cell, found))
    return table


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    if row.images_per_second is None:
        return row.state
    ratio = f" ({_times(row.ratio)})" if row.ratio is not None else ""
    return f"{row.images_per_second:,.1f}{ratio}"


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}×"
