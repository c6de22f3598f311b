"""Functions of sentences as rewards: exact beside CIDEr-D, asked once, and never trusted."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from naic.data.features import StoredRecord
from naic.errors import TrainingError
from naic.learn.cider import Rewards, make_rewards
from naic.learn.losses import all_action_advantage, counterfactual_advantage
from naic.learn.own_rewards import OwnReward, OwnRewards, RewardFunction
from naic.text import PAD, PERIOD
from tests.learn.cider.cases import LENGTH, make_rows, make_world
from tests.learn.cider.public import cut

ROWS, CHOICES = 24, 3
WORLD = make_world(3)
CIDER = make_rewards(WORLD.references, "cpu", form="torch")
RECORDS = [
    StoredRecord(str(i), "", "train", tuple(texts), None) for i, texts in enumerate(WORLD.captions)
]
NOBODY = 10  # an image of which nobody says anything


def public(sentences: Sequence[str], images: Sequence[StoredRecord]) -> Any:
    """CIDEr-D as one would write it on sentences: the public code, the period counted."""
    ids = [[WORLD.vocabulary.id(word) for word in text.split()] for text in sentences]
    ended = [words if len(words) == LENGTH else [*words, PERIOD] for words in ids]
    return WORLD.public.score(ended, [int(image.id) for image in images])


def length(sentences: Sequence[str], images: Sequence[StoredRecord]) -> list[int]:
    return [len(text.split()) for text in sentences]


def own(function: RewardFunction, weight: float = 1.0, rewards: Rewards | None = None) -> Rewards:
    named = [OwnReward("own", function, weight)]
    return OwnRewards(rewards, named, WORLD.vocabulary, RECORDS)


def some(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Words that can be said, alternatives, and images that have references."""
    words, others, images = make_rows(WORLD, seed, ROWS, CHOICES)
    sayable = [torch.where((ids > 0) & (ids <= PAD), ids + PAD, ids) for ids in (words, others)]
    return sayable[0], sayable[1], images


def test_the_public_code_as_a_function_is_the_built_in_reward() -> None:
    """And so are the advantages, of the sampled words and of all."""
    words, others, images = some()
    log_probs = torch.randn(ROWS, LENGTH, CHOICES, dtype=torch.float64).log_softmax(-1)
    found = []
    for rewards in (CIDER, own(public)):
        reward, outcomes = rewards.judge(words, others, images)
        assert torch.equal(rewards.score(words, images), reward)
        parts = reward[:, None], outcomes[:, None]
        advantage = counterfactual_advantage(*parts, log_probs)
        found.append((reward, outcomes, advantage, all_action_advantage(*parts, advantage)))
    for ours, theirs in zip(*found, strict=True):
        assert ours.abs().max() > 0.1
        assert torch.allclose(ours, theirs, rtol=0, atol=1e-9)
    silent = (words == PERIOD).cumsum(1) - (words == PERIOD).long() > 0
    assert silent.any()
    assert not found[1][2][:, 0][silent].any()  # exactly


@pytest.mark.gpu
def test_the_same_on_a_gpu() -> None:
    words, others, images = some()
    rewards = own(length, 0.5, make_rewards(WORLD.references, "cuda"))
    on_gpu = rewards.judge(words.cuda(), others.cuda(), images.cuda())
    on_cpu = own(length, 0.5, CIDER).judge(words, others, images)
    for found, expected in zip(on_gpu, on_cpu, strict=True):
        assert found.is_cuda
        assert torch.allclose(found.cpu(), expected, rtol=0, atol=1e-9)


def test_weights_add_up() -> None:
    words, others, images = some()
    both = OwnRewards(
        CIDER,
        [OwnReward("a", public, -0.25), OwnReward("b", length, 2.0)],
        WORLD.vocabulary,
        RECORDS,
    )
    for found, plain, long in zip(
        both.judge(words, others, images),
        CIDER.judge(words, others, images),
        own(length).judge(words, others, images),
        strict=True,
    ):
        assert torch.allclose(found, 0.75 * plain + 2 * long, rtol=0, atol=1e-9)


def test_what_is_replaced_is_worth_what_it_would_be_by_itself() -> None:
    """To the bit, and exactly what it was where nothing changes, also of the kept tail."""
    rewards = own(length, 0.1, CIDER)
    words, others, images = some(1)
    reward, outcomes = rewards.judge(words, others, images)
    same = 0
    for row, agent, choice in itertools.product(*map(range, others.shape)):
        changed = words[row].tolist()
        changed[agent] = int(others[row, agent, choice])
        value = outcomes[row, agent, choice]
        assert value == rewards.score(torch.tensor([changed]), images[row : row + 1])[0]
        if cut(changed) == cut(words[row].tolist()):
            same += 1
            assert value == reward[row]
    assert 0.2 < same / others.numel() < 0.9


def test_each_sentence_of_an_image_is_asked_for_once_and_without_its_period() -> None:
    asked: list[tuple[str, str]] = []

    def lists(sentences: list[str], images: list[StoredRecord]) -> list[float]:
        asked.extend(zip(sentences, (image.id for image in images), strict=True))
        assert not torch.is_grad_enabled()
        return [0.0] * len(sentences)

    words = torch.tensor([[5, 6, PERIOD, 7], [5, 6, PERIOD, 9], [PERIOD, 5, 5, 5], [5, 6, 7, 8]])
    others = words[..., None].repeat(1, 1, 2)
    others[0, 2, 1] = 9  # the period goes, and the tail is heard
    images = torch.tensor([1, 1, 2, 1])
    own(lists).judge(words, others, images)
    spell = WORLD.vocabulary.word
    said = [" ".join(map(spell, ids)) for ids in ((5, 6), (5, 6, 9, 7), (), (5, 6, 7, 8))]
    assert asked == [*zip(said, "1121", strict=True)]


