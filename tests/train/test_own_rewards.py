"""Rewards of one's own in training: what they teach, and that all else holds as with CIDEr-D."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from naic.cli.main import main
from naic.data.features import StoredRecord
from naic.errors import ConfigError, TrainingError
from naic.learn.own_rewards import OwnReward, OwnRewards
from naic.text import PERIOD
from naic.train.config import read_settings, settings_toml
from naic.train.logs import read_metrics
from naic.train.loop import train
from naic.train.own_rewards import told_of
from naic.train.stages import STAGES
from tests.models.small import small
from tests.train.games import BATCH, Game, apart, sampling, table_game
from tests.train.own_cases import MODULE, RUN, cmal_of, here, home, settings_of, words_said
from tests.train.runs import COMMAND, IMAGES
from tests.train.sameness import differences
from tests.train.stage_cases import WORDS, A, B, Table, make_batch, make_tools, saying
from tests.train.test_resume import STEP, broken_off
from tests.train.test_stage_chain import chained
from tests.train.test_stage_cmal_proof import DOUBLE, EXACT, SINGLE, name

__all__ = ["here", "home"]
pytestmark = pytest.mark.usefixtures("here")
RECORD = StoredRecord("0", "", "train", ("a dog.",), None)


def by_heart(game: Game, share: float, *others: OwnReward) -> OwnRewards:
    """The game's rewards: a share of them by a function of sentences, the rest by a table."""
    table = {WORDS.decode(team): worth for team, worth in game.worth.items()}
    assert len(table) == len(game.worth)
    own = OwnReward("own", lambda texts, _: [table[text] * 2 for text in texts], share / 2)
    rest = Table({team: worth * (1 - share) for team, worth in game.worth.items()})
    return OwnRewards(None if share == 1 else rest, [own, *others], WORDS, [RECORD] * 2)


@pytest.mark.parametrize("cmal", [*SINGLE, DOUBLE[0], {"baseline": "ma"}], ids=name)
def test_the_expected_gradient_is_the_exact_one(cmal: dict[str, Any]) -> None:
    """All joint actions of a small game are listed, as for CIDEr-D; alone, and beside others."""
    for share in (1, 0.4) if cmal.get("samples", 1) == 1 else (0.4,):
        game = table_game(0)
        tools = make_tools("cmal", game.model, by_heart(game, share), cmal=cmal)
        assert apart(game.expected_gradient(tools), game.exact) < EXACT


@pytest.mark.parametrize("gradient", ["sampled", "all"])
def test_who_is_not_heard_learns_exactly_nothing(gradient: str) -> None:
    """By thirds, whose sums are rounded."""
    game = table_game(2)
    odd = OwnReward("odd", lambda texts, _: [len(text) / 3 for text in texts], 1 / 7)
    cmal = {"topk": 3, "gradient": gradient}
    tools = make_tools("cmal", game.model, by_heart(game, 0.3, odd), cmal=cmal)
    with sampling((A, PERIOD, B)):
        loss, logs = STAGES["cmal"].step(game.model, BATCH, tools)
    (gradients,) = torch.autograd.grad(loss, [*game.model.parameters()])
    assert gradients[0, 0, :2].abs().amax(-1).min() > 1e-3
    assert not gradients[0, 0, 2].any()
    assert float(logs["advantage_03"]) == 0


def test_the_teacher_and_agents_that_hear_each_other_learn_by_them_too() -> None:
    """As from the same rewards in a table; loose ends are taken off these, too."""
    length = OwnReward("own", lambda texts, _: [len(text.split()) for text in texts], 0.5)
    own = OwnRewards(None, [length], WORDS, [RECORD] * 2)
    said = torch.tensor([[[A, B, PERIOD, A, B, A], [A, A, A, A, A, B]]]).repeat(2, 1, 1)
    model = small(causal=True, words=16)
    tools = make_tools("scst", model, own, scst={"samples": 2})
    _, logs = STAGES["scst"].step(model, make_batch(2), saying(tools, said))
    assert float(logs["reward"]) == (1 + 3) / 2
    team = chained()
    cmal = {"baseline": "sc", "loose_ends": 0.25}
    rewards = make_tools("cmal", team, own, cmal=cmal).rewards
    assert rewards is not None
    ends = torch.tensor([[A, B, PERIOD], [B, A, PERIOD]])  # B is "with"
    assert rewards.score(ends, torch.tensor([0, 1])).tolist() == [0.75, 1.0]


