"""Packing a captioner with vision transformers inside, from the teacher to what is shipped."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from naic.backbones.inside import backbone_digest, backbone_tensors
from naic.backbones.load import load_backbone
from naic.backbones.patches import PATCH, Patches
from naic.backbones.vit import VITS, vit_dim
from naic.data.features import FeatureStore
from naic.data.joined import SEEN, SeenImages, read_seen
from naic.data.records import Record
from naic.data.storewriter import ShardRows, StoreWriter
from naic.errors import ConfigError
from naic.models.captioners import CAPTIONERS
from naic.models.config import TransformerConfig
from naic.models.folder import ModelSettings, load_model, read_weights, write_model
from naic.tasks.options import PackOptions, PrepareOptions
from naic.tasks.pack import pack_model, training_images
from naic.tasks.prepare import prepare
from tests.backbones.test_vit import TINY, noise
from tests.data.stores import NoImage
from tests.tasks.packs import CARD, NETWORK, VOCABULARY, make_model

PAIR = "clip-vit-b16+dinov2-vits14"
SIZE = 64


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, shape in TINY.items():
        monkeypatch.setitem(VITS, name, shape)


def make_captioner(folder: Path, *, inside: bool, digest: str = "", seed: int = 0) -> Path:
    """A captioner with the pair inside, or one that learnt from its features."""
    config = TransformerConfig(
        width=32, heads=2, encoder_layers=1, decoder_layers=1, hidden=64, backbone=PAIR * inside
    )
    features, source = (PATCH, "pixels") if inside else (vit_dim(PAIR), PAIR)
    torch.manual_seed(seed)
    model = CAPTIONERS["parallel"].build(config, features, len(VOCABULARY))
    settings = ModelSettings("parallel", features, len(VOCABULARY), source, config, SIZE, digest)
    more = {SEEN: SeenImages(frozenset({"7"})).as_json()} if inside else {}
    write_model(folder, model.state_dict(), settings, VOCABULARY, CARD, more)
    return folder


def make_pixels(folder: Path, splits: tuple[str, ...]) -> Path:
    """A store of pixels with an image for each split that is named."""
    count = len(splits)
    cells = Patches()(noise(count, SIZE, SIZE, 3)).numpy()
    records = [Record(str(i), NoImage(), ("a circle",), split) for i, split in enumerate(splits)]
    settings = {"backbone": "pixels", "weights": "p", "dtype": "uint8", "pixels": SIZE}
    folder.mkdir()
    writer = StoreWriter(folder, records, {**settings, "regions": 4, "dim": PATCH}, count)
    writer.write(0, ShardRows(list(range(count)), [4] * count, cells.reshape(-1, PATCH)), [])
    writer.finish()
    return folder


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """A packed teacher with the pair inside."""
    teacher = make_captioner(tmp_path / "teacher", inside=True)
    pack_model(PackOptions(teacher, tmp_path / "packed"))
    return tmp_path / "packed"


def inside(folder: Path) -> dict[str, Tensor]:
    """What the file of a packed model has of the backbone."""
    found = read_weights(folder / "model.safetensors")
    return {name: tensor for name, tensor in found.items() if name.startswith("backbone.")}


def test_from_the_teacher_to_what_is_shipped(packed: Path, tmp_path: Path) -> None:
    """The student learns from features of the packed backbone, and is shipped with the same."""
    assert read_seen(packed) == SeenImages(frozenset({"7"}))
    backbone = load_backbone(PAIR, pixels=SIZE, weights=packed, device="cpu")
    teacher = load_model(packed).model
    assert backbone.digest == backbone_digest(backbone_tensors(teacher.state_dict()))
    asked = PrepareOptions("shapes", "3", tmp_path / "features", backbone=PAIR, weights=packed)
    prepare(replace(asked, device="cpu", pixels=SIZE))
    store = FeatureStore(tmp_path / "features")
    assert store.index["weights"] == backbone.digest
    assert read_seen(store.folder) == read_seen(packed)

    digest = store.index["weights"]
    student = make_captioner(tmp_path / "student", inside=False, digest=digest, seed=1)
    options = PackOptions(student, tmp_path / "shipped", backbone=packed)
    done = pack_model(options)
    assert done.backbone == f"that of {packed}"
    assert done.parts[0].bits == (5, 10)
    assert done.parts[0].error == 0
    before, after = inside(packed), inside(options.out)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert read_seen(options.out) == read_seen(packed)
    assert done.bytes == sum(path.stat().st_size for path in options.out.iterdir())
    shipped, plain = load_model(options.out).model, load_model(student).model
    with torch.inference_mode():
        seen = shipped.get_submodule("backbone")(noise(2, SIZE, SIZE, 3))
        assert torch.equal(seen, backbone(noise(2, SIZE, SIZE, 3)))
        said, meant = shipped(noise(2, SIZE, SIZE, 3)), plain(seen)
    assert float((said - meant).norm() / meant.norm()) < 0.2  # 5 bits of the student's own


def test_a_packed_backbone_is_not_rounded_again(packed: Path, tmp_path: Path) -> None:
    digest = load_backbone(PAIR, pixels=SIZE, weights=packed, device="cpu").digest
    student = make_captioner(tmp_path / "student", inside=False, digest=digest)
    options = PackOptions(student, tmp_path / "no", backbone=packed)
    for name, wrong in (
        ("--backbone-bits", replace(options, backbone_bits=5)),
        ("--calibrate", replace(options, calibrate=tmp_path)),
    ):
        with pytest.raises(ConfigError, match=rf"{name}: .* is packed, and is taken as it is"):
            pack_model(wrong)
    with pytest.raises(ConfigError, match="learnt from features of another backbone"):
        pack_model(replace(options, backbone=tmp_path / "teacher"))
    assert not options.out.exists()


def test_calibration(tmp_path: Path) -> None:
    """What comes out of the calibrated backbone is nearer, at the same size, to the bit again."""
    teacher = make_captioner(tmp_path / "teacher", inside=True)
    store = make_pixels(tmp_path / "pixels", ("train",) * 20 + ("val", "restval"))
    options = PackOptions(teacher, tmp_path / "plain", backbone_bits=3, device="cpu")
    plain = pack_model(options)
    calibrated = replace(options, out=tmp_path / "calibrated", calibrate=store)
    done = pack_model(calibrated)
    assert done.parts[0].bytes == plain.parts[0].bytes
    assert done.parts[0].bits == (3, 10)
    assert done.parts[1:] == plain.parts[1:]
    images = noise(22, SIZE, SIZE, 3)[:20]
    with torch.inference_mode():
        exact, rough, near = (
            load_model(folder).model.get_submodule("backbone")(images)
            for folder in (teacher, options.out, calibrated.out)
        )
    assert (near - exact).norm() < 0.9 * (rough - exact).norm()
    card = (calibrated.out / "README.md").read_text()
    assert f"--backbone-bits 3 --calibrate {store} --calibration-images 128\n" in card
    few = pack_model(replace(calibrated, out=tmp_path / "few", backbone_bits=None, dry_run=True))
    assert few.parts[0].bits == (4, 10)
    pack_model(replace(calibrated, out=tmp_path / "again"))
    first, again = inside(calibrated.out), inside(tmp_path / "again")
    assert all(torch.equal(first[name], again[name]) for name in first)


def test_only_training_images_have_a_say(tmp_path: Path) -> None:
    store = make_pixels(tmp_path / "pixels", ("val", "train", "test", "restval", "train", "val"))
    images = noise(6, SIZE, SIZE, 3)
    assert torch.equal(torch.cat(list(training_images(store, 9))), images[[1, 3, 4]])
    assert torch.equal(torch.cat(list(training_images(store, 2))), images[[1, 3]])


def test_what_cannot_calibrate_is_refused(tmp_path: Path) -> None:
    teacher = make_captioner(tmp_path / "teacher", inside=True)
    options = PackOptions(teacher, tmp_path / "no", device="cpu")
    val = make_pixels(tmp_path / "val", ("val", "test", "val"))
    with pytest.raises(ConfigError, match=r"--calibrate: .* has no images to train on") as refused:
        pack_model(replace(options, calibrate=val))
    hint = "Its splits are: test, val. Only images of train and restval are taken."
    assert refused.value.hint == hint
    (val / "index.json").write_text((val / "index.json").read_text().replace('"pixels"', '"b"', 1))
    with pytest.raises(ConfigError, match=r"--calibrate: .* has features, and no pixels"):
        pack_model(replace(options, calibrate=val))
    with pytest.raises(ConfigError, match="--calibration-images: 0 is below 1"):
        pack_model(replace(options, calibrate=val, calibration_images=0))
    with pytest.raises(ConfigError, match="--calibration-images: nothing is calibrated without"):
        pack_model(replace(options, calibration_images=128))
    train = make_pixels(tmp_path / "train", ("train",))
    convolutions = make_model(tmp_path / "convolutions", backbone=NETWORK)
    with pytest.raises(ConfigError, match="--calibrate: this backbone has no matrices"):
        pack_model(replace(options, model=convolutions, calibrate=train))
    assert not options.out.exists()
