"""The files that an evaluation writes."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from naic.errors import DataError, WriteError
from naic.tasks.evaluate.options import EvaluateOptions
from naic.tasks.evaluate.report import as_json, write_reports
from naic.tasks.evaluate.run import evaluate
from naic.tasks.evaluate.tables import further, habits
from naic.text.cells import text_of_cell
from tests.tasks.evaluate.evaluations import (
    NAMES,
    SCENES,
    first_captions,
    next_captions,
    write_results,
)


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
    assert value["source"] == {
        "references": str(SCENES),
        "reader": "shapes",
        "split": [],
        "df": None,
        "df_split": [],
    }
    assert value["problems"] == 0
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


@pytest.mark.parametrize("suffix", [".csv", ".CSV"])
@pytest.mark.parametrize(
    "caption", ['a "big", red\nbox é', "a\rb", "\r\n", "\0 nul", '"', ",", "'", "=1+1", "'-"]
)
def test_a_line_an_image_as_csv(
    caption: str, suffix: str, options: EvaluateOptions, tmp_path: Path
) -> None:
    captions = next_captions() | {next(iter(next_captions())): caption}
    path = tmp_path / f"o{suffix}"
    results = write_results(tmp_path / "r.json", captions)
    options = replace(options, results=results, per_image=path, bootstrap=0)
    found = evaluate(options)
    assert found.intervals == {}
    write_reports(found, options)
    assert path.read_bytes().startswith(b'\xef\xbb\xbf"image_id"')
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file, strict=True))
    assert [text_of_cell(row["caption"]) for row in rows] == list(captions.values())
    assert not any(row["caption"].startswith("=") for row in rows)
    assert [float(row["ROUGE_L"]) for row in rows] == list(found.system.scores["ROUGE_L"].per_image)


def test_further_systems(options: EvaluateOptions, tmp_path: Path) -> None:
    """Scored on the same images as the two; what those two have does not depend on them."""
    other = write_results(tmp_path / "other.json", first_captions(which=1))
    third = write_results(tmp_path / "third.json", first_captions())
    two = replace(options, against=other)
    alone, found = (evaluate(own) for own in (two, replace(two, also=(third,))))
    assert [system.name for system in found.systems] == [
        str(path) for path in (options.results, other, third)
    ]
    before, value = as_json(alone, two), as_json(found, two)
    (own,) = value.pop("also")
    assert value == before
    assert own["results"] == str(third)
    assert own["CIDEr"] == found.also[0].system.scores["CIDEr"].value
    low, high = own["intervals"]["CIDEr"]
    assert low < own["CIDEr"] < high
    assert own["habits"]["captions"] == SCENES
    (rouge,) = (row for row in further(found).rows if row[0] == "ROUGE_L")
    assert rouge == ["ROUGE_L", "100.0", "100.0 to 100.0"]
    assert further(found).header == ["also", "third", "95 %"]
    assert further(alone).rows == []
    assert habits(found).header == ["habit", "captions", "against", "third", "references"]


def test_with_subset_the_images_are_those_of_all_files(
    options: EvaluateOptions, tmp_path: Path
) -> None:
    few = write_results(tmp_path / "few.json", dict(list(first_captions().items())[:55]))
    found = evaluate(replace(options, also=(few,), subset=True))
    assert len(found.images) == len(found.system.captions) == 55
    with pytest.raises(DataError, match=r"few\.json: 5 of the 60 images to be scored have no cap"):
        evaluate(replace(options, also=(few,)))


def test_few_images(options: EvaluateOptions, tmp_path: Path) -> None:
    path = write_results(tmp_path / "r.json", first_captions(5))
    options = replace(options, results=path, references="5", against=path, csv=tmp_path / "o.csv")
    found = evaluate(options)
    value = as_json(found, options)
    assert value["intervals"] == {}
    none = {"value": 0.0, "low": None, "high": None, "p": None}
    assert value["against"]["differences"]["CIDEr"] == none
    write_reports(found, options)
    with (tmp_path / "o.csv").open(encoding="utf-8", newline="") as file:
        row = list(csv.DictReader(file))[-1]
    assert [row[key] for key in ("low", "difference", "difference_low", "p")] == ["", "0.0", "", ""]


def test_what_can_be_written_is(options: EvaluateOptions, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    paths = [gone / "o.json", tmp_path / "o.csv", gone / "o.jsonl"]
    found = evaluate(options)
    with pytest.raises(WriteError, match=r"gone/o.json: cannot be written"):
        write_reports(found, replace(options, json=paths[0], csv=paths[1]))
    assert paths[1].read_text(encoding="utf-8").startswith('"metric","value"')
    with pytest.raises(WriteError, match=r"o.json, .*o.jsonl: cannot be written \(No such"):
        write_reports(found, replace(options, json=paths[0], per_image=paths[2]))
