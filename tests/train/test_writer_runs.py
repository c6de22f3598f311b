"""Runs of the captioners that write word by word, beside the Transformer: learnt and resumed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from naic.errors import ConfigError
from naic.models.folder import load_model
from naic.tasks.options import PrepareOptions
from naic.tasks.prepare import prepare
from naic.train.config import read_settings
from naic.train.engine import TrainingEngine
from naic.train.logs import read_metrics
from naic.train.loop import train
from naic.train.settings import Settings
from tests.models.writers import GRIDS, SIZES
from tests.runtime.small import NETWORK
from tests.train.runs import COMMAND, EPOCH, LENGTH, make_learnable_store, run_settings
from tests.train.sameness import differences

LEARNING: dict[str, Any] = {"schedule": {"learning_rate": 2e-2}, "optimiser": {"average": 0.0}}

STORES = {"blobs": "blobs", "grid": NETWORK}
# Cross-entropy first: reinforcement goes on with its model.
CONFIGS = sorted(
    (p for n in SIZES for p in (Path(__file__).parents[2] / "configs/shapes").glob(f"{n}_*.toml")),
    key=lambda path: path.stem.endswith("scst"),
)


def settings_of(name: str, stage: str = "teacher_xe", *, epochs: float = 2.0) -> Settings:
    """Of a run in a folder beside the store."""
    more = LEARNING if stage == "teacher_xe" else {**LEARNING, "start": "../one/start/best"}
    chosen = run_settings(stage, epochs=epochs, captioner=name, model=None, **more)
    sizes = {**SIZES[name], "length": LENGTH, "dropout": 0.1}
    return replace(chosen, model=sizes if stage == "teacher_xe" else {})


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_learnable_store(tmp_path / "store", regions=4)  # a grid
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "one")
    return tmp_path


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the features of some drawn scenes."""
    folder = tmp_path_factory.mktemp("scenes")
    for name, backbone in STORES.items():
        given = PrepareOptions("shapes", "60", folder / name, backbone=backbone, device="cpu")
        prepare(replace(given, pixels=64) if name == "grid" else given)
    return folder


def killed_and_resumed(settings: Settings, step: int) -> None:
    def dying(self: TrainingEngine, number: int, rate: float) -> object:
        if number == step:
            raise KeyboardInterrupt
        return whole(self, number, rate)

    whole = TrainingEngine.step
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainingEngine, "step", dying)
        with pytest.raises(KeyboardInterrupt):
            train(settings, command=COMMAND)
    train(settings, command=COMMAND, resume=True)


@pytest.mark.parametrize("name", list(SIZES))
def test_it_learns_and_a_killed_run_ends_with_the_same_bits(
    here: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(name, epochs=6.0)
    report = train(settings, command=COMMAND)
    losses = [float(line["loss"]) for line in read_metrics(Path("run")) if "loss" in line]
    assert len(losses) == 6 * EPOCH
    assert losses[-1] < 0.6 * losses[0]
    assert report["captioner"] == name
    monkeypatch.chdir(here / "two")
    killed_and_resumed(settings, EPOCH + 2)
    assert differences(here / "one" / "run", here / "two" / "run") == []
    assert load_model(Path("run/best")).settings.captioner == name


@pytest.mark.parametrize("name", list(SIZES))
def test_so_does_a_run_by_rewards(here: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    train(replace(settings_of(name, epochs=4.0), out=Path("start")))
    settings = settings_of(name, "scst", epochs=1.0)
    report = train(settings, command=COMMAND)
    assert report["stage"] == "scst"
    rewards = [float(line["reward"]) for line in read_metrics(Path("run")) if "reward" in line]
    assert len(rewards) == EPOCH
    assert len(set(rewards)) > 1
    monkeypatch.chdir(here / "two")
    killed_and_resumed(settings, 2)
    assert differences(here / "one" / "run", here / "two" / "run") == []


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_the_configs_of_drawn_scenes_run(scenes: Path, path: Path) -> None:
    """On few scenes: what is learnt of all of them, `naic train` shows in minutes."""
    store = "grid" if path.stem.partition("_")[0] in GRIDS else "blobs"
    start = [("start", str(scenes / path.stem.replace("scst", "xe") / "best"))]
    given = [
        ("out", str(scenes / path.stem)),
        ("data.features", str(scenes / store)),
        ("run.epochs", "1.0"),
        ("run.batch", "10"),
        ("run.validate_every", "1.0"),
        ("validation.report", "[2]"),
        ("engine.device", "cpu"),
        *(start if path.stem.endswith("scst") else []),
    ]
    train(read_settings(path, given))
    assert load_model(scenes / path.stem / "best").settings.backbone == STORES[store]


def test_it_is_no_student(here: Path) -> None:
    with pytest.raises(ConfigError, match="nic captioner cannot be trained by student_xe"):
        train(replace(settings_of("nic"), stage="student_xe"))
