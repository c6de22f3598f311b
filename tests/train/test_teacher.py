"""The teacher on the embedded dataset, with the settings that configs/shapes has."""

import shlex
from pathlib import Path
from typing import Any

import pytest

from naic.cli.main import main
from naic.train.config import read_settings
from naic.train.logs import read_metrics
from naic.train.loop import train

CONFIGS = Path(__file__).parents[2] / "configs"
PREPARE = f"prepare --config {CONFIGS / 'shapes' / 'prepare.toml'} --device cpu"


def learn(stage: str, home: Path, **overrides: object) -> dict[str, Any]:
    """Run a stage of configs/shapes in `home`; the report at its end."""
    paths = {"out": home / stage, "data.features": home / "features"}
    if stage == "teacher_scst":
        paths["start"] = home / "teacher_xe" / "best"
    given = [(name.replace("__", "."), str(value)) for name, value in overrides.items()]
    put_over = [*((name, str(path)) for name, path in paths.items()), *given]
    return train(read_settings(CONFIGS / "shapes" / f"{stage}.toml", put_over))


def validations(run: Path) -> list[float]:
    return [float(line["cider"]) for line in read_metrics(run) if "cider" in line]


def test_a_small_teacher_learns_and_scst_does_not_lower_its_cider(tmp_path: Path) -> None:
    """The short form: a quarter of the scenes, most of a minute of training."""
    assert main(shlex.split(f"{PREPARE} shapes 2000 --out {tmp_path / 'features'}")) == 0
    found = learn(
        "teacher_xe", tmp_path, run__epochs=4, schedule__total_epochs=4, run__validate_every=4
    )
    assert found["scores"][-1]["facts"] >= 0.6
    assert found["scores"][-1]["cider"] >= 2.2
    learn("teacher_scst", tmp_path, run__epochs=0.5)
    before, *_, after = validations(tmp_path / "teacher_scst")
    assert after >= before


@pytest.mark.slow
def test_the_teacher_states_the_facts_right(tmp_path: Path) -> None:
    """In 95 of 100 captions, after some three minutes of training on two cores."""
    assert main(shlex.split(f"{PREPARE} --out {tmp_path / 'features'}")) == 0
    found = learn("teacher_xe", tmp_path)
    assert found["scores"][-1]["facts"] >= 0.95
    learn("teacher_scst", tmp_path)
    before, *_, after = validations(tmp_path / "teacher_scst")
    assert after >= before
