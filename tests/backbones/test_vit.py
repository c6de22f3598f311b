"""The vision transformer itself: shapes, the order of cells, sizes, grids, half precision."""

import io
import math
from dataclasses import replace

import onnxruntime as ort  # type: ignore[import-untyped]
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from naic.backbones.load import can_be_inside
from naic.backbones.vit import (
    GRID,
    PIXELS,
    TOKENS,
    VITS,
    Joined,
    VisionTransformer,
    VitShape,
    grid_of,
    resize_positions,
    shrinking,
)
from naic.errors import BackboneError

# As small as they go: a few thousand weights. One is like CLIP, the other like DINOv2.
TINY = {
    "clip-vit-b16": replace(VITS["clip-vit-b16"], width=16, depth=2, heads=2, patch=4, learnt=3),
    "dinov2-vits14": replace(VITS["dinov2-vits14"], width=8, depth=2, heads=2, patch=2, learnt=5),
}


def network(shape: VitShape, seed: int = 0, *, grid: int = GRID) -> VisionTransformer:
    torch.manual_seed(seed)
    model = VisionTransformer(shape, grid=grid).eval().requires_grad_(False)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def noise(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)


@pytest.mark.parametrize("name", TINY)
@pytest.mark.parametrize("grid", [1, 4, 8, 16])
def test_pixels_of_any_size_give_the_grid_that_was_asked_for(name: str, grid: int) -> None:
    model = network(TINY[name], grid=grid)
    for size in (model.side, 40, 100):
        features = model(noise(2, size, size, 3))
        assert features.shape == (2, grid * grid, TINY[name].width)
        assert features.dtype == torch.float32
        assert features.isfinite().all()


@pytest.mark.parametrize("name", TINY)
def test_cells_run_row_by_row(name: str) -> None:
    """A bright spot in the upper right corner shows most in cell 7 of 64."""
    model = network(TINY[name])
    for block in model.blocks:  # no talk between patches: each one's cell tells of itself alone
        torch.nn.init.zeros_(block.out.weight)  # type: ignore[union-attr, arg-type]
    dark = torch.zeros(1, model.side, model.side, 3, dtype=torch.uint8)
    lit = dark.clone()
    cell = model.side // GRID
    lit[:, :cell, -cell:] = 255
    change = (model(lit) - model(dark)).abs().sum(-1)[0]  # (64,)
    assert change.argmax() == GRID - 1
    assert change.count_nonzero() == 1


