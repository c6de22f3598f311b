"""The device of a run is the one that its settings name, whatever ran before in this program."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from accelerate import Accelerator, PartialState
from accelerate.state import AcceleratorState

from naic.errors import ConfigError
from naic.train import setup
from naic.train.setup import _accelerator
from tests.train.runs import make_settings


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    AcceleratorState._reset_state(reset_partial_state=True)
    yield
    AcceleratorState._reset_state(reset_partial_state=True)


def accelerator(device: str) -> Accelerator:
    return _accelerator(make_settings(Path("s"), Path("o"), engine={"device": device}))


def pretend(device: str, processes: int = 1) -> None:
    """As if a run on that device had been before."""
    Accelerator(cpu=True)
    for state in (PartialState._shared_state, AcceleratorState._shared_state):
        state["device"] = torch.device(device)
        state["num_processes"] = processes


def test_the_cpu_after_a_card() -> None:
    pretend("cuda")
    assert accelerator("cpu").device == torch.device("cpu")
    assert accelerator("cpu").device == torch.device("cpu")


def test_several_processes_stay_where_they_found_each_other() -> None:
    pretend("cuda", 2)
    with pytest.raises(ConfigError) as caught:
        accelerator("cpu")
    assert caught.value.what == "engine.device"
    assert caught.value.why == "these processes found each other on cuda"


@pytest.mark.parametrize("before", [False, True])
def test_no_other_device_is_taken_in_silence(before: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here it is the environment that stands against the settings."""
    monkeypatch.setenv("ACCELERATE_USE_CPU", "1")
    monkeypatch.setattr(setup, "choose_device", torch.device)
    if before:
        Accelerator(cpu=True)
    with pytest.raises(ConfigError, match="wants cuda, and accelerate chose cpu"):
        accelerator("cuda")


def test_a_certain_card_is_chosen_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "choose_device", torch.device)
    with pytest.raises(ConfigError, match=r"engine\.device: a run takes the first card") as caught:
        accelerator("cuda:1")
    assert "CUDA_VISIBLE_DEVICES" in caught.value.hint


@pytest.mark.gpu
def test_every_run_is_where_it_shall_be() -> None:
    for device in ("cpu", "cuda", "cpu", "cuda", "cuda"):
        assert accelerator(device).device.type == device
