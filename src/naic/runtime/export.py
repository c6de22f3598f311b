"""A captioner as one ONNX graph: pixels in, each agent's likeliest words out.

The graph carries its vocabulary and the size of its images, so that the one file is enough.
"""

import copy
import hashlib
import io
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from naic import __version__
from naic.errors import ConfigError, MissingExtraError
from naic.runtime.bones import take_apart
from naic.runtime.engines import Whole
from naic.runtime.even import Changes, even_out, soft_noise
from naic.runtime.int8 import quantised
from naic.runtime.load import LoadedWhole
from naic.runtime.onnx_engine import CALIBRATED, FORMAT, STYLED, VERSION
from naic.runtime.skeleton import Skeleton, graph_names, write_skeleton

if TYPE_CHECKING:
    import onnx

PIXELS = "pixels"  # what goes in
OUTPUTS = ("words", "confidences", "pairs")  # what comes out; pairs of a model with transitions
OPSET = 17  # the first one that has layer norms; any runtime since 2022 knows it
TRACED, MADE_UP = 2, 4  # images that the graph is made by, and those to check it with, of noise
CLOSE = 1e-3  # of a probability; sums in another order change the fifth digit


class Exported(NamedTuple):
    """What became of a model.

    Attributes:
        graph: the bytes of the file.
        agents: N, the words of a sentence at most.
        top: K, the words that each agent gives.
        pairs: whether the graph tells how the words of neighbours go together.
    """

    graph: bytes
    agents: int
    top: int
    pairs: bool = False


class _WithProbabilities(nn.Module):
    """As `Whole`, with probabilities: who reads them elsewhere should not have to know of logs."""

    def __init__(self, whole: Whole) -> None:
        super().__init__()
        self.whole = whole

    def forward(self, pixels: Tensor) -> tuple[Tensor, ...]:
        """uint8 (B, P, P, 3) to words (B, N, K) and their probabilities (B, N, K).

        With transitions between neighbours also pairs (B, N-1, K, K), which are no probabilities.
        """
        words, log_probs, pairs = self.whole(pixels)
        told = (words, log_probs.exp())
        return told if pairs is None else (*told, pairs)


def check_exportable(what: str, loaded: LoadedWhole) -> None:
    """Refuse, before there is any work, what would not be one pass."""
    if not loaded.whole.spec.one_pass:
        why = "it writes word by word, and a graph is one pass that says all words at once"
        raise ConfigError(what, why, "Name a parallel model, such as a student's.")


def export_graph(what: str, loaded: LoadedWhole, precision: str) -> Exported:
    """The graph of a model, after it has said the same as PyTorch of a few made-up images.

    Args:
        what: the model's name, for messages.
        loaded: the model, on the host.
        precision: "float32"; or "int8", which rounds the weights and the inputs of every matrix
            product to 8 bits, and leaves convolutions and a vision transformer's first layer.

    Raises:
        ConfigError: the model is of a kind that is no graph.
        MissingExtraError: the packages are not installed.
    """
    traced, words, pairs, _ = _graph(what, loaded, precision)
    facts = _facts(loaded, precision) | {"vocabulary": json.dumps(loaded.vocabulary.words)}
    if loaded.calibration is not None:  # beside weights it is a file of its own
        facts[CALIBRATED] = loaded.calibration.as_json()
    if loaded.style is not None:
        facts[STYLED] = loaded.style.as_json()
    import_onnx().helper.set_model_props(traced, facts)
    agents, top = words.shape[1:]
    return Exported(traced.SerializeToString(), agents, top, pairs)


def export_beside(what: str, loaded: LoadedWhole, precision: str, digest: str) -> dict[str, bytes]:
    """The files of a graph that takes its weights out of the model's own: see `skeleton.py`.

    Args:
        what: as in `export_graph`.
        loaded: as there; with its backbone inside.
        precision: as there.
        digest: SHA-256 of its model.safetensors.
    """
    if loaded.whole.backbone is not None:
        why = "its backbone is elsewhere, and a graph beside its weights finds none there"
        raise ConfigError(what, why, "Put the backbone into it: see naic pack.")
    traced, _, _, changes = _graph(what, loaded, precision)
    weights = {name: t.numpy() for name, t in loaded.whole.model.state_dict().items()}
    named = {name.removeprefix("model."): steps for name, steps in changes.items()}
    traced, parts, vectors = take_apart(traced, weights, named)
    import_onnx().helper.set_model_props(traced, _facts(loaded, precision))
    graph = traced.SerializeToString()
    skeleton = Skeleton(precision, digest, hashlib.sha256(graph).hexdigest(), vectors, parts)
    return dict(zip(graph_names(precision), (graph, write_skeleton(skeleton)), strict=True))


def _facts(loaded: LoadedWhole, precision: str) -> dict[str, str]:
    """What a graph tells of itself; the one of its format is how it is known."""
    return {
        FORMAT: VERSION,
        "version": __version__,
        "precision": precision,
        "pixels": str(loaded.pixels),
    }


