"""`naic export`: a model in, one ONNX graph out that takes pixels and gives words."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from naic import __version__
from naic.tasks.options import ExportOptions
from naic.tasks.pack import extended_card

if TYPE_CHECKING:  # torch takes a second to import: not before there is work for it
    from naic.runtime.load import LoadedWhole

GRAPH, FACTS = "model.onnx", "config.json"  # JSON: who uses a graph may have no TOML


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What was made, or would be.

    Attributes:
        precision: "float32" or "int8".
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
    """Make the folder `options.out`, whole or not at all.

    Raises:
        ConfigError: the model is of a kind that is no graph, or the folder is there already.
        CheckpointError: the model cannot be used.
        MissingExtraError: the packages of `naic[onnx]` are not installed.
    """
    from naic.files import CARD, VOCABULARY, whole_folder
    from naic.models.folder import write_synced
    from naic.runtime.captioner import shipped_model
    from naic.runtime.export import check_exportable, export_graph, import_onnx
    from naic.runtime.load import load_whole

    options.check()
    import_onnx()  # now: a minute's work would be for nothing
    folder = shipped_model() if options.model is None else options.model
    loaded = load_whole(folder)
    check_exportable(str(folder), loaded)
    if options.dry_run:
        return _report(options, loaded, None)
    made = export_graph(str(folder), loaded, options.precision)
    report = _report(options, loaded, len(made.graph))
    between = ("batch", str(made.agents - 1), str(made.top), str(made.top))
    facts = asdict(report) | {
        "top": made.top,
        "input": f"pixels: uint8 (batch, {report.pixels}, {report.pixels}, 3), RGB, 0 to 255",
        "outputs": [
            f"words: int64 (batch, {made.agents}, {made.top}), best first; 0 ends the sentence",
            f"confidences: float32 (batch, {made.agents}, {made.top})",
            *([f"pairs: float32 ({', '.join(between)})"] if made.pairs else []),
        ],
    }
    with whole_folder(options.out) as temporary:
        write_synced(temporary / GRAPH, [made.graph])
        write_synced(temporary / FACTS, [(json.dumps(facts, indent=2) + "\n").encode()])
        write_synced(temporary / CARD, [_card(options, folder / CARD, report).encode()])
        loaded.vocabulary.save(temporary / VOCABULARY)
    return report


def _report(options: ExportOptions, loaded: "LoadedWhole", size: int | None) -> ExportReport:
    return ExportReport(
        precision=options.precision,
        pixels=loaded.pixels,
        agents=loaded.whole.length,
        words=len(loaded.vocabulary),
        weights=sum(parameter.numel() for parameter in loaded.whole.parameters()),
        bytes=size,
    )


def _card(options: ExportOptions, path: Path, report: ExportReport) -> str:
    """The model's own card, and how it was exported."""
    rounded = (
        "The weights and the inputs of its matrix products are rounded to 8 bits: it does not "
        "always say what the model says. "
        if report.precision == "int8"
        else ""
    )
    text = (
        f"One ONNX graph, {report.precision}: images of {report.pixels} x {report.pixels} "
        f"pixels in, the words of {report.agents} agents out. {rounded}Scores above are those "
        f"before the export. Exported with naic {__version__}."
    )
    return extended_card(path, "Export", options.command(), text)
