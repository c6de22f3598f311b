"""A study of three variants: what is made, what is not made again, and what the table says."""

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from naic.cli.main import main
from naic.data import features
from naic.errors import ConfigError, StoreError
from naic.metrics.score import differences
from naic.resume import locked
from naic.tasks.evaluate.options import EvaluateOptions
from naic.tasks.evaluate.run import evaluate
from naic.tasks.reproduce.run_file import ReproduceOptions
from naic.tasks.study.run import dry_run
from naic.tasks.study.tables import Studied
from naic.train import batches, loop
from naic.train.kept import Kept
from tests.models.conftest import one_thread
from tests.tasks.reproduce.micro import Heard
from tests.tasks.study.small import STEPS, VARIANTS, Place

__all__ = ["one_thread"]
SYSTEMS = [
    "start",
    "plain",
    "surer: k = 1",
    "surer: k = 1 + rescore 3",
    "taught: before",
    "taught",
    "teacher, beam 3",
]


def read(path: Path) -> Any:
    return json.loads(path.read_bytes())


def rows_of(found: Studied) -> dict[str, dict[str, Any]]:
    return {row["system"]: row for row in found.content["splits"]["val"]["rows"]}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("study"))


@pytest.fixture(scope="module")
def counted() -> list[int]:
    """How many images each reading of features for training had."""
    return []


@pytest.fixture(scope="module")
def out(place: Place) -> Path:
    return place.folder / "out"


@pytest.fixture(scope="module")
def made(place: Place, out: Path, counted: list[int]) -> Studied:
    place.write()
    reading = features.read_features

    def count(store: Any, rows: Any, *others: Any) -> Any:
        counted.append(len(rows))
        return reading(store, rows, *others)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "read_features", count)
        return place.run(out)


def test_all_rows_are_there(made: Studied) -> None:
    rows = rows_of(made)
    assert list(rows) == SYSTEMS
    assert made.left_out == []
    assert [rows[name]["steps"] for name in SYSTEMS[:6]] == [None, *[STEPS] * 4, 2 * STEPS]
    assert rows["taught: before"]["changes"] == {"first.base": "first.toml"}
    assert rows["taught: before"]["captions"] != rows["taught"]["captions"]
    assert rows["plain"]["changes"] == {}
    assert rows["taught"]["changes"] == {"first.base": "first.toml", "cmal.xe": 0.1}
    assert rows["surer: k = 1"]["entropy"] > 0
    assert rows["start"]["entropy"] is None
    assert rows["teacher, beam 3"]["latency_ms"] > 0
    assert rows["surer: k = 1 + rescore 3"]["latency_ms"] > 0
    assert all(row["vocabulary"] >= 1 for row in rows.values())


def test_the_files_say_the_same(made: Studied, out: Path) -> None:
    assert read(out / "study.json") == made.content
    text = (out / "study.md").read_text()
    assert "| taught |" in text
    assert "`cmal.topk = 1`, `cmal.entropy = 0.5`" in text
    for row in rows_of(made).values():
        said = f"| {row['steps']}{', none better' if row['best_step'] == 0 else ''} |"
        assert row["steps"] is None or said in text
    lines = list(csv.DictReader((out / "study.csv").read_text().splitlines()))
    assert [line["system"] for line in lines] == SYSTEMS
    assert float(lines[1]["CIDEr"]) == rows_of(made)["plain"]["CIDEr"]


def test_what_a_run_brings_is_told_from_what_it_began_with(made: Studied) -> None:
    rows = rows_of(made)
    for name, before in (
        ("plain", "start"),
        ("taught: before", "start"),
        ("taught", "taught: before"),
    ):
        found = rows[name]["from_start"]["CIDEr"]["value"]
        assert found == pytest.approx(rows[name]["CIDEr"] - rows[before]["CIDEr"])
        found = rows[name]["over_start"]["CIDEr"]["value"]
        assert found == pytest.approx(rows[name]["CIDEr"] - rows["start"]["CIDEr"])


