"""Options that cannot be, and files that must not be overwritten."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from naic.errors import ConfigError
from naic.tasks.evaluate.options import EvaluateOptions
from naic.tasks.evaluate.run import evaluate


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bootstrap": 5}, "--bootstrap: 5 resampled sets"),
        ({"bootstrap": 0, "against": Path("x.json")}, "--against: the comparison"),
        ({"seed": -1}, "--seed: -1 is negative"),
        ({"metrics": ("METEOR",)}, "--fast: it leaves out METEOR"),
        ({"df_split": ("train",)}, "--df-split: there is no --df"),
        ({"bootstrap": 10**6 + 1}, "--bootstrap: 1000001 resampled sets would take for ever"),
        ({"java_seconds": 0.0}, "--java-seconds: 0 seconds are no time limit"),
        ({"java_seconds": float("nan")}, "--java-seconds: nan seconds"),
        ({"java_seconds": 1e12}, r"--java-seconds: 1e\+12 seconds"),
        ({"references": " "}, "--references: the path is empty"),
        ({"df": ""}, "--df: the path is empty"),
        ({"df": "50", "metrics": ("Bleu",)}, "--df: document frequencies are for CIDEr"),
        ({"per_image": Path("x.txt")}, "--per-image: the name 'x.txt' ends in neither .jsonl nor"),
        ({"per_image": Path("x")}, "--per-image: the name 'x' ends in neither .jsonl nor .csv"),
        ({"images": (Path(),)}, r"--images: .* is none\. Add --html FILE\."),
        ({"embed": True}, "--embed: pictures are shown on the page of --html"),
        ({"html": Path("o.html"), "embed": True}, "--embed: there are no images to put into"),
        ({"html": Path("o.json")}, "--html: the name 'o.json' ends in neither .html nor .htm"),
        ({"html": Path("o.html"), "images": (Path("gone"),)}, "--images: there is no gone"),
        ({"html": Path("o.html"), "images": (Path(__file__),)}, "--images: .* is no folder, and a"),
        ({"html": Path("o.html"), "also": (Path("o.html"),)}, "--html: o.html is --also too"),
        ({"json": Path()}, "--json: the path is empty. Name a file."),
        ({"csv": Path("/")}, "--csv: / is a folder"),
        ({"csv": Path("/dev/null")}, "--csv: /dev/null is no regular file"),
        ({"json": Path("no/such/o.json")}, "the folder no/such does not exist"),
        ({"json": Path("o.json"), "csv": Path("o.json")}, "--csv: o.json is --json too"),
    ],
)
def test_options_that_cannot_be(
    change: dict[str, object], message: str, options: EvaluateOptions
) -> None:
    with pytest.raises(ConfigError, match=message):
        evaluate(replace(options, **change))  # type: ignore[arg-type]


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    folder = tmp_path / "dataset"
    (folder / "below").mkdir(parents=True)
    return folder


@pytest.mark.parametrize("spelling", ["results.json", "dataset/../results.json", "link.json"])
@pytest.mark.parametrize("option", ["json", "csv"])
def test_the_inputs_are_not_overwritten(
    option: str, spelling: str, options: EvaluateOptions, dataset: Path
) -> None:
    (dataset.parent / "link.json").symlink_to("results.json")
    output = {option: dataset.parent / spelling}
    other = replace(options, results=Path("x.json"))
    for change, name in (
        (options, "RESULTS"),
        (replace(other, against=options.results), "--against"),
        (replace(other, references=str(options.results)), "--references"),
        (replace(other, df=str(options.results)), "--df"),
    ):
        with pytest.raises(ConfigError, match=rf"--{option}: .* is {name} too"):
            replace(change, **output).check()  # type: ignore[arg-type]


@pytest.mark.parametrize("option", ["references", "df"])
def test_nothing_is_written_into_a_dataset(
    option: str, options: EvaluateOptions, dataset: Path
) -> None:
    (dataset.parent / "link").symlink_to(dataset)
    source = {option: str(dataset.parent / "link")}
    for path in (dataset / "o.json", dataset / "below" / "o.json"):
        with pytest.raises(ConfigError, match=rf"o.json would be within --{option}"):
            replace(options, json=path, **source).check()  # type: ignore[arg-type]
    replace(options, json=dataset.parent / "o.json", **source).check()  # type: ignore[arg-type]


def test_two_outputs_under_two_names_are_one_file(options: EvaluateOptions, dataset: Path) -> None:
    (dataset.parent / "new.csv").symlink_to("new.json")
    one, other = dataset.parent / "new.json", dataset.parent / "new.csv"
    with pytest.raises(ConfigError, match=r"--csv: .*new\.csv is --json too"):
        replace(options, json=one, csv=other).check()


def test_a_folder_that_is_not_ours(
    options: EvaluateOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(ConfigError, match=r"--json: the folder .* cannot be written to"):
        replace(options, json=tmp_path / "o.json").check()


def test_a_name_that_is_too_long_or_leads_to_itself(
    options: EvaluateOptions, tmp_path: Path
) -> None:
    (tmp_path / "loop.json").symlink_to("loop.json")
    for name in ("x" * 300, "loop.json"):
        replace(options, json=tmp_path / name).check()  # the write itself tells what is wrong


def test_each_metric_once(options: EvaluateOptions) -> None:
    wanted = replace(options, metrics=("METEOR", "CIDEr", "METEOR")).wanted
    assert wanted == ("METEOR", "CIDEr")
