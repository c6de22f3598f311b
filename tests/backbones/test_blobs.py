"""`blobs`: the even patches of drawn images, and what is said of them."""

from functools import cache
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from naic.backbones.blobs import LEAST, REGIONS, SIDE, VERSION, Blobs, _largest
from naic.backbones.load import load_backbone
from naic.data.shapes.dataset import PAINT, PAPER, draw
from naic.data.shapes.scenes import Scene, SceneObject, make_scene
from naic.errors import BackboneError, ConfigError
from naic.tasks.options import PrepareOptions
from naic.tasks.prepare import prepare

MANY = 300
DIM = 121
SPAN, ALIKE, STEPS, MASK = slice(10, 14), 14, slice(15, 57), slice(57, 121)  # of the features
Patch = tuple[int, int, int, int]  # left, top, right, bottom


def images(count: int, pixels: int = 256) -> tuple[list[Scene], Tensor]:
    """Scenes and their images (count, pixels, pixels, 3)."""
    scenes = [make_scene(3, index) for index in range(count)]
    drawn = np.stack([np.asarray(draw(scene, pixels)) for scene in scenes])
    return scenes, torch.from_numpy(drawn)


@cache
def many() -> tuple[list[Scene], Tensor, Tensor]:
    """Many scenes, their images and features, in batches as `naic prepare` makes them."""
    scenes, drawn = images(MANY)
    blobs = Blobs()
    return scenes, drawn, torch.cat([blobs(part) for part in torch.split(drawn, 16)])


def painted(*patches: tuple[Patch, tuple[int, int, int]], pixels: int = SIDE) -> Tensor:
    """A grey image with rectangles, (1, pixels, pixels, 3)."""
    image = torch.full((1, pixels, pixels, 3), 102, dtype=torch.uint8)
    for (left, top, right, bottom), colour in patches:
        image[0, top:bottom, left:right] = torch.tensor(colour, dtype=torch.uint8)
    return image


def colours(features: Tensor) -> Tensor:
    return (features[..., 1:4] / 6 + 0.5) * 255


def places(features: Tensor) -> Tensor:
    """Centres in canvas units, (R, 2)."""
    return (features[..., 4:6] / 6 + 0.5) * 256


def find(thing: SceneObject, features: Tensor) -> Tensor:
    """The one patch (F,) with the object's colour at its place."""
    near = (places(features) - torch.tensor([thing.x, thing.y])).abs().amax(1) <= 8
    alike = (colours(features) - torch.tensor(PAINT[thing.colour])).abs().amax(1) <= 10
    found = (near & alike & (features[:, 0] == 1)).nonzero().flatten().tolist()
    assert len(found) == 1, f"{thing} is there {len(found)} times"
    return features[found[0]]


def test_the_features_of_an_image_made_by_hand() -> None:
    red, blue = (255, 0, 0), (0, 51, 204)
    found = Blobs()(painted(((32, 16, 64, 32), red), ((96, 64, 112, 80), blue)))
    assert found.shape == (1, REGIONS, DIM)
    assert found.dtype == torch.float32
    ground, first, second = found[0, :3]
    size, wide, small = SIDE**2, 32 * 16, 16 * 16
    rest = size - wide - small
    # present, colour, centre, extent, share of the image, share of the box
    assert ground[:10].tolist() == pytest.approx(
        [1, *[-0.6] * 3, 0, 0, 6, 6, 6 * rest / size, 6 * rest / size]
    )
    assert first[:10].tolist() == pytest.approx(
        [1, 3, -3, -3, 6 * -16 / SIDE, 6 * -40 / SIDE, 1.5, 0.75, 6 * wide / size, 6]
    )
    assert second[1:4].tolist() == pytest.approx([-3, -1.8, 1.8])
    # From the ground's centre they lie 16 left and 40 right, 40 above and 8 below; 32 is the most.
    assert ground[SPAN].tolist() == pytest.approx([6 * 2 * p / SIDE for p in (-16, 32, -32, 8)])
    assert first[SPAN].tolist() == [3, 3, 3, 3]
    assert second[SPAN].tolist() == [-3, -3, -3, -3]
    assert (found[0, 1:3, MASK] == 1).all()  # rectangles fill their boxes
    cells = ground[MASK].reshape(8, 8)  # of 16x16 pixels
    assert (1 - cells).nonzero().tolist() == [[1, 2], [1, 3], [4, 6]]
    assert not found[0, 3:].any()


