"""What keeps CMAL near where it began: a teacher's captions, the start model, complete endings."""

import copy
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from naic.data.features import FeatureStore
from naic.decode.policy import log_policy
from naic.errors import ConfigError
from naic.learn.cider import Rewards
from naic.models.folder import read_weights
from naic.text import PERIOD
from naic.train.batches import Batch, Feed
from naic.train.config import check
from naic.train.inputs import find_inputs
from naic.train.logs import read_metrics
from naic.train.loop import train
from naic.train.rewarding import judged_images
from naic.train.settings import Settings
from naic.train.stages import STAGES
from tests.data.pseudos import make_pseudo, taught
from tests.models.small import small
from tests.tasks.teachers import make_teacher
from tests.train.games import BATCH, sampling, table_game
from tests.train.runs import (
    COMMAND,
    IMAGES,
    VALIDATION,
    make_learnable_store,
    make_settings,
    make_vocabulary,
    on_one_thread,
    refused,
)
from tests.train.stage_cases import A, B, Table, gradients, make_batch, make_tools, real_rewards
from tests.train.test_pseudo_training import rename

FURTHER = 12  # unlabelled images
ALL: dict[str, Any] = {"gradient": "all", "xe": 0.2, "kl": 0.1, "loose_ends": 0.5}


@pytest.fixture(scope="module")
def rewards(tmp_path_factory: pytest.TempPathFactory) -> Rewards:
    return real_rewards(tmp_path_factory.mktemp("stores"))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Labelled and unlabelled images, a student to begin with, what a teacher says of them all."""
    folder = tmp_path_factory.mktemp("home")
    store = make_learnable_store(folder / "store")
    make_learnable_store(folder / "further", FURTHER - VALIDATION)
    further = rename(folder / "further", "web")
    words = make_vocabulary(store)
    make_teacher(folder / "student", store, captioner="parallel")
    labelled = {str(i): taught("a red dog on sand", "a cat") for i in range(IMAGES)}
    make_pseudo(folder / "pseudo", labelled, store, vocabulary=words)
    web = {record.id: taught("a bird sits on the snow") for record in further.records}
    make_pseudo(folder / "pseudo-further", web, further, vocabulary=words)
    with on_one_thread():
        yield folder


def student(home: Path, out: Path, *, unlabelled: bool = True, **tables: Any) -> Settings:
    data: dict[str, Any] = {"pseudo": [str(home / "pseudo")]}
    if unlabelled:
        data["pseudo"].append(str(home / "pseudo-further"))
        data["unlabelled"] = [str(home / "further")]
    tables["data"] = data | tables.get("data", {})
    tables["start"] = str(home / "student")
    tables.setdefault("cmal", {"xe": 0.2})
    tables["run"] = {"epochs": 0.9, **tables.get("run", {})}
    return make_settings(home / "store", out, "cmal", **tables)


def weights(out: Path) -> dict[str, list[float]]:
    path = sorted((out / "checkpoints").glob("step-*"))[-1]
    return {name: w.tolist() for name, w in read_weights(path / "model.safetensors").items()}


def with_captions(home: Path, folder: Path, rows: range, split: str, caption: str) -> Path:
    """The same with another split and caption of some images of its store."""
    shutil.copytree(home, folder)
    path = folder / "store" / "records.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        lines[row] |= {"captions": [caption], "split": split}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_the_start_model_holds_back(rewards: Rewards) -> None:
    """Nothing at the start; then KL by hand, of the agents that speak, and back towards it."""
    model, batch = small(causal=False, words=16), make_batch(1)
    tools = make_tools("cmal", model, rewards, cmal={"kl": 0.5, "samples": 2})
    plain = make_tools("cmal", model, rewards, cmal={"samples": 2})
    teams = (A, B, PERIOD, A, B, A), (B, B, B, B, PERIOD, A)
    with sampling(*teams):
        _, logs = STAGES["cmal"].step(model, batch, tools)
    own = {"kl": 0.5, "samples": 2, "temperature": 2.5}
    with sampling(*teams):
        _, flatter = STAGES["cmal"].step(model, batch, make_tools("cmal", model, rewards, cmal=own))
    assert float(logs["kl"]) == float(flatter["kl"]) == 0
    before = log_policy(model(batch.features, None)[0, 0]).detach()  # (N, V)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    with sampling(*teams):
        held, logs = STAGES["cmal"].step(model, batch, tools)
    with sampling(*teams):
        free, _ = STAGES["cmal"].step(model, batch, plain)
    now = log_policy(model(batch.features, None)[0, 0])
    said = before > -torch.inf
    each = (now.exp() * (now - before).where(said, 0.0)).sum(-1)  # (N,)
    far = (each[:3].mean() + each[:5].mean()) / 2
    assert float(far.detach()) > 1e-3
    assert_close(logs["kl"], far.detach(), rtol=1e-6, atol=0)
    assert_close(held - free, 0.5 * far, rtol=1e-6, atol=1e-12)
    back = gradients(held - free, model)
    for one, two in zip(back, gradients(0.5 * far, model), strict=True):
        assert_close(one, two, rtol=1e-6, atol=1e-10)
    with torch.no_grad():
        for parameter, step in zip(model.parameters(), back, strict=True):
            parameter.sub_(0.01 * step)
    with sampling(*teams):
        _, nearer = STAGES["cmal"].step(model, batch, tools)
    assert float(nearer["kl"]) < float(logs["kl"])


def test_a_temperature_is_that_of_the_policy(rewards: Rewards) -> None:
    """The step at 2.5 of one model is that at 1 of another, whose logits are 2.5 times smaller."""
    hot, batch = small(causal=False, words=16), make_batch(3)
    cool = copy.deepcopy(hot)
    with torch.no_grad():
        for parameter in cool.decoder.output.parameters():
            parameter.div_(2.5)
    found = []
    for model, temperature in ((hot, 2.5), (cool, 1.0)):
        own = {"topk": 3, "samples": 2, "entropy": 0.1, "temperature": temperature}
        tools = make_tools("cmal", model, rewards, cmal=own)
        torch.manual_seed(3)
        loss, logs = STAGES["cmal"].step(model, batch, tools)
        found.append((loss, logs, gradients(loss, model)))
    (loss, logs, before), (other, same, after) = found
    assert_close(loss, other, rtol=1e-9, atol=1e-12)
    assert_close(logs["entropy"], same["entropy"], rtol=1e-9, atol=1e-12)
    for (name, _), one, two in zip(hot.named_parameters(), before, after, strict=True):
        scale = 2.5 if name.startswith("decoder.output.") else 1.0
        assert_close(one * scale, two, rtol=1e-6, atol=1e-10)


def test_what_it_began_with_is_seen_whole_and_stays(rewards: Rewards) -> None:
    """Dropout and hidden regions are for the model that learns."""
    model = small(causal=False, words=16).train()
    model.encoder.seen = 0.5
    kept = copy.deepcopy(model.state_dict())
    tools = make_tools("cmal", model, rewards, cmal={"kl": 0.5})
    assert tools.start is not None
    assert not any(part.training for part in tools.start.modules())
    assert not any(parameter.requires_grad for parameter in tools.start.parameters())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
    assert all(torch.equal(value, kept[name]) for name, value in tools.start.state_dict().items())
    assert make_tools("cmal", model, rewards).start is None


@pytest.mark.parametrize("gradient", ["sampled", "all"])
def test_a_loose_end_costs_the_agents_that_left_it(gradient: str) -> None:
    """B is "with": A B . is worth less than all that it could have been instead."""
    game = table_game(1)
    flat = Table(dict.fromkeys(game.worth, 1.0))
    cmal = {"loose_ends": 0.4, "topk": 3, "gradient": gradient}
    tools = make_tools("cmal", game.model, flat, cmal=cmal)
    with sampling((A, B, PERIOD)):
        loss, logs = STAGES["cmal"].step(game.model, BATCH, tools)
    assert float(logs["reward"]) == pytest.approx(0.6)
    (found,) = gradients(loss, game.model)
    for agent, word in ((1, B), (2, PERIOD)):
        assert float(found[0, 0, agent, word]) > 1e-3  # it becomes less likely


class Deaf(Table):
    """Images without references: nothing said of them is worth anything."""

    def of(self, words: list[int]) -> float:
        return 0.0

    def judges(self, image_index: Tensor) -> Tensor:
        return torch.zeros_like(image_index, dtype=torch.bool)


@pytest.mark.parametrize(
    "cmal",
    [
        {"baseline": "ma"},
        {"baseline": "sc"},
        {"baseline": "loo", "samples": 2},
        {"baseline": "cf"},
        {"baseline": "cf", "gradient": "all"},
    ],
    ids=lambda cmal: f"{cmal['baseline']}-{len(cmal)}",
)
def test_images_without_references_teach_by_the_anchor_alone(cmal: dict[str, Any]) -> None:
    """The rest of their gradient is exactly zero, of loose ends as well."""
    model, batch = small(causal=False), make_batch(2)
    tools = make_tools("cmal", model, Deaf({}), cmal={**cmal, "loose_ends": 0.5})
    if tools.moving is not None:
        tools.moving.update(torch.tensor(0.7))
    loss, _ = STAGES["cmal"].step(model, batch, tools)
    assert not any(part.any() for part in gradients(loss, model))


def test_rewards_are_means_over_the_images_that_have_references(home: Path) -> None:
    found = find_inputs(student(home, home / "run"))
    judged = judged_images(found)
    assert judged is not None
    assert np.flatnonzero(judged).tolist() == list(range(IMAGES))
    assert len(judged) == IMAGES + VALIDATION + FURTHER
    rows = found.targets.rows
    feed = Feed(found.images, found.targets, batch=10, captions=2, seed=3, judged=judged[rows])
    counts = []
    for number in range(8):
        (draw,) = feed.draw(number)
        assert int(draw.judged) == int((draw.rows < IMAGES).sum())
        assert torch.equal(feed.fetch(draw).judged, draw.judged)
        counts.append(int(draw.judged))
    assert len(set(counts)) > 1
    game = table_game(0)
    tools = make_tools("cmal", game.model, Table(game.worth), cmal={"baseline": "none"})
    logs = []
    for judged_of in (1.0, 4.0):
        with sampling((A, A, PERIOD)):
            step = STAGES["cmal"].step(game.model, four(judged_of), tools)
        logs.append({name: float(value) for name, value in step[1].items()})
    for name in ("loss", "reward", "advantage"):
        assert logs[0][name] == pytest.approx(4 * logs[1][name])
    for name in ("words", "entropy"):
        assert logs[0][name] == logs[1][name]


def four(judged: float) -> Batch:
    """One image of a step of four, of which so many have references."""
    return BATCH._replace(images=torch.tensor(4.0), judged=torch.tensor(judged))


def test_a_run_with_everything_goes_on_as_if_nothing_had_been(home: Path, tmp_path: Path) -> None:
    """The frozen model is taken from the start model's folder again; no checkpoint has it."""
    train(student(home, tmp_path / "one", cmal=ALL), command=COMMAND)
    train(student(home, tmp_path / "two", cmal=ALL, run={"epochs": 0.5}), command=COMMAND)
    train(student(home, tmp_path / "two", cmal=ALL), resume=True, command=COMMAND)
    assert weights(tmp_path / "one") == weights(tmp_path / "two")
    logs = read_metrics(tmp_path / "two")
    far = [float(line["kl"]) for line in logs if "kl" in line]
    assert len(far) == 6
    assert 0 < far[0] < far[-1]  # dropout alone makes a difference
    assert (
        weights(tmp_path / "one").keys()
        == read_weights(home / "student" / "model.safetensors").keys()
    )


