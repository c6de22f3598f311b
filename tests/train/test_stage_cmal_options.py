"""What CMAL can be told: baselines, samples, entropy, cross-entropy; and what it tells."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from naic.decode.policy import log_policy
from naic.errors import ConfigError
from naic.learn.cider.rewards import Rewards
from naic.learn.losses import cross_entropy
from naic.text import PERIOD
from naic.train import cmal_stage
from naic.train.config import check
from naic.train.settings import CMALSettings
from naic.train.stages import STAGES
from tests.models.small import small
from tests.train.games import BATCH, sampling, table_game
from tests.train.runs import make_settings
from tests.train.stage_cases import (
    LENGTH,
    A,
    B,
    Policy,
    Table,
    gradients,
    make_batch,
    make_tools,
    part_of,
    real_rewards,
    sentence,
)

BASELINES: list[dict[str, Any]] = [
    {"baseline": "none"},
    {"baseline": "ma"},
    {"baseline": "sc"},
    {"baseline": "loo", "samples": 3},
    {"baseline": "cf"},
    {"baseline": "cf", "samples": 2, "entropy": 0.1, "xe": 0.3, "topk": 4},
    {"baseline": "cf", "gradient": "all", "topk": 4},
    {"baseline": "cf", "temperature": 3.0},
]


class Generous(Table):
    """Every sentence is worth something, and hardly two the same."""

    def of(self, words: list[int]) -> float:
        return sum(i * word for i, word in enumerate(sentence(words), 1)) % 11 / 3


@pytest.fixture(scope="module")
def rewards(tmp_path_factory: pytest.TempPathFactory) -> Rewards:
    return real_rewards(tmp_path_factory.mktemp("stores"))


def test_the_default_is_the_papers() -> None:
    assert CMALSettings() == CMALSettings(2, "cf", 1, 1.0, 0.0, 0.0, 0.0, "sampled")


def test_what_is_logged_of_two_samples() -> None:
    """Each number by hand; the words after the period count for none of them."""
    game = table_game(4)
    teams = ((A, A, PERIOD), (B, PERIOD, A))  # a repeat; and "with", on which nothing should end
    tools = make_tools(
        "cmal", game.model, Table(game.worth), cmal={"samples": 2, "baseline": "loo"}
    )
    with sampling(*teams):
        loss, logs = STAGES["cmal"].step(game.model, BATCH, tools)
    one, two = map(game.reward, teams)
    assert all(value.shape == () and not value.requires_grad for value in logs.values())
    found = {name: float(value) for name, value in logs.items()}
    away = abs(one - two)
    policy = log_policy(game.model(BATCH.features, None)[0, 0].detach())
    each = [-float((own.exp() * own)[own > -torch.inf].sum()) for own in policy]
    entropy = (sum(each) / 3 + sum(each[:2]) / 2) / 2  # the second sentence has two speakers
    expected = {
        "loss": float(loss.detach()),
        "reward": (one + two) / 2,
        "baseline": (one + two) / 2,
        "entropy": entropy,
        "words": 2.5,
        "sampled_repeats": 0.5,
        "sampled_bad_endings": 0.5,
        "advantage": away * 5 / 6,
        "advantage_01": away,
        "advantage_02": away,
        "advantage_03": away / 2,
    }
    assert found.keys() == expected.keys()
    assert found == pytest.approx(expected, rel=1e-6)


def test_the_baseline_that_is_logged_is_the_mean_of_all_agents() -> None:
    game = table_game(4)
    tools = make_tools("cmal", game.model, Table(game.worth), cmal={"topk": 3})
    team = (A, PERIOD, B)
    with sampling(team):
        _, logs = STAGES["cmal"].step(game.model, BATCH, tools)
    policy = log_policy(game.model(BATCH.features, None)[0, 0].detach()).exp()
    total = 0.0
    for agent in range(3):
        for word in (PERIOD, A, B):
            changed = (*team[:agent], word, *team[agent + 1 :])
            total += float(policy[agent, word]) * game.reward(changed)
    assert float(logs["baseline"]) == pytest.approx(total / 3, rel=1e-6)


@pytest.mark.parametrize("cmal", BASELINES, ids=lambda cmal: f"{cmal['baseline']}-{len(cmal)}")
def test_parts_of_a_batch_add_up_to_the_whole(
    cmal: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loss, logs and gradient, whatever the baseline."""
    model, batch = small(causal=False), make_batch(4)
    tools = make_tools("cmal", model, Generous({}), cmal=cmal)
    if tools.moving is not None:
        tools.moving.update(torch.tensor(0.2))
    turn = 0

    def different(log_probs: Tensor) -> Tensor:
        """Without chance, and another word in each sample."""
        nonlocal turn
        turn += 1
        return log_probs.topk(3).indices[..., 2 - turn % tools.settings.cmal.samples]

    monkeypatch.setattr(cmal_stage, "choose", different)
    whole, logs = STAGES["cmal"].step(model, batch, tools)
    parts = []
    for own in (slice(0, 1), slice(1, 4)):
        parts.append(STAGES["cmal"].step(model, part_of(batch, own), tools))
    assert_close(parts[0][0] + parts[1][0], whole, rtol=1e-6, atol=1e-9)
    for name, value in logs.items():
        # The moving average is one for all images: its share of the step is that of the part.
        assert_close(parts[0][1][name] + parts[1][1][name], value, rtol=1e-5, atol=1e-6)
    expected = gradients(whole, model)
    assert max(float(part.abs().max()) for part in expected) > 1e-4
    found = [gradients(loss, model) for loss, _ in parts]
    for one, two, both in zip(*found, expected, strict=True):
        assert_close(one + two, both, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("baseline", ["cf", "none"])
def test_several_samples_are_the_mean_of_single_ones(baseline: str, rewards: Rewards) -> None:
    """Where the samples do not know of each other: each for its own image's row."""
    model, batch = Policy(LENGTH, 16), make_batch(1)._replace(rows=torch.tensor([7]))
    teams = [(7, 4, 9, PERIOD, 12, 5), (4, 8, PERIOD, 9, 4, 5), (4, 4, 5, 9, 10, 8)]
    single = make_tools("cmal", model, rewards, cmal={"baseline": baseline})
    several = make_tools("cmal", model, rewards, cmal={"baseline": baseline, "samples": 3})
    losses = []
    for team in teams:
        with sampling(team):
            losses.append(STAGES["cmal"].step(model, batch, single)[0])
    with sampling(*teams):
        together, _ = STAGES["cmal"].step(model, batch, several)
    (expected,) = gradients(torch.stack(losses).mean(), model)
    assert_close(gradients(together, model)[0], expected, rtol=0, atol=1e-12)


def test_samples_are_drawn_anew_for_each() -> None:
    """Nothing stubbed."""
    seen: list[Tensor] = []

    class Watching(Table):
        def score(self, words: Tensor, image_index: Tensor) -> Tensor:
            seen.extend((words, image_index))
            return torch.zeros(len(words), dtype=torch.float64)

    model, batch = Policy(LENGTH, 16), make_batch(2)._replace(rows=torch.tensor([8, 3]))
    tools = make_tools("cmal", model, Watching({}), cmal={"baseline": "loo", "samples": 4})
    STAGES["cmal"].step(model, batch, tools)
    assert seen[0].shape == (8, LENGTH)
    assert seen[1].tolist() == [8] * 4 + [3] * 4
    assert len({tuple(row) for row in seen[0].tolist()}) == 8


@pytest.mark.parametrize("gradient", ["sampled", "all"])
def test_entropy_is_a_bonus_for_the_agents_that_speak(gradient: str, rewards: Rewards) -> None:
    """Silent agents would take it all: what they say costs no reward."""
    model, batch = Policy(LENGTH, 16), make_batch(1)
    losses = []
    for weight in (0.0, 0.5):
        cmal = {"entropy": weight, "samples": 2, "gradient": gradient}
        tools = make_tools("cmal", model, rewards, cmal=cmal)
        with sampling((A, B, PERIOD, A, B, A), (B, B, B, B, PERIOD, A)):
            losses.append(STAGES["cmal"].step(model, batch, tools))
    policy = log_policy(model.logits[0, 0])
    finite = policy.masked_fill(policy == -torch.inf, 0.0)
    each = -(policy.exp() * finite).sum(-1)  # (N,)
    bonus = (each[:3].mean() + each[:5].mean()) / 2
    (plain, other), (eased, logs) = losses
    assert_close(logs["entropy"].double(), bonus.detach(), rtol=1e-6, atol=0)
    assert torch.equal(logs["entropy"], other["entropy"])
    assert_close(eased, plain - 0.5 * bonus, rtol=1e-6, atol=1e-9)
    (difference,) = gradients(eased - plain, model)
    assert_close(difference, gradients(-0.5 * bonus, model)[0], rtol=0, atol=1e-9)
    assert not difference[0, 0, 5].any()  # nobody hears the last agent


def test_cross_entropy_is_mixed_in(rewards: Rewards) -> None:
    """With the captions people wrote, not filled up, divided by the words of the whole step."""
    model, batch = small(causal=False), make_batch(3)
    batch = batch._replace(normaliser=torch.tensor(50.0))
    losses = []
    for weight in (0.0, 0.25):
        tools = make_tools("cmal", model, rewards, cmal={"xe": weight})
        torch.manual_seed(1)
        losses.append(STAGES["cmal"].step(model, batch, tools)[0])
    xe = cross_entropy(model(batch.features, None), batch.words) / 50
    assert_close(losses[1] - losses[0], (0.25 * xe).to(losses[0]), rtol=1e-6, atol=1e-7)
    difference = gradients(losses[1] - losses[0], model)
    for one, two in zip(difference, gradients(0.25 * xe, model), strict=True):
        assert_close(one, two, rtol=1e-5, atol=1e-7)


def settings_refused(cmal: dict[str, Any]) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        check(make_settings(Path("s"), Path("o"), "cmal", start="t", cmal=cmal))
    return caught.value


def test_leave_one_out_needs_others() -> None:
    error = settings_refused({"baseline": "loo"})
    assert error.what == "cmal.samples"
    assert error.hint == 'Take 2 or more, or baseline = "cf".'
    check(make_settings(Path("s"), Path("o"), "cmal", start="t", cmal=BASELINES[3]))
    check(make_settings(Path("s"), Path("o"), "student_xe", cmal={"baseline": "loo"}))


def test_all_actions_are_those_of_the_counterfactuals() -> None:
    error = settings_refused({"baseline": "sc", "gradient": "all"})
    assert (error.what, error.hint) == ("cmal.gradient", 'Set cmal.baseline = "cf".')
    assert '"sc" asks for no counterfactuals' in error.why


@pytest.mark.parametrize(("name", "value"), [("samples", 0), ("entropy", -0.1), ("xe", -1.0)])
def test_values_out_of_range(name: str, value: float) -> None:
    assert settings_refused({name: value}).what == f"cmal.{name}"


def test_no_such_baseline() -> None:
    with pytest.raises(ConfigError, match="baseline"):
        make_settings(Path("s"), Path("o"), "cmal", start="t", cmal={"baseline": "best"})


def test_no_sentence_is_too_bad_to_be_told_of() -> None:
    """An empty one, and one without a period that ends on "with"."""
    game = table_game(0)
    tools = make_tools("cmal", game.model, Table(game.worth), cmal={"baseline": "none"})
    for team, words, bad in (((PERIOD, A, A), 1, 0), ((A, A, B), 3, 1), ((B, B, PERIOD), 3, 1)):
        with sampling(team):
            _, logs = STAGES["cmal"].step(game.model, BATCH, tools)
        assert (float(logs["words"]), float(logs["sampled_bad_endings"])) == (words, bad)
        assert float(logs["sampled_repeats"]) == float(team[0] == team[1])
