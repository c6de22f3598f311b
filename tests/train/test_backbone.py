"""A run whose model learns to see, and the runs before and after it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from naic.backbones.load import is_tuned, load_backbone, pretrained_backbone
from naic.backbones.patches import Patches
from naic.config import structure
from naic.data.features import FeatureStore
from naic.data.joined import SEEN, SeenImages, check_unseen, read_seen
from naic.data.records import Record
from naic.data.storewriter import ShardRows, StoreWriter
from naic.errors import ConfigError, StoreError
from naic.models.folder import load_model, read_weights
from naic.tasks.options import PrepareOptions
from naic.tasks.prepare import prepare
from naic.train.config import model_config, read_settings
from naic.train.loop import train
from naic.train.settings import Settings
from tests.data.stores import NoImage
from tests.train.runs import COMMAND, MODEL, captions_of

NETWORK = "efficientnet-lite2"
IMAGES, SIZE = 12, 64
QUIET = {"log_every": 1, "validate_every": 1.0, "save_every": 1.0}


def make_store(
    folder: Path, weights: Path | None = None, *, pixels: bool = False, network: str = NETWORK
) -> FeatureStore:
    """The same images as pixels, or as features of the package's backbone or a model's."""
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (IMAGES, SIZE, SIZE, 3), np.uint8)
    if pixels:
        found = Patches()(torch.from_numpy(images)).numpy()
        seen: dict[str, Any] = {"backbone": "pixels", "weights": "p", "dtype": "uint8"}
    else:
        backbone = load_backbone(network, pixels=SIZE, weights=weights, device="cpu")
        found = backbone(torch.from_numpy(images)).half().numpy()
        seen = {"backbone": network, "weights": backbone.digest, "dtype": "float16"}
    records = [
        Record(str(i), NoImage(), captions_of(i), "train" if i < 8 else "val")
        for i in range(IMAGES)
    ]
    regions, dim = found.shape[1:]
    folder.mkdir()
    settings = {**seen, "pixels": SIZE, "regions": regions, "dim": dim}
    writer = StoreWriter(folder, records, settings, IMAGES)
    writer.write(0, ShardRows(list(range(IMAGES)), [regions] * IMAGES, found.reshape(-1, dim)), [])
    return writer.finish()


def run(out: Path, features: Path, *, resume: bool = False, **more: Any) -> Path:
    table = {
        "stage": "teacher_xe",
        "captioner": "causal",
        "out": str(out),
        "data": {"features": str(features), "more_than": 0},
        "run": {"epochs": 1, "batch": 4, **QUIET},
        "engine": {"device": "cpu"},
        **more,
    }
    train(structure(table, Settings, "test"), resume=resume, command=COMMAND)
    return out / "best"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A first teacher on the package's features, and one that learnt to see after it."""
    home = tmp_path_factory.mktemp("backbone")
    make_store(home / "features")
    make_store(home / "pixels", pixels=True)
    first = run(home / "first", home / "features", model=MODEL)
    seeing: dict[str, Any] = {"start": str(first), "model": {"backbone": NETWORK}}
    run(home / "seeing", home / "pixels", **seeing, schedule={"learning_rate": 1e-3})
    return home


def weights(home: Path, name: str) -> dict[str, torch.Tensor]:
    return load_model(home / name).model.state_dict()


def test_the_backbone_are_trained(home: Path) -> None:
    latest = max((home / "seeing" / "checkpoints").iterdir())
    trained = read_weights(latest / "model.safetensors")
    package = pretrained_backbone(NETWORK)
    assert all(not torch.equal(trained[name], package[name]) for name in package)


def test_a_model_says_whose_captions_its_backbone_learnt(home: Path, tmp_path: Path) -> None:
    """And so do features that this backbone makes, and the models that begin with it."""
    train = frozenset(str(i) for i in range(8))
    assert read_seen(home / "seeing" / "best") == SeenImages(train)
    assert read_seen(home / "first" / "best") is None
    tuned = home / "seeing" / "best"
    out = tmp_path / "shapes"
    options = PrepareOptions("shapes", "3", out, backbone=NETWORK, weights=tuned, device="cpu")
    prepare(options)
    assert read_seen(out) == SeenImages(train)
    index = (out / "index.json").read_bytes()
    assert json.loads(index)["tuned"] is True
    assert "tuned" not in json.loads((out / "plan.json").read_bytes())
    prepare(options)  # nor is a store refused whose plan is of a naic that knew no such key
    assert (out / "index.json").read_bytes() == index
    check_unseen(FeatureStore(out), (), tuned=is_tuned(FeatureStore(out).index))  # other images
    store = make_store(tmp_path / "more", pixels=True)
    records = store.folder / "records.jsonl"
    records.write_text(records.read_text().replace('"id": "', '"id": "x'))
    still: dict[str, Any] = {"schedule": {"learning_rate": 1e-12}}
    still |= {"run": {"epochs": 0.5, "batch": 4, **QUIET}}
    best = run(tmp_path / "next", store.folder, start=str(tuned), **still)
    assert read_seen(best) == SeenImages(train | {f"x{i}" for i in train})


