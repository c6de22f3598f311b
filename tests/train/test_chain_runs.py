"""Runs of agents that hear each other: what they go on from, and what is refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from naic.errors import ConfigError
from naic.models.chain import TRANSITIONS, entropy, marginals, steps, tempered
from naic.models.folder import load_model
from naic.models.transformer import TransformerCaptioner
from naic.train import chain_stages, checkpoint
from naic.train.inputs import find_inputs
from naic.train.loop import train
from naic.train.settings import CMALSettings, Settings
from naic.train.stages import STAGES
from tests.models.small import FEATURES, SIZES
from tests.train.runs import make_learnable_store, make_settings
from tests.train.stage_cases import Table, make_batch, make_tools, sentence


def test_what_is_refused() -> None:
    chain = {"transitions": 2}
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("cmal", {"cmal": {"baseline": "cf"}}, "no baseline but a bias"),
        ("student_xe", {"xe": {"fill": True}}, "no part of the sentence"),
        ("student_xe", {"xe": {"glance": 0.3}}, "is not told words as well"),
    ]
    for stage, tables, why in cases:
        settings = make_settings(Path("s"), Path("o"), stage, model=chain, **tables)
        with pytest.raises(ConfigError, match=why):
            STAGES[stage].check(settings, 10)
        STAGES[stage].check(replace(settings, model={}), 10)
    every = {"baseline": "loo", "samples": 2, "gradient": "all"}
    settings = make_settings(Path("s"), Path("o"), "cmal", model=chain, cmal=every)
    with pytest.raises(ConfigError, match="gradient: is not for agents that hear each other"):
        STAGES["cmal"].check(settings, 10)
    assert {*chain_stages._KNOWN} <= CMALSettings.__dataclass_fields__.keys()


def test_a_student_that_heard_nobody_goes_on_with_transitions(tmp_path: Path) -> None:
    """By rewards: fresh transitions change nothing. Of another rank they cannot be taken."""
    make_learnable_store(tmp_path / "store")
    short = {"epochs": 0.4, "validate_every": 0.4, "save_every": 0.4}
    train(make_settings(tmp_path / "store", tmp_path / "kd", "student_xe", run=short))

    def go_on(start: str, out: str, rank: int) -> Settings:
        return make_settings(
            tmp_path / "store",
            tmp_path / out,
            "cmal",
            start=str(tmp_path / start / "best"),
            model={"transitions": rank},
            run=short,
            cmal={"baseline": "loo", "samples": 2},
        )

    train(go_on("kd", "chain", 2))
    other = go_on("kd", "other", 2)
    with pytest.raises(ConfigError, match="and 6 tensors"):
        find_inputs(replace(other, model={**other.model, "hidden": 24}))
    path = checkpoint.latest(tmp_path / "chain")
    assert path is not None
    learnt = checkpoint.load(path).model
    assert all(bool(learnt[f"{TRANSITIONS}{name}.weight"].any()) for name in ("after", "context"))
    model = load_model(tmp_path / "chain" / "best").model
    assert isinstance(model, TransformerCaptioner)
    assert model.transitions is not None
    assert find_inputs(go_on("chain", "further", 2)).start.startswith("46 of 46 tensors")
    with pytest.raises(ConfigError, match=r"4 tensors .*\(decoder.transitions"):
        find_inputs(go_on("chain", "other", 3))
    start = str(tmp_path / "chain" / "best")
    teacher = make_settings(tmp_path / "store", tmp_path / "new", "teacher_xe", start=start)
    assert find_inputs(teacher).config.transitions == 0
    # What transitions cannot have is refused as well where only the start model has them.
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("student_xe", {"xe": {"glance": 0.3}}, "is not told words as well"),
        ("student_xe", {"xe": {"fill": True}}, "no part of the sentence"),
        ("cmal", {"cmal": {"baseline": "cf"}}, "no baseline but a bias"),
    ]
    for stage, tables, why in cases:
        settings = make_settings(tmp_path / "store", tmp_path / "new", stage, start=start, **tables)
        assert "transitions" not in settings.model
        with pytest.raises(ConfigError, match=why):
            find_inputs(settings)


class Long(Table):
    """More words are worth more."""

    def of(self, words: list[int]) -> float:
        return float(len(sentence(words)))


def test_a_temperature_is_that_of_the_chain() -> None:
    """By the entropy of its speakers, which is logged; weights that are apart learn from it."""
    sizes = replace(SIZES, transitions=2)
    model = TransformerCaptioner(sizes, FEATURES, 12, causal=False).double().eval()
    batch, logged = make_batch(2), []
    for temperature in (1.0, 4.0):
        own = {"baseline": "loo", "samples": 2, "temperature": temperature, "kl": 0.1}
        tools = make_tools("cmal", model, Long({}), cmal=own)
        logs = STAGES["cmal"].step(model, batch, tools)[1]
        logged.append(float(logs["entropy"]))
        assert float(logs["kl"]) == pytest.approx(0, abs=1e-12)  # where it began is as flat
        scores = model(batch.features, batch.mask)
        assert model.transitions is not None
        chain = model.transitions.chain(scores.logits[:, 0], scores.context[:, 0])
        policy = steps(tempered(chain, temperature))
        reached = marginals(policy)
        own_entropy = entropy(policy, reached).sum(1) / reached.sum((1, 2))
        assert logged[-1] == pytest.approx(float(own_entropy.mean().detach()), rel=1e-6)
    assert logged[1] > logged[0] + 0.01
