"""benchmarks/backbones: stores made while tars arrive, or from pixels, against `naic prepare`."""

import importlib
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from naic.cli.main import main as naic
from naic.data.features import FeatureStore
from naic.data.joined import JoinedStore, SeenImages, check_unseen, read_seen
from tests.backbones.tiny import use_tiny
from tests.runtime.small import make_model

PAIR = "clip-vit-b16+dinov2-vits14"
SPLITS = ("train", "val", "restval", "train", "train", "val", "restval")
SEEN = ("train", "restval")
COCO_ID = 40


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """extract.py and from_pixels.py, with batches of 2 images and shards of 8."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks" / "backbones")
    loaded = [importlib.import_module(name) for name in ("stores", "extract", "from_pixels")]
    for module in loaded:
        monkeypatch.setattr(module, "BATCH", 2)
    use_tiny(monkeypatch)
    return loaded[1], loaded[2]


@pytest.fixture
def coco(tmp_path: Path) -> Path:
    """A folder with a dataset, two tars of its images, and a model that has a backbone inside."""
    noise = np.random.default_rng(0)
    images = []
    for number, split in enumerate(SPLITS, COCO_ID):
        dots = Image.fromarray(noise.integers(0, 256, (9, 9, 3), dtype=np.uint8))
        dots.resize((256, 256), Image.Resampling.BICUBIC).save(tmp_path / f"{number:012d}.jpg")
        sentences = [{"raw": f"a photo of {number}"}]
        name = f"{number:012d}.jpg"
        images.append({"cocoid": number, "filename": name, "split": split, "sentences": sentences})
    (tmp_path / "dataset.json").write_text(json.dumps({"images": images, "dataset": "coco"}))
    for tar, chosen in enumerate((images[:4], images[4:])):
        with tarfile.open(tmp_path / f"{tar:02d}.tar", "w") as archive:
            for image in chosen:
                archive.add(tmp_path / str(image["filename"]), str(image["filename"]))
    return tmp_path


def test_views_are_those_that_prepare_makes(scripts: tuple[Any, Any], coco: Path) -> None:
    """In its order and of its features, while rows of three views fill shards side by side."""
    extract, from_pixels = scripts
    model = make_model(coco / "model", backbone=PAIR)
    views = ["--weights", str(model), "--mirror", *SEEN, "--crop", *SEEN]
    words = [str(coco / "dataset.json"), str(coco), "--tars", "2"]
    extract.main([*words, "--out", str(coco / "fast"), *views])
    source = ["prepare", "karpathy", words[0], "--images", words[1], "--pixels", "256"]
    made = ["--backbone", PAIR, *views, "--device", "cpu"]
    assert naic([*source, *made, "--out", str(coco / "plain")]) == 0
    assert naic([*source, "--backbone", "pixels", "--out", str(coco / "pixels")]) == 0
    from_pixels.main([str(coco / "pixels"), *views, "--out", str(coco / "again")])
    plain = FeatureStore(coco / "plain")
    assert len(plain) == 7 + 5 + 5
    assert plain.first_views == [True] * 7 + [False] * 10
    near = {"cpu": 0.01, "cuda": 0.05}  # on a GPU in half precision
    for name in ("fast", "again"):
        store = FeatureStore(coco / name)
        assert len(store.index["shards"]) == 3
        for key in ("backbone", "weights", "mirrored", "cropped", "tuned"):
            assert store.index[key] == plain.index[key], key
        for own, other in zip(store.records, plain.records, strict=True):
            assert (own.id, own.split, own.captions) == (other.id, other.split, other.captions)
        assert store.first_views == plain.first_views
        for row in range(len(plain)):
            gap = store[row].astype(np.float32) - plain[row].astype(np.float32)
            assert np.abs(gap).max() < near[store.index["device"]], (name, row)
    others = [plain[row].astype(np.float32) for row in (0, 7, 12)]  # three views of one image
    assert all(np.abs(others[a] - others[b]).max() > 1 for a, b in ((0, 1), (0, 2), (1, 2)))


def test_unlabelled_photos_from_a_list(scripts: tuple[Any, Any], coco: Path) -> None:
    """The list of the splits that the backbone has learnt from lets them in, and COCO's not."""
    extract, _ = scripts
    model = make_model(coco / "model", backbone=PAIR)
    (coco / "photos.txt").write_text("a_1.jpg\nb_2.jpg\n")
    with tarfile.open(coco / "flickr-00.tar", "w") as archive:
        for name in ("b_2.jpg", "a_1.jpg"):
            archive.add(coco / f"{COCO_ID:012d}.jpg", name)
    words = [str(coco), "--weights", str(model), "--tars", "1", "--mirror", "train"]
    photos = [str(coco / "photos.txt"), *words, "--prefix", "flickr-"]
    extract.main([*photos, "--out", str(coco / "photos")])
    store = FeatureStore(coco / "photos")
    assert [record.id for record in store.records] == ["a_1", "b_2", "a_1-mirrored", "b_2-mirrored"]
    assert {record.captions for record in store.records} == {()}
    assert store.index["unlabelled"] is True
    dataset = [str(coco / "dataset.json"), *words, "--limit", "1", "--splits", "train"]
    extract.main([*dataset, "--out", str(coco / "labelled"), "--seen", "train"])
    labelled = FeatureStore(coco / "labelled")
    assert read_seen(labelled.folder) == SeenImages(frozenset({str(COCO_ID)}))
    assert len(JoinedStore([labelled, store])) == 2 + 4
    check_unseen(store, (labelled,), tuned=True)
    with pytest.raises(Exception, match="has learnt from the captions of 1 of its images"):
        check_unseen(labelled, (), tuned=True)
    (model / "backbone_images.json").write_bytes(SeenImages(frozenset({"7"})).as_json())
    extract.main([*photos, "--out", str(coco / "more")])
    assert read_seen(coco / "more") == SeenImages(frozenset({"7"}))
