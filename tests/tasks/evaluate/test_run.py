"""Whole evaluations: small ones by hand, the drawn scenes, and COCO where it is."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from naic.data.readers.captions import read_captions
from naic.data.records import Problems
from naic.data.shapes import dataset
from naic.errors import ConfigError, DataError, MetricError, MissingExtraError
from naic.metrics.cider import DocumentFrequencies, bleu, cider
from naic.metrics.score import FEWEST_IMAGES, Difference, Score, mean_score
from naic.progress import Callbacks
from naic.tasks.evaluate.options import EvaluateOptions
from naic.tasks.evaluate.run import evaluate, tokenised
from tests.data.readers.helpers import Item, karpathy_value, write_json
from tests.tasks.evaluate.evaluations import (
    NAMES,
    SCENES,
    broken,
    fake,
    first_captions,
    next_captions,
    write_results,
)


@pytest.fixture(autouse=True)
def programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The metrics here are false ones, so nothing needs to be installed."""
    monkeypatch.setattr("naic.metrics.meteor.program", lambda: "meteor-9")
    monkeypatch.setattr("naic.metrics.spice.program", lambda: "spice-9")


def test_scores_are_those_of_the_metrics(options: EvaluateOptions) -> None:
    found = evaluate(options)
    records = list(dataset.records(SCENES, 0))
    references = tokenised([record.captions for record in records])
    hypotheses = [own[0] for own in tokenised([[c] for c in next_captions().values()])]
    assert list(found.system.scores) == ["Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4", "ROUGE_L", "CIDEr"]
    assert found.system.scores["CIDEr"].value == cider(hypotheses, references).value
    assert found.system.scores["Bleu_4"].value == bleu(hypotheses, references)[3].value
    assert [image.id for image in found.images] == [record.id for record in records]
    assert list(found.intervals) == list(found.system.scores)
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


def test_frequencies_from_elsewhere(options: EvaluateOptions) -> None:
    found = evaluate(replace(options, df="200", df_split=("train",)))
    training = [r.captions for r in dataset.records(200, 0) if r.split == "train"]
    hypotheses = [own[0] for own in tokenised([[c] for c in next_captions().values()])]
    references = tokenised([record.captions for record in dataset.records(SCENES, 0)])
    frequencies = DocumentFrequencies.count(tokenised(training))
    assert found.system.scores["CIDEr"].value == cider(hypotheses, references, frequencies).value
    assert str(found.signature["df"]).endswith(f", {len(training)} images")
    assert found.source["df_split"] == ["train"]


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
    assert difference.low is not None
    assert difference.high is not None
    assert 0 < difference.low < difference.value < difference.high
    assert difference.p == 2 / 201
    assert type(difference.p) is float


def test_few_images_have_no_intervals(options: EvaluateOptions, tmp_path: Path) -> None:
    captions = {n: first_captions(n) for n in (FEWEST_IMAGES - 1, FEWEST_IMAGES)}
    few, enough = (
        evaluate(replace(options, results=path, references=str(n), against=path))
        for n, own in captions.items()
        for path in [write_results(tmp_path / f"{n}.json", own)]
    )
    assert few.intervals == {}
    assert few.differences["CIDEr"] == Difference(0.0, None, None, None)
    assert enough.differences["CIDEr"] == Difference(0.0, 0.0, 0.0, 1.0)
    assert list(enough.intervals) == list(enough.system.scores)


