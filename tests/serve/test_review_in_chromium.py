"""The review in a real browser: by keyboard alone, and what is saved of it."""

import json
import os
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skimage

from naic.data.records import Problems
from naic.images.converting import square_pixels
from naic.images.opening import open_image
from naic.runtime.sentences import Alternative, Caption, Word
from naic.tasks.caption.metadata.mark import ALT_TEXT, DESCRIPTION
from naic.tasks.caption.metadata.sidecar import held
from naic.tasks.finetune.plan import FinetuneOptions, read_own_captions, share_out
from tests.serve.standing import SIDE, Server, StandIn, photo, serving
from tests.tasks.caption.metadata.packets import LIGHTROOM

DRIVER = Path(__file__).with_name("review.mjs")
DOCS = Path(__file__).parents[2] / "docs"
# What the model inside naic says of sample photos of scikit-image, and what it would say else.
PHOTOS: dict[str, tuple[float, tuple[str, ...]]] = {
    "rocket.jpg": (
        0.4317,
        (
            "a monument ship sitting in the sky in the background",
            "a fighter jet sitting in the sky in the background",
            "a monument ship sitting in the sky in the sky",
            "a fighter jet sitting in the sky in the sky",
        ),
    ),
    "coffee.png": (
        0.6123,
        (
            "a cup of coffee on a red plate",
            "a cup of coffee on a red plate on a table",
            "a cup of coffee sitting on a red plate",
            "a cup of coffee on a plate on a table",
        ),
    ),
    "astronaut.png": (
        0.6233,
        (
            "a woman wearing a helmet and a motorcycle",
            "a woman wearing a helmet and a helmet",
            "a woman in a helmet and a motorcycle",
            "a woman wearing a helmet standing and a motorcycle",
        ),
    ),
    "chelsea.png": (
        0.6964,
        (
            "a cat sitting on top of a table",
            "a cat laying on top of a table",
            "a cat sitting on top of a bed",
            "a cat sitting on top of a room",
        ),
    ),
}
NAMES = ("a, b.png", 'q"uote.png', "ünï ☕.png", "=1.png", "sub/1.png", "sub/2.png", "sub/2.jpg")
FIRST = "a rocket,\tready  “to go” & <b>\nnear the sea"  # as it is pasted; it becomes one line
ONE_LINE = "a rocket, ready “to go” & <b> near the sea"

pytestmark = pytest.mark.slow


class Prepared(StandIn):
    """Says of the sample photos what is known, and of others what colour they are."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        opened = {name: open_image((folder / name).read_bytes()) for name in PHOTOS}
        self._known = {name: square_pixels(image, SIDE) for name, image in opened.items()}

    def say(self, pixels: "np.ndarray[Any, Any]", **wishes: Any) -> list[Caption]:
        """What it sees."""
        others = super().say(pixels, **wishes)
        return [self._one(image, other) for image, other in zip(pixels, others, strict=True)]

    def _one(self, pixels: "np.ndarray[Any, Any]", other: Caption) -> Caption:
        for name, own in self._known.items():
            if np.abs(own.astype(int) - pixels).mean() < 8:
                sure, texts = PHOTOS[name]
                told = tuple(Alternative(text, sure / n) for n, text in enumerate(texts, 1))
                words = tuple(Word(word, 1.0, ()) for word in texts[0].split())
                return Caption(texts[0], words, sure, told, sure, calibrated=True)
        text = f"a wall of colour {other.text}"
        return Caption(text, other.words, 0.8, (Alternative(text, 0.8),), 0.8, calibrated=True)


@pytest.fixture(scope="module")
def tools() -> tuple[Path, str]:
    """Where the npm packages are, and Chromium."""
    folder, chromium = os.environ.get("NAIC_WEB"), shutil.which("chromium")
    modules = Path(folder or "", "node_modules")
    if folder is None or chromium is None or not (modules / "axe-core").is_dir():
        pytest.skip("takes chromium, and NAIC_WEB: where playwright-core and axe-core are")
    return modules, chromium


@pytest.fixture
def holiday(tmp_path: Path) -> Path:
    """A folder of photos, and of what lies about in such folders."""
    folder = tmp_path / "holiday"
    (folder / "sub").mkdir(parents=True)
    for name in PHOTOS:
        shutil.copy(Path(skimage.__file__).parent / "data" / name, folder)
    for number, name in enumerate(NAMES):
        (folder / name).write_bytes(photo(250 - 9 * number, 40, 40 + 20 * number))
    (folder / "coffee.xmp").write_bytes(LIGHTROOM)
    (folder / "notes.txt").write_text("not a photo")
    (folder / ".hidden.png").write_bytes(photo(1))
    return folder


@pytest.fixture
def server(holiday: Path) -> Iterator[Server]:
    with serving(Prepared(holiday)) as running:
        yield running


def drive(tools: tuple[Path, str], url: str, steps: list[list[Any]]) -> dict[str, Any]:
    modules, chromium = tools
    spec = {
        "playwright": str(modules / "playwright-core"),
        "chromium": chromium,
        "axe": str(modules / "axe-core" / "axe.min.js"),
        "url": f"{url}#review",
        "steps": steps,
    }
    told = subprocess.run(
        ["node", str(DRIVER), json.dumps(spec)], check=True, stdout=subprocess.PIPE
    )
    found: dict[str, Any] = json.loads(told.stdout)
    return found


def test_dev(tools, server, holiday) -> None:
    out = Path("/tmp/review-shots")
    out.mkdir(exist_ok=True)
    n = len(PHOTOS) + len(NAMES)
    found = drive(tools, server.url, [
        ["add", "#review-folder", [str(holiday)]],
        ["count", "article", n],
        ["texts", "article .name"],
        ["tab", "article"],
        ["press", "Enter", "Control+a"], ["type", FIRST], ["press", "Enter"],
        ["texts", "article .mark"],
        ["press", "2", "j", "a"],
        ["value","scrollTo(0,0)"],["look", 1280, "light", str(out / "light.png")],
        ["look", 360, "light", str(out / "light-360.png")],
        ["value", "document.querySelector('#review-all').open = true; document.querySelector('#review-files').open = true"],
        ["look", 1280, "dark", str(out / "dark.png")],
        ["look", 360, "dark", str(out / "dark-360.png")],
    ])
    print(json.dumps(found, indent=1))
    assert 0
