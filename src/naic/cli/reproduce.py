"""`naic reproduce --preset NAME --out DIR`, and `--study FILE`."""

import shlex
import sys
from collections.abc import Sequence
from functools import partial

from rich import box
from rich.console import Console
from rich.table import Table

from naic.cli.main import SOME_SKIPPED, parse
from naic.cli.screen import progress
from naic.plugins import OPTION_WORDS
from naic.progress import Callbacks
from naic.tasks.reproduce.gallery import Example, mark
from naic.tasks.reproduce.report import Reproduced, table_name
from naic.tasks.reproduce.run import dry_run, reproduce
from naic.tasks.reproduce.run_file import ReproduceOptions
from naic.tasks.reproduce.tables import TITLES, TableRow
from naic.tasks.study import rows as study_rows
from naic.tasks.study.run import dry_run as study_dry_run
from naic.tasks.study.run import run_study
from naic.tasks.study.tables import Studied

HELP = """Run the paper's ladder, from features to tables, and put our numbers beside the paper's.

Features, the teacher (XE, then SCST), its captions, and the students: NAIC-base, +weight-init, +KD,
+CMAL, +unlabelled. DIR gets a folder for each stage, table1.json, .md and .csv, figures/ as SVG,
captions.md and captions.html (captions side by side), and run.json (commands, seconds, machine).
A run that was cut off goes on with the same command; a finished one only prints its tables.
`--only-tables --references DATASET` scores captions of a DIR that was made on another machine.
`--study FILE` instead trains variants of one run, from one start, and compares them in one table.
Exit code 3 means: with --only-tables, some rows are not finished yet."""
OPTIONS = ReproduceOptions  # what the verb takes: shell completion finds it here

WIDTH = 120  # of the widest table, and some
EXAMPLES = 3


def run(arguments: Sequence[str]) -> int:
    """Parse, work, print."""
    options = parse(ReproduceOptions, "reproduce", HELP, arguments)
    if options.dry_run:
        for line in (dry_run if options.study is None else study_dry_run)(options):
            print(f"{line.state:<6} {line.name}")
        print("Nothing was written (--dry-run).")
        return 0
    callbacks = Callbacks(partial(print, file=sys.stderr), progress)
    command = f"naic reproduce {shlex.join([*arguments, *OPTION_WORDS])}"
    if options.study is not None:
        return _print_study(run_study(options, callbacks, command), options)
    return _print(reproduce(options, callbacks, command), options)


def _print_study(found: Studied, options: ReproduceOptions) -> int:
    for split, own in found.content["splits"].items():
        print(
            f"{split}, {own['images']:,} images\n\n{study_rows.table(own['rows'], found.content)}"
        )
    print(f"{options.out}: study.json/.md/.csv, captions/")
    if found.left_out and not options.only:  # who asked for some misses none
        print(f"naic reproduce: not finished: {'; '.join(found.left_out)}", file=sys.stderr)
        return SOME_SKIPPED
    return 0


def _print(found: Reproduced, options: ReproduceOptions) -> int:
    console = Console(width=None if sys.stdout.isatty() else WIDTH, soft_wrap=False)
    console.width = max(console.width, WIDTH)  # a narrow terminal breaks lines, and cuts no figures
    for table, rows in found.tables.items():
        console.print(_table(TITLES[table], rows))
    for split, own in found.also.items():
        for table, rows in own.items():
            console.print(_table(f"{TITLES[table]} on {split}", rows))
    for example in found.examples[:: max(1, len(found.examples) // EXAMPLES)][:EXAMPLES]:
        print(_example(example))
    names = ", ".join(
        f"{table_name(table, split)}.json/.md/.csv"
        for split, own in {"": found.tables, **found.also}.items()
        for table in own
    )
    print(f"{options.out}: {names}, figures/, captions.html, run.json")
    if found.left_out:
        print(f"naic reproduce: not finished: {'; '.join(found.left_out)}", file=sys.stderr)
        return SOME_SKIPPED
    return 0


def _table(title: str, rows: Sequence[TableRow]) -> Table:
    """The figures that the ladder is about; the files have all of them."""
    seeds = max(row["seeds"] for row in rows)
    table = Table(title=title, title_justify="left", box=box.SIMPLE)
    table.add_column("system")
    heads = [
        "BLEU-4",
        "CIDEr",
        "±" if seeds > 1 else "95 %",
        "paper (COCO)",
        "repeats %",
        "bad ends %",
    ]
    timed = any(row["latency_ms"] is not None for row in rows)
    if timed and (words := rows[0].get("latency_words")):
        table.caption = f"ms: one image from its features; the teacher writes {words} words"
    for head in (*heads, "true %", *(("ms", "speedup") if timed else ("last CIDEr, val",))):
        table.add_column(head, justify="right")
    for row in rows:
        table.add_row(
            row["system"],
            _hundred(row["Bleu_4"]),
            _hundred(row["CIDEr"]),
            _spread(row, seeds),
            _hundred((row["paper"] or {}).get("CIDEr")),
            *(_hundred(row[name]) for name in ("repeats", "bad_endings", "facts")),
            *(_times(row) if timed else (_hundred(row["last_validation_cider"]),)),
        )
    return table


def _times(row: TableRow) -> tuple[str, str]:
    if row["latency_ms"] is None:
        return "", ""
    return f"{row['latency_ms']:.2f}", "" if row["speedup"] is None else f"{row['speedup']:.2f}×"


def _spread(row: TableRow, seeds: int) -> str:
    if seeds > 1:
        return _hundred(row["spread"].get("CIDEr"))
    ends = row["intervals"].get("CIDEr")
    return f"{100 * ends[0]:.1f} to {100 * ends[1]:.1f}" if ends else ""


def _hundred(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}"


def _example(example: Example) -> str:
    width = max(map(len, example.captions))
    lines = (f"  {who:<{width}}  {mark(text, '[', ']')}" for who, text in example.captions.items())
    return "\n".join([example.id, *lines])