def test_differences_are_paired(made: Studied, place: Place, out: Path) -> None:
    """Against a direct computation from the captions."""
    rows = rows_of(made)
    store = str(place.folder / "store")
    both = [
        evaluate(EvaluateOptions(out / rows[name]["captions"], store, split=("val",), fast=True))
        for name in ("taught", "plain")
    ]
    ours, theirs = ([own.system.scores["CIDEr"]] for own in both)
    (expected,) = differences(ours, theirs, times=1000, seed=0)
    found = rows["taught"]["difference"]["CIDEr"]
    assert found == pytest.approx(
        {"value": expected.value, "low": expected.low, "high": expected.high}
    )
    assert found["low"] < found["high"]
    # The mean of each image's difference is the difference of the means: no other images are drawn.
    each = ours[0].per_image - theirs[0].per_image
    assert found["value"] == pytest.approx(np.mean(each))
    assert "difference" not in rows["plain"]
    assert "gap" not in rows["teacher, beam 3"]
    gap = rows["plain"]["gap"]["CIDEr"]["value"]
    assert gap == pytest.approx(rows["plain"]["CIDEr"] - rows["teacher, beam 3"]["CIDEr"])


def test_features_are_read_once_for_all_variants(made: Studied, counted: list[int]) -> None:
    assert counted == [24]


def test_what_is_finished_is_not_made_again(
    made: Studied, place: Place, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path: path.stat().st_mtime_ns for path in out.glob("*/*/best/*")}
    monkeypatch.setattr(loop, "train", None)
    again = place.run(out)
    assert rows_of(again) == rows_of(made)
    assert {path: path.stat().st_mtime_ns for path in out.glob("*/*/best/*")} == before


def test_some_variants_in_another_folder(place: Place, tmp_path: Path, made: Studied) -> None:
    """As two processes would: each its own, while the other holds the folder too."""
    heard = Heard()
    first = place.run(tmp_path / "new", heard, only="plain")
    assert [line for line in heard.lines if line.startswith("[")] == ["[1/1] plain"]
    assert first.left_out == SYSTEMS[2:-1]
    with locked(tmp_path / "new", shared=True):
        found = place.run(tmp_path / "new", only="surer-k-1")
    assert found.left_out == ["taught: before", "taught"]
    rows, whole = rows_of(found), rows_of(made)
    for name in ("plain", "surer: k = 1"):  # whoever makes it, it is the same
        assert rows[name]["CIDEr"] == whole[name]["CIDEr"]
        assert rows[name]["difference" if name != "plain" else "gap"]["CIDEr"]["low"] is not None


