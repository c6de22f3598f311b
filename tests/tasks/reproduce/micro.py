"""A preset small enough for tests: a few dozen drawn scenes, a captioner of width 16."""

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from naic.config import to_toml
from naic.progress import Callbacks
from naic.tasks.reproduce.run_file import ReproduceOptions

SCENES, UNLABELLED = 120, 40  # of which 96 and 32 are learnt from
BATCH = 16
STEPS = 6  # of every stage: 96 images in batches of 16
DATA = {"features": "x", "more_than": 0}
MODEL = {
    "width": 16,
    "heads": 2,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "hidden": 16,
    "dropout": 0.0,
}
COMMON: dict[str, Any] = {
    "out": "x",
    "data": DATA,
    "schedule": {"learning_rate": 3e-3},
    "run": {"epochs": 1.0, "batch": BATCH, "log_every": 2},
    "guard": {"fraction": 0.0},
}
STUDENT = {"stage": "student_xe", "captioner": "parallel"}
FILES: dict[str, dict[str, Any]] = {
    "preset": {
        "topk": [1, 2],
        "baselines": ["none", "loo", "cf"],
        "examples": 3,
        "quick": {
            "systems": ["AIC beam 3", "NAIC-base", "+KD", "+CMAL"],
            "scst": False,
            "limit": 60,
            "epochs": {"teacher_xe": 0.5},
        },
    },
    "prepare": {"reader": "shapes", "source": str(SCENES), "backbone": "blobs"},
    "unlabelled": {
        "reader": "shapes",
        "source": str(UNLABELLED),
        "seed": 1,
        "splits": ["train"],
        "unlabelled": True,
        "backbone": "blobs",
    },
    "teacher_xe": {**COMMON, "stage": "teacher_xe", "captioner": "causal", "model": MODEL},
    "teacher_scst": {**COMMON, "stage": "scst", "captioner": "causal", "start": "x"},
    "student_base": {**COMMON, **STUDENT, "model": MODEL},
    "student_kd": {**COMMON, **STUDENT, "start": "x", "data": {**DATA, "pseudo": ["x"]}},
    "cmal": {**COMMON, "stage": "cmal", "captioner": "parallel", "start": "x"},
}


def write_preset(folder: Path, **over: dict[str, Any] | None) -> Path:
    """The files of the preset; `over` is put over the keys of a file, None leaves it out."""
    folder.mkdir()
    for name, values in FILES.items():
        changed = over.get(name, {})
        if changed is not None:
            (folder / f"{name}.toml").write_text(to_toml({**values, **changed}))
    return folder


def make_options(preset: Path | str, out: Path, **over: Any) -> ReproduceOptions:
    return ReproduceOptions(preset=str(preset), out=out, **{"device": "cpu", "fast": True, **over})


class Heard:
    """Listens, and remembers."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.callbacks = Callbacks(self.lines.append, self._progress)

    @contextmanager
    def _progress(self, title: str) -> Iterator[Any]:
        self.lines.append(f"bar {title}")
        yield lambda progress: None


def _config(run: Path) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tomllib.loads((run / "config.toml").read_text()).items():
        inner = value.items() if isinstance(value, dict) else ()
        flat |= {f"{key}.{name}": own for name, own in inner} or {key: value}
    return flat


def differences(one: Path, other: Path) -> set[str]:
    """The settings in which two runs differ, but for their folders."""
    a, b = _config(one), _config(other)
    return {name for name in a.keys() | b.keys() if a.get(name) != b.get(name)} - {"out"}
