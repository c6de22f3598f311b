"""Regions that end in their boxes: what encoders make of them, and that nothing else changes."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from naic.errors import ConfigError
from naic.models.captioners import CAPTIONERS
from naic.models.config import TransformerConfig
from naic.models.layers import BoxCodes
from naic.models.ort import RelationConfig, centred
from naic.models.transformer import Encoder
from naic.runtime.export import trace
from tests.models.small import FEATURES, SIZES, images
from tests.models.writers import TRANSFORMER, writer

REGIONS, WORDS = 5, 12
LIKE: dict[str, Any] = {**TRANSFORMER, "geometry": 16, "dropout": 0.0, "length": 6}
RELATED = RelationConfig(**LIKE, boxes="apart")


def boxed(batch: int = 2, regions: int = REGIONS, seed: int = 3) -> Tensor:
    """(B, R, F + 4) features with boxes."""
    generator = torch.Generator().manual_seed(seed)
    corners = torch.rand(batch, regions, 2, 2, generator=generator, dtype=torch.float64)
    return torch.cat((images(batch, regions), corners.sort(2).values.flatten(2)), -1)


def model_of(captioner: str, config: Any) -> Any:
    torch.manual_seed(0)
    model: Any = CAPTIONERS[captioner].build(config, FEATURES + 4, WORDS)
    return model.double().eval()


def said(model: Any, features: Tensor, mask: Tensor | None = None) -> Tensor:
    words = torch.full((len(features), 1, 6), 5)
    logits: Tensor = model(features, mask, words)
    return logits


CASES = [
    ("parallel", replace(SIZES, boxes="coded"), True),
    ("causal", replace(SIZES, boxes="coded"), True),
    ("parallel", replace(SIZES, boxes="apart"), False),
    ("ort", RELATED, True),
    ("ort", replace(RELATED, boxes="coded"), True),
]


@pytest.mark.parametrize(("captioner", "config", "reads"), CASES)
@torch.no_grad()
def test_regions_have_no_order_and_boxes_a_meaning(
    captioner: str, config: Any, reads: bool
) -> None:
    """Regions that change places with their boxes are the same image; a moved box is another."""
    model, features = model_of(captioner, config), boxed()
    logits = said(model, features)
    order = torch.tensor([3, 0, 4, 1, 2])
    assert_close(said(model, features[:, order]), logits)
    moved = features.clone()
    moved[0, 1, -4:] = torch.tensor([0.1, 0.2, 0.3, 0.9])
    changed = said(model, moved)
    assert torch.allclose(changed[0], logits[0]) != reads
    assert_close(changed[1], logits[1])


@pytest.mark.parametrize(("captioner", "config", "reads"), CASES)
@torch.no_grad()
def test_regions_that_only_fill_up_change_nothing(captioner: str, config: Any, reads: bool) -> None:
    """A ragged batch: their boxes are zeros, which have no width, and nothing becomes NaN."""
    model, features = model_of(captioner, config), boxed()
    longer = torch.cat((features, torch.zeros(2, 3, FEATURES + 4, dtype=torch.float64)), 1)
    mask = torch.tensor([[True] * REGIONS + [False] * 3] * 2)
    assert_close(said(model, longer, mask), said(model, features))


@torch.no_grad()
def test_codes_are_the_corners_and_the_area() -> None:
    codes = BoxCodes(6).double()
    box = [0.1, 0.2, 0.6, 0.4]
    told = torch.tensor([*box, 0.5 * 0.2], dtype=torch.float64)
    expected = codes.project.weight @ told + codes.project.bias
    assert_close(codes(torch.tensor([[box]], dtype=torch.float64))[0, 0], expected)


@torch.no_grad()
def test_ort_relates_the_boxes_that_it_is_given() -> None:
    """The cells of a grid as boxes are the grid: real boxes go the same way."""
    plain = writer("ort")
    model = CAPTIONERS["ort"].build(RELATED, FEATURES + 4, WORDS).double().eval()
    model.load_state_dict(plain.state_dict())
    features = images(2, regions=9)
    corners = torch.tensor([[x / 3, y / 3, (x + 1) / 3, (y + 1) / 3] for y in range(3)
                            for x in range(3)], dtype=torch.float64)  # fmt: skip
    given = torch.cat((features, corners.expand(2, 9, 4)), -1)
    # level centres of thirds differ in the last bit of float32, below what is told apart
    assert_close(said(model, given), said(plain, features), rtol=0, atol=5e-3)
    assert centred(corners)[4].tolist() == pytest.approx([0.5, 0.5, 1 / 3, 1 / 3])


def test_boxes_and_codes_learn() -> None:
    model = model_of("ort", replace(RELATED, boxes="coded"))
    layers = (model.encoder.box_codes.project, model.encoder.weigh)
    gradients = torch.autograd.grad(said(model, boxed()).sum(), [own.weight for own in layers])
    assert all(float(gradient.abs().sum()) > 0 for gradient in gradients)


class _Features(torch.nn.Module):
    """A model of features as a graph."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, features: Tensor) -> Tensor:
        logits: Tensor = self.model(features)
        return logits


@torch.no_grad()
def test_a_graph_takes_boxes_as_it_takes_features() -> None:
    onnxruntime: Any = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    model = _Features(model_of("parallel", replace(SIZES, boxes="coded")).float())
    features = boxed().float()
    graph = trace("model", model, features, ["logits"])
    session = onnxruntime.InferenceSession(
        graph.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (found,) = session.run(None, {session.get_inputs()[0].name: features.numpy()})
    assert_close(torch.from_numpy(found), model(features), rtol=1e-4, atol=1e-4)


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"model\.boxes: there is no 'code'"):
        Encoder(replace(SIZES, boxes="code"), 9)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"model\.boxes: features of size 4 cannot end in a box"):
        Encoder(replace(SIZES, boxes="coded"), 4)
    with pytest.raises(ConfigError, match=r"model\.boxes: .*efficientnet-lite0 gets no boxes"):
        TransformerConfig(boxes="coded", backbone="efficientnet-lite0")
