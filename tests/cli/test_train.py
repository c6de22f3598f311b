"""`naic train`: what its words mean, what it prints, and its exit codes."""

import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from naic.cli.main import main
from naic.models.config import TransformerConfig
from naic.train import launch as launch_module
from naic.train import watchdog
from naic.train.config import setting_kinds, settings_toml
from naic.train.engine import TrainingEngine
from naic.train.logs import read_metrics
from naic.train.loop import train
from naic.train.settings import Settings
from tests.models.conftest import one_thread
from tests.plugging import unplugged
from tests.train.runs import enter, make_home, run_settings

__all__ = ["one_thread"]
RUN = Path("run")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("home"))


@pytest.fixture(autouse=True)
def here(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("RANK", raising=False)
    enter(home, tmp_path, monkeypatch)
    Path("config.toml").write_text(settings_toml(run_settings(epochs=1.0)))
    return tmp_path


def everything(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): path.read_bytes() for path in paths}


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["config.toml", "--help"]])
def test_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["train", *words])
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith("usage: naic train [-h] [OPTIONS]")
    for option in ("--resume {auto}", "--nproc N", "--dry-run", "--model.width INT"):
        assert option in text
    assert not RUN.exists()


def test_help_lists_every_setting_with_its_meaning_and_default(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")  # one column
    monkeypatch.setenv("NO_COLOR", "1")
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    lines = [line.strip("│╭╰─╮╯- ") for line in capsys.readouterr().out.splitlines()]
    told = " ".join(lines[lines.index("options") :])
    kinds = setting_kinds(Settings) | setting_kinds(TransformerConfig, "model.")
    del kinds["model"]
    for name in kinds:
        option = re.escape(name.replace("_", "-"))
        takes = rf"(?<![\w.]){option} [A-Z{{]\S+ +"
        found = re.search(rf"{takes}(.*?)\((default: .+?|required.*?)\)", told)
        assert found, name
        assert re.search(r"\w+\W+\w+", found[1]), name
        assert "default:" not in found[1], name
    assert re.search(r"cmal.baseline \{none,ma,sc,loo,cf\} [^(]*\(default: \"cf\"\)", told)
    assert re.search(r"data.train LIST [^(]*\(default: \[\"train\"\]\)", told)
    assert re.search(r"data.features STORE [^(]*\(required, here or in CONFIG\)", told)


@pytest.mark.parametrize("words", [["--captioner", "bag", "--plugin", "tests.toy"], ["bag.toml"]])
def test_help_lists_the_settings_of_another_captioner(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("bag.toml").write_text('captioner = "bag"\nplugins = ["tests.toy"]\n')
    with unplugged(), pytest.raises(SystemExit):
        main(["train", *words, "--help"])
    text = capsys.readouterr().out
    assert "--model.hidden INT" in text
    assert "--model.width" not in text


def test_nothing_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train"]) == 2
    assert "usage: naic train" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["missing.toml"], "missing.toml: cannot be read"),
        (["config.toml", "config.toml"], "one config file is needed, and there are 2"),
        (["config.toml", "b.toml", "--seed", "3"], "one config file is needed, and there are 2"),
        (["--run.epochs", "3"], "one config file is needed, and there are 0"),
        (["config.toml", "--nproc", "0"], "--nproc: '0' is no number of processes"),
        (["config.toml", "--nproc", "-1"], "--nproc: '-1' is no number of processes"),
        (["config.toml", "--nproc", "two"], "--nproc: 'two' is no number of processes"),
        (["config.toml", "--resume", "maybe"], "--resume: there is no 'maybe'. One of: auto."),
        (["config.toml", "--resume"], "--resume: its value is missing"),
        (["config.toml", "--run.epochs"], "--run.epochs: its value is missing"),
        (["config.toml", "--run.epoch", "3"], "Did you mean --run.epochs?"),
        (["--run.epoch", "3", "config.toml"], "Did you mean --run.epochs?"),
        (["--config", "config.toml"], "one config file is needed, and there are 0"),
        (["config.toml", "--model", "x"], "--model: there is no such setting."),
        (["config.toml", "--cmal.baseline", "None"], "--cmal.baseline: there is no 'None'. One"),
        (["config.toml", "--runs.epochs", "3"], "--runs.epochs: there is no such setting. Did"),
        (["config.toml", "--model.widht", "3"], "Did you mean --model.width?"),
        (["config.toml", "--zzz", "3"], "--zzz: there is no such setting. `naic train --help`"),
        (
            ["config.toml", "--captioner", "x", "--model.a", "3"],
            "--captioner: there is no 'x'.",
        ),
        (["config.toml", "--cmal.baseline", "foo"], "--cmal.baseline: there is no 'foo'. One of:"),
        (["config.toml", "--run.epochs", "abc"], "--run.epochs: 'abc' is not a number. Give"),
        (["config.toml", "--data.validation", "val"], "--data.validation: 'val' is not a list."),
        (["config.toml", "--run.batch", "0"], "run.batch: 0 is not between"),
        (["config.toml", "--stage", "scst"], "the stage scst does not use [xe]"),
        (["config.toml", "--captioner", "parallel"], "stage: a parallel captioner cannot be"),
        (["config.toml", "--engine.graph", "true"], "engine.graph: CUDA graphs need a CUDA"),
        (["config.toml", "--dry-run", "--engine.graph", "true"], "engine.graph: CUDA graphs"),
        (["config.toml", "--dry-run=no"], "--dry-run=no: is not known"),
        (["config.toml", "-n", "2"], "-n: is not known"),
        (["config.toml", "--nproc", "3"], "run.batch: 8 images cannot be shared by 3 processes"),
        (["config.toml", "--nproc", "2", "--run.epoch", "3"], "Did you mean --run.epochs?"),
    ],
)
def test_bad_usage(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith("naic train: ")
    assert told in error
    assert error.count("\n") == 1
    assert not RUN.exists()


def test_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["config.toml", "--run.epochs", "2", "--validation.report=[1, 2]", "--run.log-every=2"]
    assert main(["train", *words]) == 0
    told = capsys.readouterr().out.splitlines()
    assert [line.partition(": CIDEr ")[0] for line in told[:2]] == ["beam 1", "beam 2"]
    assert told[2].startswith("best model: run/best (step ")
    steps = [line["step"] for line in read_metrics(RUN) if "loss" in line]
    assert steps == [2, 4, 5, 6, 8, 10]
    card = (RUN / "best" / "README.md").read_text()
    assert "naic train config.toml --run.epochs 2 '--validation.report=[1, 2]'" in card


def test_a_step_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    """At a validation too: its line has the numbers of the step as well."""
    words = ["--run.epochs", "2", "--run.log_every", "1", "--start", "../teacher/best"]
    assert main(["train", "config.toml", *words]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if ": step " in line]
    steps = [line.partition(",")[0] for line in lines]
    assert steps == [f"teacher_xe: step {step}/10" for step in (0, 5, 10)]
    assert all("validation CIDEr" in line for line in lines)
    assert all("loss" in line for line in lines[1:])


def test_it_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "config.toml"]) == 0
    assert main(["train", "config.toml", "--run.epochs", "2"]) == 2
    assert "there is a run in this folder" in capsys.readouterr().err
    assert main(["train", "config.toml", "--run.epochs", "2", "--resume", "auto"]) == 0
    assert read_metrics(RUN)[-1]["step"] == 10