def test_a_tuned_backbone_of_which_nothing_is_known_is_refused(home: Path, tmp_path: Path) -> None:
    """Stores and models of an earlier naic have no list."""
    published, tuned = FeatureStore(home / "features"), home / "seeing" / "best"
    assert not is_tuned(published.index)
    check_unseen(published, (), tuned=False)
    store = make_store(tmp_path / "features", tuned)
    assert is_tuned(store.index)
    with pytest.raises(StoreError, match="tuned on captions, and nothing says of which images"):
        check_unseen(store, (), tuned=True)
    (store.folder / SEEN).write_bytes(SeenImages(frozenset({"z"}), whole=False).as_json())
    with pytest.raises(StoreError, match="nothing says of which images"):
        check_unseen(store, (), tuned=True)
    (store.folder / SEEN).write_text("{}")
    with pytest.raises(StoreError, match=r"backbone_images\.json: cannot be read"):
        check_unseen(store, (), tuned=True)


def test_a_teacher_goes_on_with_the_features_of_its_backbone(home: Path, tmp_path: Path) -> None:
    make_store(tmp_path / "features", home / "seeing" / "best")
    best = run(tmp_path / "next", tmp_path / "features", start=str(home / "seeing" / "best"))
    loaded = load_model(best)
    assert loaded.settings.model.backbone == ""
    assert loaded.settings.digest == FeatureStore(tmp_path / "features").index["weights"]
    assert not any(name.startswith("backbone.") for name in loaded.model.state_dict())


def test_rewards_want_the_features_that_were_learnt(home: Path, tmp_path: Path) -> None:
    """A teacher whose features came from other backbone would have to learn to read again."""
    make_store(tmp_path / "features", home / "seeing" / "best")
    first = load_model(home / "first" / "best").settings
    assert first.digest == FeatureStore(home / "features").index["weights"]
    with pytest.raises(ConfigError, match="other weights"):
        run(tmp_path / "scst", tmp_path / "features", stage="scst", start=str(home / "first/best"))


def test_a_run_from_scratch_begins_with_the_package_backbone(home: Path, tmp_path: Path) -> None:
    small = {**MODEL, "backbone": NETWORK}
    run(
        tmp_path / "scratch",
        home / "pixels",
        model=small,
        schedule={"learning_rate": 1e-12},
        run={"epochs": 0.5, "batch": 4, **QUIET},
    )
    trained = weights(tmp_path, "scratch/best")
    for name, tensor in pretrained_backbone(NETWORK).items():
        torch.testing.assert_close(trained[name], tensor, atol=1e-6, rtol=0)


def test_backbone_need_pixels(home: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a backbone needs pixels"):
        run(tmp_path / "no", home / "features", model={**MODEL, "backbone": NETWORK})


def test_pixels_need_backbone(home: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no backbone to see them with"):
        run(tmp_path / "no", home / "pixels", model=MODEL)


def test_backbone_of_another_kind_are_the_package_s(home: Path, tmp_path: Path) -> None:
    """Not half of the one and half of the other: names and shapes agree here and there."""
    other = "efficientnet-lite0"
    asked: dict[str, Any] = {"start": str(home / "seeing" / "best"), "model": {"backbone": other}}
    still = {"learning_rate": 1e-12}
    run(tmp_path / "other", home / "pixels", **asked, schedule=still)
    trained = weights(tmp_path, "other/best")
    for name, tensor in pretrained_backbone(other).items():
        torch.testing.assert_close(trained[name], tensor, atol=1e-6, rtol=0)
    with pytest.raises(ConfigError, match="other weights"):
        run(tmp_path / "scst", home / "pixels", **asked, stage="scst")


def test_a_run_begun_before_there_were_backbone_goes_on(home: Path, tmp_path: Path) -> None:
    run(tmp_path / "old", home / "features", model=MODEL)
    path = tmp_path / "old" / "config.toml"
    kept = path.read_text().splitlines(keepends=True)
    assert sum(line.startswith(("backbone =", "seen =")) for line in kept) == 2
    path.write_text("".join(x for x in kept if not x.startswith(("backbone =", "seen ="))))
    more = {"epochs": 2, "batch": 4, **QUIET}
    run(tmp_path / "old", home / "features", model=MODEL, run=more, resume=True)
    with pytest.raises(ConfigError, match=r"it was begun with model\.seen = 1\.0"):
        run(tmp_path / "old", home / "features", model={**MODEL, "seen": 0.5}, resume=True)


def test_a_run_whose_backbone_was_called_eyes_goes_on(home: Path, tmp_path: Path) -> None:
    run(tmp_path / "old", home / "features", model=MODEL)
    path = tmp_path / "old" / "config.toml"
    path.write_text(path.read_text().replace("backbone = ", "eyes = "))
    assert model_config(read_settings(path)).backbone == ""
    report = tmp_path / "old" / "report.json"
    report.write_text(report.read_text().replace("backbone = ", "eyes = "))
    kept = report.stat().st_mtime_ns
    run(tmp_path / "old", home / "features", model=MODEL, resume=True)
    assert report.stat().st_mtime_ns == kept  # it was finished, and is known to be
    more = {"epochs": 2, "batch": 4, **QUIET}
    run(tmp_path / "old", home / "features", model=MODEL, run=more, resume=True)


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore")  # the compiler's own
def test_backbone_learn_in_a_graph(home: Path, tmp_path: Path) -> None:
    fast = {"device": "cuda", "precision": "bfloat16", "compile": True, "graph": True}
    start = str(home / "first" / "best")
    run(tmp_path / "fast", home / "pixels", start=start, model={"backbone": NETWORK}, engine=fast)
    latest = max((tmp_path / "fast" / "checkpoints").iterdir())
    trained, package = read_weights(latest / "model.safetensors"), pretrained_backbone(NETWORK)
    assert all(not torch.equal(trained[name], package[name]) for name in package)
    assert all(bool(tensor.isfinite().all()) for tensor in trained.values())
