"""Training runs small enough for tests: a store whose features tell all that its captions say."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import Accelerator

from naic.config import structure
from naic.data.batches import Targets
from naic.data.features import FeatureStore
from naic.data.records import Record
from naic.data.storewriter import ShardRows, StoreWriter
from naic.data.views import twins as further_views
from naic.errors import NaicError
from naic.learn.cider.references import References
from naic.learn.cider.rewards import Rewards, make_rewards
from naic.models.captioners import CAPTIONERS
from naic.text import Vocabulary
from naic.train import stages
from naic.train.batches import Feed
from naic.train.engine import TrainingEngine, prepare_speed
from naic.train.loop import train
from naic.train.settings import Settings
from naic.train.tools import Tools
from tests.data.stores import NoImage

COLOURS = ("red", "green", "blue")
THINGS = ("dog", "cat", "bird")
PLACES = ("grass", "sand", "snow")
DIM = 9  # one number for each colour, thing and place
LENGTH = 8
IMAGES, VALIDATION = 40, 8
EPOCH = 5  # steps of the runs here: 8 images in each
COMMAND = "naic train config.toml"
MODEL = {
    "width": 16,
    "heads": 2,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "hidden": 32,
    "dropout": 0.1,
    "length": LENGTH,
}
CAPTIONER_OF = {
    "teacher_xe": "causal",
    "scst": "causal",
    "student_xe": "parallel",
    "cmal": "parallel",
}


def captions_of(number: int) -> tuple[str, ...]:
    """Two of them, or three, so that images differ in how many they have."""
    colour, thing, place = _seen(number)
    texts = (
        f"a {colour} {thing} on {place}.",
        f"there is a {colour} {thing}.",
        f"a {thing} sits on the {place}.",
    )
    return texts[: 3 if number % 4 == 0 else 2]


def make_learnable_store(
    folder: Path,
    images: int = IMAGES,
    *,
    validation: int = VALIDATION,
    twins: bool = False,
    regions: int = 2,
) -> FeatureStore:
    """A store of `images` images of the split "train" and some of "val"; all have 2 regions.

    With `twins` the images of "train" come mirrored and cropped too, as `naic prepare --mirror
    train --crop train` has them.
    """
    records = [
        Record(str(i), NoImage(), captions_of(i), "train" if i < images else "val")
        for i in range(images + validation)
    ]
    if twins:
        records += further_views(records, ["train"], ["train"])
    count = len(records)
    settings: dict[str, Any] = {
        "backbone": "b",
        "pixels": 8,
        "regions": regions,
        "dim": DIM,
        "dtype": "float16",
    }
    folder.mkdir(parents=True)
    writer = StoreWriter(folder, records, settings, count)
    features = np.concatenate([_features(i, regions) for i in range(count)])
    writer.write(0, ShardRows(list(range(count)), [regions] * count, features), [])
    return writer.finish()


def make_settings(
    store: Path,
    out: Path,
    stage: str = "teacher_xe",
    *,
    model: Mapping[str, Any] | None = MODEL,
    **tables: Any,
) -> Settings:
    """Settings of a run of seconds; `tables` are put over its own: run={"epochs": 2.0}.

    `model` is put over MODEL; None leaves the sizes to the start model.
    """
    values: dict[str, Any] = {
        "stage": stage,
        "out": str(out),
        "captioner": CAPTIONER_OF[stage],
        "seed": 3,
        "data": {"features": str(store), "more_than": 0, "captions": 2},
        "model": {} if model is None else {**MODEL, **model},
        "schedule": {"learning_rate": 3e-3},
        "optimiser": {"average": 0.8},
        "engine": {"device": "cpu"},
        "run": {"epochs": 2.0, "batch": 8, "log_every": 1},
        "guard": {"fraction": 0.0},
    }
    for name, value in tables.items():
        own = values.get(name)
        values[name] = {**own, **value} if isinstance(own, dict) else value
    return structure(values, Settings, "test")


def run_settings(
    stage: str = "teacher_xe", *, out: str = "run", epochs: float = 2.0, **tables: Any
) -> Settings:
    """Settings of a run inside a folder beside those that `make_home` made."""
    tables["run"] = {"epochs": epochs, **tables.get("run", {})}
    if not stage.endswith("_xe"):
        tables.setdefault("start", "../teacher/best")
    return make_settings(Path("../store"), Path(out), stage, **tables)


def make_home(folder: Path) -> Path:
    """A folder with a store, and a teacher to start from."""
    make_learnable_store(folder / "store")
    settings = run_settings(out=str(folder / "teacher"), epochs=12.0)
    features = replace(settings.data, features=folder / "store")
    with on_one_thread():
        train(replace(settings, data=features), command=COMMAND)
    return folder


def enter(home: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go into a new folder beside links to what `make_home` made.

    Runs in different folders are told the same names: what they write can be compared.
    """
    for name in ("store", "teacher"):
        (folder / name).symlink_to(home / name)
    for name in ("one", "two"):
        (folder / name).mkdir()
    monkeypatch.chdir(folder / "one")
    return folder


