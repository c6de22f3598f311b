"""Other captioners: nothing is fetched, and all of them write as many tokens as they are told."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from naic.errors import MissingExtraError
from naic.tasks.benchmark.other_models import OtherModels

CPU = torch.device("cpu")


class Model(nn.Module):
    """As much of a model of transformers as is used here; it has no `from_pretrained`."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config, self.generation_config = config, SimpleNamespace()
        self.weight = nn.Parameter(torch.zeros(1))
        self.asked: list[dict[str, Any]] = []

    def generate(self, pixel_values: Tensor, **options: Any) -> Tensor:
        self.asked.append(options | {"shape": tuple(pixel_values.shape)})
        return torch.zeros(len(pixel_values), options["max_new_tokens"] + 1)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[Model]:
    models: list[Model] = []

    def build(config: Any) -> Model:
        models.append(Model(config))
        return models[-1]

    both = SimpleNamespace(from_encoder_decoder_configs=lambda *parts: SimpleNamespace())
    fake = SimpleNamespace(
        BlipConfig=lambda **own: SimpleNamespace(**own),
        BlipForConditionalGeneration=build,
        ViTConfig=SimpleNamespace,
        GPT2Config=SimpleNamespace,
        VisionEncoderDecoderConfig=both,
        VisionEncoderDecoderModel=build,
    )
    monkeypatch.setitem(sys.modules, "transformers", fake)
    return models


def test_they_write_a_fixed_number_of_tokens(built: list[Model]) -> None:
    other_models = OtherModels(CPU, "bfloat16")
    for width in (1, 3):
        other_models.runner("blip", width, 11, 4)()
    other_models.runner("vit-gpt2", 1, 11, 1)()
    blip, gpt2 = built  # built once each
    fixed: dict[str, Any] = {"min_new_tokens": 11, "max_new_tokens": 11, "do_sample": False}
    assert blip.asked == [
        fixed | {"num_beams": width, "shape": (4, 3, 384, 384)} for width in (1, 3)
    ]
    assert gpt2.asked == [fixed | {"num_beams": 1, "shape": (1, 3, 224, 224)}]
    assert gpt2.generation_config.eos_token_id != gpt2.generation_config.pad_token_id
    assert blip.weight.dtype == torch.bfloat16
    assert not blip.training


def test_a_missing_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtraError, match="pip install transformers"):
        OtherModels(CPU, "float32").runner("blip", 1, 11, 1)
