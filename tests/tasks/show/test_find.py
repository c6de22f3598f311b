"""Runs are found in the folders that are named, with what they belong to."""

import json
from pathlib import Path

import pytest

from naic.errors import NaicError, StoreError
from naic.resume import locked
from naic.tasks.show import view
from naic.tasks.show.facts import as_json, differing, overview, together, whole_facts
from naic.tasks.show.find import find, is_store
from tests.tasks.show.runs import LINES, finished, make_run


def names(*folders: Path) -> list[str]:
    return [run.name for run in find(folders).runs]


def test_runs_are_found_within_folders(tmp_path: Path) -> None:
    make_run(tmp_path / "all" / "b" / "student", stage="cmal", best=10)
    make_run(tmp_path / "all" / "student")
    make_run(tmp_path / "all" / "teacher", stage="teacher_xe")
    make_run(tmp_path / "all" / ".hidden")
    make_run(tmp_path / "all" / "a" / "b" / "c" / "deep")
    assert names(tmp_path / "all") == ["all/teacher", "all/student", "b/student"]
    assert names(tmp_path / "all" / "b") == ["student"]


def test_a_run_counts_once_and_in_the_order_it_was_named(tmp_path: Path) -> None:
    for name in ("one", "two"):
        make_run(tmp_path / name)
    (tmp_path / "link").symlink_to("one")
    assert names(tmp_path / "two", tmp_path / "link", tmp_path / "one") == ["two", "link"]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("none", "there is no such folder. Name the folder of a training run"),
        ("empty", "a training run has config.toml and metrics.jsonl, a feature store index.json"),
        ("run/metrics.jsonl", "it is no folder. Name its folder: naic show "),
        ("run/best", "it is a model, and not the run that made it. Name that: naic show "),
        ("run/models/step-00000010", "it is a model, and not the run that made it. Name that"),
        ("model", "it is a model, and not the run that made it. Its card says what made it."),
    ],
)
def test_what_is_no_run_is_told(tmp_path: Path, name: str, told: str) -> None:
    make_run(tmp_path / "run", best=10)
    (tmp_path / "empty").mkdir()
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.safetensors").touch()
    (tmp_path / "model" / "config.toml").write_text('captioner = "parallel"\n')
    with pytest.raises(NaicError) as caught:
        find([tmp_path / name])
    assert told in str(caught.value)


def test_what_cannot_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path / "run")

    def locked_away(_: Path) -> None:
        raise PermissionError(13, "Permission denied", str(run / "metrics.jsonl"))

    monkeypatch.setattr(view, "read_journal", locked_away)
    with pytest.raises(StoreError, match=r"metrics\.jsonl: cannot be read \(Permission denied\)"):
        find([run])


def test_a_fine_tuning(tmp_path: Path) -> None:
    tuned = tmp_path / "mine"
    for stage, name in (("cmal", "cmal"), ("student_xe", "xe")):
        make_run(tuned / "work" / name, stage=stage, best=10)
    (tuned / "finetune.json").write_text("{}")
    command = "naic finetune my.csv --out mine"
    (tuned / "work" / "command.txt").write_text(f"{command}\n")
    with locked(tuned):
        assert find([tuned]).wholes[0].state == "running"
    found = find([tuned])
    assert [run.name for run in found.runs] == ["xe", "cmal"]
    assert dict(whole_facts(found.wholes[0])) == {
        "fine-tuning": str(tuned),
        "state": "cut off",
        "go on": command,
    }
    with locked(tuned):  # between two stages, say
        assert "go on" not in as_json(find([tuned]))["runs"][0]["next"]
    # What a stage has left has neither a backbone nor a style.
    assert "use it" not in as_json(found)["runs"][0]["next"]
    # A stage goes on by the command of the whole, not by one of its own.
    assert as_json(find([tuned / "work" / "cmal"]))["runs"][0]["next"]["go on"] == command


