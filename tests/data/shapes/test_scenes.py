import json
import subprocess
import sys
from itertools import combinations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from naic.data.shapes import dataset, phrasing, scenes, truth
from naic.data.shapes.scenes import (
    CANVAS,
    EDGE,
    RADII,
    Scene,
    SceneObject,
    facts,
    make_scene,
    relation,
)
from naic.errors import ConfigError

seeds = st.integers(0, 2**40)
indices = st.integers(0, 10**9)


def test_a_scene_is_pinned_so_that_a_seed_means_the_same_everywhere() -> None:
    assert make_scene(7, 0) == Scene(
        seed=7,
        index=0,
        background="grey",
        objects=(
            SceneObject("square", "red", "large", x=150, y=112, radius=54),
            SceneObject("triangle", "green", "small", x=153, y=112, radius=21),
        ),
    )
    assert facts(make_scene(7, 11)) == {
        "background": "white",
        "objects": [
            {"shape": "star", "colour": "green", "size": "large"},
            {"shape": "star", "colour": "green", "size": "large"},
            {"shape": "heart", "colour": "orange", "size": "large"},
        ],
        "relations": [[0, "above", 1], [2, "left of", 0], [2, "left of", 1]],
    }


@settings(deadline=None)  # a busy machine is no failure
@given(seeds, indices)
@example(314699, 314699)
def test_shapes_stay_on_the_canvas_in_the_radius_of_their_size(seed: int, index: int) -> None:
    scene = make_scene(seed, index)
    assert scene == make_scene(seed, index)
    assert 1 <= len(scene.objects) <= 3
    for thing in scene.objects:
        assert RADII[thing.size][0] <= thing.radius <= RADII[thing.size][1]
        assert min(thing.x, thing.y) - thing.radius >= EDGE
        assert max(thing.x, thing.y) + thing.radius <= CANVAS - EDGE


@settings(deadline=None)  # a busy machine is no failure
@given(seeds, indices)
def test_shapes_that_look_different_stand_in_a_clear_relation(seed: int, index: int) -> None:
    for a, b in combinations(make_scene(seed, index).objects, 2):
        if a.look != b.look:
            assert relation(a, b) is not None
        if relation(a, b) not in ("inside", "around"):
            assert max(abs(a.x - b.x), abs(a.y - b.y)) > a.radius + b.radius


@settings(deadline=None)  # a busy machine is no failure
@given(seeds, indices)
def test_facts_survive_json(seed: int, index: int) -> None:
    told = facts(make_scene(seed, index))
    assert json.loads(json.dumps(told)) == told


def at(x: int, y: int, radius: int = 20) -> SceneObject:
    return SceneObject("circle", "red", "small", x, y, radius)


@pytest.mark.parametrize(
    ("a", "b", "name"),
    [
        (at(50, 100), at(150, 100), "left of"),
        (at(150, 100), at(50, 130), "right of"),
        (at(100, 50), at(100, 150), "above"),
        (at(130, 150), at(100, 50), "below"),
        (at(100, 100), at(105, 100, 56), "inside"),
        (at(105, 100, 56), at(100, 100), "around"),
        (at(50, 50), at(150, 150), None),  # on the diagonal
        (at(50, 50), at(104, 50), "left of"),
        (at(50, 50), at(103, 50), None),  # too close to be sure
        (at(100, 50), at(160, 150), "above"),
        (at(100, 50), at(161, 150), None),  # too far to the side
        (at(100, 100), at(130, 100, 56), None),  # across the border
    ],
)
def test_relation(a: SceneObject, b: SceneObject, name: str | None) -> None:
    assert relation(a, b) == name


def test_scenes_are_varied() -> None:
    scenes = [make_scene(0, index) for index in range(2000)]
    assert len({(scene.background, scene.objects) for scene in scenes}) == 2000
    things = [thing for scene in scenes for thing in scene.objects]
    columns: list[tuple[list[object], float]] = [
        ([thing.shape for thing in things], 0.10),
        ([thing.colour for thing in things], 0.12),
        ([thing.size for thing in things], 0.35),
        ([scene.background for scene in scenes], 0.30),
        ([len(scene.objects) for scene in scenes], 0.10),
    ]
    for values, least in columns:
        shares = {value: values.count(value) / len(values) for value in set(values)}
        assert min(shares.values()) > least, shares


@pytest.mark.parametrize(("seed", "index"), [(-1, 0), (0, -1)])
def test_negative_numbers_are_refused(seed: int, index: int) -> None:
    with pytest.raises(ConfigError, match=f"scene \\(seed {seed}, index {index}\\)"):
        make_scene(seed, index)


def test_the_public_surface() -> None:
    names = {
        dataset: ("SceneImage", "contact_sheet", "draw", "records", "write"),
        phrasing: ("captions",),
        scenes: ("Scene", "SceneObject", "facts", "make_scene"),
        truth: ("Verdict", "check"),
    }
    assert all(hasattr(module, name) for module, own in names.items() for name in own)


def test_shapes_do_not_need_torch() -> None:
    modules = "naic.data.shapes.dataset, naic.data.shapes.truth"
    code = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