class _Traced(NamedTuple):
    """A graph, the words (B, N, K) that it said, whether it has pairs, and what was evened out."""

    graph: "onnx.ModelProto"
    words: npt.NDArray[np.int64]
    pairs: bool
    changes: Changes


def _graph(what: str, loaded: LoadedWhole, precision: str) -> _Traced:
    """The graph of a model, checked against PyTorch."""
    check_exportable(what, loaded)
    import_onnx()
    shape, noise = (MADE_UP, loaded.pixels, loaded.pixels, 3), torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, shape, dtype=torch.uint8, generator=noise)
    whole = copy.deepcopy(loaded.whole)
    whole.settle(images)  # as every engine does: what depends on no image is a constant
    changes = even_out(whole, soft_noise(MADE_UP, loaded.pixels)) if precision == "int8" else {}
    module = _WithProbabilities(whole).eval()  # all of it: the exporter puts back the mode it finds
    with torch.inference_mode():
        outputs = list(OUTPUTS[: len(module(images[:1]))])
    traced = trace(what, module, images[:TRACED], outputs)
    words = _check_same(what, traced, module, images)
    if precision == "int8":
        traced = quantised(traced)
    traced.producer_name, traced.producer_version = "naic", __version__
    pairs = len(outputs) == len(OUTPUTS)
    return _Traced(traced, words, pairs, changes)


def import_onnx() -> Any:  # noqa: ANN401 - a module of an extra
    """The packages `onnx` and `onnxruntime`, or how to get them."""
    try:
        import onnx
        import onnxruntime  # type: ignore[import-untyped]  # noqa: F401 - `_check_same` needs it
    except ImportError as error:
        hint = "Run: pip install 'naic[onnx]'"
        raise MissingExtraError(error.name or "onnx", "is not installed", hint) from error
    return onnx


def trace(what: str, module: nn.Module, pixels: Tensor, outputs: list[str]) -> "onnx.ModelProto":
    """The graph as torch writes it, from pixels to outputs of these names, for any batch size.

    By torch's older exporter: the newer one needs a further package, takes six times as long, and
    its graphs are hardly faster.
    """
    buffer = io.BytesIO()
    batch = {0: "batch"}
    try:
        with torch.no_grad(), quiet():
            torch.onnx.export(
                module,
                (pixels,),
                buffer,  # type: ignore[arg-type]  # it takes any file
                dynamo=False,
                opset_version=OPSET,
                input_names=[PIXELS],
                output_names=outputs,
                dynamic_axes=dict.fromkeys([PIXELS, *outputs], batch),
            )
    except (RuntimeError, TypeError) as error:  # an operator that ONNX does not have
        raise _no_graph(what, str(error).strip().splitlines()[0]) from error
    found: onnx.ModelProto = import_onnx().load_from_string(buffer.getvalue())
    return found


def _check_same(
    what: str, graph: "onnx.ModelProto", module: nn.Module, pixels: Tensor
) -> npt.NDArray[np.int64]:
    """Refuse a graph that does not say what PyTorch says, one by one and together.

    A trace is the way that one batch took: where a model decides by what it sees, that is lost.

    Returns:
        (B, N, K) words that it said.
    """
    import onnxruntime

    session = onnxruntime.InferenceSession(
        graph.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    for batch in (pixels[-1:], pixels[TRACED - 1 :]):
        with torch.inference_mode():
            words, confidences, *pairs = (tensor.numpy() for tensor in module(batch))
        found, sure, *heard = session.run(None, {PIXELS: batch.numpy()})
        apart = confidences[..., 0] - confidences[..., 1:].max(-1, initial=0) > CLOSE  # no ties
        same = (found == words)[..., 0] | ~apart
        near = np.allclose(sure, confidences, atol=CLOSE, equal_nan=True)
        near &= _same_pairs(heard, pairs, found == words)
        if not (near and same.all()):
            raise _no_graph(what, "the graph does not say what the model says")
    said: npt.NDArray[np.int64] = found
    return said


def _same_pairs(
    heard: list[npt.NDArray[np.float32]],
    pairs: list[npt.NDArray[np.float32]],
    same: npt.NDArray[np.bool_],
) -> bool:
    """Whether words of neighbours go together as in PyTorch; each (B, N-1, K, K), or none.

    Words that are not the `same` (B, N, K), two of one probability that changed places, are left.
    """
    both = same[:, :-1, :, None] & same[:, 1:, None]  # (B, N-1, K, K)
    return all(
        np.allclose(own[both], other[both], atol=CLOSE, rtol=CLOSE, equal_nan=True)
        for own, other in zip(heard, pairs, strict=True)
    )


def _no_graph(what: str, why: str) -> ConfigError:
    hint = "Models with a backbone of their own can be exported: see naic pack."
    return ConfigError(what, f"it cannot be made one graph ({why})", hint)


@contextmanager
def quiet() -> Iterator[None]:
    """Without the packages' warnings, which tell of their own plans and of what we know."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
