"""The page of `naic export --web`: what is in its folder, and what it says in a browser."""

import json
import math
import os
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skimage
from benchmarks.web_page import in_browser, served
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from naic.cli.main import main
from naic.errors import ConfigError
from naic.files import whole_folder
from naic.runtime.captioner import Captioner
from naic.tasks.export import export_model
from naic.tasks.export_options import ExportOptions
from naic.tasks.export_web import PARTS, RUNTIME, RUNTIME_FILES, find_runtime, write_page
from naic.text.vocabulary import SPECIAL, Vocabulary
from tests.tasks.packs import NETWORK, make_model

SIDE = 8
AGENTS = SIDE * SIDE * 3 // 4
FOUR = Vocabulary((*SPECIAL, "one", "two", "three", "four"))
FROM_THE_EXPORT = {"README.md", "LICENSES.txt", "page.json", "runtime"}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What stands for the unpacked npm package."""
    folder = tmp_path_factory.mktemp("package")
    (folder / "dist").mkdir()
    for name in RUNTIME_FILES:
        (folder / "dist" / name).write_text(name)
    return folder


def test_the_folder_has_all_that_the_page_takes(
    tmp_path: Path, package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, out = make_model(tmp_path / "model", backbone=NETWORK), tmp_path / "page"
    words = ["export", str(model), "--web", str(out), "--runtime-files", str(package)]
    assert main([*words, "--dry-run"]) == 0
    assert not out.exists()
    assert main(words) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"page:     {out}/index.html"
    facts = json.loads((out / "page.json").read_text())
    parts = {path.name for path in PARTS.iterdir()}
    assert {path.name for path in out.iterdir()} == parts | FROM_THE_EXPORT | {facts["graph"]}
    assert (out / facts["graph"]).stat().st_size == facts["bytes"]
    assert {f"runtime/{path.name}" for path in (out / "runtime").iterdir()} == set(
        facts["runtime"]["files"]
    )
    assert (facts["pixels"], facts["spelled"][4:]) == (64, ["a", "circle", "square"])
    assert facts["endings"] == [4]
    engine = Captioner(out / facts["graph"], device="cpu").engine
    assert (engine.precision, engine.pixels) == ("float32", 64)  # what it computes in
    assert f"--web {out} --precision int8" in (out / "README.md").read_text()
    kept = re.findall(r'^  "(.+)",$', (out / "offline.js").read_text(), re.MULTILINE)
    assert {*kept, "offline.js"} == (parts - {"README.md"}) | {
        "./",
        "page.json",
        *facts["runtime"]["files"],
    }


def test_without_the_runtime_it_says_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, out = make_model(tmp_path / "model", backbone=NETWORK), tmp_path / "page"
    assert main(["export", str(model), "--web", str(out), "--precision", "float32"]) == 0
    said = capsys.readouterr().out
    hint = json.loads((out / "page.json").read_text())["runtime"]["hint"]
    for name in ("npm pack onnxruntime-web@", *RUNTIME_FILES):
        assert name in said
        assert name in hint
    assert list((out / "runtime").iterdir()) == []


def test_refusals(tmp_path: Path, package: Path) -> None:
    none, out = tmp_path / "none", tmp_path / "page"
    (tmp_path / RUNTIME_FILES[0]).write_text("")
    with pytest.raises(ConfigError, match=r"has no ort-wasm-simd-threaded\.wasm, and no dist"):
        export_model(ExportOptions(none, web=out, runtime_files=tmp_path))
    with pytest.raises(ConfigError, match="Give --out or --web"):
        export_model(ExportOptions(none, web=out, out=out))
    with pytest.raises(ConfigError, match="--out: is missing"):
        export_model(ExportOptions(none))
    with pytest.raises(ConfigError, match=r"--web: .* is there already"):
        export_model(ExportOptions(none, web=tmp_path))
    with pytest.raises(ConfigError, match=r"--runtime-files: .* a graph is to be made"):
        export_model(ExportOptions(none, out=out, runtime_files=package))
    assert not out.exists()


def test_the_page_asks_nobody_else() -> None:
    for part in PARTS.iterdir():
        assert not re.search(r"https?://|//cdn", part.read_text()), part.name
    page = (PARTS / "index.html").read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; script-src 'self' 'wasm-unsafe-eval';")
    assert not re.search(r"<script>|<style>|style=|\son\w+=", page)  # the policy would stop it


def photos(folder: Path) -> list[Path]:
    """Files with equal pixels for all decoders, then JPEGs, one of them turned and large."""
    rocket = Image.open(Path(skimage.__file__).parent / "data" / "rocket.jpg").convert("RGB")
    noise = np.random.default_rng(0).integers(0, 256, (90, 333, 3), dtype=np.uint8)
    rocket.info.clear()  # its colour profile: that of a browser may round otherwise
    alpha = rocket.copy()
    alpha.putalpha(Image.linear_gradient("L").resize(alpha.size).point(lambda x: 255 * (x > 99)))
    made: dict[str, tuple[Image.Image, dict[str, Any]]] = {
        "plain.png": (rocket, {}),
        "tall.png": (rocket.rotate(90, expand=True).resize((70, 400)), {}),
        "noise.png": (Image.fromarray(noise), {}),
        "grey.png": (rocket.convert("L"), {}),
        "alpha.png": (alpha, {}),
        "plain.jpg": (rocket, {"quality": 95}),
        "turned.jpg": (rocket.resize((1600, 1200)), {"quality": 95}),
    }
    turned = Image.Exif()
    turned[0x112] = 6
    made["turned.jpg"][1]["exif"] = turned
    for name, (image, options) in made.items():
        image.save(folder / name, **options)
    return [folder / name for name in made]


def echo(folder: Path) -> bytes:
    """A graph whose words and confidences are the pixels themselves, so that each one counts.

    An agent for each four numbers of the (8, 8, 3): it says which are the two largest.
    """
    images: list[str | int | None] = ["batch", SIDE, SIDE, 3]
    given = helper.make_tensor_value_info("pixels", TensorProto.UINT8, images)
    shape: list[str | int | None] = ["batch", AGENTS, 2]
    told = [
        helper.make_tensor_value_info("words", TensorProto.INT64, shape),
        helper.make_tensor_value_info("confidences", TensorProto.FLOAT, shape),
    ]
    constants = {
        "shape": np.array([-1, AGENTS, 4]),
        "two": np.array([2]),
        "first": np.array(len(SPECIAL)),
        "one": np.array(1, np.float32),
        "most": np.array(256, np.float32),
    }
    nodes = [
        helper.make_node("Cast", ["pixels"], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("Reshape", ["numbers", "shape"], ["fours"]),
        helper.make_node("TopK", ["fours", "two"], ["largest", "places"]),
        helper.make_node("Add", ["places", "first"], ["words"]),
        helper.make_node("Add", ["largest", "one"], ["above"]),
        helper.make_node("Div", ["above", "most"], ["confidences"]),
    ]
    tensors = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "echo", [given], told, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    facts = {"naic": "1", "precision": "float32", "pixels": str(SIDE)}
    helper.set_model_props(model, facts | {"vocabulary": json.dumps(FOUR.words)})
    content: bytes = model.SerializeToString()
    (folder / "echo.onnx").write_bytes(content)
    return content


@pytest.mark.slow
def test_it_says_in_chromium_what_naic_says(tmp_path: Path) -> None:
    tools, chromium = os.environ.get("NAIC_WEB"), shutil.which("chromium")
    if tools is None or chromium is None:
        pytest.skip("takes chromium, and NAIC_WEB: where onnxruntime-web and playwright-core are")
    modules, out = Path(tools) / "node_modules", tmp_path / "page"
    with whole_folder(out) as folder:
        runtime = find_runtime(modules / "onnxruntime-web")
        write_page(folder, echo(tmp_path), FOUR, SIDE, runtime)
    files = photos(tmp_path)
    own = Captioner(tmp_path / "echo.onnx", device="cpu").caption(files)
    with served(out) as url, served(tmp_path) as elsewhere:
        more = {"again": True, "escape": f"{elsewhere}plain.png"}
        told = in_browser(url, files, modules / "playwright-core", chromium, **more)
    assert told["status"] == ["Ready.", "Ready."]  # the second time without a network
    said = zip([*files, files[0]], [*own, own[0]], told["captions"], strict=True)
    for path, caption, (text, confidence) in said:
        apart = abs(math.log(confidence / caption.confidence)) / AGENTS
        if path.suffix == ".png" and path.stem != "alpha":  # equal pixels
            assert (path.name, text) == (path.name, caption.text)
            assert apart < 1e-6, path.name
        assert apart < 0.01, path.name
    assert abs(math.log(own[0].confidence / own[-1].confidence)) / AGENTS > 0.02  # turning counts
    assert told["escaped"] == "held"  # the policy holds in a worker, too
    asked = {address.removeprefix("blob:") for address in told["requests"]}
    assert {address for address in asked if not address.startswith(url)} <= {more["escape"]}
    (out / RUNTIME / RUNTIME_FILES[0]).unlink()
    with served(out) as url:
        told = in_browser(url, files[:1], modules / "playwright-core", chromium)
    assert told["status"][0].startswith("No captions: the files of ONNX Runtime are missing. Run:")
    assert told["captions"] == [["No caption: there is no model.", 0]]