def test_java_that_is_missing_is_left_out(
    options: EvaluateOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = MissingExtraError("Java", "is missing", "Install Java.")
    monkeypatch.setattr("naic.metrics.meteor.meteor", fake("METEOR"))
    monkeypatch.setattr("naic.metrics.spice.spice", broken(missing))
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

    def once(
        hypotheses: Sequence[str],
        references: Sequence[Sequence[str]],
        *,
        seconds: float | None,
        way: str,
    ) -> Score:
        calls.append(hypotheses)
        if len(calls) == 2:
            raise MetricError("METEOR", "was stopped after 9 seconds", "Give it more.")
        return mean_score("METEOR", np.ones(len(hypotheses)))

    monkeypatch.setattr("naic.metrics.meteor.meteor", once)
    monkeypatch.setattr("naic.metrics.spice.spice", fake("SPICE"))
    other = write_results(tmp_path / "other.json", first_captions(which=1))
    found = evaluate(replace(options, fast=False, against=other))
    assert found.failed == {"METEOR": "METEOR: was stopped after 9 seconds. Give it more."}
    assert list(found.system.scores) == NAMES
    assert list(found.differences) == [name for name in NAMES if name != "METEOR"]


def test_only_what_is_asked_for(options: EvaluateOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("naic.metrics.meteor.meteor", fake("METEOR"))
    found = evaluate(replace(options, fast=False, metrics=("METEOR", "CIDEr")))
    assert list(found.system.scores) == ["METEOR", "CIDEr"]
    heard: list[str] = []
    evaluate(replace(options, metrics=("CIDEr", "CIDEr")), Callbacks(heard.append))
    assert heard == ["reading the references", "scoring CIDEr"]


def test_meteor_comes_the_way_that_is_chosen(
    options: EvaluateOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways: list[str] = []

    def score(
        hypotheses: Sequence[str], references: Sequence[Sequence[str]], *, way: str, **_: object
    ) -> Score:
        ways.append(way)
        return mean_score("METEOR", np.ones(len(hypotheses)))

    monkeypatch.setattr("naic.metrics.meteor.meteor", score)
    wanted = replace(options, fast=False, metrics=("METEOR",), bootstrap=0)
    signatures = [evaluate(replace(wanted, meteor=way)).signature for way in ("python", "java")]
    assert ways == ["python", "java"]
    assert signatures[0] == signatures[1] == evaluate(wanted).signature
    assert ways[2] == "python"


def test_java_gets_its_time_limit(
    options: EvaluateOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[float | None] = []
    monkeypatch.setattr("naic.metrics.meteor.meteor", fake("METEOR", heard))
    monkeypatch.setattr("naic.metrics.spice.spice", fake("SPICE", heard))
    evaluate(replace(options, fast=False))
    evaluate(replace(options, fast=False, java_seconds=7.5))
    assert heard == [None, None, 7.5, 7.5]


def test_empty_captions_are_scored(options: EvaluateOptions, tmp_path: Path) -> None:
    results = write_results(tmp_path / "r.json", dict.fromkeys(first_captions(), ""))
    found = evaluate(replace(options, results=results))
    assert found.system.habits.empty == SCENES
    for name, score in found.system.scores.items():
        assert score.value == pytest.approx(0, abs=1e-3)
        assert all(np.isfinite(found.intervals[name]))


def test_bad_rows_of_the_references(tmp_path: Path) -> None:
    items = [Item("1", ("a dog", "..."), "val"), Item("2", ("a cat",), "val")]
    source = write_json(tmp_path / "k.json", karpathy_value(items))
    results = write_results(tmp_path / "r.json", {"1": "a dog", "2": "a dog"})
    options = EvaluateOptions(results, references=str(source), fast=True)
    with pytest.raises(DataError, match=r"'\.\.\.' has no letter.*--skip-bad"):
        evaluate(options)
    found = evaluate(replace(options, skip_bad=True))
    assert found.signature["references"] == 2
    assert len(found.problems) == 1


def test_captions_of_an_image_whose_references_are_all_bad(tmp_path: Path) -> None:
    items = [Item("1", ("...", "!"), "val"), Item("2", ("a cat",), "val")]
    source = write_json(tmp_path / "k.json", karpathy_value(items))
    results = write_results(tmp_path / "r.json", {"1.jpg": "a dog", "2": "a dog"})
    options = EvaluateOptions(results, references=str(source), fast=True, skip_bad=True)
    found = evaluate(options)
    assert [image.id for image in found.images] == ["2"]
    assert [(p.where, p.why) for p in found.problems][-1] == (
        "r.json, entry 1",
        "the references of image 1.jpg could not be used",
    )
    assert len(found.problems) == 4  # two captions, the image, its result


def test_splits_are_refused_by_the_option_that_names_them(options: EvaluateOptions) -> None:
    with pytest.raises(ConfigError, match=r"--split: there is no split 'dev'"):
        evaluate(replace(options, split=("dev",)))
    with pytest.raises(ConfigError, match=r"--df-split: there is no split 'dev'"):
        evaluate(replace(options, df="200", df_split=("dev",)))


def test_the_seed_of_the_scenes_is_that_of_the_frequencies_too(tmp_path: Path) -> None:
    source = write_json(tmp_path / "k.json", karpathy_value([Item("1", ("a dog",), "val")]))
    results = write_results(tmp_path / "r.json", {"1": "a dog"})
    options = EvaluateOptions(results, references=str(source), df="70", metrics=("CIDEr",))
    one, two = (evaluate(replace(options, scenes_seed=seed)) for seed in (0, 1))
    assert one.signature["df"] != two.signature["df"]


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