def test_dry_run_writes_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = everything(here)
    assert main(["train", "config.toml", "--dry_run", "--nproc", "2"]) == 0
    told = capsys.readouterr().out
    assert "learns from: 40 images, 90 captions" in told
    assert "5 of 8 images on 2 processes, 1 epoch" in told
    assert told.endswith("Nothing was written (--dry-run).\n")
    assert main(["train", "config.toml", "--dry-run", "--run.epochs", "2"]) == 0
    assert "10 of 8 images on 1 process, 2 epochs" in capsys.readouterr().out
    assert everything(here) == before
    assert not RUN.exists()


def test_dry_run_sees_what_the_run_would_refuse(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "config.toml", "--dry-run", "--nproc", "3"]) == 2
    assert "run.batch" in capsys.readouterr().err
    assert main(["train", "config.toml"]) == 0
    before = everything(here)
    assert main(["train", "config.toml", "--dry-run"]) == 2
    assert "there is a run in this folder" in capsys.readouterr().err
    assert main(["train", "config.toml", "--dry-run", "--resume", "auto"]) == 0
    assert "on from step-00000005" in capsys.readouterr().out
    assert main(["train", "config.toml", "--dry-run", "--resume", "auto", "--seed", "9"]) == 2
    assert "it was begun with seed = 3 (now 9)" in capsys.readouterr().err
    assert main(["train", "config.toml", "--dry-run", "--out", "run/captions"]) == 1
    assert "val-beam1.json" in capsys.readouterr().err
    assert everything(here) == before


