"""A Transformer made ready for inference: the same values, in fewer kernels.

The layers in `models/` are written to be read, and to be trained. Here the layers of a model that
will only be used are put in the place of theirs: what depends on no image is computed once, rows of
outputs get a length that a GPU likes, and on a GPU in half precision small steps between matrix
products are done in one kernel with them. Captioners of other layers stay as they are.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeAlias, TypeGuard, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from naic.models.chain import ChainScores
from naic.models.decoder import Decoder, DecoderLayer, Memory
from naic.models.layers import GridCodes, WordScores
from naic.models.transformer import Encoder, EncoderLayer, TransformerCaptioner

if TYPE_CHECKING:  # captions of one captioner do without the others
    from naic.models.fnic import OrderedCaptioner
    from naic.models.mnic import MaskedCaptioner

    Transformer: TypeAlias = TransformerCaptioner | MaskedCaptioner | OrderedCaptioner

HALF = (torch.float16, torch.bfloat16)
FEW = 64  # places: with more of them the libraries' own kernels are as fast
_FEWER: ContextVar[bool] = ContextVar("fewer_kernels", default=False)
Layer = TypeVar("Layer", bound=nn.Module)


@contextmanager
def fewer_kernels() -> Iterator[None]:
    """While a graph is recorded: kernels of our own are used where places are few.

    Elsewhere they are not: to start one of them takes Python longer than several of torch's.
    """
    token = _FEWER.set(True)
    try:
        yield
    finally:
        _FEWER.reset(token)


@torch.no_grad()
def fuse(model: nn.Module, features: Tensor) -> None:
    """Make a captioner that is in eval mode, on its device and in its precision, ready for use.

    It says what it said before; images of another number of regions than these features (1, R, F),
    or pixels, have take a little longer. A second time changes nothing: a recorded graph may read
    what the first left behind.
    """
    if not is_transformer(model):
        return
    weight = model.decoder.output.weight
    if type(model.encoder.codes) is GridCodes:
        count = features.shape[1]
        if isinstance(model, TransformerCaptioner):  # it may see by itself, and be given pixels
            count = model.regions(features)
        regions = weight.new_empty(1, count, weight.shape[1])
        model.encoder.codes = KeptCodes(model.encoder.codes(regions))
    if weight.is_cuda and type(model.decoder.output) is WordScores:
        model.decoder.output = AlignedScores(model.decoder.output)
    if weight.is_cuda and weight.dtype in HALF:
        fuse_layers(model)
    agents = isinstance(model, TransformerCaptioner) and not model.causal  # they hear no words
    if agents and type(model.decoder) is Decoder:
        first = model.decoder.layers[0]
        assert isinstance(first, DecoderLayer)
        opening = first.hear(model.decoder.positions[None, None], causal=False)[0, 0]
        model.decoder = _as(OpenedDecoder, model.decoder)
        model.decoder.register_buffer("opening", opening, persistent=False)


def is_transformer(model: nn.Module) -> "TypeGuard[Transformer]":
    """Whether both of its parts are a Transformer's: who is timed beside another gets the same."""
    parts = getattr(model, "encoder", None), getattr(model, "decoder", None)
    return isinstance(parts[0], Encoder) and isinstance(parts[1], Decoder)


def fuse_layers(model: "Transformer") -> None:
    """Put layers that run in fewer kernels in the place of the model's."""
    for layers in (model.encoder.layers, model.decoder.layers):
        for number, layer in enumerate(layers):
            if type(layer) is EncoderLayer:
                layers[number] = _as(FusedEncoderLayer, layer)
            elif type(layer) is DecoderLayer:
                layers[number] = _as(FusedDecoderLayer, layer)


def _as(kind: type[Layer], layer: nn.Module) -> Layer:
    """The same layer, with all that it holds, run by the code of another class."""
    made = kind.__new__(kind)
    made.__dict__ = layer.__dict__
    return made


class KeptCodes(nn.Module):
    """The codes of one size of grid, which else are made anew in each pass."""

    codes: Tensor  # (R, D)

    def __init__(self, codes: Tensor) -> None:
        super().__init__()
        self.register_buffer("codes", codes, persistent=False)
        self.other = GridCodes()

    def forward(self, x: Tensor) -> Tensor:
        """(R, D) to be added to regions x (B, R, D)."""
        if len(self.codes) == x.shape[1]:
            return self.codes
        other: Tensor = self.other(x)
        return other


