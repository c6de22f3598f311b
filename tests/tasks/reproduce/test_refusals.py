"""What would come out as a wrong table, or be refused late, is refused at once."""

import json
from pathlib import Path
from typing import Any

import pytest

from naic.data.features import FeatureStore
from naic.data.joined import SEEN, SeenImages
from naic.errors import ConfigError, NaicError, StoreError
from naic.tasks.options import PrepareOptions
from naic.tasks.prepare import prepare
from naic.tasks.reproduce.run import dry_run, reproduce
from tests.tasks.reproduce.micro import Heard, make_options, write_preset

SHORT = {"systems": ["+KD"], "scst": False}


@pytest.mark.parametrize(
    ("files", "over", "told"),
    [
        ({"preset": {"report": "train"}}, {}, "learns from this split or chooses by it"),
        ({"preset": {"report": "val"}}, {}, "learns from this split or chooses by it"),
        ({"preset": {"also_report": ["train"]}}, {}, "learns from this split"),
        ({}, {"device": "cuda0"}, "'cuda0' is no device"),
        ({}, {"graph": True}, "CUDA graphs need a CUDA device"),
        ({"cmal": {"engine": {"graph": True}}}, {}, "CUDA graphs need a CUDA device"),
        ({"student_kd": {"schedule": {"kind": "paper"}}}, {}, "counts whole epochs"),
    ],
)
def test_before_anything_is_written(
    tmp_path: Path, files: dict[str, Any], over: dict[str, Any], told: str
) -> None:
    """A folder that was begun by a mistake could not be used without it."""
    options = make_options(write_preset(tmp_path / "p", **files), tmp_path / "out", **over)
    with pytest.raises(ConfigError, match=told):
        reproduce(options, Heard().callbacks)
    assert not options.out.exists()


@pytest.mark.parametrize(
    ("name", "change", "told"),
    [
        ("preset", {"beam": 2}, r"pseudo: it was begun with beam = \d \(now 2\)"),
        ("prepare", {"source": "100"}, r"features: it was begun with "),
    ],
)
def test_stores_of_other_settings_are_not_reused(
    tmp_path: Path, name: str, change: dict[str, Any], told: str
) -> None:
    folder = write_preset(tmp_path / "p", preset=SHORT)
    options = make_options(folder, tmp_path / "out")
    reproduce(options, Heard().callbacks)
    changed = {"preset": SHORT, name: SHORT | change if name == "preset" else change}
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    write_preset(folder, **changed)
    for _ in range(2):  # the first refusal must not be taken for the work itself
        with pytest.raises(ConfigError, match=told):
            reproduce(options, Heard().callbacks)
    assert "done" not in {line.state for line in dry_run(options) if line.name == "naic-kd"}


def test_a_store_whose_end_was_not_noted_is_looked_at_again(tmp_path: Path) -> None:
    """A kill between the last file of a stage and our note of it."""
    options = make_options(write_preset(tmp_path / "p", preset=SHORT), tmp_path / "out")
    reproduce(options, Heard().callbacks)
    path = options.out / "run.json"
    run_file = json.loads(path.read_bytes())
    kept = run_file["stages"]["pseudo"]
    run_file["stages"]["pseudo"] = {"made_from": kept["made_from"]}
    del run_file["finished"]
    path.write_text(json.dumps(run_file))
    index = (options.out / "pseudo" / "index.json").read_bytes()
    heard = Heard()
    reproduce(options, heard.callbacks)
    assert "bar captions" in heard.lines
    assert "bar features" not in heard.lines
    found = json.loads(path.read_bytes())["stages"]["pseudo"]
    assert found["settings"] == kept["settings"]
    assert (options.out / "pseudo" / "index.json").read_bytes() == index


@pytest.mark.parametrize(
    ("over", "error", "told"),
    [
        ({"splits": ("val", "test")}, StoreError, "all its images are of splits that are held out"),
        ({"backbone": "efficientnet-lite0", "seed": 1}, StoreError, "are not like those of"),
        ({"seed": 0}, StoreError, "of its images are in the labelled store too"),
        (
            {"seen": True},
            StoreError,
            "has learnt from the captions of 1 of its images",
        ),
    ],
)
def test_unlabelled_stores_that_cannot_be(
    whole: Path, tmp_path: Path, over: dict[str, Any], error: type[NaicError], told: str
) -> None:
    values: dict[str, Any] = {"backbone": "blobs", "seed": 3, "unlabelled": True, **over}
    store = tmp_path / "store"
    seen = values.pop("seen", None)
    prepare(PrepareOptions("shapes", "30", store, device="cpu", **values))
    if seen is not None:
        first = FeatureStore(store).records[0].id
        (store / SEEN).write_bytes(SeenImages(frozenset({first})).as_json())
    folder = write_preset(tmp_path / "p", preset={"systems": ["+unlabelled"], "scst": False})
    features = whole / "features"
    options = make_options(folder, tmp_path / "out", features=features, unlabelled=store)
    with pytest.raises(error, match=told):
        reproduce(options, Heard().callbacks)


def test_files_of_a_finished_run_that_are_damaged_are_made_again(
    tmp_path: Path, preset: Path
) -> None:
    options = make_options(preset, tmp_path / "out", quick=True)
    first = reproduce(options, Heard().callbacks)
    (options.out / "captions.json").write_text('[{"who": "me"}]')
    assert reproduce(options, Heard().callbacks).examples == first.examples
    (options.out / "run.json").write_text('{"format": 1, "stages": {}}')
    with pytest.raises(StoreError, match=r"run\.json: cannot be used"):
        reproduce(options, Heard().callbacks)
