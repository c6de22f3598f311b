"""The teacher's time does not depend on what it says, nor on the device."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from naic.backbones.load import trainable_backbone
from naic.data.features import FeatureStore
from naic.data.records import Record
from naic.data.storewriter import ShardRows, StoreWriter
from naic.models.transformer import TransformerCaptioner
from naic.tasks.benchmark.rows import BenchmarkOptions
from naic.tasks.reproduce import scoring as latency
from naic.text.vocabulary import PERIOD
from tests.data.stores import NoImage
from tests.runtime.small import NETWORK, PIXELS, make_model


@pytest.mark.parametrize("bias", [-1e4, 1e4])
def test_the_teacher_writes_as_many_words_as_in_a_benchmark(
    short: Path, monkeypatch: pytest.MonkeyPatch, bias: float
) -> None:
    """Whether it would end its sentence at once, or never."""
    monkeypatch.setattr(latency, "IMAGES", 2)
    monkeypatch.setattr(latency, "WARM_UP", 1)
    load, step = torch.nn.Module.load_state_dict, TransformerCaptioner.step
    steps: list[int] = []

    def talkative(model: torch.nn.Module, weights: dict[str, Tensor], **settings: bool) -> object:
        found = load(model, weights, **settings)
        if isinstance(model, TransformerCaptioner):
            with torch.no_grad():
                model.decoder.output.bias[PERIOD] = bias
        return found

    def counted(model: TransformerCaptioner, words: Tensor, *rest: object) -> Tensor:
        steps.append(words.shape[1])
        return step(model, words, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(torch.nn.Module, "load_state_dict", talkative)
    monkeypatch.setattr(TransformerCaptioner, "step", counted)
    teacher = short / "teacher-xe" / "best"
    store = FeatureStore(short / "features")
    found = latency.measure_latency({"AIC beam 1": (teacher, 1)}, store, [0, 1], "cpu")
    assert found["words"] == BenchmarkOptions().words == 11
    assert len(steps) == 3 * 11
    steps.clear()
    latency.measure_latency({"AIC beam 3": (teacher, 3)}, store, [0, 1], "cpu")
    assert steps == [3] * 3 * 11


def test_a_model_with_its_backbone_inside_is_timed_from_features(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latency, "IMAGES", 1)
    monkeypatch.setattr(latency, "WARM_UP", 0)
    dim = trainable_backbone(NETWORK).dim
    settings = {"backbone": NETWORK, "pixels": PIXELS, "regions": 4, "dim": dim, "dtype": "float16"}
    (tmp_path / "store").mkdir()
    record = Record("1", NoImage(), ("a cat",), "val")
    writer = StoreWriter(tmp_path / "store", [record], settings, 1)
    writer.write(0, ShardRows([0], [4], np.ones((4, dim), np.float16)), [])
    store = writer.finish()
    models = {
        kind: (make_model(tmp_path / kind, kind, backbone=NETWORK), 1)
        for kind in ("parallel", "causal")
    }
    found = latency.measure_latency(models, store, [0], "cpu")
    assert min(found["milliseconds"].values()) > 0