def test_rewards_and_anchor_are_both_learnt_from(home: Path, tmp_path: Path) -> None:
    """And nothing that people say of images outside data.train."""
    runs = {}
    for name, rows, split, say in (
        ("as it is", range(0), "train", ""),
        ("others say", range(IMAGES), "train", "a blue bird on snow."),
        ("held out", range(IMAGES // 2), "test", "a red dog on sand."),
        ("held out too", range(IMAGES // 2), "test", "a green cat sits on the grass."),
    ):
        folder = with_captions(home, tmp_path / name, rows, split, say)
        train(student(folder, tmp_path / name / "run"), command=COMMAND)
        runs[name] = weights(tmp_path / name / "run")
    assert runs["held out"] == runs["held out too"]
    assert runs["as it is"] not in (runs["others say"], runs["held out"])
    store = FeatureStore(home / "store")
    said = {str(i): taught("there is a cat") for i in range(IMAGES)}
    make_pseudo(tmp_path / "p", said, store, vocabulary=make_vocabulary(store))
    other = {"pseudo": [str(tmp_path / "p"), str(home / "pseudo-further")]}
    train(student(home, tmp_path / "other", data=other), command=COMMAND)
    assert weights(tmp_path / "other") != runs["as it is"]


def test_what_there_is_no_use_for_is_refused(home: Path, tmp_path: Path) -> None:
    error = refused(ConfigError, student(home, tmp_path / "run", cmal={"kl": 0.1}))
    assert error.what == "data.pseudo"
    assert "cmal learns from rewards" in error.why
    assert "cmal.xe above 0" in error.hint
    only = {"pseudo": [str(home / "pseudo-further")]}
    error = refused(ConfigError, student(home, tmp_path / "run", data=only))
    assert error.what == "data.pseudo"
    assert "to be rewarded by" in error.why
    assert not (tmp_path / "run" / "config.toml").exists()


@pytest.mark.parametrize("name", ["kl", "loose_ends"])
def test_weights_are_not_below_zero(name: str) -> None:
    settings = make_settings(Path("s"), Path("o"), "cmal", start="t", cmal={name: -0.1})
    with pytest.raises(ConfigError, match=f"cmal.{name}"):
        check(settings)


def test_a_run_begun_before_these_settings_goes_on(home: Path, tmp_path: Path) -> None:
    train(student(home, tmp_path / "run", run={"epochs": 0.5}), command=COMMAND)
    path = tmp_path / "run" / "config.toml"
    new = ("gradient =", "kl =", "loose_ends =")
    lines = path.read_text().splitlines(keepends=True)
    old = [line for line in lines if not line.startswith(new)]
    assert len(old) == len(lines) - 3
    path.write_text("".join(old))
    train(student(home, tmp_path / "run"), resume=True, command=COMMAND)
    error = refused(ConfigError, student(home, tmp_path / "run", cmal=ALL), resume=True)
    assert "cmal.kl = 0.0 (now 0.1)" in error.why
