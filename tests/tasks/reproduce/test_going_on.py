"""Reproductions that go on, that are asked for again, and that are refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from naic.data.features import FeatureStore
from naic.errors import ConfigError, NaicError, StoreError
from naic.tasks.reproduce.run import dry_run, reproduce
from naic.train.engine import TrainingEngine
from tests.tasks.reproduce.conftest import ALL_TABLES
from tests.tasks.reproduce.micro import Heard, differences, make_options, write_preset


def read(path: Path) -> Any:
    return json.loads(path.read_bytes())


def everything(folder: Path) -> dict[str, tuple[bytes, int]]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}


def test_a_finished_run_only_tells_its_tables(
    whole: Path, preset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = everything(whole)
    monkeypatch.setattr("naic.train.loop.train", lambda *_, **__: pytest.fail("it trains"))
    heard = Heard()
    found = reproduce(make_options(preset, whole, tables=ALL_TABLES), heard.callbacks)
    assert found.tables["ladder"] == read(whole / "table1.json")
    assert found.tables["unlabelled"] == read(whole / "table5.json")
    assert len(found.examples) == 3
    assert heard.lines == []
    assert everything(whole) == before


def test_fewer_tables_of_a_finished_run_take_no_training(
    whole: Path, preset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And none of its captions is made or scored again."""
    monkeypatch.setattr("naic.train.loop.train", lambda *_, **__: pytest.fail("it trains"))
    monkeypatch.setattr(
        "naic.tasks.reproduce.judging.evaluate", lambda *_, **__: pytest.fail("it scores")
    )
    table = (whole / "table1.json").read_bytes()
    run_file = (whole / "run.json").read_bytes()
    try:
        reproduce(make_options(preset, whole, tables="topk"), Heard().callbacks)
        assert (whole / "table1.json").read_bytes() == table
    finally:
        (whole / "run.json").write_bytes(run_file)


