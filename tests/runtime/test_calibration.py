"""The map from probabilities to chances of being right: what it does, and where it goes along."""

import json
import math
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from naic.errors import CheckpointError, DataError
from naic.models.folder import load_model
from naic.runtime.calibration import (
    CALIBRATION,
    MOST_SURE,
    Calibration,
    calibration_file,
    logit,
    parse_calibration,
    read_calibration,
)
from naic.runtime.captioner import Captioner
from naic.tasks.export import export_model
from naic.tasks.export_options import ExportOptions
from naic.tasks.finetune.steps import write_start
from naic.tasks.options import PackOptions
from naic.tasks.pack import pack_model
from tests.runtime.small import NETWORK, PIXELS, make_model

MAP = Calibration(0.5, -1.0)


def calibrated(folder: Path, **settings: object) -> Path:
    make_model(folder, backbone=NETWORK, **settings)  # type: ignore[arg-type]
    (folder / CALIBRATION).write_text(MAP.as_json())
    return folder


def photo(folder: Path) -> Path:
    pixels = np.random.default_rng(0).integers(0, 256, (PIXELS, PIXELS, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(folder / "photo.png")
    return folder / "photo.png"


@pytest.mark.parametrize("p", [0.001, 0.3, 0.5, 0.99])
def test_it_is_the_logistic_function_of_the_logit(p: float) -> None:
    wanted = 1 / (1 + math.exp(-(0.5 * math.log(p / (1 - p)) - 1.0)))
    assert MAP(math.log(p)) == pytest.approx(wanted)
    assert Calibration(1.0, 0.0)(math.log(p)) == pytest.approx(p)


@given(
    first=st.floats(-1e5, 0.01),
    more=st.floats(0, 1e5),
    slope=st.floats(1e-3, 1e3),
    intercept=st.floats(-1e3, 1e3),
)
def test_it_never_falls_and_is_always_a_chance(
    first: float, more: float, slope: float, intercept: float
) -> None:
    found = Calibration(slope, intercept)
    low, high = found(first - more), found(first)
    assert 0 <= low <= high <= 1


def test_what_rounding_cannot_tell_from_certain_is_one() -> None:
    """A sum of float32 may even be a little above 0."""
    most = math.log(MOST_SURE)
    assert logit(0.0) == logit(1e-6) == logit(-1e-9) == logit(most)
    assert logit(most - 1e-6) < logit(most) < 10


@pytest.mark.parametrize("slope", [0.0, -1.0, math.nan, math.inf])
def test_a_map_that_does_not_rise_is_none(slope: float) -> None:
    with pytest.raises(DataError, match="make no rising map"):
        Calibration(slope, 0.0)


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert read_calibration(tmp_path) is None
    assert calibration_file(tmp_path) == {}
    found = Calibration(0.1 + 0.2, -1e-7)
    (tmp_path / CALIBRATION).write_text(found.as_json())
    assert read_calibration(tmp_path) == found
    (tmp_path / CALIBRATION).write_bytes(calibration_file(tmp_path)[CALIBRATION])
    assert read_calibration(tmp_path) == found


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"format": "naic-calibration-2", "slope": 1, "intercept": 0}',
        '{"format": "naic-calibration-1", "slope": 1}',
        '{"format": "naic-calibration-1", "slope": "steep", "intercept": 0}',
        '{"format": "naic-calibration-1", "slope": [], "intercept": 0}',
        '{"format": "naic-calibration-1", "slope": -1, "intercept": 0}',
        '{"format": "naic-calibration-1", "slope": NaN, "intercept": 0}',
        f'{{"format": "naic-calibration-1", "slope": 1{"0" * 400}, "intercept": 0}}',
    ],
)
def test_a_damaged_map_is_named_with_what_to_do(tmp_path: Path, text: str) -> None:
    (tmp_path / CALIBRATION).write_text(text)
    with pytest.raises(CheckpointError, match=r"calibration\.json: .*remove it") as caught:
        read_calibration(tmp_path)
    assert caught.value.what == str(tmp_path / CALIBRATION)
    with pytest.raises(CheckpointError, match=r"^here: "):
        parse_calibration(text, "here")
    (tmp_path / CALIBRATION).write_bytes(b"\xff")
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_calibration(tmp_path)


def test_a_caption_is_as_sure_as_the_map_says_in_every_runtime(tmp_path: Path) -> None:
    model, image = calibrated(tmp_path / "model"), photo(tmp_path)
    captioner = Captioner(model, device="cpu")
    said = captioner(image, details=True, alternatives=3)
    assert captioner.calibration == MAP
    assert said.calibrated
    assert said.confidence == pytest.approx(MAP(math.log(said.probability)), rel=1e-6)
    assert said.confidence != pytest.approx(said.probability, rel=0.01)
    export_model(ExportOptions(model, out=tmp_path / "graph"))
    graph = Captioner(tmp_path / "graph", device="cpu")
    assert graph.calibration == MAP
    assert graph(image, details=True).confidence == pytest.approx(said.confidence, rel=1e-3)
    (model / CALIBRATION).unlink()
    plain = Captioner(model, device="cpu")(image, details=True, alternatives=3)
    assert not plain.calibrated
    assert plain.confidence == plain.probability == said.probability
    assert plain.alternatives == said.alternatives
    assert plain.words == said.words


def test_it_goes_along_with_its_weights_and_not_with_others(tmp_path: Path) -> None:
    model = calibrated(tmp_path / "model")
    done = pack_model(PackOptions(model, tmp_path / "packed"))
    assert read_calibration(tmp_path / "packed") == MAP
    assert done.bytes == sum(path.stat().st_size for path in (tmp_path / "packed").iterdir())
    index = {"dim": 1280, "backbone": NETWORK, "pixels": 64, "weights": ""}
    write_start(tmp_path / "start", load_model(model), index, {})
    assert not (tmp_path / "start" / CALIBRATION).exists()


def test_a_graph_with_a_damaged_map_is_refused(tmp_path: Path) -> None:
    export_model(ExportOptions(calibrated(tmp_path / "model"), out=tmp_path / "graph"))
    path = tmp_path / "graph" / "model.onnx"
    graph = onnx.load(path)
    facts = {fact.key: fact.value for fact in graph.metadata_props}
    assert json.loads(facts["calibration"])["slope"] == MAP.slope
    onnx.helper.set_model_props(graph, facts | {"calibration": "{"})
    onnx.save(graph, path)
    with pytest.raises(CheckpointError, match=r"model\.onnx: its calibration: broken JSON"):
        Captioner(path, device="cpu")
