"""Folders as training runs leave them, without any training."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

CONFIG = """stage = "{stage}"
out = "{out}"
captioner = "parallel"
seed = {seed}

[data]
features = "runs/shapes"

[schedule]
learning_rate = {rate}

[run]
epochs = 4.0

[guard]
fraction = 0.5
from_epoch = 0.0
"""


def training(step: int, *, per_epoch: int = 10, **values: Any) -> dict[str, Any]:
    """A line of training; a step takes two seconds."""
    usual = {"epoch": step / per_epoch, "learning_rate": 1e-3, "loss": 2.0, "gradient": 1.0}
    return {"step": step, **usual, **values, "seconds": 2.0 * step, "images_per_second": 9.0}


def validation(step: int, cider: float, *, per_epoch: int = 10) -> dict[str, Any]:
    """A line of a validation."""
    return {
        "step": step,
        "epoch": step / per_epoch,
        "cider": cider,
        "repeats": 0.25,
        "bad_endings": 0.125,
    }


LINES = (training(5, loss=3.0), training(10), validation(10, 0.75), training(15, loss=1.5))


def make_run(
    folder: Path,
    lines: Sequence[dict[str, Any]] = LINES,
    *,
    stage: str = "student_xe",
    out: str = "",
    seed: int = 1,
    rate: float = 1e-3,
    best: int | None = None,
    checkpoints: Sequence[int] = (),
    report: dict[str, Any] | None = None,
    tail: bytes = b"",
) -> Path:
    """A run's folder; `tail` is what comes after the last line of its log."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = CONFIG.format(stage=stage, out=out or folder, seed=seed, rate=rate)
    (folder / "config.toml").write_text(settings)
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    (folder / "metrics.jsonl").write_bytes(text.encode() + tail)
    for step in checkpoints:
        (folder / "checkpoints" / f"step-{step:08d}").mkdir(parents=True)
    if best is not None:
        model = folder / "models" / f"step-{best:08d}"
        model.mkdir(parents=True)
        (model / "model.safetensors").touch()
        (folder / "best").symlink_to(Path("models") / model.name)
    if report is not None:
        (folder / "report.json").write_text(json.dumps(report))
    return folder


def finished(step: int = 40, **more: Any) -> dict[str, Any]:
    """A report as a run's end leaves it."""
    scores = [{"beam": 1, "cider": 0.8, "repeats": 0.0, "bad_endings": 0.0}]
    return {"steps": step, "seconds": 90.0, "best_step": 10, "scores": scores, **more}
