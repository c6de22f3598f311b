"""The agents of the model inside naic on a real photo, in a browser: the picture of the docs.

NAIC_SCREENS=docs keeps it.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import skimage
from PIL import Image

from naic.runtime.captioner import Captioner
from naic.serve.options import ServeOptions
from naic.serve.run import Running
from tests.chromium import drive, find_tools
from tests.train.test_card import make_store

pytestmark = pytest.mark.slow

PHOTO = Path(skimage.__file__).parent / "data" / "coffee.png"  # CC0
REFERENCES = """a cup of coffee on a red saucer with a spoon
an espresso in a white cup on a wooden table"""
# What stands for a training set, two for each image: they say how rare words are.
CAPTIONS = (
    "a cup of coffee and a plate of cookies",
    "a man sits at a table with a plate of food",
    "a white plate on a wooden table",
    "a red bus on a city street",
    "a dog on a couch with a red ball",
    "a spoon and a fork beside a bowl of soup",
    "two people on a bench in a park",
    "a glass of wine on a table",
    "a woman with a red umbrella in the rain",
    "a cat on top of a laptop",
    "a boat on a lake in front of mountains",
    "a child with a cup of milk",
)
SOON = 300.0


@contextmanager
def served(store: Path) -> Iterator[str]:
    """The address of a server of the model inside naic."""
    options = ServeOptions(port=0, runtime="eager", device="cpu", references=store)
    ready, told = threading.Event(), list[str]()

    def tell(text: str) -> None:
        told.append(text)
        ready.set()

    running = Running(options, tell, lambda own: Captioner(runtime=own.runtime, device="cpu"))
    thread = threading.Thread(target=running)
    thread.start()
    try:
        assert ready.wait(SOON)
        yield told[0].split()[0] + "/"
    finally:
        running.stop()
        thread.join(SOON)


def test_the_agents_of_a_photo(tmp_path: Path) -> None:
    tools = find_tools()
    pairs = zip(CAPTIONS[::2], CAPTIONS[1::2], strict=True)
    make_store(tmp_path / "captions-train", [("train", pair) for pair in pairs])
    picture = Path(os.environ.get("NAIC_SCREENS", tmp_path)).absolute() / "serve-page.png"
    dark = tmp_path / "dark.png"
    steps: list[list[Any]] = [
        ["screen", None, 1280, "light", 1030],
        ["files", "#choose", [str(PHOTO)]],
        ["until", "document.querySelector('#photos .done')"],
        ["click", "nav a[href='#agents']"],
        ["until", "document.querySelector('.lattice li')"],
        ["texts", ".spoken .caption"],
        ["fill", "#references", REFERENCES],
        ["until", "document.querySelector('.worth:not([hidden])')"],
        ["click", ".lattice li:nth-child(8) .word:has-text('table')"],
        ["until", "document.querySelector('.reward').textContent.includes('red table')"],
        ["texts", ".spoken .caption"],
        ["hover", ".lattice li:nth-child(2) .word"],
        ["texts", ".told"],
        ["until", "document.getAnimations().length === 0"],
        ["texts", ".lattice > li:not(.silent) .value"],
        ["screen", str(picture), 1280, "light", 1030],
        ["screen", str(dark), 1280, "dark", 1030],
    ]
    with served(tmp_path / "captions-train") as url:
        found = drive(tools, visits=[{"url": url, "steps": steps}], patience=1000 * SOON)
    [given] = found["steps"]
    said, changed, told, values = (value for value in given if isinstance(value, list))
    assert said == ["a cup of coffee on a red plate"]
    assert changed == ["a cup of coffee on a red table"]
    assert told[0].startswith("Agent 2, “cup”, looked mostly at the top")
    assert len(values) == len(said[0].split()) + 1
    assert any(value.startswith(("+", "−")) for value in values)
    with Image.open(picture) as shown, Image.open(dark) as other:
        assert shown.size == other.size == (1280, 1030)
        few = shown.convert("RGB").quantize(256)  # a third of the bytes, and looks the same
    few.save(picture, optimize=True)
    assert picture.stat().st_size < 300_000
    assert found["console"] == []