@contextmanager
def on_one_thread() -> Iterator[None]:
    """As the tests are: with two threads sums come out in another order, and other bits."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def refused(error: type[NaicError], settings: Settings, *, resume: bool = False) -> NaicError:
    """How a run that cannot be is refused."""
    with pytest.raises(error) as caught:
        train(settings, resume=resume)
    return caught.value


def make_vocabulary(store: FeatureStore) -> Vocabulary:
    return Vocabulary.build([c for r in store.records for c in r.captions], more_than=0)


def make_tools(
    settings: Settings,
    store: FeatureStore,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Tools:
    """What the stages need; the same settings give the same weights."""
    vocabulary = make_vocabulary(store)
    spec = CAPTIONERS[settings.captioner]
    config = structure(settings.model, spec.config, "model")
    torch.manual_seed(settings.seed)
    model = spec.build(config, store.dim, len(vocabulary)).to(device, dtype)
    rewards: Rewards | None = None
    if settings.stage in ("scst", "cmal"):
        captions: Sequence[Sequence[str]] = [record.captions for record in store.records]
        references = References.build(captions, vocabulary)
        compiled = settings.engine.compile
        rewards = make_rewards(references, device, form="torch", compiled=compiled)
    speed = prepare_speed(model, settings.engine)
    return stages.make_tools(settings, spec, model, vocabulary, rewards, speed)


def make_feed(settings: Settings, store: FeatureStore, device: str = "cpu") -> Feed:
    targets = Targets.build(store, settings.data.train, make_vocabulary(store), LENGTH)
    return Feed(
        store,
        targets,
        batch=settings.run.batch,
        captions=settings.data.captions,
        seed=settings.seed,
        accumulate=settings.run.accumulate,
        device=device,
        keep=settings.data.keep,
        fill=settings.xe.fill,
    )


def make_engine(
    settings: Settings,
    store: FeatureStore,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> TrainingEngine:
    """An engine before its first step."""
    accelerator = Accelerator(cpu=device == "cpu")
    tools = make_tools(settings, store, device, dtype)
    return TrainingEngine(accelerator, tools, make_feed(settings, store, device))


def _seen(number: int) -> tuple[str, str, str]:
    return COLOURS[number % 3], THINGS[number // 3 % 3], PLACES[number // 9 % 3]


def _features(number: int, regions: int = 2) -> np.ndarray[Any, np.dtype[np.float16]]:
    """(R, DIM) ones for what is seen, a little disturbed, in all regions."""
    random = np.random.default_rng(number)
    features = random.normal(0, 0.1, (regions, DIM))
    for place, names in enumerate((COLOURS, THINGS, PLACES)):
        features[:, 3 * place + names.index(_seen(number)[place])] += 1
    return features.astype(np.float16)
