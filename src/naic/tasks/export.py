"""`naic export`: a model in, one ONNX graph out that takes pixels and gives words; or a page."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from naic import __version__
from naic.runtime.skeleton import PRECISIONS
from naic.tasks.beside import put_graphs
from naic.tasks.export_options import ExportOptions
from naic.tasks.export_web import find_runtime, write_page
from naic.tasks.pack import extended_card

if TYPE_CHECKING:  # torch takes a second to import: not before there is work for it
    from naic.runtime.load import LoadedWhole

GRAPH, FACTS = "model.onnx", "config.json"  # JSON: who uses a graph may have no TOML


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What was made, or would be.

    Attributes:
        precision: "float32" or "int8"; or both, beside weights.
        pixels: P: images are (P, P, 3).
        agents: N, the words of a sentence at most.
        words: V, the size of the vocabulary.
        weights: how many numbers the model has, its backbone counted.
        bytes: the size of the graph; None where it was not made.
    """

    precision: str
    pixels: int
    agents: int
    words: int
    weights: int
    bytes: int | None


def export_model(options: ExportOptions) -> ExportReport:
    """Make the folder that is asked for, whole or not at all; or put graphs beside weights.

    Raises:
        ConfigError: the model is of a kind that is no graph, the folder is there already, or the
            page's runtime is not where it should be.
        CheckpointError: the model cannot be used.
        MissingExtraError: the packages of `naic[onnx]` are not installed.
    """
    from naic.files import CARD, VOCABULARY, whole_folder
    from naic.models.folder import write_synced
    from naic.runtime.captioner import shipped_model
    from naic.runtime.export import check_exportable, export_graph, import_onnx
    from naic.runtime.load import load_whole
    from naic.runtime.weights8 import with_weights_in_8_bits

    options.check()
    runtime = None if options.runtime_files is None else find_runtime(options.runtime_files)
    import_onnx()  # now: a minute's work would be for nothing
    folder = shipped_model() if options.model is None else options.model
    loaded = load_whole(folder)
    check_exportable(str(folder), loaded)
    if options.dry_run:
        return _report(options, loaded, None)
    if options.beside:
        chosen = PRECISIONS if options.precision is None else (options.precision,)
        return _report(options, loaded, put_graphs(folder, chosen, loaded))
    made = export_graph(str(folder), loaded, "float32" if options.web else options.kind)
    if options.web and options.kind == "int8":
        made = made._replace(graph=with_weights_in_8_bits(made.graph))
    report = _report(options, loaded, len(made.graph))
    with whole_folder(options.folder) as temporary:
        if options.web is None:
            write_synced(temporary / GRAPH, [made.graph])
            facts = _facts(report, made.top, pairs=made.pairs)
            write_synced(temporary / FACTS, [(json.dumps(facts, indent=2) + "\n").encode()])
            loaded.vocabulary.save(temporary / VOCABULARY)
        else:
            parts = (loaded.vocabulary, report.pixels, runtime, loaded.style)
            write_page(temporary, made.graph, *parts)
        write_synced(temporary / CARD, [_card(options, folder / CARD, report).encode()])
    return report


def _facts(report: ExportReport, top: int, *, pairs: bool) -> dict[str, object]:
    """What a program has to know of the graph."""
    size, agents = report.pixels, report.agents
    between = ("batch", str(agents - 1), str(top), str(top))
    return asdict(report) | {
        "top": top,
        "input": f"pixels: uint8 (batch, {size}, {size}, 3), RGB, 0 to 255",
        "outputs": [
            f"words: int64 (batch, {agents}, {top}), best first; 0 ends the sentence",
            f"confidences: float32 (batch, {agents}, {top})",
            *([f"pairs: float32 ({', '.join(between)})"] if pairs else []),
        ],
    }


def _report(options: ExportOptions, loaded: "LoadedWhole", size: int | None) -> ExportReport:
    return ExportReport(
        precision=options.precision or " and ".join(PRECISIONS) if options.beside else options.kind,
        pixels=loaded.pixels,
        agents=loaded.whole.length,
        words=len(loaded.vocabulary),
        weights=sum(parameter.numel() for parameter in loaded.whole.parameters()),
        bytes=size,
    )


def _card(options: ExportOptions, path: Path, report: ExportReport) -> str:
    """The model's own card, and how it was exported."""
    rounded = ""
    if report.precision == "int8" and options.web:
        rounded = "The weights of its matrix products have 8 bits; those of a packed model fit. "
    elif report.precision == "int8":
        rounded = (
            "The weights and the inputs of its matrix products are rounded to 8 bits: it does not "
            "always say what the model says. "
        )
    text = (
        f"One ONNX graph, {report.precision}: images of {report.pixels} x {report.pixels} "
        f"pixels in, the words of {report.agents} agents out. {rounded}Scores above are those "
        f"before the export. Exported with naic {__version__}."
    )
    return extended_card(path, "Export", options.command(), text)
