"""Whole evaluations: small ones by hand, the drawn scenes, and COCO where it is."""

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import naic
from naic.data import shapes
from naic.data.readers.captions import read_captions
from naic.data.records import Problems
from naic.errors import ConfigError, DataError, MetricError, MissingExtraError
from naic.metrics.bleu import bleu
from naic.metrics.cider import DocumentFrequencies, cider
from naic.metrics.score import Score, mean_score
from naic.tasks import evaluate as task
from naic.tasks.evaluate import EvaluateOptions, evaluate, tokenised
from naic.tasks.evaluation_report import as_json, write_reports
from naic.tasks.evaluation_signature import signature_line
from tests.data.readers.helpers import Item, karpathy_value, write_json

SCENES = 30
NAMES = ["Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4", "METEOR", "ROUGE_L", "CIDEr", "SPICE"]


def write_results(path: Path, captions: dict[str, str]) -> Path:
    rows = [{"image_id": image, "caption": caption} for image, caption in captions.items()]
    return write_json(path, rows)


def first_captions(count: int = SCENES, which: int = 0) -> dict[str, str]:
    return {record.id: record.captions[which] for record in shapes.records(count, 0)}


def next_captions() -> dict[str, str]:
    """Each scene with the caption of the next one: mostly wrong."""
    captions = first_captions()
    return dict(zip(captions, [*list(captions.values())[1:], "a a"], strict=True))


@pytest.fixture
def options(tmp_path: Path) -> EvaluateOptions:
    results = write_results(tmp_path / "results.json", next_captions())
    return EvaluateOptions(results, references=str(SCENES), fast=True, bootstrap=200)


