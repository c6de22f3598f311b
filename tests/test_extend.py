"""The examples of docs/add-*.md, put where the pages say, go through the commands."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from naic.backbones.load import BACKBONES
from naic.cli.main import main
from naic.learn.cider import References, Rewards, make_rewards
from naic.models.captioners import CAPTIONERS
from naic.text import PAD, PERIOD, Vocabulary
from naic.train import cmal_stage
from tests.images.images import encode, photo
from tests.train.games import sampling
from tests.train.stage_cases import Policy, gradients, make_batch, make_tools

DOCS = Path(__file__).parent.parent / "docs"
CAPTIONS = [["a red car on a road.", "a car on a road."], ["a blue dog.", "a dog runs."]]
VOCABULARY = Vocabulary.build([text for texts in CAPTIONS for text in texts], more_than=0)
WEIGHT = 0.75


def blocks(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def example(page: str) -> dict[str, Any]:
    """What the page's only piece of Python defines."""
    (code,) = blocks(page, "python")
    names: dict[str, Any] = {"__name__": page}
    exec(code, names)
    return names


def ids(*sentences: str) -> Tensor:
    return torch.tensor([[VOCABULARY.id(word) for word in text.split()] for text in sentences])


@pytest.fixture(scope="module")
def both() -> tuple[Rewards, Rewards]:
    """CIDEr-D, and with the page's reward around it; of the third image nobody says anything."""
    references = References.build([*CAPTIONS, []], VOCABULARY)
    plain = make_rewards(references, "cpu", form="torch")
    return plain, example("add-reward.md")["Naming"](plain, VOCABULARY, WEIGHT)


def test_the_reward_pays_for_what_is_heard(both: tuple[Rewards, Rewards]) -> None:
    plain, naming = both
    words = ids("a red red car .", "a car . red dog", "a dog on a .", "a red car on .")
    images = torch.tensor([0, 0, 1, 2])
    bonus = naming.score(words, images) - plain.score(words, images)
    assert bonus.tolist() == pytest.approx([WEIGHT, 0, 0, 0])


def test_what_is_replaced_is_worth_what_it_would_be_by_itself(
    both: tuple[Rewards, Rewards],
) -> None:
    words, images = ids("a car . red dog", "a red car on ."), torch.tensor([0, 1])
    others = torch.stack([words, ids("on blue a . car", "a dog . car road")], -1)  # (B, N, k)
    reward, outcomes = both[1].judge(words, others, images)
    assert torch.equal(outcomes[..., 0], reward[:, None].expand_as(words))
    for row, agent in torch.cartesian_prod(torch.arange(2), torch.arange(5)).tolist():
        changed = words[row].clone()
        changed[agent] = others[row, agent, 1]
        alone = both[1].score(changed[None], images[row : row + 1])
        assert alone.item() == outcomes[row, agent, 1].item()
    heard = both[1].counterfactual(words, others, images) - both[0].judge(words, others, images)[1]
    assert heard[0, :, 1].tolist() == pytest.approx([0, WEIGHT, WEIGHT, 0, 0])


def test_a_step_learns_to_name_a_colour(both: tuple[Rewards, Rewards]) -> None:
    """By the real stage: of "a red car" the second agent is praised for more than before."""
    said = ids("a red car .")[0]
    praise = []
    for rewards in both:
        model = Policy(len(said), len(VOCABULARY))
        model.logits.data.zero_()
        model.logits.data[0, 0, range(len(said)), said] = 9.0
        model.logits.data[0, 0, 1, VOCABULARY.id("dog")] = 9.0
        batch = make_batch(1, words=torch.full((1, 1, len(said)), PAD), length=len(said))
        with sampling(said.tolist()):
            loss, _ = cmal_stage.cmal(model, batch, make_tools("cmal", model, rewards))
        praise.append(-gradients(loss, model)[0][0, 0, 1, said[1]].item())
    # Two words of even chance: half of the weight is the advantage, and half of that the gradient.
    assert praise[1] - praise[0] == pytest.approx(WEIGHT / 4, rel=0.01)


def test_the_backbone_and_the_captioner_go_through_the_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(BACKBONES, "means", example("add-backbone.md")["MEANS"])
    monkeypatch.setitem(CAPTIONERS, "mean", example("add-captioner.md")["MEAN"])
    Path("photo.png").write_bytes(encode(photo(), "PNG"))
    (settings,) = blocks("add-captioner.md", "toml")
    Path("run.toml").write_text(settings)
    prepared = "prepare shapes 60 --backbone means --out store"
    assert f"naic {prepared}" in (DOCS / "add-backbone.md").read_text(encoding="utf-8")
    assert main([*prepared.split(), "--device", "cpu"]) == 0
    assert main(["show", "store"]) == 0
    assert "means" in capsys.readouterr().out
    assert main(["train", "run.toml"]) == 0
    capsys.readouterr()
    assert main(["caption", "--model", "run/best", "photo.png", "--device", "cpu"]) == 0
    assert capsys.readouterr().out.startswith("photo.png: ")
    distil = ["distil", "run/best", "--features", "store", "--out", "pseudo"]
    assert main(distil) == 2
    assert "cannot search for sentences" in capsys.readouterr().err


def test_the_period_is_a_word_of_the_examples() -> None:
    assert VOCABULARY.id(".") == PERIOD
