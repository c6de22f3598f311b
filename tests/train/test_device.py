"""The device of a run is the one that its settings name, whatever ran before in this program."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from accelerate import Accelerator, PartialState
from accelerate.state import AcceleratorState

from naic.errors import ConfigError
from naic.learn.losses import cross_entropy
from naic.train import setup
from naic.train.engine import TrainingEngine
from naic.train.loop import train
from naic.train.setup import _accelerator, check_cards
from naic.train.tools import Logs
from tests.train.runs import make_learnable_store, make_settings


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
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    if before:
        Accelerator(cpu=True)
    with pytest.raises(ConfigError, match="wants cuda, and accelerate chose cpu"):
        accelerator("cuda")


def test_a_certain_card_is_chosen_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "choose_device", torch.device)
    with pytest.raises(ConfigError, match=r"engine\.device: a run takes the first card") as caught:
        accelerator("cuda:1")
    assert "CUDA_VISIBLE_DEVICES" in caught.value.hint


def test_every_process_needs_a_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "choose_device", torch.device)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(ConfigError) as caught:
        accelerator("cuda")
    assert caught.value.what == "--nproc"
    assert caught.value.why == "there is no card for process 3 of this machine, which has 2"
    check_cards("cuda", 2)
    check_cards("cpu", 9)


def test_precision_is_not_the_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    assert accelerator("cpu").mixed_precision == "no"


@pytest.mark.gpu
def test_every_run_is_where_it_shall_be() -> None:
    for device in ("cpu", "cuda", "cpu", "cuda", "cuda"):
        assert accelerator(device).device.type == device


def test_the_precision_of_a_run_ends_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the whole program's: what captions or prepares after a run is not to be rounded."""
    make_learnable_store(tmp_path / "store")
    settings = make_settings(tmp_path / "store", tmp_path / "run", run={"epochs": 0.2})
    seen = []

    def rounding(*_: object) -> Callable[..., torch.Tensor]:
        torch.set_float32_matmul_precision("high")  # as for bfloat16, which some CPUs have not
        return cross_entropy

    def looking(self: TrainingEngine, number: int, rate: float) -> Logs:
        seen.append(torch.get_float32_matmul_precision())
        return step(self, number, rate)

    step = TrainingEngine.step
    monkeypatch.setattr(setup, "prepare_speed", rounding)
    monkeypatch.setattr(TrainingEngine, "step", looking)
    train(settings)
    assert seen == ["high"]
    assert torch.get_float32_matmul_precision() == "highest"
