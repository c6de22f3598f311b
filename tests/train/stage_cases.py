"""Batches, policies and rewards small enough that all sentences can be listed."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from naic.learn.cider.references import References
from naic.learn.cider.rewards import Rewards, make_rewards
from naic.models.captioners import CAPTIONERS
from naic.text import PAD, PERIOD, UNK, Vocabulary
from naic.text.vocabulary import SPECIAL
from naic.train import stages
from naic.train.batches import Batch
from naic.train.tools import Tools
from tests.models.small import images
from tests.train.runs import CAPTIONER_OF, make_learnable_store, make_settings, make_vocabulary

LENGTH = 6
A, B, C = 4, 5, 6  # words
# More words than any model here has; the first after the special ones are A, B and C.
WORDS = Vocabulary((*SPECIAL, "dog", "with", "runs", *(f"word{i}" for i in range(40))))


class Table:
    """Rewards by heart: what a sentence is worth, whatever the image."""

    def __init__(self, worth: dict[tuple[int, ...], float]) -> None:
        self.worth = worth

    def score(self, words: Tensor, image_index: Tensor) -> Tensor:
        assert len(words) == len(image_index)
        return torch.tensor([self.of(row) for row in words.tolist()], dtype=torch.float64)

    def counterfactual(self, words: Tensor, alternatives: Tensor, image_index: Tensor) -> Tensor:
        outcomes = torch.empty(alternatives.shape, dtype=torch.float64)
        for row, agent, choice in itertools.product(*map(range, alternatives.shape)):
            changed = words[row].tolist()
            changed[agent] = int(alternatives[row, agent, choice])
            outcomes[row, agent, choice] = self.of(changed)
        return outcomes

    def judge(
        self, words: Tensor, alternatives: Tensor, image_index: Tensor
    ) -> tuple[Tensor, Tensor]:
        return self.score(words, image_index), self.counterfactual(words, alternatives, image_index)

    def judges(self, image_index: Tensor) -> Tensor:
        return torch.ones_like(image_index, dtype=torch.bool)

    def of(self, words: list[int]) -> float:
        return self.worth[sentence(words)]


class Policy(nn.Module):
    """Agents that see nothing: their logits (1, 1, N, V) are all there is to learn."""

    def __init__(self, length: int, words: int, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        logits = torch.randn(1, 1, length, words, generator=generator, dtype=torch.float64)
        self.logits = nn.Parameter(logits)
        self.length = length

    def forward(self, features: Tensor, mask: Tensor | None, words: Tensor | None = None) -> Tensor:
        return self.logits.expand(len(features), -1, -1, -1)


def sentence(words: list[int]) -> tuple[int, ...]:
    """Up to the first period and with it."""
    return tuple(words[: words.index(PERIOD) + 1 if PERIOD in words else None])


def make_batch(count: int = 2, *, words: Tensor | None = None, length: int = LENGTH) -> Batch:
    """Images whose first caption ends early and whose second, of every other one, is not there."""
    if words is None:
        words = torch.full((count, 2, length), PAD)
        for image in range(count):
            words[image, 0, :3] = torch.tensor([A + image, UNK, PERIOD])
            if image % 2 == 0:
                words[image, 1] = torch.tensor([B, C, B, A, C, 9])  # cut off, without a period
    total = torch.tensor(float((words != PAD).sum()))
    rows = torch.arange(count)
    number = torch.tensor(float(count))
    return Batch(images(count), None, words, rows, total, number, number)


def part_of(batch: Batch, own: slice) -> Batch:
    """A part of a batch; it still knows how much the whole is."""
    return batch._replace(
        features=batch.features[own], words=batch.words[own], rows=batch.rows[own]
    )


def make_tools(
    stage: str, model: nn.Module, rewards: Rewards | None = None, **tables: Any
) -> Tools:
    if not stage.endswith("_xe"):
        tables["start"] = "s"
    settings = make_settings(Path("store"), Path("out"), stage, **tables)
    spec = CAPTIONERS[CAPTIONER_OF[stage]]
    return stages.make_tools(settings, spec, model, WORDS, rewards)


def saying(tools: Tools, words: Tensor) -> Tools:
    """Tools whose samples are these (B, S, N)."""
    return replace(tools, spec=replace(tools.spec, sample=lambda *_: words))


def gradients(loss: Tensor, model: nn.Module) -> list[Tensor]:
    return list(torch.autograd.grad(loss, list(model.parameters()), allow_unused=False))


def by_hand(logits: Tensor, words: Tensor) -> float:
    """The cross-entropy of (B, C, N, V) against (B, C, N), word by word."""
    total = 0.0
    for places in itertools.product(*map(range, words.shape)):
        target = int(words[places])
        if target != PAD:
            scores = logits[places].tolist()
            total += math.log(sum(map(math.exp, scores))) - scores[target]
    return total


def all_sentences(length: int, words: tuple[int, ...] = (A, B)) -> Iterator[tuple[int, ...]]:
    """All that can be said with these words and the period."""
    for count in range(length):
        for start in itertools.product(words, repeat=count):
            yield (*start, PERIOD)
    yield from itertools.product(words, repeat=length)


def real_rewards(folder: Path) -> Rewards:
    """Of real captions, not of a table."""
    store = make_learnable_store(folder / "store", 12)
    captions = [record.captions for record in store.records]
    return make_rewards(References.build(captions, make_vocabulary(store)), "cpu", form="torch")
