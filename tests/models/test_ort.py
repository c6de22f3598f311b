"""ORT: attention weighed by where boxes are, against the paper's formulas in plain loops."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from naic.errors import ConfigError
from naic.models.ort import RelationConfig, RelationEncoder, grid_boxes, relations, waves
from tests.models.reference import apply, norm
from tests.models.reference import feed_forward as fed
from tests.models.small import images, small
from tests.models.writers import SIZES, writer

CONFIG = RelationConfig(**SIZES["ort"], dropout=0.0, length=6)
GEOMETRY = 16  # of it


def relation(m: list[float], n: list[float]) -> list[float]:
    """λ(m, n) of two boxes."""
    return [
        math.log(max(abs(m[0] - n[0]) / m[2], 1e-3)),
        math.log(max(abs(m[1] - n[1]) / m[3], 1e-3)),
        math.log(n[2] / m[2]),
        math.log(n[3] / m[3]),
    ]


def embedded(numbers: list[float], width: int) -> list[float]:
    found = []
    for number in numbers:
        angles = [100 * number / 1000 ** (i / (width // 8)) for i in range(width // 8)]
        found += [math.sin(a) for a in angles] + [math.cos(a) for a in angles]
    return found


def test_relations_are_the_papers() -> None:
    torch.manual_seed(0)
    boxes = torch.rand(2, 5, 4, dtype=torch.float64) + 0.1  # of two images
    boxes[0, 1, 0] = boxes[0, 0, 0]  # one right above the other
    found = relations(boxes)
    told = waves(found, 16)
    for image in range(2):
        for m in range(5):
            for n in range(5):
                own = relation(boxes[image, m].tolist(), boxes[image, n].tolist())
                assert found[image, m, n].tolist() == pytest.approx(own)
                assert told[image, m, n].tolist() == pytest.approx(embedded(own, 16), abs=1e-4)


def test_cells_are_told_by_column_and_row() -> None:
    boxes = grid_boxes(9, torch.device("cpu"))
    assert boxes[0].tolist() == [0.5, 0.5, 1, 1]
    assert boxes[5].tolist() == [2.5, 1.5, 1, 1]
    with pytest.raises(ConfigError, match=r"captioner: 6 regions are no square grid.*causal"):
        grid_boxes(6, torch.device("cpu"))


def encoded_by_hand(encoder: RelationEncoder, features: Tensor) -> Tensor:
    """One image (R, F), one head and one region at a time."""
    w = {f"encoder.{name}": value for name, value in encoder.state_dict().items()}
    regions, heads = len(features), CONFIG.heads
    boxes = grid_boxes(regions, torch.device("cpu")).tolist()
    x = norm(apply(features, w, "encoder.project").clamp(min=0), w, "encoder.project_norm")
    for number in range(CONFIG.encoder_layers):
        name = f"encoder.layers.{number}"
        inner = apply(norm(x, w, f"{name}.attention_norm"), w, f"{name}.attention.qkv")
        seen = torch.zeros_like(x)
        for head, parts in enumerate(
            zip(*(p.chunk(heads, -1) for p in inner.chunk(3, -1)), strict=True)
        ):
            query, key, value = parts
            row = number * heads + head
            w_g, b_g = w["encoder.weigh.weight"][row], w["encoder.weigh.bias"][row]
            size = query.shape[-1]
            for m in range(regions):
                weights = []
                for n in range(regions):
                    told = torch.tensor(embedded(relation(boxes[m], boxes[n]), GEOMETRY))
                    omega_g = max(float(told.double() @ w_g + b_g), 1e-6)
                    weights.append(omega_g * math.exp(float(query[m] @ key[n]) / math.sqrt(size)))
                shares = torch.tensor(weights, dtype=torch.float64) / sum(weights)
                seen[m, head * size : (head + 1) * size] = shares @ value
        x = x + apply(seen, w, f"{name}.attention.out")
        x = x + fed(norm(x, w, f"{name}.feed_forward_norm"), w, name)
    return norm(x, w, "encoder.norm")


@torch.no_grad()
def test_the_encoder_is_the_papers_formulas() -> None:
    encoder = writer("ort").encoder
    assert isinstance(encoder, RelationEncoder)
    features = images(2, regions=9)
    found, blocked = encoder(features, None)
    assert blocked is None
    for row in range(2):
        # the waves are of float32
        assert_close(found[row], encoded_by_hand(encoder, features[row]), rtol=0, atol=2e-4)


@torch.no_grad()
def test_where_things_are_makes_a_difference() -> None:
    """The same regions in other cells are another image to ORT, and the same to who is not told."""
    features = images(1, regions=9)
    mixed = features[:, torch.tensor([3, 1, 2, 0, 4, 5, 6, 8, 7])]
    words = torch.full((1, 1, 6), 5)
    for model, same in ((small(causal=True), True), (writer("ort"), False)):
        assert torch.allclose(model(features, None, words), model(mixed, None, words)) == same


def test_settings_that_cannot_be_are_refused() -> None:
    for wrong in (0, 4, 60, 4096):
        with pytest.raises(ConfigError, match=rf"model\.geometry: {wrong} is no multiple of 8"):
            RelationConfig(geometry=wrong)
    with pytest.raises(ConfigError, match=r"model\.seen: 0\.5 cannot be.*a whole grid"):
        replace(CONFIG, seen=0.5)
    with pytest.raises(ConfigError, match=r"model\.width"):
        replace(CONFIG, width=15)


def test_relations_learn_in_every_layer() -> None:
    model = writer("ort")
    said = model(images(2, regions=9), None, torch.full((2, 1, 6), 5))
    assert isinstance(said, Tensor)
    assert isinstance(model.encoder, RelationEncoder)
    (gradient,) = torch.autograd.grad(said.sum(), [model.encoder.weigh.weight])
    rows = gradient.view(CONFIG.encoder_layers, CONFIG.heads, -1)
    assert bool((rows.abs().sum((1, 2)) > 0).all())
