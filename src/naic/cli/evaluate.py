"""`naic evaluate RESULTS.json --references PATH`."""

import sys
from collections.abc import Sequence

from naic.cli.main import FAILED, SOME_SKIPPED, parse
from naic.cli.screen import print_figures, teller
from naic.metrics.score import FEWEST_IMAGES
from naic.progress import Callbacks
from naic.tasks.evaluate import tables
from naic.tasks.evaluate.options import EvaluateOptions, check_log, names_test
from naic.tasks.evaluate.report import log_test_evaluation, write_reports
from naic.tasks.evaluate.run import Evaluation, evaluate
from naic.tasks.evaluate.signature import signature_line

HELP = """Score captions against human references, as the public COCO evaluation does.

RESULTS.json is what COCO's server takes: [{"image_id": 42, "caption": "a dog on a sofa"}, ...].
BLEU, ROUGE-L and CIDEr need nothing else; METEOR needs the extra naic[metrics], SPICE Java as well.
An evaluation on the split test is written to a log before its scores are shown.
Exit code 3 means: done, but a metric failed or bad rows of the dataset were left out."""
OPTIONS = EvaluateOptions  # what the verb takes: shell completion finds it here


def run(arguments: Sequence[str]) -> int:
    """Parse, score, print, write."""
    options = parse(EvaluateOptions, "evaluate", HELP, arguments)
    if names_test(options.split):
        check_log(options.log)
    evaluation = evaluate(options, Callbacks(_say, problem=teller("evaluate")))
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
    print(tables.headline(evaluation))
    for figures in (tables.scores, tables.further, tables.habits):
        print_figures(figures(evaluation))
    if options.bootstrap and len(evaluation.images) < FEWEST_IMAGES:
        print(f"fewer than {FEWEST_IMAGES} images: no intervals")
    print(f"signature: {signature_line(evaluation.signature)}")
    for line in tables.shortcomings(evaluation):
        print(f"naic evaluate: {line}", file=sys.stderr)
    if not evaluation.system.scores:
        return FAILED
    return SOME_SKIPPED if evaluation.failed or evaluation.problems else 0


def _say(what: str) -> None:
    if sys.stderr.isatty():
        print(f"{what} ...", file=sys.stderr)
