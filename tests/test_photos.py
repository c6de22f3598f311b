"""The photographs from elsewhere: the list, the rule that chooses, bringing them, captioning."""

import hashlib
import json
import re
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import skimage.data
from benchmarks import photos
from benchmarks.photo_copies import copied, nearest
from benchmarks.photos import ALBUM, Album, Photo, Source, choose, fetch, read_album
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from naic.config import to_toml
from naic.errors import DataError
from naic.images.formats import IMAGE_SUFFIXES
from tests.runtime.small import make_model

LISTED = read_album(ALBUM)
# What the rule gives. If this changes after a caption has been seen, the count means nothing.
COUNTED = [
    "eileen-collins",
    "pagoda",
    "beach-city",
    "plane",
    "elephant",
    "bike-riders",
    "tabby",
    "baby-and-bear",
    "burger",
    "aquarium",
    "espresso",
    "bridge",
    "soccer",
    "burrito",
    "cow",
    "beagle",
    "jockey",
    "taxis",
    "bakery",
    "falcon",
    "columns",
    "surfing",
    "penguin",
    "terrace",
]


def test_the_rule_chooses_these_24() -> None:
    assert [photo.id for photo in choose(LISTED)] == COUNTED


def test_the_list_keeps_its_own_rule() -> None:
    order = [source.name for source in LISTED.sources]
    assert order[:2] == ["scikit-image", "scikit-learn"]
    assert order[2:] == sorted(order[2:])
    places = [(order.index(photo.source), photo.file) for photo in LISTED.photos]
    assert places == sorted(set(places))
    for photo in LISTED.photos:
        assert re.fullmatch(r"[a-z0-9-]+", photo.id)
        assert photo.licence in {"CC0-1.0", "public domain", "CC-BY-2.0"}
        assert not (photo.licence.startswith("CC-BY") and photo.author.startswith("not named"))
        assert photo.words
    assert len({photo.id for photo in LISTED.photos}) == len(LISTED.photos)
    assert len({photo.sha256 for photo in LISTED.photos}) == len(LISTED.photos)


def test_of_scikit_image_every_image_is_taken_or_left_out() -> None:
    folder = Path(skimage.data.__file__).parent
    there = {path.name for path in folder.iterdir() if path.suffix in IMAGE_SUFFIXES}
    taken = [photo for photo in LISTED.photos if photo.source == "scikit-image"]
    left = [file for one in LISTED.left_out if one.source == "scikit-image" for file in one.files]
    assert sorted([photo.file for photo in taken] + left) == sorted(there)
    for photo in taken:
        content = (folder / photo.file).read_bytes()
        assert hashlib.sha256(content).hexdigest() == photo.sha256


def make_album(things: list[list[str]]) -> Album:
    """An album of sources named a, b, ..., each with photographs of these things."""
    names = [chr(ord("a") + number) for number in range(len(things))]
    sources = tuple(Source(name, f"some/{name}", "c0ffee", "in here", "") for name in names)
    made = [
        Photo(f"{name}{place}", name, f"{place}.png", "", "me", "CC0-1.0", thing, "", ("it",))
        for name, own in zip(names, things, strict=True)
        for place, thing in enumerate(own)
    ]
    return Album(sources, tuple(made))


def test_sources_take_turns_and_pass_over_what_has_been_had() -> None:
    album = make_album([["cat", "dog", "bus"], ["cat", "tree", "cow"], [], ["sea"]])
    assert [photo.id for photo in choose(album)] == ["a0", "b1", "d0", "a1", "b2", "a2"]
    assert [photo.id for photo in choose(album, 4)] == ["a0", "b1", "d0", "a1"]


@given(
    st.lists(st.lists(st.sampled_from("vwxyz"), max_size=6), max_size=5),
    st.integers(0, 6),
)
def test_no_thing_comes_twice_and_none_is_missing(things: list[list[str]], count: int) -> None:
    album = make_album(things)
    chosen = choose(album, count)
    shown = [photo.thing for photo in chosen]
    assert len(set(shown)) == len(shown) == min(count, len({t for own in things for t in own}))
    for source in album.sources:
        files = [photo.file for photo in chosen if photo.source == source.name]
        assert files == sorted(files)


