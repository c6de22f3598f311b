"""One kernel for what stands around a matrix product: norm before it, ReLU and sum after it.

With one image a layer's products are so small that a GPU takes as long to start a kernel as to
run it, and a third of a caption's time went into the small steps between the products. Written in
Triton, which comes with PyTorch for CUDA. Imported only where it is used: elsewhere it is missing.
"""

# ruff: noqa: ANN001, ANN202, N803 - Triton reads the kernel's signature, and has its own customs

from functools import cache

import torch
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor, nn

ROWS, NARROW, WIDE = 16, 16, 32  # of a tile: places, and outputs for few places and for more
CHUNK = 512  # inputs that are multiplied at once; a norm needs all of a place's at once
WARPS = 4


# fmt: off
@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _kernel(  # type: ignore[no-untyped-def]
    x_at, gain_at, shift_at, weight_at, bias_at, residual_at, out_at, rows, outputs, eps,
    INPUTS: tl.constexpr, CHUNK: tl.constexpr, TALL: tl.constexpr, BROAD: tl.constexpr,
    NORM: tl.constexpr, RELU: tl.constexpr, ADD: tl.constexpr,
):
    # fmt: on
    row = tl.program_id(0) * TALL + tl.arange(0, TALL)
    column = tl.program_id(1) * BROAD + tl.arange(0, BROAD)
    in_rows, in_columns = row < rows, column < outputs
    total = tl.zeros((TALL, BROAD), tl.float32)
    for begin in range(0, INPUTS, CHUNK):
        k = begin + tl.arange(0, CHUNK)
        x = tl.load(x_at + row[:, None] * INPUTS + k[None, :], mask=in_rows[:, None], other=0.0)
        w = tl.load(
            weight_at + column[None, :] * INPUTS + k[:, None], mask=in_columns[None, :], other=0.0
        )
        if NORM:
            wide = x.to(tl.float32)
            wide -= tl.sum(wide, 1)[:, None] / INPUTS
            spread = tl.sum(wide * wide, 1)[:, None] / INPUTS
            wide *= tl.rsqrt(spread + eps)
            wide = wide * tl.load(gain_at + k)[None, :] + tl.load(shift_at + k)[None, :]
            x = wide.to(w.dtype)
        total = tl.dot(x, w, total)
    total += tl.load(bias_at + column, mask=in_columns, other=0.0)[None, :]
    if RELU:
        total = tl.maximum(total, 0.0)
    inside = in_rows[:, None] & in_columns[None, :]
    place = row[:, None] * outputs + column[None, :]
    if ADD:
        total += tl.load(residual_at + place, mask=inside, other=0.0)
    tl.store(out_at + place, total.to(out_at.dtype.element_ty), mask=inside)


def fits(layer: nn.Linear, norm: nn.LayerNorm | None) -> bool:
    """Whether the kernel can do it: inputs in whole chunks, and one chunk if they are normed."""
    return layer.in_features == CHUNK or (norm is None and layer.in_features % CHUNK == 0)


def linear(
    x: Tensor,
    layer: nn.Linear,
    norm: nn.LayerNorm | None = None,
    residual: Tensor | None = None,
    *,
    relu: bool = False,
) -> Tensor:
    """(..., K) to (..., L): residual + relu(layer(norm(x))), each of them if it is asked for."""
    flat = x.reshape(-1, layer.in_features).contiguous()
    rows, outputs = len(flat), layer.out_features
    found = torch.empty(*x.shape[:-1], outputs, dtype=x.dtype, device=x.device)
    broad = NARROW if rows <= ROWS else WIDE
    bias = layer.bias
    _kernel[(triton.cdiv(rows, ROWS), triton.cdiv(outputs, broad))](
        flat,
        bias if norm is None else norm.weight,
        bias if norm is None else norm.bias,
        layer.weight,
        bias,
        bias if residual is None else residual.contiguous(),
        found,
        rows,
        outputs,
        0.0 if norm is None else norm.eps,
        INPUTS=layer.in_features,
        CHUNK=CHUNK,
        TALL=ROWS,
        BROAD=broad,
        NORM=norm is not None,
        RELU=relu,
        ADD=residual is not None,
        num_warps=WARPS,
    )
    return found


@cache
def works(device: torch.device, kind: torch.dtype) -> bool:
    """Whether the kernels can be made and run here: Triton needs a C compiler, for one thing."""
    try:
        with torch.random.fork_rng([device]), torch.no_grad():  # nobody's dice are touched
            return _says_the_same(device, kind)
    except Exception:  # of any kind: without it all is the same, if slower
        return False


def _says_the_same(device: torch.device, kind: torch.dtype) -> bool:
    """Both forms, each in the largest size that is used of it."""
    norm, out, back = nn.LayerNorm(CHUNK), nn.Linear(CHUNK, WIDE), nn.Linear(4 * CHUNK, WIDE)
    nn.ModuleList((norm, out, back)).to(device, kind)
    x, hidden, residual = (
        torch.randn(ROWS + 1, width, device=device, dtype=kind)
        for width in (CHUNK, 4 * CHUNK, WIDE)
    )
    first, second = linear(x, out, norm, relu=True), linear(hidden, back, None, residual)
    same = torch.allclose(first, out(norm(x)).relu(), atol=0.1)
    return same and torch.allclose(second, residual + back(hidden), atol=0.1)
