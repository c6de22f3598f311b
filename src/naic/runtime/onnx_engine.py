"""ONNX Runtime on the graph of a captioner; without torch."""

import contextlib
import json
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from naic import device as here
from naic.device import Place
from naic.errors import CheckpointError, ConfigError, MissingExtraError, NaicError
from naic.runtime.calibration import Calibration, parse_calibration
from naic.runtime.graphs import Graph
from naic.runtime.sentences import Proposals
from naic.runtime.skeleton import PRECISIONS
from naic.text.style import Style, parse_style
from naic.text.vocabulary import NEVER, Vocabulary

FORMAT, VERSION = "naic", "1"  # the first fact of a graph's metadata: that it is ours
CALIBRATED, STYLED = "calibration", "style"  # facts that its model's files are, where it has them
ERRORS_ONLY = 3  # of ONNX Runtime's levels of what to print
MOST_PIXELS = 2048  # a side: a stranger's model must not fill the memory
MOST_SURE = 1.001  # a probability of 1, and what rounding adds to it
_LEAST = np.finfo(np.float32).tiny
_AGAIN = "Make it again: naic export"


class OnnxEngine:
    """A captioner as a graph, run without PyTorch.

    Attributes:
        runtime: "onnx".
        device: where it runs.
        precision: "float32" or "int8".
        pixels: P, the side of the images that it takes.
        vocabulary: its words.
        calibration: how likely its captions are to be right, if that is in the graph.
        style: how its sentences are written, likewise.
    """

    runtime = "onnx"

    def __init__(self, graph: Graph, device: Place, vocabulary: Vocabulary | None = None) -> None:
        """Make a graph ready; with `vocabulary`, the words are not in it.

        Raises:
            MissingExtraError: ONNX Runtime is not installed.
            ConfigError: it is not built for this device.
            CheckpointError: the file is damaged, or not one of `naic export`.
        """
        self.device = device
        self._path = graph.name
        threads = here.threads()
        self._session = _session(graph, device, threads)
        # The same with one thread, made when it is needed.
        self._alone: Any = None
        self._graph: Graph | None = graph
        self._making = threading.Lock()
        facts: dict[str, str] = self._session.get_modelmeta().custom_metadata_map
        if facts.get(FORMAT) != VERSION:
            known = "of another version of naic" if FORMAT in facts else "none of naic's"
            raise CheckpointError(
                str(graph.name), f"is a graph, but {known}", "Make one: naic export"
            )
        self.precision, self.pixels, self.vocabulary = _read(graph.name, facts, vocabulary)
        self.calibration, self.style = _read_beside(graph.name, facts)
        if self.precision != "int8" or device.type != "cpu" or threads == 1:
            self._graph = None  # it takes whole batches, and needs no second session

    def __call__(self, pixels: npt.ArrayLike) -> Proposals:
        """uint8 (B, P, P, 3) on the host, any B from 1 on."""
        batch = np.asarray(pixels)
        # int8 takes its scale from all that it is given at once: an image's words would depend on
        # its neighbours.
        images = np.split(batch, len(batch)) if self.precision == "int8" else [batch]
        workers = min(len(images), here.threads())
        if workers == 1 or not (self._graph or self._alone):
            parts = [self._run(self._session, image) for image in images]
        else:
            parts = self._run_all(images, workers)
        words, log_probs = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        pairs = [part.pairs for part in parts if part.pairs is not None]
        return Proposals(words, log_probs, np.concatenate(pairs) if pairs else None)

    def _run_all(self, images: Sequence[npt.NDArray[Any]], workers: int) -> list[Proposals]:
        """Several images at once, a core each: cores that share one image wait for each other."""
        with self._making:
            if self._graph is not None:
                graph, self._graph = self._graph, None
                with contextlib.suppress(CheckpointError):  # the cache it lay in is gone by now
                    self._alone = _session(graph, self.device, 1)
        if self._alone is None:
            return [self._run(self._session, image) for image in images]
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(partial(self._run, self._alone), images))

    def _run(self, session: Any, pixels: npt.NDArray[Any]) -> Proposals:  # noqa: ANN401 - as `_session`
        try:
            answer = session.run(None, {"pixels": pixels})
        except Exception as error:  # ONNX Runtime's errors are known by no common name
            raise _damaged(self._path, error) from error
        if why := self._wrong(answer, len(pixels)):
            raise CheckpointError(str(self._path), why, _AGAIN)
        # A word may be so unlikely that its probability is 0 in float32: its logarithm is not.
        words, confidences, *pairs = answer
        return Proposals(words, np.log(np.maximum(confidences, _LEAST)), *pairs)

    def _wrong(self, answer: Sequence[object], count: int) -> str | None:
        """What is wrong with the answer of a graph, which a stranger may have made."""
        arrays = [value for value in answer if isinstance(value, np.ndarray)]
        if len(arrays) != len(answer) or len(arrays) not in (2, 3):
            return "does not answer with two tensors, or three"
        words, confidences, *pairs = arrays
        kinds = (words.dtype, confidences.dtype)
        if kinds != (np.int64, np.float32) or words.ndim != 3 or words.shape != confidences.shape:
            return "does not answer with int64 words and float32 confidences of one shape (B, N, K)"
        if len(words) != count or 0 in words.shape:
            return f"answers with {words.shape} words to {count} images"
        if not ((confidences >= 0) & (confidences <= MOST_SURE)).all():  # NaN is neither
            return "has confidences that are not from 0 to 1"
        if words.min() < 0 or words.max() >= len(self.vocabulary) or np.isin(words, NEVER).any():
            return f"says what is not among its {len(self.vocabulary)} words"
        return _wrong_pairs(pairs[0], words.shape) if pairs else None


