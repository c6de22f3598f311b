"""Engines: ways to run a captioner, all behind one call that takes pixels and gives words.

    eager      torch as it comes; on a CPU, and where the others cannot be had
    compile    torch.compile: slow at the start, then fewer and larger steps
    graph      a CUDA graph: launching the kernels of a small model takes longer than they run;
               on a GPU, what was compiled is recorded as one, too

ONNX Runtime's engine is in `onnx_engine.py`; which is taken, `ready.py` says.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from naic.decode.decoding import CHOICES
from naic.decode.stepwise import Beams
from naic.errors import ConfigError
from naic.models.contract import CaptionerSpec, Proposed
from naic.runtime.fuse import fewer_kernels, fuse
from naic.runtime.sentences import Proposals

VIT_MODULE = "naic.backbones.vit"
FEW = 4  # images: starting a kernel takes longer than running it
WARM_UP = 3  # passes before a graph is captured: libraries choose their kernels and working space
RECORDING = threading.Lock()  # CUDA records one graph at a time in a process
PROPOSED = (torch.int64, torch.float32, torch.float32)  # words, log-probabilities, pairs
Images: TypeAlias = Tensor | npt.NDArray[np.uint8]
KINDS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class Whole(nn.Module):
    """A captioner and what it sees with: all from the pixels to the words.

    Attributes:
        spec: how the model is asked for words.
        model: the captioner's network.
        backbone: what makes the features of the pixels; None: the model has its own.
        features: what was seen in the last pass, where it is kept (`Watched`).
    """

    features: Tensor | None

    def __init__(self, spec: CaptionerSpec, model: nn.Module, backbone: nn.Module | None) -> None:
        super().__init__()
        self.features = None
        self.spec = spec
        self.model = model
        self.backbone = backbone
        self._settled = False

    @property
    def length(self) -> int:
        """N, the words of a sentence at most."""
        return int(self.model.length)  # type: ignore[arg-type]  # as every captioner has

    @torch.inference_mode(False)
    def fold(self) -> None:
        """Vision transformers get weights that take fewer steps; as float32 they stay exact."""
        if any(type(part).__module__ == VIT_MODULE for part in self.modules()):
            from naic.runtime.fuse_vit import fold_vits  # other models need none of it

            fold_vits(self)

    @torch.inference_mode(False)
    @torch.no_grad()
    def settle(self, pixels: Tensor) -> None:
        """Before the first pass, on its device: compute once what depends on no image.

        Not in inference mode: what it leaves behind may be copied, or traced, later.
        """
        if not self._settled:
            self.eval()
            self.fold()
            kind = next(self.parameters())
            fuse(self.model, self.seen(pixels[:1].to(kind.device)))
            self._settled = True

    def forward(self, pixels: Tensor) -> Proposed:
        """uint8 (B, P, P, 3) to words and log-probabilities (B, N, K), and their pairs if any."""
        return self.spec.propose(self.model, self.seen(pixels), None, CHOICES)

    @torch.inference_mode()
    def beams(self, pixels: Images, width: int) -> Beams:
        """The sentences that a model's search finds; in any engine this runs eagerly."""
        assert self.spec.beams is not None
        device = next(self.parameters()).device
        return self.spec.beams(
            self.model, self.seen(as_tensor(pixels).to(device)), None, width, width
        )

    def seen(self, pixels: Tensor) -> Tensor:
        """What the model is given of the pixels: themselves, or features (B, R, F)."""
        if self.backbone is None:
            return pixels
        features: Tensor = self.backbone(pixels)
        return features.half()  # as in the store that the model learnt from


class EagerEngine:
    """The model as it is, run step by step."""

    runtime = "eager"

    def __init__(self, whole: Whole, pixels: int, device: torch.device, precision: str) -> None:
        whole.fold()
        self._whole = whole.to(device, KINDS[precision])
        # Where the weights are: "cuda" alone would mean another GPU in another thread.
        self.device = next(whole.parameters()).device
        self.precision, self.pixels = precision, pixels

    @property
    def features(self) -> Tensor | None:
        """(P, R, F) of the last pass, on the device; P of B or more images: a batch is filled up.

        Only of a whole that keeps them (`Watched`).
        """
        return self._whole.features

    @property
    def network(self) -> nn.Module:
        """The captioner's network, without what it sees with if that is no part of it."""
        return self._whole.model

    @torch.inference_mode()
    def __call__(self, pixels: Images) -> Proposals:
        """uint8 (B, P, P, 3) on the host, any B from 1 on."""
        pixels = as_tensor(pixels)
        self._whole.settle(pixels)
        return as_arrays(self._whole(pixels.to(self.device)).on_host(), len(pixels))


class CompiledEngine(EagerEngine):
    """The model through torch.compile, made anew for each padded batch size."""

    runtime = "compile"

    def __init__(self, whole: Whole, pixels: int, device: torch.device, precision: str) -> None:
        super().__init__(whole, pixels, device, precision)
        # Without CUDA graphs ("reduce-overhead"): those of torch.compile belong to one thread.
        self._run = torch.compile(self._whole, dynamic=False)
        if_it_compiles(self, pixels)

    @torch.inference_mode()
    def __call__(self, pixels: Images) -> Proposals:
        """uint8 (B, P, P, 3) on the host, any B from 1 on."""
        pixels = as_tensor(pixels)
        self._whole.settle(pixels)
        count = len(pixels)
        batch = pixels.new_zeros(padded(count), *pixels.shape[1:])
        batch[:count] = pixels
        return as_arrays(self._run(batch.to(self.device)).on_host(), count)


