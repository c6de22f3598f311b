"""A whole reproduction in small: what it leaves, what it is made from, what it refuses."""

import csv
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from naic.data.features import FeatureStore
from naic.data.pseudo import PseudoStore
from naic.tasks.evaluate.options import NAMES, EvaluateOptions
from naic.tasks.evaluate.run import evaluate
from naic.tasks.reproduce.preset import LADDER
from naic.text import Vocabulary
from tests.tasks.evaluate.evaluations import embedded
from tests.tasks.reproduce.conftest import ALL_TABLES
from tests.tasks.reproduce.micro import STEPS, differences

TEST_SCENES = 12  # of 120


def read(path: Path) -> Any:
    return json.loads(path.read_bytes())


def test_the_ladder_is_a_list_of_rows(whole: Path) -> None:
    rows = read(whole / "table1.json")
    assert [row["system"] for row in rows] == list(LADDER)
    for row in rows:
        measured = {name for name in NAMES if isinstance(row[name], float)}
        assert measured == {*NAMES} - {"METEOR", "SPICE"}  # left out, and not made up
        assert (row["METEOR"], row["SPICE"]) == (None, None)
        assert 0 <= row["repeats"] <= 1
        assert 0 <= row["bad_endings"] <= 1
        assert 0 <= row["facts"] <= 1
        assert row["latency_ms"] > 0
        assert (row["paper"] is None) == row["system"].startswith("AIC XE")
        assert (row["seeds"], row["spread"]) == (1, {})
    times = {row["system"]: row["latency_ms"] for row in rows}
    for row in rows:
        assert row["speedup"] == pytest.approx(times["AIC beam 3"] / row["latency_ms"])
    assert len({times[name] for name in LADDER[4:]}) == 1


def test_scores_are_those_of_the_captions_that_are_kept(whole: Path) -> None:
    for row in read(whole / "table1.json"):
        results = whole / row["captions"][0]
        assert len(read(results)) == TEST_SCENES
        options = EvaluateOptions(
            results, str(whole / "features"), split=("test",), fast=True, bootstrap=0
        )
        found = evaluate(options).system
        assert {name: row[name] for name in found.scores} == {
            name: score.value for name, score in found.scores.items()
        }
        assert row["repeats"] == found.habits.repeats


def test_all_tables_are_there_in_three_forms(whole: Path) -> None:
    systems = {
        "table1": 9,
        "table3": 2 * 4,
        "table4": 2,
        "table5": 6,
        "table_fill": 4,
    }
    for name, count in systems.items():
        rows = read(whole / f"{name}.json")
        assert len(rows) == count
        page = (whole / f"{name}.md").read_text()
        assert page.count("\n| ") == count + 1
        assert all(f"| {row['system']} |" in page for row in rows)
        assert "| n/a |" in page
        with (whole / f"{name}.csv").open(newline="") as file:
            sheet = list(csv.DictReader(file))
        assert [line["system"] for line in sheet] == [row["system"] for row in rows]
        assert [float(line["CIDEr"]) for line in sheet] == [row["CIDEr"] for row in rows]
        assert {line["METEOR"] for line in sheet} == {""}


def test_compared_runs_make_as_many_steps(whole: Path) -> None:
    stages = read(whole / "run.json")["stages"]
    steps = {name: stage["steps"] for name, stage in stages.items() if "steps" in stage}
    assert len(steps) == 19
    assert {*steps.values()} == {STEPS}
    # Their validations are at the same steps too, however many images there are.
    looks = {
        name: [line["step"] for line in _metrics(whole / name) if "cider" in line]
        for name in ("naic-kd", "naic-kd-unlabelled", "naic-kd-unlabelled-50")
    }
    assert looks["naic-kd"] == looks["naic-kd-unlabelled"] == looks["naic-kd-unlabelled-50"]


def _metrics(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_compared_runs_differ_in_what_is_compared(whole: Path) -> None:
    cmal = whole / "naic-cmal"
    assert differences(cmal, whole / "naic-cmal-none") == {"cmal.baseline"}
    assert differences(cmal, whole / "naic-cmal-loo") == {"cmal.baseline", "cmal.samples"}
    assert differences(cmal, whole / "naic-cmal-k1") == {"cmal.topk"}
    assert differences(cmal, whole / "naic-cmal-scratch") == {"start"}
    assert differences(cmal, whole / "naic-cmal-unlabelled") == {"start"}
    assert differences(whole / "naic-kd", whole / "naic-kd-scratch") == {"start"}
    assert differences(whole / "naic-kd", whole / "naic-kd-fill") == {"xe.fill"}
    assert differences(whole / "naic-base", whole / "naic-init") == {"start"}
    assert differences(whole / "naic-kd", whole / "naic-init") == {"data.pseudo"}


def test_unlabelled_means_unseen(whole: Path) -> None:
    labelled, unlabelled = (
        FeatureStore(whole / name) for name in ("features", "unlabelled-features")
    )
    assert {record.captions for record in unlabelled.records} == {()}
    assert not {r.id for r in labelled.records} & {r.id for r in unlabelled.records}
    taught = PseudoStore(whole / "pseudo-unlabelled").captions
    assert {*taught} == {record.id for record in unlabelled.records}
    half = PseudoStore(whole / "pseudo-unlabelled-50").captions
    assert list(half.items()) == list(taught.items())[:16]
    learnt = {r.id for r in labelled.records if r.split == "train"}
    assert {*PseudoStore(whole / "pseudo").captions} == learnt
    report = read(whole / "teacher-scst" / "report.json")
    assert report["data"]["images"] == len(learnt)


def test_all_speak_the_teachers_words(whole: Path) -> None:
    runs = [path.parent for path in whole.glob("*/vocab.json")]
    words = {Vocabulary.load(run / "vocab.json").fingerprint for run in runs}
    assert len(runs) > 18
    assert len(words) == 1


def test_figures_and_pages(whole: Path) -> None:
    names = {path.name for path in (whole / "figures").iterdir()}
    assert names == {
        "ladder.svg",
        "latency.svg",
        "baselines-scratch.svg",
        "baselines-weight-init.svg",
    }
    for name in names:
        ElementTree.parse(whole / "figures" / name)
    curves = (whole / "figures" / "baselines-scratch.svg").read_text()
    assert all(f">{name}</text>" in curves for name in ("none", "loo", "cf"))
    page = (whole / "captions.md").read_text()
    assert page.count("\n## shapes-0-") == 3
    for who in ("human", "teacher", "NAIC-base", "NAIC-XE (+KD)", "NAIC-CMAL"):
        assert page.count(f"\n| {who} |") == 3
    images = [part.partition(")")[0] for part in page.split("](")[1:]]
    assert all((whole / image).is_file() for image in images)
    data = embedded((whole / "captions.html").read_text())
    assert all((whole / image).is_file() for image in data["links"])
    assert [len(system["captions"]) for system in data["systems"]] == [3] * 4


def test_the_journal(whole: Path) -> None:
    run = read(whole / "run.json")
    assert [call["command"] for call in run["calls"]] == ["naic reproduce"]
    assert run["calls"][0]["seconds"] > 0
    assert all(stage["seconds"] >= 0 for stage in run["stages"].values())
    assert run["latency"]["images"] >= 50
    assert run["latency"]["device"] == "cpu"
    assert run["latency"]["words"] == 11
    assert run["finished"]["tables"] == ["ladder", *ALL_TABLES.split(",")]
    assert run["stages"]["naic-cmal"]["made_from"].keys() == {"features", "naic-kd"}
