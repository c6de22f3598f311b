"""The paper's example: who is to blame for the second "girl" in "a girl girl riding a bike"?"""

import pytest
import torch

from naic.decode.policy import log_policy
from naic.learn.cider.references import References
from naic.learn.cider.rewards import make_rewards
from naic.text import PAD, PERIOD, Vocabulary
from naic.train import cmal_stage
from tests.train.games import sampling
from tests.train.stage_cases import Policy, gradients, make_batch, make_tools

CAPTIONS = [
    ["a girl is riding a bike.", "a young girl riding a bike.", "the girl is riding her bike."],
    ["a man is sitting on a bench.", "a man sits on a wooden bench."],
    ["a dog is running in the grass.", "a brown dog runs in the grass."],
    ["two people are riding a horse.", "a couple riding a horse on a beach."],
]
VOCABULARY = Vocabulary.build([text for texts in CAPTIONS for text in texts], more_than=0)
SAID = ["a", "girl", "girl", "riding", "a", "bike", ".", "horse"]
LIKELY = ["a", "girl", "is", "riding", "a", "bike", ".", "."]  # what most agents would say
LENGTH = len(SAID)
SECOND = 2  # the agent that says "girl" again


def agents() -> Policy:
    """They waver between what they say and what fits what the others say."""
    model = Policy(LENGTH, len(VOCABULARY))
    with torch.no_grad():
        model.logits.mul_(0.1)
        for agent, words in enumerate(zip(SAID, LIKELY, strict=True)):
            for word, score in zip(words, (5.0, 5.5), strict=True):
                model.logits[0, 0, agent, VOCABULARY.id(word)] = score
    return model


def advantages(said: list[str], cmal: dict[str, object], seen: float = 0.0) -> list[float]:
    """Of each agent, by the gradient of the real stage with real rewards."""
    model = agents()
    rewards = make_rewards(References.build(CAPTIONS, VOCABULARY), "cpu", form="torch")
    batch = make_batch(1, words=torch.full((1, 1, LENGTH), PAD), length=LENGTH)
    tools = make_tools("cmal", model, rewards, cmal=cmal)
    if tools.moving is not None:
        tools.moving.update(torch.tensor(seen))
    team = [VOCABULARY.id(word) for word in said]
    with sampling(team):
        loss, _ = cmal_stage.cmal(model, batch, tools)
    (gradient,) = gradients(loss, model)
    chances = log_policy(model.logits.detach()[0, 0]).exp()
    return [
        -float(gradient[0, 0, i, word]) / (1 - float(chances[i, word]))
        for i, word in enumerate(team)
    ]


def test_the_words_are_known() -> None:
    assert all(word in VOCABULARY for word in (*SAID, *LIKELY))
    assert VOCABULARY.id(".") == PERIOD


@pytest.mark.parametrize("topk", [2, 5, len(VOCABULARY) - 3])
def test_counterfactuals_blame_the_agent_that_repeats(topk: int) -> None:
    found = advantages(SAID, {"baseline": "cf", "topk": topk})
    assert found[SECOND] < -0.1
    assert min(found) == found[SECOND]
    assert all(found[agent] >= 0 for agent in (3, 4, 5))  # "riding a bike" is good
    assert found[-1] == 0  # "horse" comes after the period


def test_without_the_repeat_nobody_is_to_blame() -> None:
    """The sentence with "is" is a reference itself: any change makes it worse."""
    found = advantages(LIKELY, {"topk": 5})
    assert min(found[:7]) > 0.01
    assert found[7] == 0


@pytest.mark.parametrize("baseline", ["none", "ma", "sc"])
def test_the_others_tell_every_agent_the_same(baseline: str) -> None:
    found = advantages(SAID, {"baseline": baseline}, seen=0.5)
    assert found[:7] == pytest.approx([found[0]] * 7, abs=1e-9)
    assert found[7] == 0
    if baseline == "sc":  # everybody's likeliest word: "is", a caption that is right
        assert found[0] < -0.1  # "a" and "bike" are blamed as well
    else:
        assert found[0] > 0.1  # the second "girl" is praised as well
