"""`naic evaluate RESULTS.json --references PATH`."""

import sys
from collections.abc import Sequence
from dataclasses import asdict

from rich import box
from rich.console import Console
from rich.table import Table

from naic.cli.main import FAILED, SOME_SKIPPED, parse
from naic.metrics.score import FEWEST_IMAGES
from naic.progress import Callbacks
from naic.tasks.evaluate.options import EvaluateOptions, check_log, names_test
from naic.tasks.evaluate.report import log_test_evaluation, signature_line, write_reports
from naic.tasks.evaluate.run import Evaluation, evaluate

HELP = """Score captions against human references, as the public COCO evaluation does.

RESULTS.json is what COCO's server takes: [{"image_id": 42, "caption": "a dog on a sofa"}, ...].
BLEU, ROUGE-L and CIDEr need nothing else; METEOR needs the extra naic[metrics], SPICE Java as well.
An evaluation on the split test is written to a log before its scores are shown.
Exit code 3 means: done, but a metric failed or bad rows of the dataset were left out."""
OPTIONS = EvaluateOptions  # what the verb takes: shell completion finds it here

HABITS = {
    "repeats": "with a word twice in a row, %",
    "bad_endings": "with a bad ending, %",
    "vocabulary": "distinct words",
    "mean_length": "words a caption",
    "empty": "empty captions",
}
_WIDTH = 100  # of the widest table, and some


def run(arguments: Sequence[str]) -> int:
    """Parse, score, print, write."""
    options = parse(EvaluateOptions, "evaluate", HELP, arguments)
    if names_test(options.split):
        check_log(options.log)
    evaluation = evaluate(options, Callbacks(_say))
    log = log_test_evaluation(evaluation, options)  # first: nobody shall see what is not in it
    try:
        code = _print(evaluation, options)
        if log is not None:
            print(f"logged:    {log}")
        return code
    finally:  # what was computed is not lost to whoever closed the pipe we print to
        write_reports(evaluation, options)


def _print(evaluation: Evaluation, options: EvaluateOptions) -> int:
    """All that people read; the exit code."""
    console = _console()
    spread = ", with 95 % intervals over the images" if evaluation.intervals else ""
    part = evaluation.signature.get("subset")  # with --subset: "10 of 4392 images"
    print(f"{part or f'{len(evaluation.images):,} images'}; scores x 100{spread}")
    console.print(_scores(evaluation))
    console.print(_habits(evaluation))
    if options.bootstrap and len(evaluation.images) < FEWEST_IMAGES:
        print(f"fewer than {FEWEST_IMAGES} images: no intervals")
    print(f"signature: {signature_line(evaluation.signature)}")
    return _print_shortcomings(evaluation)


def _say(what: str) -> None:
    if sys.stderr.isatty():
        print(f"{what} ...", file=sys.stderr)


def _console() -> Console:
    """Wide enough for every column: a narrow terminal shall break lines rather than cut figures."""
    if not sys.stdout.isatty():
        return Console(width=_WIDTH, color_system=None)
    console = Console()
    console.width = max(console.width, _WIDTH)
    return console


def _table(title: str) -> Table:
    table = Table(box=box.SIMPLE if sys.stdout.isatty() else None)
    table.add_column(title)
    return table


def _scores(evaluation: Evaluation) -> Table:
    """Values times 100, as papers print them."""
    table = _table("metric")
    table.add_column("score", justify="right")
    if evaluation.intervals:
        table.add_column("95 %", justify="right")
    if evaluation.against is not None:
        table.add_column("against", justify="right")
        table.add_column("difference", justify="right")
        if evaluation.intervals:
            table.add_column("95 %", justify="right")
            table.add_column("p", justify="right")
    for name, score in evaluation.system.scores.items():
        row = [name, f"{100 * score.value:.1f}"]
        if name in evaluation.intervals:
            row.append(_interval(*evaluation.intervals[name]))
        found = evaluation.differences.get(name)
        if evaluation.against is not None and found is not None:
            row.append(f"{100 * evaluation.against.scores[name].value:.1f}")
            row.append(f"{100 * found.value:+.1f}")
            if found.low is not None and found.high is not None and found.p is not None:
                row += [_interval(found.low, found.high, "+"), f"{found.p:.3f}"]
        table.add_row(*row)
    return table


def _interval(low: float, high: float, sign: str = "") -> str:
    return f"{100 * low:{sign}.1f} to {100 * high:{sign}.1f}"


def _habits(evaluation: Evaluation) -> Table:
    """The captions beside the human references: what is usual there shows what is not."""
    columns = {"captions": evaluation.system.habits}
    if evaluation.against is not None:
        columns["against"] = evaluation.against.habits
    columns["references"] = evaluation.human
    table = _table("habit")
    for column in columns:
        table.add_column(column, justify="right")
    values = [asdict(found) for found in columns.values()]
    for key, what in HABITS.items():
        table.add_row(what, *(_habit(key, value[key]) for value in values))
    return table


def _habit(key: str, value: float) -> str:
    if key in ("repeats", "bad_endings"):
        return f"{100 * value:.2f}"
    return f"{value:.1f}" if key == "mean_length" else f"{value:,}"


def _print_shortcomings(evaluation: Evaluation) -> int:
    """What is not in the table, and why; the exit code."""
    for why in dict.fromkeys(
        evaluation.missing.values()
    ):  # one line for both if the extra is missing
        names = " and ".join(name for name, own in evaluation.missing.items() if own == why)
        print(f"naic evaluate: left out {names}: {why}", file=sys.stderr)
    for name, why in evaluation.failed.items():
        print(f"naic evaluate: {name} failed: {why}", file=sys.stderr)
    if evaluation.problems:
        first = evaluation.problems[0]
        print(
            f"naic evaluate: {len(evaluation.problems):,} rows were left out, "
            f"such as {first.where}: {first.why}",
            file=sys.stderr,
        )
    if not evaluation.system.scores:
        return FAILED
    return SOME_SKIPPED if evaluation.failed or evaluation.problems else 0