@pytest.mark.parametrize("name", TINY)
def test_a_block_is_what_the_formula_says(name: str) -> None:
    """Attention head by head, written out."""
    shape = TINY[name]
    block = network(shape).blocks[0]
    x = torch.randn(1, 5, shape.width, generator=torch.Generator().manual_seed(2))
    weights = dict(block.named_parameters())
    norm = F.layer_norm(
        x, (shape.width,), weights["norm1.weight"], weights["norm1.bias"], shape.epsilon
    )
    rows = norm[0] @ weights["qkv.weight"].T + weights["qkv.bias"]  # (5, 3·D)
    size = shape.width // shape.heads
    heads = []
    for head in range(shape.heads):
        q, k, v = (
            rows[:, part * shape.width + head * size : part * shape.width + (head + 1) * size]
            for part in range(3)
        )
        heads.append((q @ k.T / math.sqrt(size)).softmax(1) @ v)
    y = x + torch.cat(heads, 1) @ weights["out.weight"].T + weights["out.bias"]
    norm = F.layer_norm(
        y, (shape.width,), weights["norm2.weight"], weights["norm2.bias"], shape.epsilon
    )
    inner = norm @ weights["rise.weight"].T + weights["rise.bias"]
    if shape.quick:
        inner = inner / (1 + (-1.702 * inner).exp())
    else:
        inner = inner * (1 + (inner / math.sqrt(2)).erf()) / 2
    wanted = y + inner @ weights["fall.weight"].T + weights["fall.bias"]
    torch.testing.assert_close(block(x), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", TINY)
def test_half_precision_says_nearly_the_same(name: str) -> None:
    model = network(TINY[name])
    for parameter in model.parameters():
        parameter.mul_(0.3)
    pixels = noise(2, 64, 64, 3)
    full = model(pixels)
    half = model.to(torch.bfloat16)(pixels)
    assert half.dtype == torch.bfloat16
    assert F.cosine_similarity(half.float(), full, dim=2).min() > 0.99


@pytest.mark.parametrize("side", [64, 224, 300])
def test_the_matrix_shrinks_as_torch_does(side: int) -> None:
    images = noise(2, 3, PIXELS, PIXELS).float()
    matrix = shrinking(PIXELS, side)
    wanted = F.interpolate(images, (side, side), mode="bilinear", antialias=True)
    torch.testing.assert_close(matrix @ images @ matrix.T, wanted, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("name", TINY)
def test_images_of_the_usual_size_need_no_other_way(name: str) -> None:
    model = network(TINY[name])
    pixels = noise(2, PIXELS, PIXELS, 3)
    quick = model(pixels)
    model.shrink = None
    torch.testing.assert_close(model(pixels), quick, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", TINY)
@pytest.mark.filterwarnings("ignore")  # of the exporter: it is an old one
def test_it_is_a_graph_for_onnx_too(name: str) -> None:
    model = network(TINY[name])
    file = io.BytesIO()
    torch.onnx.export(
        model,
        (noise(2, PIXELS, PIXELS, 3),),
        file,  # type: ignore[arg-type]  # it takes any file
        dynamo=False,
        opset_version=18,
        input_names=["pixels"],
        output_names=["features"],
        dynamic_axes={"pixels": {0: "batch"}, "features": {0: "batch"}},
    )
    session = ort.InferenceSession(file.getvalue())
    for count in (1, 3):  # a batch of another size than the one that was traced
        pixels = noise(count, PIXELS, PIXELS, 3)
        found = torch.from_numpy(session.run(None, {"pixels": pixels.numpy()})[0])
        torch.testing.assert_close(found, model(pixels), rtol=1e-3, atol=1e-3)


@pytest.mark.gpu
@pytest.mark.parametrize("name", TINY)
def test_a_recorded_graph_gives_what_eager_gives(name: str) -> None:
    model = network(TINY[name]).half().cuda()
    first, second = (noise(2, PIXELS, PIXELS, 3).cuda(), noise(2, PIXELS, PIXELS, 3).flip(0).cuda())
    wanted = model(second)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        features = model(first)
    first.copy_(second)
    graph.replay()
    assert torch.equal(features, wanted)


def test_joined_networks_stand_side_by_side() -> None:
    one, other = (network(shape) for shape in TINY.values())
    pixels = noise(2, 64, 64, 3)
    both = Joined([one, other])(pixels)
    assert torch.equal(both, torch.cat((one(pixels), other(pixels)), dim=2))


def test_names() -> None:
    assert can_be_inside("clip-vit-b16")
    assert can_be_inside("dinov2-vits14@16")
    assert can_be_inside("clip-vit-b16+dinov2-vits14")
    assert not can_be_inside("clip-vit-l14")
    assert not can_be_inside("clip-vit-b16+efficientnet-lite2")
    assert not can_be_inside("")
    assert grid_of("clip-vit-b16") == GRID
    assert grid_of("clip-vit-b16@16") == TOKENS
    assert grid_of("clip-vit-b16@4") == 4


@pytest.mark.parametrize("name", ["clip-vit-b16@", "clip-vit-b16@5", "clip-vit-b16@x"])
def test_a_grid_that_does_not_divide_the_patches_is_refused(name: str) -> None:
    with pytest.raises(BackboneError, match="cannot be averaged"):
        grid_of(name)


def test_positions_keep_their_places_when_resized() -> None:
    """Rows and columns as numbers: bigger grids must read the same places."""
    rows, columns = torch.meshgrid(torch.arange(14.0), torch.arange(14.0), indexing="ij")
    learnt = torch.stack((rows.flatten(), columns.flatten()), dim=1)  # (196, 2)
    resized = resize_positions(learnt, 16)
    wanted = (torch.arange(16.0) + 0.5) * 14 / 16 - 0.5
    inside = slice(2, -2)  # at the edge there is nothing beyond to read
    grid = resized.reshape(16, 16, 2)[inside, inside]
    torch.testing.assert_close(grid[:, 0, 0], wanted[inside], rtol=0, atol=0.02)
    torch.testing.assert_close(grid[0, :, 1], wanted[inside], rtol=0, atol=0.02)
    assert torch.equal(resize_positions(learnt, 14), learnt)


def test_the_offset_of_dinov2_is_the_scale_it_was_evaluated_with() -> None:
    learnt = torch.randn(37 * 37, 3, generator=torch.Generator().manual_seed(3))
    scale = 16.1 / 37
    wanted = F.interpolate(
        learnt.T.reshape(1, 3, 37, 37), scale_factor=(scale, scale), mode="bicubic"
    )
    assert torch.equal(resize_positions(learnt, 16, offset=0.1), wanted[0].flatten(1).T)