def test_what_functions_are_told_of() -> None:
    """Captions that are kept for validation, or are not to be known, are not shown."""
    splits = ("train", "val", "train")
    records = [StoredRecord(str(i), "", split, ("a",), {}) for i, split in enumerate(splits)]
    found = told_of(records, 2, ["train"])
    assert [(one.id, one.captions, one.facts) for one in found] == [
        ("0", ("a",), {}),
        ("1", (), None),
        ("2", (), None),
    ]


@pytest.mark.parametrize(
    ("stage", "model", "settings", "epochs"),
    [
        ("cmal", {}, {}, 14),
        ("cmal", {"transitions": 2}, {"baseline": "loo", "samples": 3}, 14),
        ("scst", {}, {"samples": 3}, 6),
    ],
    ids=["agents", "agents-that-hear", "teacher"],
)
def test_a_length_to_aim_at_is_learnt(
    home: Path, stage: str, model: dict[str, Any], settings: dict[str, Any], epochs: float
) -> None:
    """By all kinds of captioners: from eight places to two words and a period.

    The best weights are those whose validation captions are the nearest to it.
    """
    own = {"cider": 0, "reward": {"mine:near": 0.5}, **settings}
    run = {"epochs": epochs, "validate_every": epochs / 2, "save_every": epochs}
    report = train(settings_of(home, stage, model=model, run=run, **{stage: own}), command=COMMAND)
    words = words_said(RUN)
    assert sum(words[:3]) / 3 > 5
    assert sum(words[-3:]) / 3 == pytest.approx(3, abs=0.8)
    found = [line for line in read_metrics(RUN) if "cider" in line]
    best = max(found, key=lambda line: float(line["reward_mine:near"]))
    assert len(found) == 3
    assert report["best_step"] == best["step"]
    assert report["scores"][0]["reward_mine:near"] == best["reward_mine:near"]
    assert "| reward_mine:near | " in (RUN / "best" / "README.md").read_text()
    if not (model or settings):
        assert float(best["reward_mine:near"]) > float(found[0]["reward_mine:near"]) + 4


def test_the_best_weights_are_those_with_the_best_rewards(home: Path) -> None:
    """Though saying nothing costs all of CIDEr."""
    run = {"epochs": 6.0, "validate_every": 3.0, "save_every": 6.0}
    report = train(cmal_of(home, {"mine:nothing": 0.5}, run=run))
    found = [line for line in read_metrics(RUN) if "cider" in line]
    assert report["best_step"] > 0
    assert report["scores"][0]["cider"] < 0.5 * float(found[0]["cider"])
    assert report["scores"][0]["reward_mine:nothing"] > float(found[0]["reward_mine:nothing"]) + 2