def test_steps_say_how_near_a_number_is_to_its_marks() -> None:
    # The marks are 0, 51, 102, 153, 204 and 255 for a colour: all three are at one of them.
    found = Blobs()(painted(((96, 64, 112, 80), (0, 51, 204))))[0, 1]
    red, green, blue, x, y, width, height = found[STEPS].reshape(7, 6)
    assert red.tolist() == pytest.approx([3, 0, 0, 0, 0, 0], abs=1e-5)
    assert green.tolist() == pytest.approx([0, 3, 0, 0, 0, 0], abs=1e-5)
    assert blue.tolist() == pytest.approx([0, 0, 0, 0, 3, 0], abs=1e-5)
    assert x.tolist() == pytest.approx([0, 0, 0, 0, 3 * 0.9375, 3 * 0.0625], abs=1e-5)  # 104 of 128
    assert y.tolist() == pytest.approx([0, 0, 3 * 0.1875, 3 * 0.8125, 0, 0], abs=1e-5)  # 72 of 128
    # 16 of the 64 pixels that are the most: 1.25 steps of a fifth
    assert width.tolist() == height.tolist() == pytest.approx([0, 2.25, 0.75, 0, 0, 0], abs=1e-5)


def test_a_patch_inside_another_is_a_hole_in_it() -> None:
    ring = Blobs()(painted(((16, 16, 80, 80), (200, 0, 0)), ((40, 40, 56, 56), (0, 200, 0))))[0]
    assert ring[:, 0].tolist() == [1, 1, 1, 0, 0, 0]
    outer = ring[1, MASK].reshape(8, 8)
    assert (1 - outer).nonzero().tolist() == [[3, 3], [3, 4], [4, 3], [4, 4]]
    assert ring[1, 4:6].tolist() == ring[2, 4:6].tolist()  # both stand at the same place
    assert ring[1, SPAN].tolist() == [0, 0, 0, 0]


def test_patches_of_one_colour_are_counted() -> None:
    boxes: list[Patch] = [(8, 8, 40, 40), (60, 8, 90, 40), (8, 60, 38, 88), (60, 60, 86, 86)]
    red, reddish, blue = (200, 30, 30), (214, 44, 20), (30, 30, 200)  # reddish: another tint of it
    for paint, counts in (
        ((red, reddish, blue, red), [0, 6, 6, 0, 6, 0]),
        ((red, blue, blue, (30, 200, 30)), [0, 0, 3, 3, 0, 0]),
        ((blue, blue, blue, blue), [0, 6, 6, 6, 6, 0]),  # more than two are as two
    ):
        found = Blobs()(painted(*zip(boxes, paint, strict=True)))[0]
        assert found[:, ALIKE].tolist() == counts


def test_every_object_of_a_scene_is_one_patch() -> None:
    scenes, _, features = many()
    kinds = set()
    for scene, found in zip(scenes, features, strict=True):
        present = [1.0] * (1 + len(scene.objects))
        assert found[:, 0].tolist() == present + [0.0] * (REGIONS - len(present))
        assert (colours(found[0]) - PAPER[scene.background]).abs().max() <= 12
        for thing in scene.objects:
            extent = find(thing, found)[6:8] * 256 / 6
            small = bool(extent.max() < 64)
            assert small == (thing.size == "small")
            kinds.add(thing.look)
    assert len(kinds) > 90  # nearly all of 2 sizes, 7 colours and 7 shapes: the test saw enough


def test_shapes_look_alike_only_if_they_are() -> None:
    scenes, _, features = many()
    things = [
        (o, find(o, found)) for s, found in zip(scenes, features, strict=True) for o in s.objects
    ]
    boxes = torch.stack([seen[6:8] for _, seen in things])
    boxes = boxes / boxes.amax(1, keepdim=True)  # the form of the box, not its size
    masks = torch.stack([seen[MASK] for _, seen in things])
    looks = torch.cat((boxes, masks), dim=1)
    nearest = torch.cdist(looks, looks).fill_diagonal_(torch.inf).argmin(1).tolist()
    # The outer one of a nest is left out: there may be no other with such a hole.
    whole = (masks.reshape(-1, 8, 8)[:, 3:5, 3:5].amin((1, 2)) > 0.8).tolist()
    alike = [things[i][0].shape == things[j][0].shape for i, j in enumerate(nearest) if whole[i]]
    assert len(alike) > 500
    assert all(alike)


