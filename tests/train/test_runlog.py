"""The log of a run: one line each, and after a resume as if there had been no kill."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naic.errors import WriteError
from naic.train.logs import TIMES, RunLog, read_metrics


def text(run: Path) -> str:
    return (run / "metrics.jsonl").read_text()


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all examples of a property."""
    return tmp_path_factory.mktemp("scratch")


@pytest.fixture
def no_board(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where TensorBoard is not installed: to import it fails."""
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)


@pytest.mark.usefixtures("no_board")
def test_each_line_is_there_at_once(tmp_path: Path) -> None:
    with RunLog(tmp_path, None) as log:
        log.log(1, {"loss": 2.5, "stage": "scst"})
        assert text(tmp_path) == '{"step": 1, "loss": 2.5, "stage": "scst"}\n'
        log.log(1, {"cider": 0.9})
        assert read_metrics(tmp_path) == [
            {"step": 1, "loss": 2.5, "stage": "scst"},
            {"step": 1, "cider": 0.9},
        ]
        log.sync()


@pytest.mark.usefixtures("no_board")
def test_without_tensorboard_one_line_says_so(tmp_path: Path) -> None:
    with RunLog(tmp_path, None) as log:
        assert log.note == "No TensorBoard log: for one, run pip install 'naic[train]'."
        log.log(1, {"loss": 1.0})
    assert {path.name for path in tmp_path.iterdir()} == {"metrics.jsonl"}


@pytest.mark.usefixtures("no_board")
def test_a_resumed_run_drops_what_came_after_its_checkpoint(tmp_path: Path) -> None:
    with RunLog(tmp_path, None) as log:
        for step in (10, 20, 20, 30):
            log.log(step, {"loss": float(step)})
    with RunLog(tmp_path, 20) as log:
        assert [line["step"] for line in read_metrics(tmp_path)] == [10, 20, 20]
        log.log(30, {"loss": 3.0})
    assert [line["step"] for line in read_metrics(tmp_path)] == [10, 20, 20, 30]
    with RunLog(tmp_path, None):  # killed before its first checkpoint
        assert text(tmp_path) == ""


@pytest.mark.usefixtures("no_board")
def test_half_lines_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    (tmp_path / "metrics.jsonl.77-1.part").touch()  # of a kill while the file was made anew
    path.write_bytes(b'{"step": 1}\n{"step": 2, "lo{"step": 3}\n\0\0\n[]\n{"a": 1}\n{"step": 4}')
    assert read_metrics(tmp_path) == [{"step": 1}]  # the last one has no end, so it may be half
    with RunLog(tmp_path, 9) as log:
        log.log(10, {})
    assert text(tmp_path) == '{"step": 1}\n{"step": 10}\n'
    assert {found.name for found in tmp_path.iterdir()} == {"metrics.jsonl"}


def test_no_log_has_no_lines(tmp_path: Path) -> None:
    assert read_metrics(tmp_path) == []


@pytest.mark.usefixtures("no_board")
def test_every_line_is_json_that_others_read(tmp_path: Path) -> None:
    def refuse(name: str) -> None:
        raise ValueError(name)

    with RunLog(tmp_path, None) as log:
        log.log(1, {"loss": float("nan"), "reward": float("-inf"), "ok": 1.0})
    line = json.loads(text(tmp_path), parse_constant=refuse)
    assert line == {"step": 1, "loss": "nan", "reward": "-inf", "ok": 1.0}


def without_times(run: Path) -> list[dict[str, Any]]:
    lines = read_metrics(run)
    return [{key: value for key, value in line.items() if key not in TIMES} for line in lines]


def work(run: Path, first: int, last: int, resumed: int | None, tick: float) -> None:
    """A run in small: what it logs depends on the step, but for its times."""
    with RunLog(run, resumed) as log:
        for step in range(first, last + 1):
            log.log(step, {"loss": 1 / (step + 1), "seconds": tick, "images_per_second": 1 / tick})
            if step % 3 == 0:
                log.log(step, {"cider": step * 0.1, "seconds_left": tick})


@settings(max_examples=30)  # each example writes files
@given(
    kills=st.lists(st.integers(1, 20), max_size=4),
    every=st.integers(1, 6),
    cut=st.integers(0, 40),
)
def test_killed_and_resumed_equals_unbroken(
    scratch: Path, kills: list[int], every: int, cut: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "torch.utils.tensorboard", None)
        broken, whole = scratch / "broken", scratch / "whole"
        for run in (broken, whole):
            run.mkdir(exist_ok=True)
        work(whole, 1, 20, None, 1.0)
        saved, reached = 0, 0
        for kill in kills:
            reached = max(saved, kill)
            work(broken, saved + 1, reached, saved or None, 2.0)
            safe = reached - reached % every  # the last checkpoint: lines up to it are synced
            path = broken / "metrics.jsonl"
            lines = path.read_bytes().splitlines(keepends=True)
            kept = b"".join(line for line in lines if json.loads(line)["step"] <= safe)
            data = path.read_bytes()
            path.write_bytes(data[: max(len(kept), len(data) - cut)])  # the kill cuts a line
            saved = max(saved, safe)
        work(broken, saved + 1, 20, saved or None, 3.0)
        assert without_times(broken) == without_times(whole)


def test_tensorboard_has_the_scalars_and_forgets_the_lost_steps(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with RunLog(tmp_path, None) as log:
        assert log.note == ""
        for step in (10, 20, 30):
            log.log(step, {"loss": float(step), "stage": "scst"})
    with RunLog(tmp_path, 20) as log:
        log.log(30, {"loss": 5.0})
    events = accumulator.EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert events.Tags()["scalars"] == ["loss"]
    assert [(e.step, e.value) for e in events.Scalars("loss")] == [
        (10, 10.0),
        (20, 20.0),
        (30, 5.0),
    ]


class Full(io.StringIO):
    """A file on a disk without room."""

    def flush(self) -> None:
        raise OSError(28, "No space left on device")


@pytest.mark.usefixtures("no_board")
def test_a_full_disk_is_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with RunLog(tmp_path, None) as log:
        with monkeypatch.context() as patch:
            patch.setattr(log, "_file", Full())
            with pytest.raises(WriteError, match="the disk is full") as caught:
                log.log(1, {"loss": 1.0})
        assert caught.value.what == str(tmp_path / "metrics.jsonl")
