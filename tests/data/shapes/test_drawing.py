import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageChops

from naic.data.shapes.dataset import PAINT, PAPER, SceneImage, contact_sheet, draw
from naic.data.shapes.scenes import Scene, SceneObject, make_scene
from naic.errors import ConfigError


def nearest(pixel: tuple[int, int, int]) -> str:
    """The name of the paint or the paper that a pixel is closest to."""
    named = PAINT | {name: (grey, grey, grey) for name, grey in PAPER.items()}
    return min(
        named,
        key=lambda name: sum((a - b) ** 2 for a, b in zip(pixel, named[name], strict=True)),
    )


def rgb(image: Image.Image, x: int, y: int) -> tuple[int, int, int]:
    pixel = image.getpixel((x, y))
    assert isinstance(pixel, tuple)
    return (int(pixel[0]), int(pixel[1]), int(pixel[2]))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([256, 224, 512]))
def test_the_middle_of_a_shape_has_its_colour_and_the_edge_the_background(
    index: int, pixels: int
) -> None:
    scene = make_scene(5, index)
    picture = draw(scene, pixels)
    assert (picture.mode, picture.size) == ("RGB", (pixels, pixels))
    scale = pixels / 256
    for thing in scene.objects:
        covered = [o for o in scene.objects if o.radius < thing.radius]
        if not any(abs(o.x - thing.x) + abs(o.y - thing.y) < 40 for o in covered):
            at = rgb(picture, int(thing.x * scale), int(thing.y * scale))
            assert nearest(at) == thing.colour
    corners = [rgb(picture, x, y) for x in (0, pixels - 1) for y in (0, pixels - 1)]
    assert [nearest(corner) for corner in corners] == [scene.background] * 4


def paint_of(picture: Image.Image) -> Image.Image:
    """White where there is paint: unlike paper, paint is far from grey."""
    red, green, blue = picture.split()
    most = ImageChops.lighter(ImageChops.lighter(red, green), blue)
    least = ImageChops.darker(ImageChops.darker(red, green), blue)
    return ImageChops.subtract(most, least).point([0] * 40 + [255] * 216)


@pytest.mark.parametrize(
    ("shape", "area", "inside", "outside"),
    [
        ("circle", 3.14, (0.65, 0.65), (0.8, 0.8)),
        ("square", 2.96, (0.65, 0.65), (0, 0.98)),
        ("triangle", 1.73, (0.6, 0.6), (0.6, -0.4)),
        ("star", 1.23, (0, -0.6), (0, 0.75)),
        ("heart", 1.96, (0.5, -0.5), (0, -0.75)),
        ("cross", 1.99, (0, -0.85), (0.6, 0.6)),
        ("diamond", 1.32, (0, 0.7), (0.8, 0)),
    ],
)
def test_each_shape_has_its_form(
    shape: str, area: float, inside: tuple[float, float], outside: tuple[float, float]
) -> None:
    radius = 50
    thing = SceneObject(shape, "blue", "large", 128, 128, radius)
    for index in range(12):  # each index has another tilt
        paint = paint_of(draw(Scene(0, index, "white", (thing,))))
        covered = sum(paint.tobytes()) / 255 / radius**2
        assert covered == pytest.approx(area, rel=0.06)
        for spot, painted in ((inside, 255), (outside, 0)):
            at = (128 + round(spot[0] * radius), 128 + round(spot[1] * radius))
            assert paint.getpixel(at) == painted


@pytest.mark.parametrize("index", range(40))
def test_all_paint_is_where_the_shapes_are(index: int) -> None:
    scene = make_scene(6, index)
    box = paint_of(draw(scene)).getbbox()
    assert box is not None
    reach = [
        (o.x - o.radius, o.y - o.radius, o.x + o.radius, o.y + o.radius) for o in scene.objects
    ]
    wanted = [
        min(r[0] for r in reach),
        min(r[1] for r in reach),
        max(r[2] for r in reach),
        max(r[3] for r in reach),
    ]
    # Within the tilt outwards; inwards a diamond is two thirds as wide as it is high.
    widest = max(o.radius for o in scene.objects)
    for got, want, outwards in zip(box, wanted, (-1, -1, 1, 1), strict=True):
        assert -0.45 * widest <= outwards * (got - want) <= 0.16 * widest + 2


def test_a_picture_is_the_same_every_time_and_each_scene_has_its_own() -> None:
    pictures = [draw(make_scene(0, index)).tobytes() for index in range(30)]
    assert [draw(make_scene(0, index)).tobytes() for index in range(30)] == pictures
    assert len(set(pictures)) == 30
    assert SceneImage(0, 3).load(at_least=100).tobytes() == pictures[3]


def test_the_background_is_textured_but_even_enough() -> None:
    for index in range(20):
        scene = make_scene(8, index)
        strip = draw(scene).crop((0, 0, 256, 6)).convert("L")
        values = strip.tobytes()
        assert 5 <= max(values) - min(values) <= 45


def test_no_pixels_are_refused() -> None:
    with pytest.raises(ConfigError, match="0 pixels"):
        draw(make_scene(0, 0), 0)


def test_a_contact_sheet_shows_pictures_and_text() -> None:
    scenes = [make_scene(0, index) for index in range(5)]
    sheet = contact_sheet(scenes, columns=4)
    assert sheet.width == 4 * 276 + 20
    assert sheet.height > 2 * 256 + 60
    first = ImageChops.difference(
        sheet.crop((21, 21, 275, 275)), draw(scenes[0]).crop((1, 1, 255, 255))
    )
    assert first.getbbox() is None
    below = sheet.crop((20, 280, 276, 340)).convert("L").tobytes()
    assert min(below) < 60  # ink
    assert contact_sheet(scenes[:1]).width == 296
    with pytest.raises(ConfigError, match="a sheet of 0 scenes in 4 columns"):
        contact_sheet([])
