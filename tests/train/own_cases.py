"""Runs with rewards of one's own: models that nobody trained, and a module beside the run."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from naic.train.logs import read_metrics
from naic.train.settings import Settings
from tests.data.pseudos import make_pseudo, taught
from tests.tasks.teachers import make_teacher
from tests.train.runs import IMAGES, make_learnable_store, make_settings, make_vocabulary

RUN = Path("run")
MODULE = """
LENGTH = 2
def near(sentences, images):
    return [-abs(len(sentence.split()) - LENGTH) for sentence in sentences]
def seen(sentences, images):
    return [float(image.captions[0].split()[1] in text) for text, image in zip(sentences, images)]
def nothing(sentences, images):
    return [-len(sentence.split()) for sentence in sentences]
class Scorer:
    pass
def alone(sentences):
    return [0 for _ in sentences]
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store, and models that nobody trained: they talk to the end, most of the time."""
    folder = tmp_path_factory.mktemp("home")
    store = make_learnable_store(folder / "store")
    make_teacher(folder / "student", store, captioner="parallel")
    make_teacher(folder / "teacher", store)
    say = {str(i): taught("a red dog on sand") for i in range(IMAGES)}
    make_pseudo(folder / "pseudo", say, store, vocabulary=make_vocabulary(store))
    return folder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder with a module of rewards; what is imported there is forgotten."""
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "one").mkdir()
    monkeypatch.chdir(tmp_path / "one")
    Path("mine.py").write_text(MODULE)
    before = {*sys.modules}
    yield tmp_path
    for module in {*sys.modules} - before:
        if str(tmp_path) in str(getattr(sys.modules[module], "__file__", "")):
            del sys.modules[module]


def settings_of(home: Path, stage: str = "cmal", **tables: Any) -> Settings:
    start = "teacher" if stage == "scst" else "student"
    tables.setdefault("start", str(home / start))
    tables["run"] = {"epochs": 1.0, **tables.get("run", {})}
    return make_settings(home / "store", RUN, stage, **tables)


def cmal_of(home: Path, weights: dict[str, float], **tables: Any) -> Settings:
    return settings_of(home, cmal={"cider": 0, "reward": weights}, **tables)


def words_said(run: Path) -> list[float]:
    return [float(line["words"]) for line in read_metrics(run) if "words" in line]