def test_a_killed_variant_goes_on(
    place: Place, tmp_path: Path, made: Studied, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed in the second run of a variant: the first is not made again."""
    training, calls = loop.train, list[str]()

    def die(settings: Any, **others: Any) -> Any:
        calls.append(settings.out.name)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return training(settings, **others)

    monkeypatch.setattr(loop, "train", die)
    with pytest.raises(KeyboardInterrupt):
        place.run(tmp_path / "new", only="taught")
    options = ReproduceOptions(tmp_path / "new", study=place.folder / "study.toml", device="cpu")
    assert [line.state for line in dry_run(options)] == ["make", "make", "go on"]
    found = place.run(tmp_path / "new", only="taught")
    assert calls == ["first", "train", "train"]
    assert rows_of(found)["taught"]["CIDEr"] == rows_of(made)["taught"]["CIDEr"]
    assert rows_of(found)["taught"]["steps"] == 2 * STEPS


def test_captions_that_came_back_are_scored(
    made: Studied, place: Place, out: Path, tmp_path: Path
) -> None:
    """Neither features nor weights: run.json of the variants, and captions."""
    back = tmp_path / "back"
    shutil.copytree(out / "captions", back / "captions")
    shutil.copytree(out / "scores", back / "scores")
    shutil.copy(out / "latency.json", back)
    for path in out.glob("*/run.json"):
        (back / path.parent.name).mkdir()
        shutil.copy(path, back / path.parent.name)
    (back / "captions" / "plain-val-beam1.json").unlink()
    (place.folder / "kd").rename(place.folder / "away")
    try:
        found = place.run(back, only_tables=True, references=str(place.folder / "store"))
    finally:
        (place.folder / "away").rename(place.folder / "kd")
    assert found.left_out == ["plain"]
    rows, whole = rows_of(found), rows_of(made)
    for name in SYSTEMS[2:]:
        kept = {"difference", "from_start", "signature"}
        own, other = (
            {k: v for k, v in r.items() if k not in kept} for r in (rows[name], whole[name])
        )
        assert own == other


BAD: list[tuple[dict[str, Any], str]] = [
    ({"name": "odd", "set": {"cmal.tpk": 3}}, "variant 'odd': cmal.tpk"),
    ({"name": "odd", "set": {"cmal.topk": "many"}}, "variant 'odd': cmal.topk"),
    ({"name": "odd", "set": {"model.dropuot": 0.1}}, "variant 'odd': model.dropuot"),
    ({"name": "odd", "set": {"cmal.samples": 0}}, "variant 'odd': cmal.samples"),
    ({"name": "odd", "first": {"base": "nowhere.toml"}}, "nowhere.toml"),
    ({"name": "odd", "set": {"out": "here"}}, "its folder is the study's"),
    ({"name": "Plain!"}, "its folder would be that of 'plain'"),
    ({"name": "captions"}, "cannot be the name of a folder"),
    ({"name": "odd", "sets": {}}, "sets"),
    ({"name": "odd", "rescore": [1]}, "2 sentences or more"),
    ({"name": "odd", "rescore": [5, 101]}, "up to 100"),
    ({"name": "odd", "set": {"cmal": {"reward": {"no_module:f": 1}}}}, "no module no_module"),
    ({"name": "odd", "set": {"cmal.reward": {"json:dumps": 0.0}}}, "0 is no weight"),
    ({"name": "odd", "set": {"data.pseudo": ["nowhere"]}}, "odd"),
    ({"name": "odd", "set": {"start": "nowhere"}}, "nowhere is not there"),
]


@pytest.mark.parametrize(("variant", "said"), BAD)
def test_what_cannot_be_is_refused_before_anything_is_run(
    variant: dict[str, Any], said: str, place: Place, tmp_path: Path, made: Studied
) -> None:
    place.write([*VARIANTS, variant])
    try:
        with pytest.raises(ConfigError, match=said.replace("(", r"\(")):
            place.run(tmp_path / "new")
    finally:
        place.write()
    assert not (tmp_path / "new").exists()


def test_what_was_changed_since_is_refused(
    place: Place, out: Path, tmp_path: Path, made: Studied
) -> None:
    try:
        place.write([VARIANTS[0] | {"set": {"cmal.topk": 1}}])
        with pytest.raises(ConfigError, match=r"topk = 2 \(now 1\)"):
            place.run(out)
        place.write(start=str(place.folder / "teacher"))
        with pytest.raises(StoreError, match="made from another"):
            place.run(out)
        place.write(teacher=str(place.folder / "stranger"))
        with pytest.raises(ConfigError, match="it cannot rescore"):
            place.run(tmp_path / "new")
        place.write(report=["train"])
        with pytest.raises(ConfigError, match="learns from this split"):
            place.run(tmp_path / "new")
    finally:
        place.write()


def test_only_what_there_is(place: Place, out: Path, made: Studied) -> None:
    with pytest.raises(ConfigError, match="no such variant"):
        place.run(out, only="plian")
    with pytest.raises(ConfigError, match="a study has none"):
        place.run(out, seeds=3)


def test_the_command_prints_the_table(
    place: Place, out: Path, made: Studied, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["reproduce", "--study", str(place.folder / "study.toml"), "--out", str(out)]
    assert main([*words, "--only-tables", "--fast", "--device", "cpu"]) == 0
    said = capsys.readouterr().out
    assert "val, 60 images" in said
    assert "| surer: k = 1 + rescore 3 |" in said
    assert main([*words, "--preset", "tiny"]) == 2
    assert "Give one of them" in capsys.readouterr().err


def test_another_key_lets_the_last_one_go() -> None:
    made = iter("abcd")
    with Kept() as kept:
        found = [kept.get("table", key, lambda: next(made)) for key in (1, 1, 2, 1)]
    assert found == ["a", "a", "b", "c"]
    assert kept.get("table", 1, lambda: next(made)) == "d"
