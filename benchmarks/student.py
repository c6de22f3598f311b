r"""What a study of students begins with: a teacher, its captions, and a student of them.

python benchmarks/student.py data/coco-features --configs configs/coco --out runs/student \
    [--unlabelled data/flickr8k-features] [--teacher runs/teacher/best]

The same as `naic train` with teacher_again.toml, teacher_scst.toml and student_kd.toml and
`naic distil` in between, but the features are brought to the device once. OUT gets teacher-xe,
teacher-scst, pseudo, pseudo-unlabelled and naic-kd; what is finished there is not made again. With
--teacher there is one already, and the first two stages are left out. For a dry run:
`--set run.epochs=0.01 engine.graph=false ...` for all stages.
"""

import argparse
import gc
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from naic.progress import SILENT
from naic.tasks.distil import distil
from naic.tasks.options import DistilOptions
from naic.train.config import read_settings
from naic.train.kept import Kept
from naic.train.loop import train


def run_stage(config: Path, changes: Sequence[tuple[str, str]], kept: Kept) -> None:
    """Train by a config file, with some settings put over it."""
    began = time.monotonic()
    report = train(read_settings(config, changes), resume=True, kept=kept)
    torch.compiler.reset()  # the compilations of several runs add up until torch gives up
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    print(config.stem, report["scores"], f"{time.monotonic() - began:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("features", type=Path)
    parser.add_argument("--configs", type=Path, default=Path("configs/coco"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--unlabelled", type=Path)
    parser.add_argument("--start", type=Path, help="instead of teacher_again.toml's")
    parser.add_argument("--teacher", type=Path, help="one that is there")
    parser.add_argument("--student", type=Path, help="its first weights, if not the teacher's")
    parser.add_argument("--batch", type=int, default=1024, help="images captioned at once")
    parser.add_argument("--precision", default="bfloat16", help="of the teacher's captions")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE")
    parser.add_argument("--epochs", nargs="+", type=float, help="of the three stages, or the last")
    options = parser.parse_args()
    changes = [tuple(item.split("=", 1)) for item in options.set]
    out, kd_splits = options.out, read_settings(options.configs / "student_kd.toml").data.train

    epochs = iter(options.epochs or ())

    def stage(config: str, name: str, start: Path | None, *more: tuple[str, str]) -> None:
        own = [("data.features", str(options.features)), ("out", str(out / name)), *more]
        if (length := next(epochs, None)) is not None:
            names = ("run.epochs", "run.save_every", "run.validate_every", "schedule.total_epochs")
            own += [(key, str(length)) for key in names]
        own += [("start", str(start))] if start is not None else []
        run_stage(options.configs / f"{config}.toml", [*own, *changes], kept)

    with Kept() as kept:
        if options.teacher is None:
            stage("teacher_again", "teacher-xe", options.start)
            stage("teacher_scst", "teacher-scst", out / "teacher-xe/best")
        teacher = options.teacher or out / "teacher-scst/best"
        stores = [("pseudo", options.features, kd_splits)]
        if options.unlabelled is not None:
            stores.append(("pseudo-unlabelled", options.unlabelled, ()))
        for name, features, splits in stores:
            began = time.monotonic()
            manner = {"batch": options.batch, "precision": options.precision}
            asked = DistilOptions(teacher, out / name, (features,), splits=splits, **manner)
            distil(asked, SILENT)
            print(name, f"{time.monotonic() - began:.0f} s", flush=True)
        stage(
            "student_kd",
            "naic-kd",
            options.student or teacher,
            ("data.pseudo", f'["{out / "pseudo"}"]'),
        )


if __name__ == "__main__":
    main()