def test_a_fine_tuning_whose_stages_are_gone(tmp_path: Path) -> None:
    above, tmp_path = tmp_path, tmp_path / "mine"
    tmp_path.mkdir()
    (tmp_path / "finetune.json").write_text("{}")
    scores = {name: {"cider": 0.5, "bad_endings": 0.0} for name in ("before", "after")}
    (tmp_path / "report.json").write_text(json.dumps(scores))
    found = find([tmp_path])
    assert found.runs == []
    assert find([above]).wholes == found.wholes  # no run tells of it any more
    facts = dict(whole_facts(found.wholes[0]))
    assert facts["state"] == "finished"
    assert facts["after"] == "CIDEr 50.0, bad endings 0.0% on the images kept aside"
    assert facts["use it"] == f"naic caption --model {tmp_path}/best photo.jpg"
    assert overview(found.runs).rows == []


@pytest.mark.parametrize("done", [False, True])
def test_a_reproduction(tmp_path: Path, done: bool) -> None:
    make_run(tmp_path / "teacher-xe", stage="teacher_xe", report=finished())
    for place in ("naic-kd", "seed-2/naic-kd"):
        make_run(tmp_path / place, stage="student_xe")
    (tmp_path / "table1.md").touch()
    calls = [{"command": "naic reproduce --preset tiny --out tiny", "seconds": None}]
    note = {"format": 1, "stages": {}, "calls": calls} | ({"finished": {}} if done else {})
    (tmp_path / "run.json").write_text(json.dumps(note))
    found = find([tmp_path])
    assert [run.stage for run in found.runs] == ["teacher_xe", "student_xe", "student_xe"]
    facts = dict(whole_facts(found.wholes[0]))
    assert facts["state"] == ("finished" if done else "cut off")
    assert facts["tables"] == str(tmp_path / "table1.md")
    assert facts.get("go on") == (None if done else calls[0]["command"])


def test_a_study(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"format": 1, "start": "s", "out": "o"}))
    for name in ("one", "two"):
        make_run(tmp_path / name / "train")
        note = {"command": "naic reproduce --study s.toml --out o", "finished": name == "one"}
        (tmp_path / name / "run.json").write_text(json.dumps(note))
    found = find([tmp_path])
    assert [run.name for run in found.runs] == ["one/train", "two/train"]
    assert [(own.kind, own.state) for own in found.wholes] == [("study", "cut off")]
    assert dict(whole_facts(found.wholes[0]))["go on"].startswith("naic reproduce --study")
    assert find([tmp_path / "one"]).wholes == []  # a variant is none


@pytest.mark.parametrize("text", ["", "[]", '{"calls": 1}', '{"calls": [1]}', "{" * 100_000])
def test_broken_notes(tmp_path: Path, text: str) -> None:
    make_run(tmp_path / "one")
    (tmp_path / "run.json").write_text(text)
    assert [run.name for run in find([tmp_path]).runs] == ["one"]


def test_several_runs_in_a_table(tmp_path: Path) -> None:
    make_run(tmp_path / "a", best=10, report=finished())
    make_run(tmp_path / "b", [*LINES[:2]], seed=2, rate=5e-4)
    make_run(tmp_path / "c", [])
    found = find([tmp_path])
    table = overview(found.runs)
    assert ",".join(table.header) == "run,stage,state,step,of all,best CIDEr,at step,loss,left"
    assert table.rows[0][:7] == ["a", "student_xe", "finished", "15", "38%", "0.7500", "10"]
    assert table.rows[1] == ["b", "student_xe", "cut off", "10", "25%", "–", "–", "2", "1 min 00 s"]
    assert table.rows[2] == ["c", "student_xe", "cut off", *["–"] * 6]
    differ = differing(found.runs)
    assert differ.header == ["setting", "a", "b", "c"]
    assert differ.rows == [
        ["seed", "1", "2", "1"],
        ["schedule.learning_rate", "0.001", "0.0005", "0.001"],
    ]
    assert together(found) == []


def test_the_folder_that_tensorboard_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a b/one", "a b/two", "c"):
        make_run(tmp_path / name)
        (tmp_path / name / "tensorboard").mkdir()
    monkeypatch.chdir(tmp_path)
    assert together(find([Path("a b")])) == [("TensorBoard", "tensorboard --logdir 'a b'")]
    assert together(find([Path("a b"), Path("c")])) == [("TensorBoard", "tensorboard --logdir .")]
    monkeypatch.chdir(tmp_path / "c")
    assert together(find([Path("../a b")]))[0][1] == f"tensorboard --logdir '{tmp_path}/a b'"


def test_stores_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "index.json").touch()
    assert is_store(tmp_path)
    assert not is_store(make_run(tmp_path))