def image(path: Path, colour: str) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (32, 24), colour).save(path)
    return path.read_bytes()


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Album:
    """Two photographs: one in a wheel that pip has brought, one in a repository on this disk."""
    album = make_album([["cat"], ["dog"]])
    red = image(tmp_path / "web/some/a/c0ffee/in here/0.png", "red")
    blue = image(tmp_path / "blue.png", "blue")
    monkeypatch.setattr(photos, "RAW", (tmp_path / "web").as_uri())
    (tmp_path / "cache/packages").mkdir(parents=True)
    with zipfile.ZipFile(tmp_path / "cache/packages/pic_ture-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("pic/data/0.png", blue)
    wheeled = replace(album.sources[1], package="pic-ture==1.0", packaged="pic/data")
    digests = [hashlib.sha256(content).hexdigest() for content in (red, blue)]
    seen = [replace(p, sha256=d) for p, d in zip(album.photos, digests, strict=True)]
    return Album((album.sources[0], wheeled), tuple(seen))


def test_images_come_from_the_repository_and_from_the_wheel(small: Album, tmp_path: Path) -> None:
    found = fetch(small, tmp_path / "cache")
    assert found == {name: tmp_path / f"cache/images/{name}.png" for name in ("a0", "b0")}
    for photo in small.photos:
        assert hashlib.sha256(found[photo.id].read_bytes()).hexdigest() == photo.sha256


def test_an_image_that_is_there_is_not_brought_again(
    small: Album, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = fetch(small, tmp_path / "cache")
    found["b0"].write_bytes(b"damaged")
    monkeypatch.setattr(photos, "RAW", (tmp_path / "nowhere").as_uri())
    fetch(small, tmp_path / "cache")  # a0 needs nothing, b0 is mended from the wheel
    assert hashlib.sha256(found["b0"].read_bytes()).hexdigest() == small.photos[1].sha256
    found["a0"].unlink()
    with pytest.raises(DataError, match=r"a0: the image cannot be had.*some/a"):
        fetch(small, tmp_path / "cache")


def test_another_image_is_refused(small: Album, tmp_path: Path) -> None:
    image(tmp_path / "web/some/a/c0ffee/in here/0.png", "green")
    with pytest.raises(DataError, match="a0: what a has there is another image"):
        fetch(small, tmp_path / "cache")
    assert not (tmp_path / "cache/images/a0.png").exists()


def test_all_are_captioned(small: Album, tmp_path: Path) -> None:
    model = make_model(tmp_path / "model", "causal", backbone="efficientnet-lite0", says="cat")
    (tmp_path / "album.toml").write_text(album_toml(small), encoding="utf-8")
    words = ["--album", "album.toml", "--cache", "cache", "--model", "model", "--out", "out.json"]
    words = [str(tmp_path / word) if "--" not in word else word for word in words]
    photos.main(words)
    made = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    weights = (model / "model.safetensors").read_bytes()
    assert made["model_sha256"] == hashlib.sha256(weights).hexdigest()
    assert str(tmp_path) not in json.dumps(made)
    assert [photo["id"] for photo in made["photos"]] == ["a0", "b0"]
    for photo in made["photos"]:
        assert set(photo["caption"].split()) == {"cat"}
        assert [word["word"] for word in photo["words"]] == photo["caption"].split()


def test_a_caption_that_fails_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="naic caption: ended with exit code 1"):
        photos.caption([tmp_path / "none.png"], tmp_path)


def album_toml(album: Album) -> str:
    tables = [("sources", one) for one in album.sources] + [("photos", one) for one in album.photos]
    return "\n".join(f"[[{name}]]\n{to_toml(one)}" for name, one in tables)


def test_a_copy_is_known_although_it_was_squashed(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (12, 16, 3), dtype=np.uint8)
    scene = Image.fromarray(noise).resize((640, 480), Image.Resampling.BICUBIC)
    scene.save(tmp_path / "scene.png")
    scene.resize((256, 256)).save(tmp_path / "copy.jpg", quality=80)
    Image.fromarray(noise[::-1]).resize((256, 256)).save(tmp_path / "other.jpg")
    ours = {"scene": tmp_path / "scene.png"}
    assert nearest(ours, [tmp_path / "copy.jpg", tmp_path / "other.jpg"])["scene"] < 16
    assert nearest(ours, [tmp_path / "other.jpg"])["scene"] > 80
    assert copied(ours["scene"]) < 16
