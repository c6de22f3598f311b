"""A study small enough for tests: models that nobody trained, and a few steps for each variant."""

from pathlib import Path
from typing import Any

import pytest

from naic.config import to_toml
from naic.tasks.reproduce import scoring
from naic.tasks.reproduce.run_file import ReproduceOptions
from naic.tasks.study.run import run_study
from naic.tasks.study.tables import Studied
from naic.text import Vocabulary
from naic.train.loop import train
from tests.tasks.reproduce.micro import Heard
from tests.tasks.teachers import make_teacher
from tests.train.runs import make_learnable_store, make_settings, on_one_thread

TRAIN, VAL = 24, 60  # enough of val for intervals
STEPS = 3
BASE: dict[str, Any] = {
    "stage": "cmal",
    "captioner": "parallel",
    "data": {"more_than": 0, "captions": 2},
    "schedule": {"learning_rate": 3e-2},
    "run": {"epochs": 1.0, "batch": TRAIN // STEPS, "log_every": 1},
    "guard": {"fraction": 0.0},
    "cmal": {"samples": 2},
}
FIRST = {"stage": "student_xe", **{name: BASE[name] for name in ("captioner", "data", "run")}}
VARIANTS: list[dict[str, Any]] = [
    {"name": "plain"},
    {"name": "surer: k = 1", "set": {"cmal.topk": 1, "cmal.entropy": 0.5}, "rescore": [3]},
    {"name": "taught", "set": {"cmal": {"xe": 0.1}}, "first": {"base": "first.toml"}},
]


class Place:
    """A folder with a store, a student, its teacher, and a study's file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        store = make_learnable_store(folder / "store", TRAIN, validation=VAL)
        run = {"epochs": 15.0, "validate_every": 15.0, "save_every": 15.0}
        settings = make_settings(folder / "store", folder / "kd", "student_xe", run=run)
        with on_one_thread():
            train(settings)
        words = Vocabulary.load(folder / "kd" / "vocab.json")
        make_teacher(folder / "teacher", store, vocabulary=words)
        make_teacher(folder / "stranger", store, vocabulary=Vocabulary((*words.words, "zebra")))
        for name, values in (("base", BASE), ("first", FIRST)):
            (folder / f"{name}.toml").write_text(to_toml(values))

    def write(self, variants: list[dict[str, Any]] | None = None, **over: Any) -> Path:
        """The study's file; `over` is put over its own keys."""
        values = {
            "features": str(self.folder / "store"),
            "start": str(self.folder / "kd" / "best"),
            "teacher": str(self.folder / "teacher"),
            "base": "base.toml",
            "variant": VARIANTS if variants is None else variants,
        }
        path = self.folder / "study.toml"
        path.write_text(to_toml(values | over))
        return path

    def run(self, out: Path, heard: Heard | None = None, **over: Any) -> Studied:
        values: dict[str, Any] = {"device": "cpu", "fast": True, **over}
        options = ReproduceOptions(out, study=self.folder / "study.toml", **values)
        with on_one_thread(), pytest.MonkeyPatch.context() as patch:
            patch.setattr(scoring, "IMAGES", 3)  # the times are not what is tested
            patch.setattr(scoring, "WARM_UP", 1)
            return run_study(options, (heard or Heard()).callbacks, "naic x")
