"""`naic show` of training runs: what it prints and writes, and that it is quick."""

import json
import resource
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from naic.cli.main import main
from tests.tasks.show.runs import LINES, make_run, training, validation


def test_one_run_is_told_in_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "mine", best=10, checkpoints=[10])
    (run / "tensorboard").mkdir()
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    assert main(["show", str(run)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"run:         {run}"
    assert lines[1] == "stage:       student_xe, parallel captioner"
    assert lines[-3:] == [
        f"go on:       naic train {run}/config.toml --resume auto",
        f"use it:      naic caption --model {run}/best photo.jpg",
        f"TensorBoard: tensorboard --logdir {run}",
    ]
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before


def test_several_runs_are_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in (1, 2):
        make_run(tmp_path / f"[red]{seed}", seed=seed)
    assert main(["show", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert [" ".join(line.split()) for line in out.splitlines()] == [
        "run stage state step of all best CIDEr at step loss left",
        "[red]1 student_xe cut off 15 38% 0.7500 10 1.5 50 s",
        "[red]2 student_xe cut off 15 38% 0.7500 10 1.5 50 s",
        "setting [red]1 [red]2",
        "seed 1 2",
    ]


def test_many_settings_are_for_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in range(9):
        make_run(tmp_path / f"run-{seed}", seed=seed)
    assert main(["show", str(tmp_path)]) == 0
    assert "they differ in 1 settings: --html FILE has a table" in capsys.readouterr().out


def test_json_is_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path, [*LINES, training(20, loss="nan")], best=10, checkpoints=[10])
    page = tmp_path / "page.html"
    assert main(["show", str(tmp_path), "--json", "--html", str(page)]) == 0
    told = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert told["tasks"] == []
    (run,) = told["runs"]
    assert (run["state"], run["step"], run["steps"], run["checkpoint"]) == ("stopped", 20, 40, 10)
    assert run["training"]["loss"] == "nan"
    assert run["best"]["step"] == 10
    assert run["best"]["validation"]["cider"] == 0.75
    assert page.exists()


def test_curves_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, out = make_run(tmp_path / "mine"), tmp_path / "new"
    words = ["show", str(run), "--html", f"{out}/page.html", "--svg", f"{out}/all.svg"]
    assert main(words) == 0
    assert f"written:     {out}/page.html\nwritten:     {out}/all.svg\n" in capsys.readouterr().out
    assert main(["show", str(run), "--svg", f"{out}/each"]) == 0
    names = {path.name for path in (out / "each").iterdir()}
    assert {"validation-cider.svg", "training-loss.svg"} <= names
    for path in (out / "all.svg", *(out / "each").iterdir()):
        ElementTree.fromstring(path.read_text())
    assert main(words) == 0  # again, over the old ones


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ([], 2, "PATH: no folder was named. Name the folder of a training run"),
        (["run", "--html", "page.txt"], 2, "ends in neither .html nor .htm"),
        (["run", "--svg", "curves.png"], 2, "--svg: what is drawn is SVG, and no .png"),
        (["empty", "--svg", "x.svg"], 2, "--svg: nothing was logged yet"),
        (["store", "--html", "page.html"], 2, "--html: it is for training runs"),
        (["run", "store"], 2, "PATH: a feature store is shown by itself"),
        (["store", "--examples", "-1"], 2, "--examples: -1 is below 0"),
        (["run", "--html", "run/metrics.jsonl/page.html"], 1, "cannot be written"),
    ],
)
def test_what_cannot_be_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    code: int,
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    make_run(Path("run"))
    make_run(Path("empty"), [])
    Path("store").mkdir()
    Path("store/index.json").touch()
    assert main(["show", *words]) == code
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("lines", "seconds"),
    [(10_000, 1.0), pytest.param(100_000, 2.0, marks=pytest.mark.slow)],
)
def test_a_long_log_takes_no_time_and_no_torch(tmp_path: Path, lines: int, seconds: float) -> None:
    """CPU time of a new process; how busy the machine is does not matter."""
    values = json.dumps(training(0, loss=1.234567890123))[len('{"step": 0, "epoch": 0.0') :]
    text = (
        f'{{"step": {step}, "epoch": {step / 1000}{values}\n'
        + (f"{json.dumps(validation(step, 0.5))}\n" if step % 1000 == 0 else "")
        for step in range(1, lines + 1)
    )
    run = make_run(tmp_path / "run", tail="".join(text).encode())
    code = (
        "import sys; from naic.cli.main import main\n"
        "assert main(sys.argv[1:]) == 0; assert 'torch' not in sys.modules"
    )
    words = ["show", str(run), "--html", str(tmp_path / "page.html")]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    assert f"step:        {lines:,}" in done.stdout
    assert after.ru_utime - before.ru_utime < seconds