def test_a_broken_run_ends_like_the_unbroken_one(
    home: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside CIDEr-D, with the run's own settings alone: names and weights are in them."""
    own = {"reward": {"mine:near": 0.1, "mine:seen": 0.5}, "baseline": "ma"}
    run = {"epochs": 1.6, "validate_every": 0.6, "save_every": 0.6}
    chosen = settings_of(home, cmal=own, run=run)
    train(chosen, command=COMMAND)
    (here / "two").mkdir()
    monkeypatch.chdir(here / "two")
    Path("mine.py").write_text(MODULE)
    broken_off(STEP, 6, chosen)
    path = RUN / "config.toml"
    assert '"mine:near" = 0.1' in path.read_text()
    assert main(["train", str(path), "--resume", "auto", "--dry-run"]) == 0
    with pytest.raises(ConfigError, match=r"begun with cmal.reward.mine:near = 0.1 \(now 0.2\)"):
        train(replace(chosen, cmal=replace(chosen.cmal, reward={"mine:near": 0.2})), resume=True)
    train(read_settings(path), command=COMMAND, resume=True)
    assert differences(here / "one" / "run", here / "two" / "run") == []


def test_images_without_references(home: Path) -> None:
    """With nothing that needs any, all images are learnt from; else those that have some."""
    Path("asked.py").write_text(
        "SEEN = {}\n"
        "def f(sentences, images):\n"
        "    SEEN.update((image.id, image.captions) for image in images)\n"
        "    return [1] * len(sentences)\n"
    )
    path = home / "store" / "records.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    kept = path.read_text()
    for line in lines[: IMAGES // 2]:
        line["split"] = "test"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    pseudo = {"pseudo": [str(home / "pseudo")]}
    run = {"epochs": 1.0, "validate_every": 9.0, "save_every": 9.0}
    try:
        for cider, out in ((0, "all"), (1, "some")):
            cmal = {"cider": cider, "reward": {"asked:f": 1}, "xe": 0.1}
            settings = settings_of(home, cmal=cmal, data=pseudo, run=run)
            train(replace(settings, out=Path(out)))
            means = [float(line["reward"]) for line in read_metrics(Path(out)) if "reward" in line]
            assert min(means) > 0.999
            assert max(means) > 1.1 if cider else max(means) < 1.001
            seen = dict(sys.modules["asked"].SEEN)
            known = {id_: said for id_, said in seen.items() if int(id_) < IMAGES}
            of_test = {id_ for id_ in known if int(id_) < IMAGES // 2}
            # As they are tried out too: the first two.
            assert of_test == {str(i) for i in range(IMAGES // 2 if not cider else 2)}
            assert not any(known[id_] for id_ in of_test)
            assert {id_ for id_ in known if known[id_]} == {
                str(i) for i in range(IMAGES // 2, IMAGES)
            }
            sys.modules["asked"].SEEN.clear()
    finally:
        path.write_text(kept)


def test_a_function_that_fails_in_the_middle_is_named(home: Path) -> None:
    Path("late.py").write_text(
        "CALLS = []\n"
        "def f(sentences, images):\n"
        "    CALLS.append(1)\n"
        "    return [float('nan' if len(CALLS) > 9 else 0) for _ in sentences]\n"
    )
    with pytest.raises(TrainingError, match=r"reward late:f: it gave nan for '.+', said of the im"):
        train(cmal_of(home, {"late:f": 1}, run={"epochs": 3.0}))
    assert (RUN / "config.toml").exists()


def test_rewards_below_zero_are_no_collapse(home: Path) -> None:
    """There is no share of what was never above 0."""
    guard = {"fraction": 0.9}
    cmal = {"cider": 0, "reward": {"mine:near": 5}}
    run = {"epochs": 1.0, "validate_every": 9.0, "save_every": 9.0}
    train(settings_of(home, cmal=cmal, guard=guard, run=run))
    assert all(float(line["reward"]) < 0 for line in read_metrics(RUN) if "reward" in line)


def test_parts_of_a_step_are_asked_for_what_the_whole_is(home: Path) -> None:
    """As several processes share it: each asks about its own images."""
    game = table_game(1)
    rewards = by_heart(game, 0.4)
    words = torch.tensor([[A, PERIOD, B], [B, B, A], [A, B, PERIOD], [A, PERIOD, A]])
    others, rows = words.flip(0)[..., None], torch.tensor([0, 1, 1, 0])
    whole = rewards.judge(words, others, rows)
    parts = [rewards.judge(words[i : i + 2], others[i : i + 2], rows[i : i + 2]) for i in (0, 2)]
    for found, *two in zip(whole, *parts, strict=True):
        assert torch.equal(found, torch.cat(two))


@pytest.mark.slow
def test_two_processes(home: Path) -> None:
    Path("config.toml").write_text(settings_toml(cmal_of(home, {"mine:near": 0.5})))
    words = ["config.toml", "--nproc", "2", "--run.epochs", "14", "--run.validate_every", "14"]
    made = [sys.executable, "-m", "naic", "train", *words]
    done = subprocess.run(made, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert sum(words_said(RUN)[-3:]) / 3 == pytest.approx(3, abs=0.8)
