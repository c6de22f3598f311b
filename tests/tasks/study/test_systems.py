"""A study without a common start: systems of several kinds on one store, on one clock."""

import json
from pathlib import Path
from typing import Any

import pytest

from naic.config import to_toml
from naic.data import features
from naic.data.features import FeatureStore
from naic.errors import ConfigError, TrainingError
from naic.metrics.score import FEWEST_IMAGES
from naic.models.folder import load_model
from naic.resume import locked
from naic.tasks.options import WORDS
from naic.tasks.reproduce.run_file import ReproduceOptions
from naic.tasks.study import speed
from naic.tasks.study.run import dry_run, run_study
from naic.tasks.study.spec import read_study, runs_of
from naic.tasks.study.tables import Studied
from naic.train import batches
from naic.train.loop import train
from tests.tasks.reproduce.micro import Heard
from tests.train.runs import MODEL, make_learnable_store, on_one_thread

CONFIGS = Path(__file__).parents[3] / "configs"
STEPS = {"epochs": 1.0, "batch": 8, "log_every": 1}
DATA = {"more_than": 0, "captions": 2}
SMALL = {"width": 16, "embedding": 8, "attention": 8, "length": 8}
BASES: dict[str, dict[str, Any]] = {
    "aic": {"stage": "teacher_xe", "captioner": "causal", "model": {**MODEL, "length": 12}},
    "updown": {"stage": "teacher_xe", "captioner": "updown", "model": SMALL},
    "rl": {"stage": "scst", "captioner": "updown", "guard": {"fraction": 0.0}},
    "kd": {"stage": "student_xe", "captioner": "parallel"},
    "naic": {"stage": "student_xe", "captioner": "parallel", "model": MODEL},
}
VARIANTS: list[dict[str, Any]] = [
    {"name": "AIC", "base": "aic.toml", "beams": [1, 3]},
    {"name": "Up-Down", "base": "updown.toml"},
    {"name": "Up-Down + RL", "base": "rl.toml", "after": "Up-Down"},
    {"name": "NAIC-base", "base": "naic.toml"},
    {"name": "NAIC (KD)", "base": "kd.toml", "after": "AIC", "taught": "AIC"},
]
ROWS = ["AIC", "AIC, beam 3", "Up-Down", "Up-Down + RL", "NAIC-base", "NAIC (KD)"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("systems")
    make_learnable_store(folder / "store", 16, validation=FEWEST_IMAGES)
    for name, values in BASES.items():
        (folder / f"{name}.toml").write_text(to_toml({"data": DATA, "run": STEPS, **values}))
    return folder


def write(home: Path, variants: list[dict[str, Any]]) -> Path:
    values = {"features": str(home / "store"), "report": ["val"], "compare_with": "AIC"}
    path = home / "systems.toml"
    path.write_text(to_toml({**values, "speed": True, "half": True, "variant": variants}))
    return path


def asked(home: Path, out: Path, **over: Any) -> ReproduceOptions:
    values: dict[str, Any] = {"device": "cpu", "fast": True, **over}
    return ReproduceOptions(out, study=home / "systems.toml", **values)


def run(home: Path, out: Path, heard: Heard | None = None, **over: Any) -> Studied:
    write(home, VARIANTS)
    with on_one_thread(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(speed, "SECONDS", 1e-6)  # the times are not what is tested
        patch.setattr(speed, "BATCHES", (1, 2))
        return run_study(asked(home, out, **over), (heard or Heard()).callbacks, "naic x")


@pytest.fixture(scope="module")
def counted() -> list[int]:
    """How many images each reading of features for training had."""
    return []


@pytest.fixture(scope="module")
def made(home: Path, counted: list[int]) -> Studied:
    reading = features.read_features

    def count(store: Any, rows: Any, *others: Any) -> Any:
        counted.append(len(rows))
        return reading(store, rows, *others)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "read_features", count)
        return run(home, home / "out")


def test_features_are_read_once_for_all_systems(made: Studied, counted: list[int]) -> None:
    assert counted == [16]


def test_all_systems_are_in_one_table(made: Studied, home: Path) -> None:
    rows = {row["system"]: row for row in made.content["splits"]["val"]["rows"]}
    assert list(rows) == ROWS
    assert made.left_out == []
    assert made.content["start"] is None
    assert rows["AIC"]["captions"] != rows["AIC, beam 3"]["captions"]
    assert rows["Up-Down"]["difference"]["CIDEr"]["low"] is not None
    gained = rows["Up-Down + RL"]["from_start"]["CIDEr"]["value"]
    assert gained == pytest.approx(rows["Up-Down + RL"]["CIDEr"] - rows["Up-Down"]["CIDEr"])
    assert all(row["seconds"] > 0 for row in rows.values())
    note = json.loads((home / "out" / "up-down-rl" / "run.json").read_bytes())
    assert any("up-down/train/best" in path for path in note["made_from"])
    pseudo = json.loads((home / "out" / "naic-kd" / "pseudo" / "index.json").read_bytes())
    assert pseudo["beam"] == 3
    (config,) = [
        own["config"]
        for own in json.loads((home / "out" / "naic-kd" / "run.json").read_bytes())["runs"].values()
    ]
    assert "naic-kd/pseudo" in config


def test_all_are_on_one_clock(made: Studied) -> None:
    found = made.content["speed"]
    assert list(found["rows"]) == ROWS
    assert found["words"] == WORDS
    assert found["runtimes"] == ["eager"]
    passes = {name: own["passes"] for name, own in found["rows"].items()}
    assert passes == {**dict.fromkeys(ROWS, WORDS), "NAIC-base": 1, "NAIC (KD)": 1}
    for own in found["rows"].values():
        assert own["parameters"] > 1000
        one, two = own["times"]["eager"].values()
        assert one["images_per_second"] == pytest.approx(1000 / one["median_ms"])
        assert two["images_per_second"] == pytest.approx(2000 / two["median_ms"])


@pytest.mark.gpu
def test_on_a_gpu_all_are_timed_as_graphs_too(
    made: Studied, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speed, "SECONDS", 1e-6)
    folders = {own["system"]: own["folder"] for own in made.content["splits"]["val"]["rows"]}
    rows = {
        name: speed.Measured(home / "out" / folder / "train" / "best", 3 if "beam" in name else 1)
        for name, folder in folders.items()
    }
    store = FeatureStore(home / "store")
    found = speed.measure_speed(rows, store, [0, 1], "cuda", {}, print)
    assert found["runtimes"] == ["graph", "eager"]
    times = [own for row in found["rows"].values() for own in row["times"].values()]
    assert all(own["median_ms"] > 0 for batches in times for own in batches.values())


def test_a_model_is_kept_in_half_precision(made: Studied, home: Path) -> None:
    best, half = (home / "out" / "aic" / name for name in ("train/best", "half"))
    sizes = [(folder / "model.safetensors").stat().st_size for folder in (best, half)]
    assert sizes[1] < 0.6 * sizes[0]
    assert load_model(half).settings == load_model(best).settings


def test_it_is_timed_again_only_with_other_models(
    made: Studied, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speed, "_times", None)
    assert run(home, home / "out").content["speed"] == made.content["speed"]


def test_what_another_process_is_at_is_left_to_it(home: Path, tmp_path: Path) -> None:
    """And what comes after that: two processes with the same command share the work."""
    heard, out = Heard(), tmp_path / "out"
    run(home, out, only="NAIC-base")
    (out / "up-down").mkdir()
    with locked(out / "up-down"):
        found = run(home, out, heard, only="Up-Down,Up-Down + RL")
    assert "Up-Down: another process is at it" in heard.lines
    assert any("it comes after Up-Down, which is not finished" in line for line in heard.lines)
    assert found.left_out == ["AIC", "AIC, beam 3", "Up-Down", "Up-Down + RL", "NAIC (KD)"]
    found = run(home, out, only="Up-Down,Up-Down + RL")
    assert found.left_out == ["AIC", "AIC, beam 3", "NAIC (KD)"]


def test_a_killed_run_goes_on(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def die(settings: Any, **others: Any) -> Any:
        calls.append(settings.out.parent.name)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return train(settings, **others)

    monkeypatch.setattr("naic.train.loop.train", die)
    only = "Up-Down,Up-Down + RL"
    with pytest.raises(KeyboardInterrupt):
        run(home, tmp_path / "out", only=only)
    states = [line.state for line in dry_run(asked(home, tmp_path / "out", only=only))]
    assert states == ["done", "go on"]
    run(home, tmp_path / "out", only=only)
    assert calls == ["up-down", "up-down-rl", "up-down-rl"]


def test_one_that_collapses_does_not_keep_the_others_from_being_made(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def collapse(settings: Any, **others: Any) -> Any:
        calls.append(settings.out.parent.name)
        if calls[-1] == "up-down":
            raise TrainingError("loss", "it is no number", "Go slower.")
        return train(settings, **others)

    monkeypatch.setattr("naic.train.loop.train", collapse)
    with pytest.raises(TrainingError, match="it is no number"):
        run(home, tmp_path / "out", only="NAIC-base,Up-Down,Up-Down + RL")
    assert calls == ["up-down", "naic-base"]  # the longest way first
    assert (tmp_path / "out" / "captions" / "naic-base-val-beam1.json").is_file()


@pytest.mark.parametrize(
    ("variant", "said"),
    [
        ({"name": "odd"}, "odd': base: neither it nor the file names"),
        ({"name": "odd", "base": "aic.toml", "after": "NIC"}, "there is no 'NIC' before it"),
        ({"name": "odd", "base": "aic.toml", "after": "odd"}, "there is no 'odd' before it"),
        ({"name": "odd", "base": "naic.toml", "taught": "NIC"}, "there is no 'NIC' before it"),
        ({"name": "odd", "base": "kd.toml", "taught": "NAIC-base"}, "teaches nobody"),
        ({"name": "odd", "base": "aic.toml", "beams": []}, "no list of widths"),
        ({"name": "odd", "base": "naic.toml", "beams": [3]}, "says its words at once"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_run(
    home: Path, tmp_path: Path, variant: dict[str, Any], said: str
) -> None:
    write(home, [*VARIANTS, variant])
    with pytest.raises(ConfigError, match=said):
        run_study(asked(home, tmp_path / "new"), Heard().callbacks, "naic x")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["shapes", "coco"])
def test_our_tables_have_all_systems_on_equal_terms(name: str, tmp_path: Path) -> None:
    options = ReproduceOptions(tmp_path, study=CONFIGS / name / "systems.toml", device="cpu")
    study = read_study(options)
    by_words = [
        next(iter(runs_of(study, own, options).values())) for own in study.variants if not own.after
    ]
    assert {own.captioner for own in by_words} >= {
        "nic",
        "updown",
        "vsua",
        "ort",
        "eta",
        "fnic",
        "satic",
        "ctc",
    }
    assert {str(own.data.features) for own in by_words} == {str(study.settings.features)}
    if name == "coco":
        assert {own.run.epochs for own in by_words} == {8.0}
        assert {own.run.batch for own in by_words} == {256}
        assert len({own.schedule for own in by_words}) == 1
