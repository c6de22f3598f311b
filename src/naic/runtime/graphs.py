"""Where a graph comes from: a file of `naic export`, or a skeleton beside a model's weights.

The tensors that a skeleton leaves out are made once, in a few seconds, and kept in the cache under
a name that depends on all that they are made of. A folder of the cache appears whole or not at all,
and its tensors are checked by their digest whenever they are used: if they are damaged, they are
made again. Where there is no cache to write to, they are made in memory each time.
"""

import contextlib
import hashlib
import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load

from naic.errors import CheckpointError, ConfigError, NaicError
from naic.files import WEIGHTS, cache_folder, remove_folder, whole_folder
from naic.runtime.skeleton import (
    DATA,
    PRECISIONS,
    Part,
    Skeleton,
    fill,
    graph_names,
    places,
    read_skeleton,
)

Array = npt.NDArray[Any]
GRAPH, DIGEST = "graph.onnx", "sha256"
_FOLDER = "graphs"  # in the cache
_CHUNK = 1 << 22
_ABANDONED = 24 * 3600.0  # seconds after which what a killed process left in the cache is removed
_MAKING = threading.Lock()  # one thread of a process fills a folder of the cache
AGAIN = "Make it again: naic export MODEL --beside"
_NAME = 32  # letters of a digest: enough for a name


@dataclass(frozen=True, slots=True)
class Graph:
    """What ONNX Runtime is given.

    Attributes:
        name: what it was read from, for messages.
        content: the bytes of a graph; or the path of one that has its tensors beside it.
        tensors: by name, those that the bytes leave out.
    """

    name: Path
    content: bytes | Path
    tensors: Mapping[str, Array] = field(default_factory=dict)


def exported(path: Path) -> Graph:
    """A file of `naic export`; read now, since it may be another one later, or gone."""
    return Graph(path, _read(path))


def precisions(folder: Path) -> tuple[str, ...]:
    """Of the graphs beside a model's weights, the fastest first; none: it needs torch."""
    if not (folder / WEIGHTS).is_file():
        return ()
    return tuple(p for p in PRECISIONS if all((folder / n).is_file() for n in graph_names(p)))


def beside(folder: Path, precision: str) -> Graph:
    """The graph beside a model's weights, with its tensors.

    Raises:
        CheckpointError: it is damaged, or belongs to other weights.
    """
    names = graph_names(precision)
    graph, text, weights = (_read(folder / name) for name in (*names, WEIGHTS))
    skeleton = read_skeleton(folder / names[1], text)
    for data, digest, other in (
        (weights, skeleton.weights, WEIGHTS),
        (graph, skeleton.graph, names[0]),
    ):
        if hashlib.sha256(data).hexdigest() != digest:
            why = f"is not of the {other} beside it"
            raise CheckpointError(str(folder / names[1]), why, AGAIN)
    if skeleton.precision != precision:
        why = f"is of a graph in {skeleton.precision}"
        raise CheckpointError(str(folder / names[1]), why, AGAIN)
    name = hashlib.sha256(text).hexdigest()
    kept = None
    with contextlib.suppress(ConfigError):  # there is no home to keep a cache in
        kept = cache_folder() / _FOLDER / name[:_NAME]
    with _MAKING:
        if kept is not None and _whole(kept, skeleton.parts):
            return Graph(folder / names[0], kept / GRAPH)
        path = folder / WEIGHTS
        tensors = _tensors(path, weights)
        del weights
        if kept is not None and _keep(kept, graph, fill(path, skeleton, tensors), skeleton):
            return Graph(folder / names[0], kept / GRAPH)
        made = fill(path, skeleton, tensors)
        whole = {part.name: array for part, array in zip(skeleton.parts, made, strict=True)}
    return Graph(folder / names[0], graph, whole)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        why = f"cannot be read ({error.strerror})"
        raise CheckpointError(str(path), why, "Check its permissions.") from error


def _tensors(path: Path, weights: bytes) -> dict[str, Array]:
    try:
        return load(weights)
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        why = f"is no whole safetensors file ({error})"
        raise CheckpointError(str(path), why, "Use a whole copy of it.") from error


def _whole(folder: Path, parts: Sequence[Part]) -> bool:
    """Whether a folder of the cache is there, and as it was written."""
    try:
        digest = (folder / DIGEST).read_text().strip()
        if (folder / DATA).stat().st_size != places(parts)[-1]:
            return False
        state = hashlib.sha256()
        for name in (GRAPH, DATA):
            with (folder / name).open("rb") as file:
                while chunk := file.read(_CHUNK):
                    state.update(chunk)
    except (OSError, ValueError):
        return False
    return state.hexdigest() == digest


def _keep(folder: Path, graph: bytes, made: Iterator[Array], skeleton: Skeleton) -> bool:
    """Put a graph and its tensors into the cache; False: it cannot be written to.

    Raises:
        CheckpointError: the tensors cannot be made.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _sweep(folder.parent)
        if _whole(folder, skeleton.parts):  # another process was faster
            return True
        if folder.exists():  # and damaged
            remove_folder(folder)
        with whole_folder(folder) as temporary:
            state = hashlib.sha256(graph)
            (temporary / GRAPH).write_bytes(graph)
            with (temporary / DATA).open("wb") as file:
                for begin, array in zip(places(skeleton.parts), made, strict=False):
                    padding = bytes(begin - file.tell())
                    for piece in (padding, array.reshape(-1).view(np.uint8).data):
                        state.update(piece)
                        file.write(piece)
            (temporary / DIGEST).write_text(f"{state.hexdigest()}\n")
    except (OSError, NaicError) as error:
        if isinstance(error, CheckpointError) and error.what != str(folder):
            raise
        return _whole(folder, skeleton.parts)  # another process may have been faster
    return True


def _sweep(parent: Path) -> None:
    """Remove what processes that were killed left half-made, long ago."""
    for path in parent.glob(".saving-*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _ABANDONED:
                shutil.rmtree(path)