@pytest.mark.parametrize(
    ("over", "told"),
    [
        ({"quick": True}, r"it was begun with quick = False \(now True\)"),
        ({"device": "auto"}, "it was begun with device = 'cpu'"),
        ({"features": Path("x")}, r"it was begun with no features \(now 'x'\)"),
    ],
)
def test_a_folder_is_of_one_run(whole: Path, preset: Path, over: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        reproduce(make_options(preset, whole, **over), Heard().callbacks)


def test_a_folder_of_something_else(preset: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "diary.txt").write_text("mine")
    with pytest.raises(StoreError, match=r"not empty \(diary\.txt\) and holds no reproduction"):
        reproduce(make_options(preset, tmp_path / "out"), Heard().callbacks)
    with pytest.raises(StoreError, match="is no folder"):
        reproduce(make_options(preset, tmp_path / "out" / "diary.txt"), Heard().callbacks)


def test_the_settings_of_a_stage_may_not_change(
    short: Path, preset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A finished stage is that of the preset's files as they are now, or the run stops."""
    path = preset / "cmal.toml"
    text = path.read_text()
    run_file = (short / "run.json").read_bytes()
    path.write_text(text.replace("learning_rate = 0.003", "learning_rate = 0.004"))
    try:
        with pytest.raises(ConfigError, match=r"begun with schedule.learning_rate = 0\.003"):
            reproduce(make_options(preset, short, quick=True), Heard().callbacks)
    finally:
        path.write_text(text)
        (short / "run.json").write_bytes(run_file)


def test_a_stage_made_from_another_model_is_refused(
    short: Path, preset: Path, tmp_path: Path
) -> None:
    weights = short / "naic-kd" / "best" / "model.safetensors"
    kept, run_file = weights.read_bytes(), (short / "run.json").read_bytes()
    weights.write_bytes((short / "naic-base" / "best" / "model.safetensors").read_bytes())
    (short / "table1.json").rename(tmp_path / "table1.json")  # or it would only be told again
    try:
        with pytest.raises(StoreError, match="made from another naic-kd than is there now"):
            reproduce(make_options(preset, short, quick=True), Heard().callbacks)
    finally:
        weights.write_bytes(kept)
        (tmp_path / "table1.json").rename(short / "table1.json")
        (short / "run.json").write_bytes(run_file)


def figures(folder: Path) -> list[dict[str, Any]]:
    """The table without what is measured by a clock."""
    rows = read(folder / "table1.json")
    return [{k: v for k, v in row.items() if k not in ("latency_ms", "speedup")} for row in rows]


def test_the_short_form(short: Path) -> None:
    assert [row["system"] for row in figures(short)] == ["AIC beam 3", "NAIC-base", "+KD", "+CMAL"]
    assert len(FeatureStore(short / "features")) == 60
    assert not (short / "teacher-scst").exists()
    stages = read(short / "run.json")["stages"]
    assert stages["teacher-xe"]["steps"] == 2  # half an epoch of 48 images
    assert stages["naic-kd"]["steps"] == 3


class Stop(BaseException):
    """Stands for a kill."""


def test_a_run_that_was_cut_off_goes_on(
    short: Path, preset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut in the middle of every kind of stage, it ends with the figures of the unbroken run."""
    options = make_options(preset, tmp_path / "out", quick=True)
    step, counted = TrainingEngine.step, [0]

    def stopping(self: TrainingEngine, *arguments: Any) -> Any:
        counted[0] += 1
        if counted[0] in (2, 5, 9, 13):
            raise Stop
        return step(self, *arguments)

    monkeypatch.setattr(TrainingEngine, "step", stopping)
    monkeypatch.setattr("naic.tasks.reproduce.report.measure_latency", _once_stopped())
    stops = 0
    while True:
        try:
            reproduce(options, Heard().callbacks, "naic reproduce")
            break
        except Stop:
            stops += 1
    assert stops == 5
    assert figures(options.out) == figures(short)
    calls = read(options.out / "run.json")["calls"]
    assert [call["seconds"] is None for call in calls] == [True] * 5 + [False]


def _once_stopped() -> Callable[..., dict[str, Any]]:
    stopped: list[bool] = []

    def measure(models: dict[str, Any], *_: Any) -> dict[str, Any]:
        if not stopped:
            stopped.append(True)
            raise Stop
        return {"milliseconds": dict.fromkeys(models, 2.0), "words": 11}

    return measure


def test_several_seeds(short: Path, preset: Path, tmp_path: Path) -> None:
    """The teacher is shared, the students are not; the first seed is that of a single one."""
    out = tmp_path / "out"
    single = figures(short)
    reproduce(make_options(preset, out, quick=True, seeds=2), Heard().callbacks)
    rows = {row["system"]: row for row in figures(out)}
    for row in single:
        many = rows[row["system"]]
        assert many["per_seed"][0] == row["per_seed"][0]
        if row["system"] == "AIC beam 3":
            assert many["seeds"] == 1
            continue
        assert many["seeds"] == 2
        values = [own["CIDEr"] for own in many["per_seed"]]
        assert many["CIDEr"] == pytest.approx(sum(values) / 2)
        assert many["spread"]["CIDEr"] == pytest.approx(abs(values[0] - values[1]) / 2**0.5)
    assert {path.name for path in (out / "seed-2").iterdir()} == {
        "naic-base",
        "naic-kd",
        "naic-cmal",
    }
    assert differences(out / "naic-base", out / "seed-2" / "naic-base") == {"seed"}
    assert differences(out / "naic-kd", out / "seed-2" / "naic-kd") == {"seed"}
    assert "± " in (out / "table1.md").read_text()


def test_only_tables(preset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = make_options(preset, tmp_path / "out", quick=True)
    with pytest.raises(ConfigError, match="there are no features yet"):
        reproduce(
            make_options(preset, tmp_path / "new", quick=True, only_tables=True), Heard().callbacks
        )
    assert not (tmp_path / "new").exists()
    counted = [0]
    step = TrainingEngine.step

    def stopping(self: TrainingEngine, *arguments: Any) -> Any:
        counted[0] += 1
        if counted[0] > 5:  # the teacher has 2, the first student 3
            raise Stop
        return step(self, *arguments)

    monkeypatch.setattr(TrainingEngine, "step", stopping)
    with pytest.raises(Stop):
        reproduce(options, Heard().callbacks)
    part = make_options(preset, tmp_path / "out", quick=True, only_tables=True)
    found = reproduce(part, Heard().callbacks)
    assert [row["system"] for row in found.tables["ladder"]] == ["AIC beam 3", "+KD"]
    assert found.left_out == ["table1: NAIC-base", "table1: +CMAL"]
    assert "finished" not in read(options.out / "run.json")
    states = {line.name: line.state for line in dry_run(options)}
    assert states == {
        "features": "done",
        "teacher-xe": "done",
        "pseudo": "done",
        "naic-kd": "done",
        "naic-cmal": "go on",
        "naic-base": "make",
    }


def test_a_dry_run_writes_nothing(preset: Path, tmp_path: Path) -> None:
    options = make_options(preset, tmp_path / "out", tables="topk", seeds=2)
    lines = dry_run(options)
    assert {line.state for line in lines} == {"make"}
    assert [line.name for line in lines].count("teacher-xe") == 1
    assert "seed-2/naic-cmal-k1" in [line.name for line in lines]
    assert not options.out.exists()


def test_data_of_ones_own(short: Path, preset: Path, tmp_path: Path) -> None:
    """With --features the preset's own data is not made; unlabelled images are then to be given."""
    bare = write_preset(tmp_path / "p", prepare={"source": "x"}, unlabelled=None)
    options = make_options(bare, tmp_path / "out", quick=True, features=short / "features")
    reproduce(options, Heard().callbacks)
    assert not (options.out / "features").exists()
    ours = [(row["system"], row["CIDEr"]) for row in figures(options.out)]
    assert ours == [(row["system"], row["CIDEr"]) for row in figures(short)]


@pytest.mark.parametrize(
    ("files", "over", "error", "told"),
    [
        ({}, {"tables": "topc"}, ConfigError, "there is no table 'topc'"),
        ({}, {"seeds": 0}, ConfigError, "0 is not from 1 to 100"),
        ({"unlabelled": None}, {"tables": "unlabelled"}, ConfigError, "no unlabelled images"),
        ({}, {"features": Path("nowhere")}, StoreError, "there is no such folder"),
        ({"cmal": {"stage": "cmall"}}, {}, ConfigError, "cmall"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(
    tmp_path: Path, files: dict[str, Any], over: dict[str, Any], error: type[NaicError], told: str
) -> None:
    options = make_options(write_preset(tmp_path / "p", **files), tmp_path / "out", **over)
    with pytest.raises(error, match=told):
        reproduce(options, Heard().callbacks)
    assert not options.out.exists()


def test_missing_data_is_said_before_anything_is_written(tmp_path: Path) -> None:
    options = make_options("coco", tmp_path / "out")
    with pytest.raises(ConfigError, match="names no source") as caught:
        reproduce(options, Heard().callbacks)
    assert "--features STORE" in caught.value.hint
    assert not options.out.exists()


def test_unlabelled_images_that_are_labelled_are_refused(
    whole: Path, preset: Path, tmp_path: Path
) -> None:
    """Else the teacher would have seen their captions."""
    same = whole / "features"
    folder = write_preset(tmp_path / "p", preset={"systems": ["+unlabelled"], "scst": False})
    options = make_options(folder, tmp_path / "out", features=same, unlabelled=same)
    with pytest.raises(StoreError, match="120 of its images are in the labelled store too"):
        reproduce(options, Heard().callbacks)


def test_a_split_without_captions_cannot_be_reported(short: Path, tmp_path: Path) -> None:
    folder = write_preset(tmp_path / "p", preset={"report": "tset"}, unlabelled=None)
    options = make_options(folder, tmp_path / "out", quick=True, features=short / "features")
    with pytest.raises(ConfigError, match="'tset'"):
        reproduce(options, Heard().callbacks)
    assert not (options.out / "teacher-xe").exists()  # said before anything is trained


def test_schedules_of_whole_epochs_cannot_make_the_same_steps(whole: Path, tmp_path: Path) -> None:
    paper = {"schedule": {"kind": "paper", "learning_rate": 3e-3}}
    folder = write_preset(
        tmp_path / "p",
        student_kd=paper,
        preset={"systems": ["+unlabelled"], "shares": [1.0], "scst": False},
    )
    options = make_options(
        folder,
        tmp_path / "out",
        features=whole / "features",
        unlabelled=whole / "unlabelled-features",
    )
    with pytest.raises(ConfigError, match="counts whole epochs"):
        reproduce(options, Heard().callbacks)
