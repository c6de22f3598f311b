"""Graphs beside a model's weights: with them it captions without torch (`runtime/skeleton.py`)."""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from naic.errors import NaicError
from naic.files import WEIGHTS, write_atomically
from naic.runtime.skeleton import PRECISIONS

if TYPE_CHECKING:
    from naic.runtime.load import LoadedWhole


def put_graphs(
    folder: Path,
    precisions: tuple[str, ...] = PRECISIONS,
    loaded: "LoadedWhole | None" = None,
) -> int:
    """Make the graphs of the model in a folder and put them there; how many bytes they have.

    Each file is whole or not there, and the one that vouches for the other comes last. `loaded` is
    the model, if it is there already.

    Raises:
        ConfigError: the model is of a kind that is no graph, or its backbone is elsewhere.
        CheckpointError: the model cannot be used.
        MissingExtraError: the packages of `naic[onnx]` are not installed.
    """
    from naic.runtime.export import check_exportable, export_beside, import_onnx
    from naic.runtime.load import load_whole

    import_onnx()  # now: a minute's work would be for nothing
    loaded, size = loaded or load_whole(folder), 0
    check_exportable(str(folder), loaded)
    digest = hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()
    for precision in precisions:
        for name, data in export_beside(str(folder), loaded, precision, digest).items():
            write_atomically(folder / name, data)
            size += len(data)
    return size


def graphs_if_possible(folder: Path) -> str:
    """`put_graphs`, where a model can do without; why it has none, or nothing."""
    try:
        put_graphs(folder)
    except NaicError as error:  # whatever it is: the model is whole without them
        return f"{error.why}. {error.hint}"
    return ""
