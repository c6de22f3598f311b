"""The style of a model: what it says by it in every runtime, and where it goes along."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image

from naic.errors import CheckpointError, ConfigError
from naic.files import STYLE
from naic.models.folder import load_model
from naic.runtime.captioner import Captioner
from naic.tasks.export import export_model
from naic.tasks.export_options import ExportOptions
from naic.tasks.finetune.steps import write_start
from naic.tasks.options import PackOptions
from naic.tasks.pack import pack_model
from naic.text.style import Style, read_style
from naic.text.tokeniser import tokenise
from tests.runtime.small import NETWORK, PIXELS, make_model

LOUD = Style(("photo", "of"), without=("a", "the"), case="upper", end="!")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_model(tmp_path_factory.mktemp("models") / "model", backbone=NETWORK)
    (folder / STYLE).write_text(LOUD.as_json())
    return folder


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pixels = np.random.default_rng(0).integers(0, 256, (PIXELS, PIXELS, 3), dtype=np.uint8)
    path = tmp_path_factory.mktemp("photos") / "photo.png"
    Image.fromarray(pixels).save(path)
    return path


def test_every_text_is_in_it(model: Path, image: Path) -> None:
    captioner = Captioner(model, device="cpu")
    assert captioner.style == LOUD
    plain = captioner(image, style=False)
    text = LOUD.text(tokenise(plain))
    assert text.startswith("PHOTO OF ")
    assert text.endswith("!")
    pixels = np.array(Image.open(image))
    said = captioner(image, details=True, alternatives=3)
    assert [
        captioner(image),
        *captioner.texts([image]),
        said.text,
        said.alternatives[0].text,
        captioner.say(pixels[None])[0].text,
        captioner.explain(pixels).caption.text,
        captioner.pipeline(image)[0]["generated_text"],
    ] == [text] * 7
    assert all(other.text == other.text.upper() for other in said.alternatives)
    agents = captioner.explain(pixels).agents
    assert agents == captioner.explain(pixels, style=False).agents
    unstyled = captioner(image, details=True, style=False)
    assert unstyled.probability == said.probability
    with pytest.raises(ConfigError, match=r"'photo' is what the model's style puts in.*--no-style"):
        captioner.each([image], forbid="photo")
    assert captioner(image, forbid="photo", style=False) == plain


def test_it_goes_along_with_its_weights_and_not_with_others(
    model: Path, image: Path, tmp_path: Path
) -> None:
    own = Captioner(model, device="cpu")(image)
    done = pack_model(PackOptions(model, tmp_path / "packed"))
    assert read_style(tmp_path / "packed") == LOUD
    assert done.bytes == sum(path.stat().st_size for path in (tmp_path / "packed").iterdir())
    index = {"dim": 1280, "backbone": NETWORK, "pixels": 64, "weights": ""}
    write_start(tmp_path / "start", load_model(model), index, {})
    assert not (tmp_path / "start" / STYLE).exists()
    export_model(ExportOptions(model, out=tmp_path / "graph"))
    graph = Captioner(tmp_path / "graph", device="cpu")
    assert graph.style == LOUD
    assert graph(image) == own
    export_model(ExportOptions(tmp_path / "packed", beside=True, precision="float32"))
    beside = Captioner(tmp_path / "packed", device="cpu")
    assert (beside.engine.runtime, beside.style) == ("onnx", LOUD)
    (tmp_path / "packed" / STYLE).unlink()
    assert Captioner(tmp_path / "packed", device="cpu").style is None


def test_the_page_of_a_model_has_it(model: Path, tmp_path: Path) -> None:
    export_model(ExportOptions(model, web=tmp_path / "page", precision="float32"))
    told = json.loads((tmp_path / "page" / "page.json").read_text())["style"]
    assert told["around"] == ["photo of ", ""]
    assert (told["case"], told["end"]) == ("upper", "!")


def test_a_damaged_one_is_refused(model: Path, tmp_path: Path) -> None:
    export_model(ExportOptions(model, out=tmp_path / "graph"))
    path = tmp_path / "graph" / "model.onnx"
    graph = onnx.load(path)
    facts = {fact.key: fact.value for fact in graph.metadata_props}
    onnx.helper.set_model_props(graph, facts | {"style": "{"})
    onnx.save(graph, path)
    with pytest.raises(CheckpointError, match=r"model\.onnx: its style: broken JSON"):
        Captioner(path, device="cpu")
    bad = make_model(tmp_path / "bad", backbone=NETWORK)
    (bad / STYLE).write_text("{}")
    with pytest.raises(CheckpointError, match=r"style\.json: is no style"):
        Captioner(bad, device="cpu")
