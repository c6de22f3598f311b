"""A penalty for sentences that end on a word like "with", also in what could have been said."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from naic.learn.cider import References, Rewards, judged_only, make_rewards
from naic.learn.loose_ends import LooseEnds, replaced
from naic.text import PERIOD
from tests.train.runs import LENGTH, make_learnable_store, make_vocabulary

WEIGHT, CHOICES, ROWS = 0.7, 3, 40
LOOSE = (5, 7, 9)  # words


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Rewards:
    """Of images, the last of which has no references."""
    store = make_learnable_store(tmp_path_factory.mktemp("stores") / "store", 12)
    captions = [record.captions for record in store.records]
    references = References.build(captions, make_vocabulary(store))
    judged = np.arange(len(captions) + 1) < len(captions)
    return make_rewards(judged_only(references, judged), "cpu", form="torch")


def loose(words: list[int]) -> bool:
    """By hand: the last word before the first period."""
    said = words[: words.index(PERIOD)] if PERIOD in words else words
    return bool(said) and said[-1] in LOOSE


def some() -> tuple[Tensor, Tensor, Tensor]:
    """Sentences (B, N) of few words, many periods among them; their images the 0th and the 13th."""
    generator = torch.Generator().manual_seed(0)
    kinds = torch.tensor([PERIOD, 4, 5, 6, 7, 8, 9])
    words = kinds[torch.randint(len(kinds), (ROWS, LENGTH), generator=generator)]
    others = kinds[torch.randint(len(kinds), (ROWS, LENGTH, CHOICES), generator=generator)]
    return words, others, torch.arange(ROWS) % 13


def table() -> Tensor:
    return torch.tensor([word in LOOSE for word in range(40)])


def test_every_replaced_sentence_is_worth_what_it_would_be_by_itself(plain: Rewards) -> None:
    """One by one, to the bit; and as often with a loose end as without, more or less."""
    rewards = LooseEnds(plain, table(), WEIGHT)
    words, others, rows = some()
    reward, outcomes = rewards.judge(words, others, rows)
    without, outcomes_without = plain.judge(words, others, rows)
    assert torch.equal(reward, rewards.score(words, rows))
    assert torch.equal(outcomes, rewards.counterfactual(words, others, rows))
    found = 0
    for row, agent, choice in itertools.product(*map(range, others.shape)):
        sentence = words[row].tolist()
        sentence[agent] = int(others[row, agent, choice])
        value = outcomes[row, agent, choice]
        assert value == rewards.score(torch.tensor([sentence]), rows[row : row + 1])[0]
        assert value == outcomes_without[row, agent, choice] - WEIGHT * loose(sentence)
        found += loose(sentence)
        if sentence == words[row].tolist() or PERIOD in sentence[:agent]:
            assert value == reward[row]
    assert 0.2 < found / others.numel() < 0.8
    expected = [WEIGHT * loose(row) for row in words.tolist()]
    assert torch.equal(reward, without - torch.tensor(expected, dtype=torch.float64))


def test_an_image_without_references_has_none_of_it(plain: Rewards) -> None:
    rewards = LooseEnds(plain, table(), WEIGHT)
    words, others, rows = some()
    nobody = torch.full_like(rows, 20)
    assert rewards.judges(torch.tensor([0, 19, 20])).tolist() == [True, True, False]
    assert not any(part.any() for part in rewards.judge(words, others, nobody))


def test_the_sentences_that_are_judged() -> None:
    found = replaced(torch.tensor([[4, 5]]), torch.tensor([[[6, 7], [8, 9]]]))
    assert found.tolist() == [[[[6, 5], [7, 5]], [[4, 8], [4, 9]]]]


@pytest.mark.parametrize("form", ["torch", "numba"])
def test_references_are_left_out_and_images_added(form: str, tmp_path: Path) -> None:
    """What is still judged is judged as before: document frequencies stay."""
    store = make_learnable_store(tmp_path / "store", 12)
    captions = [record.captions for record in store.records]
    whole = References.build(captions, make_vocabulary(store))
    judged = np.arange(len(whole) + 3) % 3 > 0
    judged[len(whole) :] = False
    fewer = judged_only(whole, judged)
    fewer._check()
    assert len(fewer) == len(whole) + 3
    own = torch.tensor([[4, 7, 9, PERIOD, 5, 6, 8, 4]]).repeat(len(fewer), 1)
    rows, known = torch.arange(len(fewer)), torch.from_numpy(judged)
    rewards = make_rewards(fewer, "cpu", form=form)  # type: ignore[arg-type]
    before = make_rewards(whole, "cpu", form=form)  # type: ignore[arg-type]
    found = rewards.score(own, rows)
    assert torch.equal(rewards.judges(rows), known)
    some = rows[known]
    assert torch.equal(found[known], before.score(own[known], some))
    assert found[known].max() > 0
    assert not found[~known].any()