class _Graph(NamedTuple):
    """A recorded pass, from where it reads its pixels to where it leaves its words.

    The copies from and to the host are part of it: to start each of them by itself takes longer
    than to run it.
    """

    graph: torch.cuda.CUDAGraph
    pixels: Tensor
    said: Proposed
    features: Tensor | None


class GraphEngine(EagerEngine):
    """The model as CUDA graphs, one for each padded batch size, recorded when first asked for."""

    runtime = "graph"

    def __init__(self, whole: Whole, pixels: int, device: torch.device, precision: str) -> None:
        super().__init__(whole, pixels, device, precision)
        self._run: Callable[[Tensor], Proposed] = self._whole
        self._graphs: dict[int, _Graph] = {}
        # The graphs share their working space: no two of them run at once.
        self._pool = torch.cuda.graph_pool_handle()

    @torch.inference_mode()
    def __call__(self, pixels: Images) -> Proposals:
        """uint8 (B, P, P, 3) on the host, any B from 1 on."""
        pixels = as_tensor(pixels)
        count = len(pixels)
        size = padded(count)
        with torch.cuda.device(self.device):
            if size not in self._graphs:
                with RECORDING:
                    self._whole.settle(pixels)
                    self._graphs[size] = self._record(size, pixels)
            recorded = self._graphs[size]
            recorded.pixels[:count].copy_(pixels)  # the rows after them: whatever was there before
            recorded.graph.replay()
            torch.cuda.current_stream().synchronize()
        self._whole.features = recorded.features
        words, log_probs, pairs = as_arrays(recorded.said, count)
        return Proposals(words.copy(), log_probs.copy(), None if pairs is None else pairs.copy())

    def _record(self, size: int, like: Tensor) -> _Graph:
        """Words and probabilities go to the host; pixels come from where those of `like` are."""
        pixels = torch.zeros((size, *like.shape[1:]), dtype=like.dtype, device=like.device)
        if not like.is_cuda:
            pixels = pixels.pin_memory()
        stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        side = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        with torch.cuda.stream(stream), kernels(size, side):
            for _ in range(WARM_UP):
                found = self._run(pixels.to(self.device))
        torch.cuda.current_stream().wait_stream(stream)
        kept = [
            None if tensor is None else torch.empty(tensor.shape, dtype=kind, pin_memory=True)
            for tensor, kind in zip(found, PROPOSED, strict=True)
        ]
        graph = torch.cuda.CUDAGraph()
        # thread_local: another thread of the program may use the GPU for something else meanwhile.
        recording = torch.cuda.graph(graph, self._pool, stream, capture_error_mode="thread_local")
        with recording, kernels(size, side):
            found = self._run(pixels.to(self.device, non_blocking=True))
            for place, tensor in zip(kept, found, strict=True):
                if place is not None and tensor is not None:
                    place.copy_(tensor.to(place.dtype), non_blocking=True)
        said = Proposed(*kept)  # type: ignore[arg-type]
        return _Graph(graph, pixels, said, self._whole.features)


class CompiledGraphEngine(GraphEngine):
    """What torch.compile makes of the model, as CUDA graphs: fewer kernels, and none to start."""

    runtime = "compile"

    def __init__(self, whole: Whole, pixels: int, device: torch.device, precision: str) -> None:
        super().__init__(whole, pixels, device, precision)
        self._run = torch.compile(self._whole, dynamic=False)
        if_it_compiles(self, pixels)


def as_tensor(pixels: Images) -> Tensor:
    """Images as torch has them; they are not copied."""
    return pixels if isinstance(pixels, Tensor) else torch.from_numpy(pixels)


def as_arrays(said: Proposed, count: int) -> Proposals:
    """What is said of the first `count` images; on the host, and not copied."""
    words, log_probs = said.words[:count].numpy(), said.log_probs[:count].numpy()
    pairs = None if said.pairs is None else said.pairs[:count].numpy()
    return Proposals(words, log_probs, pairs)


def if_it_compiles(engine: EagerEngine, pixels: int) -> None:
    """Run once: what is missing should show when a model is loaded, not at the first image."""
    try:
        engine(torch.zeros(1, pixels, pixels, 3, dtype=torch.uint8))
    except torch.OutOfMemoryError:  # which is a RuntimeError, and has nothing to do with compilers
        raise
    except RuntimeError as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        why = f"torch.compile cannot be used here ({reason})"
        hint = "Use the runtime eager, or install what it asks for (a C++ compiler, as a rule)."
        raise ConfigError("runtime", why, hint) from error


@contextmanager
def kernels(size: int, side: torch.cuda.Stream) -> Iterator[None]:
    """Which kernels are recorded: for few images fewer, if larger ones than torch would take.

    Of few images joined networks are looked at side by side, on the stream `side` too.

    The choice of attention is for the whole process, while a graph is recorded, not for a thread.
    """
    if size > FEW:
        yield
        return
    from naic.runtime.fuse_vit import side_by_side

    attention = sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])
    with fewer_kernels(), side_by_side(side), attention:
        yield


def padded(count: int) -> int:
    """The next power of two: few sizes serve all batches."""
    return 1 << (count - 1).bit_length()