def test_equal_sentences_are_worth_the_same_whatever_the_function_does() -> None:
    chance = np.random.default_rng(0)
    words, _, images = some(2)
    rewards = own(lambda texts, _: chance.random(len(texts)))
    reward, outcomes = rewards.judge(words, words[..., None].repeat(1, 1, 2), images)
    assert torch.equal(outcomes, reward[:, None, None].expand_as(outcomes))
    assert len(set(reward.tolist())) > ROWS // 2


def test_images_without_references() -> None:
    """Nothing, where a part of the sum needs them; then the function is not even asked."""
    images = torch.tensor([NOBODY, 1])
    words = torch.tensor([[5, 6, PERIOD], [5, 6, PERIOD]])
    others = words[..., None] + 4
    mixed, alone = own(length, 1.0, CIDER), own(length)
    assert mixed.judges(images).tolist() == [False, True]
    assert mixed.score(words, images)[0] == 0
    assert mixed.score(words, images)[1] >= 2
    assert not mixed.judge(words, others, images)[1][0].any()
    asked = own(lambda *_: pytest.fail("nothing is to be asked"), 1.0, CIDER)
    assert not asked.score(words[:1], images[:1]).any()
    assert alone.judges(images).tolist() == [True, True]
    assert alone.score(words, images).tolist() == [2, 2]


TEXTS, IMAGES = ["w1 w2", "", "w3"], RECORDS[1:4]


@pytest.mark.parametrize(
    "given",
    [
        [2, 0, 1],
        (2.0, 0.0, 1.0),
        np.array([2, 0, 1], np.float32),
        torch.tensor([2.0, 0, 1], requires_grad=True),
        torch.tensor([2, 0, 1], dtype=torch.bfloat16),
        [torch.tensor(2), np.float64(0), True],
    ],
    ids=lambda given: type(given).__name__,
)
def test_numbers_of_many_kinds(given: Any) -> None:
    found = OwnReward("own", lambda *_: given, 1.0).score(TEXTS, IMAGES)
    assert found.tolist() == [2, 0, 1]
    assert found.dtype == np.float64


def by_length(scale: Callable[[int], float]) -> RewardFunction:
    return lambda texts, _: [scale(len(text.split())) for text in texts]


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda *_: [1, 2], "it gave numbers in the shape (2,) for 3 sentences, the first"),
        (lambda *_: np.ones((3, 1)), "it gave numbers in the shape (3, 1)"),
        (lambda *_: 1.0, "it gave numbers in the shape ()"),
        (lambda *_: None, "it gave a NoneType that is not of numbers"),
        (lambda *_: ["1", "2", "3"], "it gave a list that is not of numbers"),
        (lambda *_: [1, [2, 3], 4], "it gave a list that is not of numbers"),
        (lambda *_: [1, None, 2], "it gave a list that is not of numbers"),
        (by_length(lambda n: 0.0 if n else np.nan), "it gave nan for '', said of the image '2'"),
        (by_length(lambda n: n and np.inf), "it gave inf for 'w1 w2', said of the image '1'"),
        (
            by_length(lambda n: 1 / n),
            "it raised ZeroDivisionError: division by zero (test_own_rewards.py, line",
        ),
        (lambda *_: [][5], "it raised IndexError: list index out of range"),
    ],
)
def test_what_is_no_reward_is_refused(function: RewardFunction, told: str) -> None:
    with pytest.raises(TrainingError) as caught:
        OwnReward("mine:own", function, 1.0).score(TEXTS, IMAGES)
    assert caught.value.what == "reward mine:own"
    assert told in caught.value.why
    assert caught.value.hint


def test_what_depends_on_more_than_the_sentence_is_refused_when_it_is_tried() -> None:
    network = torch.nn.Dropout(0.5)

    def with_dropout(texts: list[str], _: Any) -> Tensor:
        told: Tensor = network(torch.ones(len(texts), 50))
        return told.mean(1)

    def from_the_mean(texts: list[str], images: Any) -> Any:
        values = np.array(length(texts, images))
        return values - values.mean()

    with pytest.raises(TrainingError, match=r"is worth .* by itself, and .* among others\. .*eval"):
        OwnReward("own", with_dropout, 1.0).try_out(TEXTS, IMAGES)
    with pytest.raises(TrainingError, match="'w1 w2' is worth 0 by itself, and 1 among others"):
        OwnReward("own", from_the_mean, 1.0).try_out(TEXTS, IMAGES)
    network.eval()
    for fine in (with_dropout, length, public):
        OwnReward("own", fine, 1.0).try_out(TEXTS, IMAGES)


def test_precision_of_training_is_not_that_of_a_function() -> None:
    def product(texts: list[str], _: Any) -> Tensor:
        found = torch.ones(len(texts), 3) @ torch.full((3, 1), 1 / 3)
        assert found.dtype == torch.float32
        return found[:, 0]

    with torch.autocast("cpu", torch.bfloat16):
        assert OwnReward("own", product, 1.0).score(TEXTS, IMAGES).tolist() == [1, 1, 1]