def test_dry_run_tells_of_the_start_model(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--dry-run", "--start", "../teacher/best", "--captioner", "parallel"]
    assert main(["train", "config.toml", *words, "--stage", "student_xe"]) == 0
    assert "tensors taken" in capsys.readouterr().out


def test_what_fails_is_no_bad_usage(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["train", "config.toml", "--data.features", "../nowhere"]) == 1
    assert "nowhere" in capsys.readouterr().err
    monkeypatch.setattr(TrainingEngine, "step", lambda *_: {"loss": torch.tensor(math.nan)})
    assert main(["train", "config.toml", "--out", "other"]) == 1
    assert "naic train: step 1: loss is not a finite number" in capsys.readouterr().err


def test_several_processes_are_started_with_the_same_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[Any] = []

    def launch(nproc: int, arguments: list[str]) -> int:
        started.append((nproc, arguments))
        return 7

    monkeypatch.setattr(launch_module, "launch", launch)
    words = ["config.toml", "--nproc", "4", "--resume", "auto"]
    assert main(["train", *words]) == 7
    with unplugged():
        assert main(["train", "--plugin=tests.toy", *words]) == 7
    told = ["-m", "naic", "train", *words]
    assert started == [(4, told), (4, [*told, "--plugin", "tests.toy"])]
    assert not RUN.exists()


def test_a_worker_starts_no_others_and_watches_its_parent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    watched: list[bool] = []
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr(watchdog, "watch_parent", lambda: watched.append(True))
    monkeypatch.setattr(launch_module, "launch", lambda *_: pytest.fail("it started others"))
    trained: list[bool] = []

    def pretend(*_: Any, **named: Any) -> dict[str, Any]:
        trained.append(named["resume"])
        return {"scores": [], "best_step": 0}

    monkeypatch.setattr("naic.train.loop.train", pretend)
    assert main(["train", "config.toml", "--nproc", "2", "--resume", "auto"]) == 0
    assert (watched, trained) == ([True], [True])
    assert capsys.readouterr().out == ""  # process 0 speaks


@pytest.mark.parametrize(
    ("rank", "told"), [(None, 1), ("0", 1), ("1", 0), ("7", 0)], ids=["alone", "0", "1", "7"]
)
def test_ctrl_c_is_told_of_once(
    rank: str | None,
    told: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if rank is not None:
        monkeypatch.setenv("RANK", rank)
    monkeypatch.setattr(watchdog, "watch_parent", lambda: None)

    def stop(*_: Any, **__: Any) -> dict[str, Any]:
        raise KeyboardInterrupt

    monkeypatch.setattr("naic.train.loop.train", stop)
    assert main(["train", "config.toml"]) == 130
    assert capsys.readouterr().err == "\nnaic train: stopped. Add --resume auto to go on.\n" * told


def test_a_finished_run_tells_its_scores_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "config.toml"]) == 0
    told = capsys.readouterr().out
    assert main(["train", "config.toml", "--resume", "auto"]) == 0
    assert capsys.readouterr() == (told, "")


@pytest.mark.parametrize("name", ["2024", "2026-11-15", "1e3", "true", "[1]"])
def test_a_folder_may_look_like_a_number(name: str) -> None:
    assert main(["train", "config.toml", "--run.epochs", "0.1", "--out", name]) == 0
    assert (Path(name) / "report.json").exists()


def test_the_command_is_what_the_function_is(here: Path) -> None:
    """Nothing of a run is decided by the command line alone."""
    assert main(["train", "config.toml"]) == 0
    train(run_settings(epochs=1.0, out="same"))
    one, two = (
        (Path(name) / "best" / "model.safetensors").read_bytes() for name in ("run", "same")
    )
    assert one == two
