"""Teacher, ORT and student learn from imported features, ragged, with boxes and without."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from naic.data.features import FeatureStore
from naic.errors import BackboneError, ConfigError
from naic.models.captioners import CAPTIONERS
from naic.models.folder import load_model
from naic.runtime.captioner import Captioner
from naic.tasks.distil import distil
from naic.tasks.options import DistilOptions, PackOptions, PrepareOptions
from naic.tasks.pack import pack_model
from naic.tasks.prepare import prepare
from naic.train.logs import read_metrics
from naic.train.loop import train
from tests.data.regions import files
from tests.train.runs import COMMAND, MODEL, make_settings, on_one_thread, refused

IDS = tuple(range(1, 17))
ORT = {**MODEL, "geometry": 8}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same features with boxes, and without."""
    folder = tmp_path_factory.mktemp("imported")
    (folder / "given").mkdir()
    given = files.tsv(folder / "given", files.see(IDS))
    source = str(files.write_dataset(folder / "dataset.json", IDS, val=4))
    for name, without in (("boxed", False), ("plain", True)):
        out = folder / name
        prepare(PrepareOptions("karpathy", source, out, features=(given,), without_boxes=without))
    return folder


def learn(home: Path, out: str, store: str, stage: str = "teacher_xe", **tables: Any) -> Path:
    """The best model of a run of some steps."""
    run = {"epochs": 5.0, "batch": 6}
    with on_one_thread():
        train(make_settings(home / store, home / out, stage, run=run, **tables), command=COMMAND)
    losses = [float(line["loss"]) for line in read_metrics(home / out) if "loss" in line]
    assert np.mean(losses[-3:]) < np.mean(losses[:3])
    return home / out / "best"


@pytest.fixture(scope="module")
def coded(home: Path) -> Path:
    """A teacher that is told boxes."""
    return learn(home, "teacher-boxed-coded", "boxed", model={"boxes": "coded"})


@pytest.mark.parametrize(
    ("store", "boxes"),
    [
        ("boxed", "coded"),
        pytest.param("plain", "", marks=pytest.mark.slow),
        pytest.param("boxed", "apart", marks=pytest.mark.slow),
    ],
)
def test_teacher_and_student_learn(home: Path, coded: Path, store: str, boxes: str) -> None:
    own, teacher = f"{store}-{boxes}", coded
    if boxes != "coded":
        teacher = learn(home, f"teacher-{own}", store, model={"boxes": boxes})
    distil(DistilOptions(teacher, home / f"pseudo-{own}", (home / store,), splits=("train",)))
    data = {"pseudo": [str(home / f"pseudo-{own}")]}
    start = {"start": str(teacher), "model": None}
    student = learn(home, f"student-{own}", store, "student_xe", data=data, **start)
    loaded = load_model(student)
    assert loaded.settings.features == FeatureStore(home / store).dim
    assert loaded.settings.model.boxes == boxes
    features, mask = FeatureStore(home / store).batch([0, 1, 2, 3])
    given = torch.from_numpy(features).float()
    assert not bool(torch.from_numpy(mask).all())
    with torch.no_grad():
        logits = loaded.model(given, torch.from_numpy(mask))
        given[0, 0, -4:] = torch.tensor([0.0, 0.0, 0.1, 0.1])
        moved = loaded.model(given, torch.from_numpy(mask))
    assert torch.equal(logits, moved) == (boxes == "apart")


def test_ort_learns_from_real_boxes(home: Path) -> None:
    best = learn(home, "ort", "boxed", captioner="ort", model={"geometry": 8, "boxes": "apart"})
    assert load_model(best).settings.captioner == "ort"
    settings = make_settings(home / "plain", home / "ort-plain", captioner="ort", model=ORT)
    error = refused(ConfigError, settings)
    assert "no square grid" in str(error)
    assert "prepare them with boxes" in error.hint


def test_it_is_said_what_becomes_of_boxes(home: Path) -> None:
    error = refused(ConfigError, make_settings(home / "boxed", home / "none"))
    assert 'Set boxes = "coded", or "apart"' in error.hint
    settings = make_settings(home / "plain", home / "none", model={"boxes": "coded"})
    assert "have no boxes" in str(refused(ConfigError, settings))


@pytest.mark.slow
def test_a_captioner_without_the_setting_reads_all(home: Path) -> None:
    own = {"width": 16, "embedding": 12, "attention": 8, "length": 8}
    settings = make_settings(home / "boxed", home / "updown", captioner="updown", model=None)
    with on_one_thread():
        train(replace(settings, model=own), command=COMMAND)
    assert load_model(home / "updown/best").settings.features == files.DIM + 4
    assert "updown" in CAPTIONERS


def test_it_is_packed_and_asks_for_no_photo(home: Path, coded: Path) -> None:
    packed = pack_model(PackOptions(coded, home / "packed"))
    assert packed.backbone == "not inside: imported"
    assert load_model(home / "packed").settings.model.boxes == "coded"
    with pytest.raises(BackboneError, match="imported: these features were there already"):
        Captioner(str(home / "packed"))