@pytest.mark.parametrize("pixels", [64, 100, 128, 300, 512])
def test_other_sizes_of_image(pixels: int) -> None:
    scenes, drawn = images(24, pixels)
    for scene, found in zip(scenes, Blobs()(drawn), strict=True):
        assert found[:, 0].sum() == 1 + len(scene.objects)
        for thing in scene.objects:
            find(thing, found)


def test_an_image_does_not_depend_on_its_batch() -> None:
    _, drawn, features = many()
    blobs = Blobs()
    assert torch.equal(blobs(drawn[:50]), features[:50])
    assert torch.equal(torch.cat([blobs(one[None]) for one in drawn[:20]]), features[:20])
    assert torch.equal(blobs(drawn[:20].flip(0)).flip(0), features[:20])


def test_numbers_fit_float16() -> None:
    _, _, features = many()
    assert features.abs().max() <= 6
    assert (features.half().float() - features).abs().max() < 0.002


def test_images_without_patches_and_without_an_end() -> None:
    noise = torch.randint(0, 2, (1, 256, 256, 1), generator=torch.Generator().manual_seed(1))
    noise = noise.repeat_interleave(2, 1).repeat_interleave(2, 2)[:, :256, :256] * 255
    found = Blobs()(torch.cat((noise.expand(-1, -1, -1, 3).byte(), painted(pixels=256))))
    assert not found[0].any()
    assert found[1, 0, :15].tolist() == pytest.approx([1, *[-0.6] * 3, 0, 0, 6, 6, 6, 6, *[0] * 5])
    assert (found[1, 0, MASK] == 1).all()
    assert not found[1, 1:].any()


def test_the_largest_are_taken_and_specks_are_not() -> None:
    boxes: list[Patch] = [(8 + 20 * i, 8, 12 + 20 * i + 2 * i, 28) for i in range(6)]
    speck: Patch = (60, 60, 64, 64)  # its core is 2x2
    found = Blobs()(painted(*((box, (255, 255, 255)) for box in (*boxes, speck))))[0]
    assert (found[1:, 6] * SIDE / 6).tolist() == [14, 12, 10, 8, 6]
    assert Blobs()(painted((speck, (0, 0, 0))))[0, :, 0].sum() == 1


def flood(even: list[list[bool]]) -> list[set[tuple[int, int]]]:
    """Connected patches by walking from pixel to pixel, the largest first."""
    left = {(y, x) for y, row in enumerate(even) for x, on in enumerate(row) if on}
    patches = []
    while left:
        patch, edge = set(), {min(left)}
        while edge:
            patch |= edge
            left -= edge
            edge = {
                spot
                for y, x in edge
                for spot in ((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1))
                if spot in left
            }
        patches.append(patch)
    return sorted((p for p in patches if len(p) >= LEAST), key=lambda p: (-len(p), min(p)))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 2**40 - 1), min_size=40, max_size=40), st.integers(0, 88))
def test_patches_are_those_of_a_walk(rows: list[int], at: int) -> None:
    """Random masks have long winding patches: the joining of runs must follow every turn."""
    even = torch.zeros(2, SIDE, SIDE, dtype=torch.bool)
    even[0, at : at + 40, at : at + 40] = torch.tensor(
        [[r >> i & 1 for i in range(40)] for r in rows]
    )
    even[1] = even[0].T | even[0]
    for mask, found in zip(even, _largest(even), strict=True):
        expected = flood(mask.tolist())[:REGIONS]
        seen = [{(int(y), int(x)) for y, x in patch.nonzero()} for patch in found]
        assert seen == expected + [set()] * (REGIONS - len(expected))


def test_it_is_loaded_by_name() -> None:
    blobs = load_backbone("blobs", device="cpu")
    assert (blobs.name, blobs.pixels, blobs.regions, blobs.dim) == ("blobs", 256, REGIONS, DIM)
    assert blobs.digest == sha256(VERSION.encode()).hexdigest()
    with pytest.raises(ConfigError, match="blobs has no weights"):
        load_backbone("blobs", weights=Path("some.safetensors"))
    with pytest.raises(BackboneError, match=r"unknown backbone.*blobs"):
        load_backbone("blobs+colours")


def test_a_store_of_them(tmp_path: Path) -> None:
    options = PrepareOptions(
        reader="shapes", source="24", out=tmp_path / "a", backbone="blobs", device="cpu", seed=3
    )
    store = prepare(options).store
    _, _, features = many()
    for row in range(24):
        assert np.array_equal(store[row], features[row].half().numpy())
