"""Where a run stands is told from its folder alone."""

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from naic.resume import locked
from naic.tasks.show import view
from naic.tasks.show.facts import run_facts
from naic.tasks.show.view import is_run, look
from tests.tasks.show.runs import LINES, finished, make_run, training, validation


def said(folder: Path) -> dict[str, str]:
    return dict(run_facts(look(folder)))


def test_a_run_that_goes_on(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", best=10, checkpoints=[5, 10])
    with locked(run):
        found = look(run)
        facts = said(run)
    assert (found.state, found.step, found.steps, found.best_step) == ("running", 15, 40, 10)
    assert found.left == 50.0  # 25 steps of two seconds
    assert found.age is not None
    assert found.age < 60
    assert facts["step"] == "15 of 40 (38%), epoch 1.50 of 4"
    assert facts["time"] == "30 s so far, about 50 s left, 9 images a second"
    assert facts["training"] == "loss 1.5, learning rate 0.001, gradient 1 (step 15)"
    assert facts["validation"] == "CIDEr 0.7500, repeats 25.0%, bad endings 12.5% (step 10)"
    assert facts["best"] == f"CIDEr 0.7500 at step 10: {run}/best"
    assert facts["use it"] == f"naic caption --model {run}/best photo.jpg"
    assert "go on" not in facts


def test_a_run_in_another_process(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    code = (
        "import sys; from pathlib import Path; from naic.resume import locked\n"
        "with locked(Path(sys.argv[1])):\n    print('in', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(run)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"in\n"
        assert look(run).state == "running"
        process.kill()
    assert look(run).state == "cut off"


def test_a_run_that_was_cut_off(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", checkpoints=[5, 10], tail=b'{"step": 2')
    facts = said(run)
    assert facts["state"].startswith("cut off (by a kill, Ctrl-C or an error), 0 s since")
    assert facts["step"] == "15 of 40 (38%), epoch 1.50 of 4; would go on from step 10"
    assert facts["go on"] == f"naic train {run}/config.toml --resume auto"
    (run / "checkpoints" / "step-00000010").rename(run / "checkpoints" / ".saving-step-00000010.7")
    assert said(run)["step"].endswith("would go on from step 5")


def test_a_run_that_is_finished(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [*LINES, training(40)], best=10, report=finished())
    found, facts = look(run), said(run)
    assert (found.state, found.steps, found.left) == ("finished", 40, None)
    assert facts["state"] == "finished"
    assert facts["time"] == "1 min 30 s, 9 images a second"
    assert facts["captions"] == "beam 1: CIDEr 0.8000, repeats 0.0%, bad endings 0.0%"
    with locked(run):  # it is given further epochs, say
        assert look(run).state == "running"


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([*LINES, training(20, loss="nan")], "step 20: loss is not a finite number any more"),
        (
            [validation(10, 0.8), validation(20, 0.3), validation(30, 0.2)],
            "step 30: CIDEr fell from 0.800 at step 10 to 0.200",
        ),
        (
            [training(5, reward=0.9), training(10, reward=0.2), training(15, reward=0.1)],
            "step 15: the reward collapsed from 0.900 to 0.100",
        ),
    ],
)
def test_a_run_that_its_guard_stopped(tmp_path: Path, lines: list[Any], why: str) -> None:
    run = make_run(tmp_path / "run", lines)
    make_run(tmp_path / "run-2")
    assert (look(run).state, look(run).why) == ("stopped", why)
    facts = said(run)
    assert facts["state"].startswith("stopped by its guard, ")
    assert facts["state"].endswith(why)
    more = f"--out {tmp_path}/run-3 --schedule.learning_rate 0.0005"
    assert facts["try"] == f"naic train {run}/config.toml {more}"
    assert "go on" not in facts
    make_run(run, [*lines, training(35)])  # it was told other rules, and went on
    assert look(run).state == "cut off"


def test_before_anything_is_logged(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [])
    (run / "metrics.jsonl").unlink()
    facts = said(run)
    assert facts["state"] == "cut off (by a kill, Ctrl-C or an error), nothing was logged"
    assert "step" not in facts
    assert "training" not in facts


def test_where_there_are_no_locks_the_age_of_the_log_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "is_held", lambda _: None)
    run = make_run(tmp_path / "run")
    assert look(run).state == "running"
    assert said(run)["state"].endswith("there are no locks here: told by the age of its log")
    old = time.time() - 3600
    os.utime(run / "metrics.jsonl", (old, old))
    assert look(run).state == "cut off"
    assert "1 h 00 min since" in said(run)["state"]


def test_runs_of_earlier_versions_and_broken_files(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [{"step": 3, "loss": 1.0}, {"step": 4, "cider": math.pi}])
    (run / "config.toml").write_text('stage = "cmal')
    (run / "report.json").write_text('{"steps": 4')
    found, facts = look(run), said(run)
    assert (found.state, found.steps, found.epoch, found.left) == ("cut off", None, None, None)
    assert facts["stage"] == "unknown stage, unknown captioner"
    assert facts["note"].startswith("config.toml is no valid TOML")
    assert facts["step"].startswith("4; ")
    (run / "config.toml").unlink()
    assert is_run(run)
    assert "config.toml cannot be read" in said(run)["note"]


def test_best_is_what_the_link_says(tmp_path: Path) -> None:
    lines = [validation(0, 0.5), validation(10, 0.4), validation(20, 0.9)]
    run = make_run(tmp_path / "run", lines, best=0)
    assert said(run)["best"].startswith(
        "CIDEr 0.5000 at step 0, which is the model that the run began with"
    )
    (run / "best").unlink()  # a copy of a run may have no links
    assert said(run)["best"] == "CIDEr 0.9000 at step 20"


def test_the_command_that_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path / "runs" / "a b", out="runs/a b")
    monkeypatch.chdir(tmp_path)
    assert said(Path("runs/a b"))["go on"] == "naic train 'runs/a b/config.toml' --resume auto"
    monkeypatch.chdir(tmp_path / "runs")
    again = f"cd {tmp_path} && naic train 'runs/a b/config.toml' --resume auto"
    assert said(Path("a b"))["go on"] == again
    run.rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path)
    assert said(Path("moved"))["go on"] == "naic train moved/config.toml --resume auto --out moved"


def test_what_training_writes_is_understood(
    tmp_path: Path, train_shortly: Callable[[Path], dict[str, Any]]
) -> None:
    report = train_shortly(tmp_path)
    found = look(tmp_path / "run")
    assert (found.state, found.stage, found.captioner) == ("finished", "teacher_xe", "causal")
    assert (found.step, found.steps) == (report["steps"], report["steps"])
    assert found.best_step == report["best_step"]
    assert found.best_validation["cider"] == report["scores"][0]["cider"]
    assert found.checkpoint == report["steps"]
    assert found.problems == ()
    (tmp_path / "run" / "report.json").unlink()
    assert look(tmp_path / "run").steps == report["steps"]  # told from the log