def _wrong_pairs(pairs: npt.NDArray[Any], words: tuple[int, ...]) -> str | None:
    """What is wrong with the third tensor beside words of this shape (B, N, K)."""
    batch, agents, choices = words
    if pairs.dtype != np.float32 or pairs.shape != (batch, agents - 1, choices, choices):
        return f"answers with {pairs.shape} pairs of neighbours' words to {words} words"
    if choices < 2:
        return "has pairs of neighbours' words, and one word of each"
    return None if np.isfinite(pairs).all() else "has pairs whose scores are no finite numbers"


def can_use(device: Place) -> bool:
    """Whether the ONNX Runtime that is installed is built for this device.

    Raises:
        MissingExtraError: none is installed.
    """
    built_for = _onnxruntime().get_available_providers()
    return device.type != "cuda" or "CUDAExecutionProvider" in built_for


def _onnxruntime() -> Any:  # noqa: ANN401 - it ships no types
    try:
        import onnxruntime  # type: ignore[import-untyped]
    except ImportError as error:
        hint = "Run: pip install onnxruntime"
        raise MissingExtraError("onnxruntime", f"is not installed ({error})", hint) from error
    return onnxruntime


def _session(graph: Graph, device: Place, threads: int) -> Any:  # noqa: ANN401
    onnxruntime = _onnxruntime()
    providers: list[Any] = ["CPUExecutionProvider"]
    if device.type == "cuda":
        if not can_use(device):
            why = f"this ONNX Runtime is built for CPUs, and cannot use {device}"
            hint = "Use --device cpu, or install onnxruntime-gpu in its place."
            raise ConfigError("--device", why, hint)
        providers.insert(0, ("CUDAExecutionProvider", {"device_id": device.index or 0}))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = ERRORS_ONLY
    content = graph.content if isinstance(graph.content, bytes) else str(graph.content)
    try:
        if graph.tensors:
            values = [onnxruntime.OrtValue.ortvalue_from_numpy(a) for a in graph.tensors.values()]
            options.add_external_initializers([*graph.tensors], values)
        return onnxruntime.InferenceSession(content, options, providers=providers)
    except Exception as error:  # as in `_run`
        raise _damaged(graph.name, error) from error


def _read(
    path: Path, facts: Mapping[str, str], vocabulary: Vocabulary | None
) -> tuple[str, int, Vocabulary]:
    """The precision, the size of images and the words that a graph tells of."""
    try:
        precision, pixels = facts["precision"], int(facts["pixels"])
        if vocabulary is None:
            vocabulary = Vocabulary(tuple(json.loads(facts["vocabulary"])))
    except (KeyError, ValueError, TypeError, RecursionError, NaicError) as error:
        raise CheckpointError(
            str(path), f"its metadata cannot be read ({error})", _AGAIN
        ) from error
    if precision not in PRECISIONS:
        why = f"it says that it is {precision!r}, not one of {', '.join(PRECISIONS)}"
        raise CheckpointError(str(path), why, _AGAIN)
    if not 0 < pixels <= MOST_PIXELS:
        why = f"images of {pixels:,} pixels a side are not from 1 to {MOST_PIXELS:,}"
        raise CheckpointError(str(path), why, _AGAIN)
    return precision, pixels, vocabulary


def _read_beside(path: Path, facts: dict[str, str]) -> tuple[Calibration | None, Style | None]:
    """What is in files of their own beside the weights of a model folder."""
    map_, style = facts.get(CALIBRATED), facts.get(STYLED)
    return (
        None if map_ is None else parse_calibration(map_, f"{path}: its calibration"),
        None if style is None else parse_style(style, f"{path}: its style"),
    )


def _damaged(path: Path, error: Exception) -> CheckpointError:
    said = (str(error).strip().splitlines() or [type(error).__name__])[0]
    why = f"ONNX Runtime cannot run it ({said})"
    return CheckpointError(str(path), why, "Use a whole copy of it, or make it again: naic export")
