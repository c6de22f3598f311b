"""`naic export [MODEL] --out DIR`, or `--web DIR`."""

from collections.abc import Sequence

from naic.cli.main import parse
from naic.tasks.export import GRAPH, ExportReport, export_model
from naic.tasks.export_options import ExportOptions
from naic.tasks.export_web import HINT, PAGE, RUNTIME

HELP = """Turn a model into one ONNX graph, for programs without PyTorch.

The graph has all of the captioner in it, the backbone too: pixels in, words out. It runs wherever
ONNX Runtime does, and `naic caption --model DIR` takes it as well. With --web the graph comes in a
page that captions photos in the visitor's own browser: put the folder on any web server."""
OPTIONS = ExportOptions  # what the verb takes: shell completion finds it here


def run(arguments: Sequence[str]) -> int:
    """Parse, work, report."""
    options = parse(ExportOptions, "export", HELP, arguments)
    report = export_model(options)
    _print_report(report)
    if options.dry_run:
        print("Nothing was written (--dry-run).")
    elif options.beside:
        print(f"graphs:   beside the weights in {options.model}")
    elif options.web is None:
        print(f"graph:    {options.folder / GRAPH}")
    else:
        print(f"page:     {options.folder / PAGE}")
        if options.runtime_files is None:
            print(f"It still takes ONNX Runtime. {HINT}: copy them to {options.folder / RUNTIME}.")
    return 0


def _print_report(report: ExportReport) -> None:
    side = report.pixels
    print(f"images:   {side} x {side} pixels")
    print(f"words:    {report.agents} agents, {report.words:,} words")
    print(f"weights:  {report.weights:,}, {report.precision}")
    if report.bytes is not None:
        print(f"size:     {report.bytes:,} bytes")
