"""benchmarks/caption_pixels.py: a split as `naic caption` captions it, from stored pixels."""

import json
from pathlib import Path

import numpy as np
import pytest
from benchmarks import caption_pixels
from PIL import Image

from naic.cli.main import main as naic
from naic.runtime.captioner import Captioner
from tests.runtime.small import PIXELS, make_model


def test_the_captions_are_those_of_the_images(tmp_path: Path) -> None:
    noise = np.random.default_rng(0)
    for number in range(20):
        pixels = noise.integers(0, 256, (PIXELS, PIXELS, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
    rows = [
        f"{number}.png,a cat,{'test' if number == 19 else 'val'}" for number in range(20)
    ]  # more than a batch
    (tmp_path / "table.csv").write_text("\n".join(["image,caption,split", *rows]))
    store, model = tmp_path / "store", make_model(tmp_path / "model", backbone="efficientnet-lite0")
    words = ["prepare", "table", str(tmp_path / "table.csv"), "--out", str(store)]
    assert naic([*words, "--backbone", "pixels", "--pixels", str(PIXELS)]) == 0
    out = tmp_path / "said.json"
    words = [str(model), "--pixels", str(store), "--split", "val", "--device", "cpu"]
    caption_pixels.main([*words, "--out", str(out)])
    said = json.loads(out.read_text())
    assert len(said) == 19
    paths = [tmp_path / f"{number}.png" for number in range(19)]
    assert [one["caption"] for one in said] == Captioner(model, device="cpu")(paths)
    with pytest.raises(SystemExit, match=r"caption_pixels: .*no image of it has captions"):
        caption_pixels.main([*words[:4], "train", "--out", str(out)])