class AlignedScores(nn.Linear):
    """`WordScores` whose further outputs, of no weight, are there beforehand."""

    def __init__(self, scores: nn.Linear) -> None:
        spare = -scores.out_features % WordScores.ALIGNED
        with torch.device("meta"):
            super().__init__(scores.in_features, scores.out_features + spare)
        self.words = scores.out_features
        weights = {
            "weight": F.pad(scores.weight.detach(), (0, 0, 0, spare)),
            "bias": F.pad(scores.bias.detach(), (0, spare)),
        }
        self.load_state_dict(weights, assign=True)
        self.eval().requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) to (..., V)."""
        return super().forward(x)[..., : self.words]


class OpenedDecoder(Decoder):
    """A parallel decoder that knows what its agents say to each other in the first layer.

    They hear no words, so it is the same for every image.
    """

    opening: Tensor  # (N, D)

    def forward(
        self, memory: Memory, words: Tensor | None, shown: Tensor | None = None
    ) -> Tensor | ChainScores:
        """(B, 1, N, V) logits; with transitions also how each agent weighs what it hears.

        Nothing is shown to one that speaks.
        """
        x = self.opening.expand(memory.keys.shape[1], 1, -1, -1)  # (B, 1, N, D)
        heard = True
        for layer, keys, values in zip(
            self.layers, memory.keys.unbind(0), memory.values.unbind(0), strict=True
        ):
            assert isinstance(layer, DecoderLayer)
            x = layer.look(x if heard else layer.hear(x, causal=False), keys, values, memory.mask)
            heard = False
        return self.answer(x)


class FusedEncoderLayer(EncoderLayer):
    """`EncoderLayer` in fewer kernels."""

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """(B, R, D) to (B, R, D)."""
        qkv = project(x, self.attention_norm, self.attention.qkv)
        x = add(x, self.attention.look(qkv, mask, causal=False), self.attention.out)
        return _feed_forward(x, self)


class FusedDecoderLayer(DecoderLayer):
    """`DecoderLayer` in fewer kernels."""

    def hear(self, x: Tensor, heard: Tensor | None = None, *, causal: bool) -> Tensor:
        """The places of each caption look at each other: (B, C, N, D) to (B, C, N, D)."""
        captions = x.flatten(0, 1)  # (B*C, N, D)
        qkv = project(captions, self.attention_norm, self.attention.qkv)
        seen = self.attention.look(qkv, heard, causal=causal and heard is None)
        return add(captions, seen, self.attention.out).view_as(x)

    def step(
        self,
        x: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None,
        past: Tensor,
        position: Tensor,
        visible: Tensor,
    ) -> Tensor:
        """(B, W, D) to (B, W, D): one more word of each sentence."""
        qkv = project(x, self.attention_norm, self.attention.qkv)
        seen = self.attention.look_back(qkv, past, position, visible)
        return self._look(add(x, seen, self.attention.out), keys, values, mask)

    def _look(self, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        query = project(x, self.cross_norm, self.cross.query)
        x = add(x, self.cross.look(query, keys, values, mask), self.cross.out)
        return _feed_forward(x, self)


def _feed_forward(x: Tensor, layer: EncoderLayer | DecoderLayer) -> Tensor:
    first, _, _, last = layer.feed_forward
    assert isinstance(first, nn.Linear)
    assert isinstance(last, nn.Linear)
    return add(x, project(x, layer.feed_forward_norm, first, relu=True), last)


def project(x: Tensor, norm: nn.LayerNorm, layer: nn.Linear, *, relu: bool = False) -> Tensor:
    """What `layer` makes of norm(x), and ReLU of that if it is asked for."""
    if _in_one_kernel(x, layer, norm):
        from naic.runtime.fused import linear

        return linear(x, layer, norm, relu=relu)
    if relu and not torch.compiler.is_compiling():  # which a product can end in at no cost
        flat = norm(x).flatten(0, -2)
        ended = torch._addmm_activation(layer.bias, flat, layer.weight.t())
        return ended.view(*x.shape[:-1], -1)
    found: Tensor = layer(norm(x))
    return found.relu() if relu else found


def add(residual: Tensor, x: Tensor, layer: nn.Linear) -> Tensor:
    """The sum of `residual` and layer(x)."""
    if _in_one_kernel(x, layer, None):
        from naic.runtime.fused import linear

        return linear(x, layer, None, residual)
    found: Tensor = residual + layer(x)
    return found


def _in_one_kernel(x: Tensor, layer: nn.Linear, norm: nn.LayerNorm | None) -> bool:
    """Whether there are so few places that starting a kernel takes longer than running it."""
    if torch.compiler.is_compiling() or not _FEWER.get() or x.numel() > FEW * x.shape[-1]:
        return False
    try:
        from naic.runtime.fused import fits, works
    except ImportError:  # no Triton
        return False
    return fits(layer, norm) and works(x.device, x.dtype)
