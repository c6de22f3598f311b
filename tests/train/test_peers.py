"""What the processes of a run agree on, and what is said when one is gone."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from accelerate import Accelerator
from torch.distributed import DistBackendError

from naic.errors import ConfigError, TrainingError
from naic.train import peers
from naic.train.batches import Shares, share_out
from naic.train.inputs import Inputs, find_inputs
from naic.train.loop import train
from naic.train.peers import check_agreement, lost_peers_told
from naic.train.settings import RunSettings
from tests.train.runs import make_learnable_store, make_settings, run_settings

RESET = (
    "[/__w/third_party/gloo/gloo/transport/tcp/pair.cc:537] Read error [10.0.0.2]:1420: "
    "Connection reset by peer. This is typically caused by a remote worker hanging."
)


@pytest.mark.parametrize(
    ("accumulate", "world", "before", "pieces", "parts"),
    [
        (1, 2, None, 2, 1),  # it begins
        (2, 2, None, 4, 2),
        (1, 1, {"accumulate": 1, "pieces": 2}, 2, 2),  # a machine is gone
        (1, 3, {"accumulate": 1, "pieces": 8}, 8, 4),  # 24 / 12: 2 images at once, as 24 / 8 has 3
        (1, 2, {"accumulate": 1, "pieces": 2}, 2, 1),  # it is back
        (1, 4, {"accumulate": 1, "pieces": 2}, 2, 1),  # others came
        (1, 8, {"accumulate": 1, "pieces": 1}, 1, 1),
        (3, 1, {"accumulate": 1, "pieces": 2}, 3, 3),  # set anew
        (1, 1, {"accumulate": 4, "pieces": 8}, 1, 1),
    ],
)
def test_no_more_images_at_once_than_when_it_began(
    accumulate: int, world: int, before: Mapping[str, int] | None, pieces: int, parts: int
) -> None:
    run = RunSettings(batch=24, accumulate=accumulate)
    assert share_out(run, world, before) == (Shares(accumulate, pieces), parts)


def test_parts_are_those_that_a_batch_can_be_cut_into() -> None:
    _, parts = share_out(RunSettings(batch=10), 2, {"accumulate": 1, "pieces": 6})
    assert parts == 5  # not 3: of 5 images each


def test_with_fewer_processes_it_goes_on_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As if it had begun with four; and then in the number that is asked for."""
    make_learnable_store(tmp_path / "store")
    (tmp_path / "one").mkdir()
    monkeypatch.chdir(tmp_path / "one")
    with monkeypatch.context() as patch:
        patch.setattr("naic.train.setup.share_out", lambda run, _, __: (Shares(1, 4), 1))
        train(run_settings(epochs=1.0))
    assert "parts" not in capsys.readouterr().err
    train(run_settings(epochs=2.0), resume=True)
    told = "Fewer processes than at first: each takes its share of a step in 4 parts."
    assert told in capsys.readouterr().err
    train(run_settings(epochs=3.0, run={"accumulate": 2}), resume=True)
    assert "parts" not in capsys.readouterr().err


class Two:
    """An accelerator of two processes."""

    num_processes = 2


@pytest.fixture
def inputs(tmp_path: Path) -> Inputs:
    make_learnable_store(tmp_path / "store")
    return find_inputs(make_settings(tmp_path / "store", tmp_path / "run"))


def told_by_the_other(patch: pytest.MonkeyPatch, inputs: Inputs) -> None:
    """Process 0 has these inputs."""
    said = list[dict[str, Any]]()

    def gather(own: list[dict[str, Any]]) -> list[dict[str, Any]]:
        said.extend(own)
        return said

    patch.setattr(peers, "gather_object", gather)
    check_agreement(_two(), inputs)


def _two() -> Any:
    return Two()


def test_machines_with_the_same_data_elsewhere_agree(
    tmp_path: Path, inputs: Inputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    told_by_the_other(monkeypatch, inputs)
    make_learnable_store(tmp_path / "copy")
    check_agreement(_two(), find_inputs(make_settings(tmp_path / "copy", tmp_path / "mine")))


@pytest.mark.parametrize(
    ("images", "tables", "differ"),
    [
        (39, {}, r"data \(captions\), data \(images\), data \(index\), data \(records\), voc"),
        (40, {"seed": 4, "data": {"captions": 1}}, r"data\.captions, seed"),
    ],
)
def test_other_data_or_settings_are_refused(
    images: int,
    tables: dict[str, Any],
    differ: str,
    tmp_path: Path,
    inputs: Inputs,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told_by_the_other(monkeypatch, inputs)
    make_learnable_store(tmp_path / "other", images)
    other = find_inputs(make_settings(tmp_path / "other", tmp_path / "run", **tables))
    with pytest.raises(ConfigError, match=rf"process 1: .*process 0 has: {differ}"):
        check_agreement(_two(), other)


def test_one_process_agrees_with_itself(inputs: Inputs) -> None:
    check_agreement(Accelerator(cpu=True), inputs)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RuntimeError(RESET), "Read error [10.0.0.2]:1420: Connection reset by peer"),
        (DistBackendError("NCCL error: remote process exited\nmore"), "NCCL error: remote process"),
    ],
)
def test_a_lost_process_is_told_of_in_one_line(error: Exception, reason: str) -> None:
    with pytest.raises(TrainingError) as caught, lost_peers_told():
        raise error
    told = str(caught.value)
    assert f"gone, or silent for too long ({reason}" in told
    assert "--resume auto" in told
    assert "\n" not in told


def test_other_errors_are_what_they_are() -> None:
    with pytest.raises(RuntimeError, match=r"^shapes do not fit$"), lost_peers_told():
        raise RuntimeError("shapes do not fit")
