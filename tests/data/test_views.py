"""Further views of images: which part a cropped one shows, and how it travels."""

from io import BytesIO

import numpy as np
import torch
from PIL import Image

from naic.backbones.patches import cropped
from naic.data.decode_worker import pack, unpack
from naic.data.views import CROP, crop_box
from naic.images.converting import square_pixels
from naic.images.sources import BytesImage, Cropped


def test_a_part_is_drawn_by_the_id_alone() -> None:
    boxes = np.array([crop_box(str(number)) for number in range(400)])  # (400, 4)
    assert crop_box("7") == tuple(boxes[7])
    assert boxes.min() >= 0
    assert boxes.max() <= 1
    sides = boxes[:, 2:] - boxes[:, :2]
    assert sides.min() >= CROP - 1e-9
    assert abs(sides.mean() - (1 + CROP) / 2) < 0.01
    room = boxes[:, :2] / (1 - sides)
    assert abs(room.mean() - 0.5) < 0.05
    assert abs(np.corrcoef(sides[:, 0], sides[:, 1])[0, 1]) < 0.15


def test_a_part_is_the_same_from_a_file_in_another_process_and_on_the_device() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    file = BytesIO()
    Image.fromarray(noise).save(file, "png")
    box = (0.1, 0.0, 1.0, 0.875)
    part = Cropped(BytesImage(file.getvalue(), "a.png"), box)
    assert part.name == "a.png (cropped)"
    own = square_pixels(part.load(at_least=64), 64)
    task = pack(part, 64)
    assert task is not None
    there, _ = unpack(task[8:])
    assert np.array_equal(square_pixels(there.load(at_least=64), 64), own)
    assert there.name == part.name
    fast = cropped(torch.from_numpy(noise)[None], torch.tensor([box]))[0].numpy()  # (64, 64, 3)
    assert np.abs(fast.astype(int) - own).max() <= 1
    assert np.abs(fast.astype(int) - noise).max() > 50
