"""A ladder on data like COCO's, made where there is no Java, and scored without its models."""

import itertools
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from naic.errors import ConfigError, MissingExtraError, StoreError
from naic.tasks.reproduce.report import Reproduced
from naic.tasks.reproduce.run import reproduce
from tests.models.conftest import one_thread
from tests.tasks.evaluate.evaluations import broken, fake
from tests.tasks.reproduce.coco_like import (
    FIRST_ID,
    SPLITS,
    write_coco_preset,
    write_dataset,
    write_store,
)
from tests.tasks.reproduce.micro import Heard, make_options
from tests.tasks.reproduce.test_page import COLLECT, PAGE, ROOT, load
from tests.train.runs import on_one_thread

__all__ = ["one_thread"]
SYSTEMS = [
    "AIC XE beam 1",
    "AIC XE beam 3",
    "AIC beam 1",
    "AIC beam 3",
    "NAIC-base",
    "+weight-init",
    "+KD",
    "+CMAL",
]
CAME_BACK = ("run.json", "captions", "scores")
LOGS = ("report.json", "metrics.jsonl", "config.toml")
NO_JAVA = MissingExtraError("Java", "is missing", "Install Java.")


def read(path: Path) -> Any:
    return json.loads(path.read_bytes())


class Place:
    """A folder with a preset and a dataset, and Java or none."""

    def __init__(self, folder: Path) -> None:
        self.dataset = write_dataset(folder / "coco")
        self.store = write_store(self.dataset, folder / "store")
        with on_one_thread():
            self.preset = write_coco_preset(folder / "preset", self.store)
        self.log = folder / "looks.jsonl"
        self.run = folder / "run"

    def make(self, out: Path, **over: Any) -> Reproduced:
        values = {"fast": False, "log": self.log, **over}
        heard = Heard()
        with on_one_thread():
            return reproduce(make_options(self.preset, out, **values), heard.callbacks, "naic x")

    def looks(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


def java(patch: pytest.MonkeyPatch, *, there: bool) -> None:
    for name in ("METEOR", "SPICE"):
        score = fake(name) if there else broken(NO_JAVA)
        patch.setattr(f"naic.metrics.{name.lower()}.{name.lower()}", score)
    patch.setattr("naic.metrics.spice.program", lambda: "spice-fake")
    patch.setattr("naic.tasks.reproduce.judging._is_there", lambda _: there)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The run on the other machine."""
    place = Place(tmp_path_factory.mktemp("elsewhere"))
    with pytest.MonkeyPatch.context() as patch:
        java(patch, there=False)
        found = place.make(place.run, features=place.store)
    assert found.left_out == []
    return place


@pytest.fixture
def returned(made: Place, tmp_path: Path) -> Path:
    """What came back of it, under another name."""
    out = tmp_path / "back"
    out.mkdir()
    for name in CAME_BACK:
        copy = shutil.copytree if (made.run / name).is_dir() else shutil.copyfile
        copy(made.run / name, out / name)
    for report in made.run.glob("*/report.json"):
        (out / report.parent.name).mkdir()
        for name in LOGS:
            shutil.copyfile(report.parent / name, out / report.parent.name / name)
    return out


def test_the_whole_preset_runs_on_data_like_cocos(made: Place) -> None:
    rows = read(made.run / "table1.json")
    assert [row["system"] for row in rows] == SYSTEMS
    assert all(row["intervals"]["CIDEr"][0] <= row["CIDEr"] for row in rows)
    assert {row["METEOR"] for row in rows} == {None}
    run = read(made.run / "run.json")
    assert run["data"]["reader"] == "karpathy"
    assert (run["data"]["backbone"], run["data"]["images"]) == ("blobs", sum(SPLITS.values()))
    assert run["reported"] == {"split": "test", "images": SPLITS["test"]}
    assert run["people"]["bad_endings"] == 0
    assert run["people"]["captions"] > SPLITS["test"]


def test_val_has_a_table_of_its_own(made: Place) -> None:
    rows, others = (read(made.run / f"{name}.json") for name in ("table1", "table1-val"))
    assert [row["system"] for row in others] == SYSTEMS
    assert [row["captions"] for row in others] == [
        [row["captions"][0].replace("-test-", "-val-")] for row in rows
    ]
    assert all(f"images:{SPLITS['val']}|" in row["signature"] for row in others)
    assert [row["latency_ms"] for row in others] == [row["latency_ms"] for row in rows]
    said = read(made.run / others[-1]["captions"][0])
    words = {word for one in said for word in one["caption"].split()}
    assert others[-1]["vocabulary"] == len(words - {"."})
    assert (made.run / "table1-val.md").read_text().startswith("# The ladder (the paper's table 1)")
    run = read(made.run / "run.json")
    (also,) = run["also_reported"]
    assert (also["split"], also["images"]) == ("val", SPLITS["val"])
    assert also["people"]["captions"] > SPLITS["val"]


def test_each_row_is_a_look(made: Place) -> None:
    looks = made.looks()
    rows = read(made.run / "table1.json")
    assert [look["captions"] for look in looks] == [Path(row["captions"][0]).name for row in rows]
    assert [look["scores"]["CIDEr"] for look in looks] == pytest.approx(
        [row["CIDEr"] for row in rows], abs=1e-6
    )
    assert looks[0]["why"] == "reproduce: teacher-xe-test-beam1"
    assert {look["images"] for look in looks} == {SPLITS["test"]}


def test_a_model_captions_a_split_as_its_row_does(made: Place) -> None:
    """What docs/coco.md compares the packed model with."""
    script = load(ROOT / "benchmarks" / "caption_split.py")
    model = made.run / "naic-cmal" / "best"
    said = script.caption(model, made.store, "test", repeats=True, device="cpu")
    assert said == (made.run / "captions" / "naic-cmal-test-beam1.json").read_bytes()
    plain = [
        one["caption"].split() for one in json.loads(script.caption(model, made.store, "test"))
    ]
    assert not any(a == b for words in plain for a, b in itertools.pairwise(words))


def test_files_for_cocos_server(made: Place) -> None:
    """Of the teacher and of the student that is best on val, as the server takes them."""
    rows = {row["system"]: row for row in read(made.run / "table1.json")}
    files = {path.name: read(path) for path in (made.run / "server").iterdir()}
    students = [name for name in files if "AIC-beam" not in name]
    assert len(files) == 2
    assert len(students) == 1
    said = files["captions_test2014_AIC-beam-3_results.json"]
    assert said == read(made.run / rows["AIC beam 3"]["captions"][0])
    first = FIRST_ID + sum(SPLITS.values()) - SPLITS["test"]
    assert [one["image_id"] for one in said] == list(range(first, first + SPLITS["test"]))
    assert all(one.keys() == {"image_id", "caption"} for one in said)


def test_its_page_has_val_settings_and_the_model_that_ships(
    made: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(PAGE.parent)
    page, folder = load(PAGE), tmp_path / "coco"
    words = ["x", str(made.run), "--out", str(folder), "--before", str(made.run / "teacher-xe")]
    monkeypatch.setattr(sys, "argv", words)
    load(COLLECT).main()
    monkeypatch.setattr(page, "FOLDER", tmp_path)
    run = read(folder / "run.json") | {"preset": "coco"}
    (folder / "run.json").write_text(json.dumps(run))
    text = page.ladder("coco")
    assert f"Of `val`: {SPLITS['val']}." in text
    assert "each image counted once,\n  none of them mirrored" in text
    assert "; the same in all rows | 9,487 |" in text
    assert "| layers | 1 + 1 | 6 + 6 |" in text
    rate = "0.0002, cosine after 1 steps of warming up"
    assert f"| `naic-cmal` | 16 | 1 | {rate} | 50 | about 70 |" in text
    val = [row | {"paper": None} for row in read(folder / "table1-val.json")]
    assert page.markdown(val) in text
    assert "AIC XE beam 3 on val: 117 or more" in text
    assert ", packed\n" not in text

    said = {"repeats": 0.0, "bad_endings": 0.0, "vocabulary": 1234}
    shipped = val[-1] | {"CIDEr": val[-1]["CIDEr"] - 0.007, "habits": {"captions": said}}
    for name in ("shipped.json", "shipped-val.json", "shipped-int8-val.json", "old-val.json"):
        (folder / name).write_text(json.dumps(shipped))
    text = page.ladder("coco")
    assert "| the same, packed: at most 0.5 behind" in text
    assert "on val | 0.7 | **no** |" in text
    assert "exported in int8: at most 1.0 behind" in text
    assert "on val | 0.7 | yes |" in text
    ships = text.partition(", packed\n")[2].partition("\n## ")[0]
    assert ships.count("| 0.0 | 0.0 | 1,234 |") == 4
    columns = {line.count("|") for line in ships.splitlines() if line.startswith("|")}
    assert columns == {13}


def test_each_ladder_of_coco_tells_of_the_other(
    made: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(PAGE.parent)
    page = load(PAGE)
    monkeypatch.setattr(page, "FOLDER", tmp_path)
    for name in ("coco-lite2", "coco"):
        monkeypatch.setattr(sys, "argv", ["x", str(made.run), "--out", str(tmp_path / name)])
        load(COLLECT).main()
    assert "is on [coco-lite2.md](coco-lite2.md)" in page.ladder("coco")
    assert page.ladder("coco-lite2").startswith("# The first ladder: coco")


def test_what_came_back_is_scored_without_its_models(
    made: Place, returned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java(monkeypatch, there=True)
    monkeypatch.setattr("naic.models.folder.load_model", lambda *_, **__: pytest.fail("loads"))
    looks = len(made.looks())
    asked = {"only_tables": True, "references": str(made.dataset)}
    found = made.make(returned, **asked)
    assert found.left_out == []
    before, after = (read(out / "table1.json") for out in (made.run, returned))
    for new in after:
        assert new["METEOR"] > 0
        assert len(new["intervals"]["SPICE"]) == 2
        assert "|spice:spice-fake|" in new["signature"]
    assert all(row["METEOR"] > 0 and row["SPICE"] is None for row in found.also["val"]["ladder"])
    for old, new in zip(before, after, strict=True):
        same = [
            *("system", "CIDEr", "Bleu_4", "repeats", "latency_ms", "speedup", "captions"),
            "last_validation_cider",
        ]
        assert {name: new[name] for name in same} == {name: old[name] for name in same}
    assert (returned / "figures" / "ladder.svg").is_file()
    ours, theirs = (read(out / "captions.json") for out in (returned, made.run))
    assert [one["captions"] for one in ours] == [one["captions"] for one in theirs]
    assert [path.name for path in sorted((returned / "server").iterdir())] == [
        path.name for path in sorted((made.run / "server").iterdir())
    ]
    old, new = read(made.run / "run.json"), read(returned / "run.json")
    for name in ("machine", "stages", "latency", "data", "people", "finished"):
        assert new[name] == old[name]
    assert len(new["calls"]) == len(old["calls"]) + 1
    assert len(made.looks()) == looks + len(SYSTEMS)

    monkeypatch.setattr(
        "naic.tasks.reproduce.judging.evaluate", lambda *_, **__: pytest.fail("scores again")
    )
    again = made.make(returned, **asked)
    assert (again.tables, again.also) == (found.tables, found.also)


def test_captions_that_changed_or_did_not_come(
    made: Place, returned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java(monkeypatch, there=False)
    asked = {"only_tables": True, "references": str(made.dataset)}
    first = made.make(returned, **asked).tables["ladder"]
    captions = returned / first[-1]["captions"][0]
    rows = [row | {"caption": "qqq xxx"} for row in read(captions)]
    captions.write_text(json.dumps(rows))
    (returned / first[0]["captions"][0]).unlink()
    (returned / first[1]["captions"][0].replace("-test-", "-val-")).unlink()
    found = made.make(returned, **asked)
    assert found.left_out == ["table1: AIC XE beam 1", "table1, val: AIC XE beam 3"]
    assert found.tables["ladder"][-1]["CIDEr"] == 0
    assert [row["CIDEr"] for row in found.tables["ladder"][:-1]] == [
        row["CIDEr"] for row in first[1:-1]
    ]


def test_a_run_of_before_there_were_further_splits_is_finished(made: Place, returned: Path) -> None:
    for path in (returned / "captions").glob("*-val-*.json"):
        path.unlink()
    asked = {"only_tables": True, "references": str(made.dataset), "fast": True}
    found = made.make(returned, **asked)
    assert found.left_out == []
    assert len(found.tables["ladder"]) == len(SYSTEMS)
    assert not found.also["val"]


def test_a_preset_may_have_lain_elsewhere(made: Place, returned: Path) -> None:
    run = read(returned / "run.json") | {"preset": f"/elsewhere/{made.preset.name}"}
    (returned / "run.json").write_text(json.dumps(run))
    asked = {"only_tables": True, "references": str(made.dataset), "fast": True}
    assert made.make(returned, **asked).left_out == []
    (returned / "run.json").write_text(json.dumps(run | {"preset": "/elsewhere/other"}))
    with pytest.raises(ConfigError, match="it was begun with another preset"):
        made.make(returned, **asked)


def test_what_is_refused(made: Place, returned: Path, tmp_path: Path) -> None:
    asked = {"only_tables": True, "references": str(made.dataset)}
    with pytest.raises(ConfigError, match="it was begun with quick = False"):
        made.make(returned, quick=True, **asked)
    (returned / "run.json").unlink()
    with pytest.raises(StoreError, match=r"it has no run\.json"):
        made.make(returned, **asked)
    with pytest.raises(ConfigError, match="with --only-tables alone"):
        made.make(tmp_path / "new", references=str(made.dataset))
    assert not (tmp_path / "new").exists()


def test_java_that_came_later_adds_its_scores(
    made: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the machine of the run: nothing is captioned again."""
    kept = {path: path.read_bytes() for path in made.run.rglob("*.json")}
    java(monkeypatch, there=True)
    monkeypatch.setattr(
        "naic.tasks.reproduce.scoring.caption_rows", lambda *_: pytest.fail("captions again")
    )
    before = read(made.run / "table1.json")
    found = made.make(made.run, features=made.store, only_tables=True).tables["ladder"]
    for path, content in kept.items():
        path.write_bytes(content)
    assert all(row["METEOR"] > 0 and row["SPICE"] > 0 for row in found)
    assert [row["CIDEr"] for row in found] == [row["CIDEr"] for row in before]