def fake(name: str) -> object:
    def score(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Score:
        return mean_score(name, np.array([len(h) / 100 for h in hypotheses]))

    return score


def broken(error: Exception) -> object:
    def score(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Score:
        raise error

    return score


def test_scores_are_those_of_the_metrics(options: EvaluateOptions) -> None:
    found = evaluate(options)
    records = list(shapes.records(SCENES, 0))
    references = tokenised([record.captions for record in records])
    hypotheses = [own[0] for own in tokenised([[c] for c in next_captions().values()])]
    assert list(found.system.scores) == ["Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4", "ROUGE_L", "CIDEr"]
    assert found.system.scores["CIDEr"].value == cider(hypotheses, references).value
    assert found.system.scores["Bleu_4"].value == bleu(hypotheses, references)[3].value
    assert [image.id for image in found.images] == [record.id for record in records]
    for name, (low, high) in found.intervals.items():
        assert low < found.system.scores[name].value < high
    assert found.system.habits.repeats == pytest.approx(1 / SCENES)  # "a a"
    assert found.system.habits.bad_endings == pytest.approx(1 / SCENES)
    assert found.human.captions == 5 * SCENES
    assert found.missing == found.failed == {}


def test_order_of_the_results_does_not_matter(options: EvaluateOptions, tmp_path: Path) -> None:
    turned = dict(reversed(next_captions().items()))
    other = replace(options, results=write_results(tmp_path / "turned.json", turned))
    one, two = evaluate(options), evaluate(other)
    assert one.intervals == two.intervals
    assert one.system.scores["CIDEr"].value == two.system.scores["CIDEr"].value


def test_the_signature_tells_figures_apart(options: EvaluateOptions, tmp_path: Path) -> None:
    found = evaluate(options)
    assert signature_line(found.signature) == (
        f"naic {naic.__version__}|tokeniser:ptb (each caption alone)"
        f"|period:not counted|df:evaluated set, {SCENES} images|images:{SCENES}"
        f"|references:{5 * SCENES}|split:all|data:{found.signature['data']}"
        "|metrics:Bleu_1,Bleu_2,Bleu_3,Bleu_4,ROUGE_L,CIDEr"
    )
    few = write_results(tmp_path / "few.json", first_captions(10))
    subset = evaluate(replace(options, results=few, subset=True))
    assert subset.signature["subset"] == f"10 of {SCENES} images"
    assert subset.signature["data"] != found.signature["data"]
    with_df = evaluate(replace(options, df="50"))
    assert str(with_df.signature["df"]).startswith("50, 50 images, data ")
    assert with_df.signature["data"] == found.signature["data"]


def test_the_format_of_the_references_does_not_matter(tmp_path: Path) -> None:
    items = [Item(str(n), (f"a dog number {n}", "some dog"), "val") for n in range(5)]
    karpathy = write_json(tmp_path / "k.json", karpathy_value(items))
    table = tmp_path / "t.jsonl"
    rows = [{"image": f"{i.name}.jpg", "captions": list(reversed(i.captions))} for i in items]
    table.write_text("".join(json.dumps(row) + "\n" for row in reversed(rows)), encoding="utf-8")
    results = write_results(tmp_path / "r.json", {i.name: "a big dog" for i in items})
    found = [
        evaluate(EvaluateOptions(results, references=str(path), fast=True, split=split))
        for path, split in ((karpathy, ("val",)), (table, ()))
    ]
    assert found[0].signature["data"] == found[1].signature["data"]
    assert found[0].signature["split"] == "val"
    for name, score in found[0].system.scores.items():
        assert score.value == pytest.approx(found[1].system.scores[name].value, abs=1e-12)


def test_frequencies_from_elsewhere(options: EvaluateOptions) -> None:
    found = evaluate(replace(options, df="200", df_split=("train",)))
    training = [r.captions for r in shapes.records(200, 0) if r.split == "train"]
    hypotheses = [own[0] for own in tokenised([[c] for c in next_captions().values()])]
    references = tokenised([record.captions for record in shapes.records(SCENES, 0)])
    frequencies = DocumentFrequencies.count(tokenised(training))
    assert found.system.scores["CIDEr"].value == cider(hypotheses, references, frequencies).value
    assert str(found.signature["df"]).startswith(f"200 train, {len(training)} images, data ")


def test_a_file_against_itself(options: EvaluateOptions) -> None:
    found = evaluate(replace(options, against=options.results))
    assert len(found.differences) == 6
    for difference in found.differences.values():
        assert (difference.value, difference.low, difference.high) == (0, 0, 0)
        assert difference.p == 1


def test_a_better_file_against_a_worse(options: EvaluateOptions, tmp_path: Path) -> None:
    right = write_results(tmp_path / "right.json", first_captions())
    found = evaluate(replace(options, results=right, against=options.results))
    assert found.against is not None
    difference = found.differences["CIDEr"]
    assert difference.value == pytest.approx(
        found.system.scores["CIDEr"].value - found.against.scores["CIDEr"].value
    )
    assert 0 < difference.low < difference.value < difference.high
    assert difference.p == 2 / 201


def test_java_that_is_missing_is_left_out(
    options: EvaluateOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = MissingExtraError("Java", "is missing", "Install Java.")
    monkeypatch.setattr(task, "meteor", fake("METEOR"))
    monkeypatch.setattr(task, "spice", broken(missing))
    found = evaluate(replace(options, fast=False))
    assert list(found.system.scores) == NAMES[:-1]
    assert found.missing == {"SPICE": "Java: is missing. Install Java."}
    assert found.failed == {}
    with pytest.raises(MissingExtraError, match=r"Install Java\."):
        evaluate(replace(options, fast=False, metrics=("SPICE", "CIDEr")))


def test_java_that_fails_costs_only_its_own_score(
    options: EvaluateOptions, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls: list[Sequence[str]] = []

    def once(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Score:
        calls.append(hypotheses)
        if len(calls) == 2:
            raise MetricError("METEOR", "was stopped after 9 seconds", "Give it more.")
        return mean_score("METEOR", np.ones(len(hypotheses)))

    monkeypatch.setattr(task, "meteor", once)
    monkeypatch.setattr(task, "spice", fake("SPICE"))
    other = write_results(tmp_path / "other.json", first_captions(which=1))
    found = evaluate(replace(options, fast=False, against=other))
    assert found.failed == {"METEOR": "METEOR: was stopped after 9 seconds. Give it more."}
    assert list(found.system.scores) == NAMES
    assert list(found.differences) == [name for name in NAMES if name != "METEOR"]


def test_only_what_is_asked_for(options: EvaluateOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "meteor", fake("METEOR"))
    found = evaluate(replace(options, fast=False, metrics=("METEOR", "CIDEr")))
    assert list(found.system.scores) == ["METEOR", "CIDEr"]
    heard: list[str] = []
    evaluate(replace(options, metrics=("CIDEr",)), heard.append)
    assert heard == ["reading the references", "scoring CIDEr"]


def test_the_files(options: EvaluateOptions, tmp_path: Path) -> None:
    options = replace(
        options,
        json=tmp_path / "o.json",
        csv=tmp_path / "o.csv",
        per_image=tmp_path / "o.jsonl",
        against=write_results(tmp_path / "other.json", first_captions(which=1)),
    )
    found = evaluate(options)
    write_reports(found, options)
    value = json.loads((tmp_path / "o.json").read_text(encoding="utf-8"))
    assert list(value)[:8] == NAMES
    assert value == json.loads(json.dumps(as_json(found, options)))
    assert value["METEOR"] is value["SPICE"] is value["against"]["SPICE"] is None
    assert value["CIDEr"] == found.system.scores["CIDEr"].value
    assert value["intervals"]["CIDEr"] == list(found.intervals["CIDEr"])
    assert value["habits"]["captions"]["vocabulary"] == found.system.habits.vocabulary
    assert value["signature_line"].startswith("naic ")
    assert set(value["against"]["differences"]["CIDEr"]) == {"value", "low", "high", "p"}
    with (tmp_path / "o.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["metric"] for row in rows] == list(found.system.scores)
    assert float(rows[-1]["value"]) == value["CIDEr"]
    assert float(rows[-1]["p"]) == value["against"]["differences"]["CIDEr"]["p"]
    lines = (tmp_path / "o.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == SCENES
    image = json.loads(lines[3])
    assert image["image_id"] == found.images[3].id
    assert image["caption"] == found.system.captions[3]
    assert image["CIDEr"] == found.system.scores["CIDEr"].per_image[3]


def test_a_line_an_image_as_csv(options: EvaluateOptions, tmp_path: Path) -> None:
    captions = next_captions() | {next(iter(next_captions())): 'a "big", red\nbox é'}
    results = write_results(tmp_path / "r.json", captions)
    options = replace(options, results=results, per_image=tmp_path / "o.csv", bootstrap=0)
    found = evaluate(options)
    assert found.intervals == {}
    write_reports(found, options)
    with (tmp_path / "o.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["caption"] == 'a "big", red\nbox é'
    assert [float(row["ROUGE_L"]) for row in rows] == list(found.system.scores["ROUGE_L"].per_image)


def test_empty_captions_are_scored(options: EvaluateOptions, tmp_path: Path) -> None:
    results = write_results(tmp_path / "r.json", dict.fromkeys(first_captions(), ""))
    found = evaluate(replace(options, results=results))
    assert found.system.habits.empty == SCENES
    for name, score in found.system.scores.items():
        assert score.value == pytest.approx(0, abs=1e-3)
        assert all(np.isfinite(found.intervals[name]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bootstrap": 5}, "--bootstrap: 5 resampled sets"),
        ({"bootstrap": 0, "against": Path("x.json")}, "--against: the comparison"),
        ({"seed": -1}, "--seed: -1 is negative"),
        ({"metrics": ("METEOR",)}, "--fast: it leaves out METEOR"),
        ({"df_split": ("train",)}, "--df-split: there is no --df"),
        ({"per_image": Path("x.txt")}, "--per-image: .txt is no format"),
        ({"json": Path("no/such/o.json")}, "the folder no/such does not exist"),
        ({"json": Path("o.json"), "csv": Path("o.json")}, "--csv: o.json is named twice"),
    ],
)
def test_options_that_cannot_be(
    change: dict[str, object], message: str, options: EvaluateOptions
) -> None:
    with pytest.raises(ConfigError, match=message):
        evaluate(replace(options, **change))  # type: ignore[arg-type]


def test_the_results_are_not_overwritten(options: EvaluateOptions) -> None:
    with pytest.raises(ConfigError, match="is named twice"):
        evaluate(replace(options, json=options.results))


def test_bad_rows_of_the_references(tmp_path: Path) -> None:
    items = [Item("1", ("a dog", "..."), "val"), Item("2", ("a cat",), "val")]
    source = write_json(tmp_path / "k.json", karpathy_value(items))
    results = write_results(tmp_path / "r.json", {"1": "a dog", "2": "a dog"})
    options = EvaluateOptions(results, references=str(source), fast=True)
    with pytest.raises(DataError, match=r"the caption is empty.*--skip-bad"):
        evaluate(options)
    found = evaluate(replace(options, skip_bad=True))
    assert found.signature["references"] == 2
    assert len(found.problems) == 1


@pytest.mark.slow
def test_coco(coco: Path, tmp_path: Path) -> None:
    """A reference of each image of val, told by the file name: known figures come out."""
    source = coco / "dataset_coco.json.xz"
    images = read_captions(str(source), splits=["val"], problems=Problems()).images
    captions = {f"COCO_val2014_{int(i.id):012d}.jpg": i.captions[0] for i in images}
    results = write_results(tmp_path / "r.json", captions)
    found = evaluate(EvaluateOptions(results, references=str(source), split=("val",), fast=True))
    assert (found.signature["images"], found.signature["references"]) == (4392, 21968)
    assert found.system.scores["Bleu_4"].value == pytest.approx(1, abs=1e-9)
    assert found.system.scores["CIDEr"].value == pytest.approx(2.7145799313356, abs=1e-9)
    assert found.human.bad_endings == pytest.approx(116 / 21968)
