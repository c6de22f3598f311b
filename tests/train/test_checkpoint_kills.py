"""A kill at any moment leaves a whole checkpoint, and a whole best model."""

import itertools
import os
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

from naic.models.captioners import CAPTIONERS
from naic.models.config import TransformerConfig
from naic.models.contract import CaptionerSpec, Proposed
from naic.models.folder import ModelSettings, load_model
from naic.text.vocabulary import SPECIAL, Vocabulary
from naic.train.checkpoint import clean, keep_best, latest, load, save
from tests.train.snapshots import Killer, assert_same, names, snapshot

VOCABULARY = Vocabulary((*SPECIAL, "a"))


@pytest.fixture(scope="module")
def one_killer() -> Killer:
    return Killer()  # an audit hook cannot be taken away again


@pytest.fixture
def killer(one_killer: Killer, monkeypatch: pytest.MonkeyPatch) -> Killer:
    # Counted and not done: that matters to a power cut, and takes most of these tests' time.
    monkeypatch.setattr(os, "fsync", lambda _: one_killer.call())
    return one_killer


def test_a_kill_at_any_moment_of_a_save_leaves_a_whole_checkpoint(
    killer: Killer, tmp_path: Path
) -> None:
    outcomes = []
    for calls in itertools.count():
        run = tmp_path / str(calls)
        for step in (1, 2):
            save(run, snapshot(step))
        killed = killer.kills(calls, partial(save, run, snapshot(3)))
        found = latest(run)
        assert found is not None
        step = int(found.name.removeprefix("step-"))
        assert step in (2, 3)
        assert_same(load(found), snapshot(step))
        outcomes.append(step)
        for path in (run / "checkpoints").glob("step-*"):  # one may be deleted to go back
            assert_same(load(path), snapshot(int(path.name.removeprefix("step-"))))
        save(run, snapshot(4))
        assert names(run / "checkpoints") == {found.name, "step-00000004"}
        if not killed:
            break
    assert outcomes == sorted(outcomes)  # once it is there it stays
    assert outcomes.count(2) > 10
    assert outcomes.count(3) > 5  # kills while the old one is removed


def test_leftovers_go_when_a_run_is_resumed(killer: Killer, tmp_path: Path) -> None:
    save(tmp_path, snapshot(1))
    assert killer.kills(8, lambda: save(tmp_path, snapshot(2)))
    assert len(names(tmp_path / "checkpoints")) == 2
    clean(tmp_path)
    assert names(tmp_path / "checkpoints") == {"step-00000001"}


CONFIG = TransformerConfig(width=8, heads=2, encoder_layers=1, decoder_layers=1, hidden=8, length=4)
SETTINGS = ModelSettings("dot", 2, len(VOCABULARY), "", CONFIG)


def _build(config: TransformerConfig, features: int, words: int) -> nn.Module:
    return nn.Linear(features, words)


def _propose(*_: object) -> Proposed:
    raise AssertionError


@pytest.fixture(autouse=True)
def _dot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CAPTIONERS, "dot", CaptionerSpec(TransformerConfig, _build, _propose))


def best(run: Path, step: int, value: float) -> Path:
    size = (len(VOCABULARY), 2)
    weights = {"weight": torch.full(size, value), "bias": torch.zeros(len(VOCABULARY))}
    return keep_best(run, weights, SETTINGS, VOCABULARY, "# Card\n", step)


def value_of(run: Path) -> float:
    """The weights that `best` leads to, which must be a whole model."""
    model = load_model(run / "best").model
    return float(model.state_dict()["weight"][0, 0])


def test_best_leads_to_the_best(tmp_path: Path) -> None:
    assert best(tmp_path, 100, 1.0) == tmp_path / "models" / "step-00000100"
    assert (tmp_path / "best").readlink() == Path("models/step-00000100")  # runs may be moved
    best(tmp_path, 300, 3.0)
    assert value_of(tmp_path) == 3.0
    assert names(tmp_path / "models") == {"step-00000300"}
    assert names(tmp_path) == {"models", "best"}


def test_the_same_step_again_after_a_kill(tmp_path: Path) -> None:
    best(tmp_path, 100, 1.0)
    best(tmp_path, 100, 2.0)
    assert value_of(tmp_path) == 2.0
    assert names(tmp_path / "models") == {"step-00000100-2"}
    best(tmp_path, 100, 3.0)
    assert names(tmp_path / "models") == {"step-00000100"}
    assert value_of(tmp_path) == 3.0


@pytest.mark.parametrize("step", [100, 200])
def test_a_kill_at_any_moment_leaves_best_whole(step: int, killer: Killer, tmp_path: Path) -> None:
    outcomes = []
    for calls in itertools.count():
        run = tmp_path / str(calls)
        best(run, 100, 1.0)
        killed = killer.kills(calls, partial(best, run, step, 2.0))
        outcomes.append(value_of(run))
        clean(run)
        assert value_of(run) == outcomes[-1]
        best(run, 300, 3.0)
        assert value_of(run) == 3.0
        assert names(run) == {"models", "best"}
        assert names(run / "models") == {"step-00000300"}
        if not killed:
            break
    assert outcomes == sorted(outcomes)
    assert outcomes.count(1.0) > 10
    assert outcomes.count(2.0) > 3
