"""What each agent's word was worth, as CMAL would count it; knows nothing of HTTP.

The rewards and the advantages are those of training, computed by its code. A store gives the
document frequencies alone: the references are those that somebody types.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from naic.data.features import FeatureStore
from naic.device import has_torch
from naic.errors import ConfigError, MissingExtraError, WriteError
from naic.files import printable
from naic.tasks.finetune.plan import LEARNT_FROM
from naic.text import Vocabulary, tokenise
from naic.text.vocabulary import NEVER

if TYPE_CHECKING:
    from naic.learn.cider import References
    from naic.learn.cider.rewards import TorchRewards

WHERE = "--references"
Chances = Sequence[tuple[str, float]]  # words of an agent with their probabilities


@dataclass(frozen=True, slots=True)
class Outcome:
    """What would have come of another word.

    Attributes:
        text: the word.
        share: its probability among those that are compared.
        reward: of the sentence with it.
        sentence: that one.
    """

    text: str
    share: float
    reward: float
    sentence: str


@dataclass(frozen=True, slots=True)
class Worth:
    """What the word of an agent was worth.

    Attributes:
        advantage: Σ share · (the reward of what was said − that of the outcome).
        outcomes: of its likeliest words.
    """

    advantage: float
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True, slots=True)
class Judged:
    """What a team was worth.

    Attributes:
        reward: CIDEr-D of what was said.
        sentence: what was said, without its period.
        agents: each one's part in it.
        unknown: words of the references that the model does not know.
    """

    reward: float
    sentence: str
    agents: tuple[Worth, ...]
    unknown: tuple[str, ...]


class Judge:
    """Rewards by the document frequencies of a store."""

    def __init__(self, store: Path, vocabulary: Vocabulary) -> None:
        """Read the store, or the tables that an earlier run left beside it.

        Raises:
            MissingExtraError: torch is not installed.
            StoreError: there is no such store, or it is damaged.
            ConfigError: none of its captions was learnt from.
        """
        if not has_torch():
            why = "is not installed, and --references needs it to compute rewards"
            raise MissingExtraError("torch", why, "Run: pip install 'naic[train]'")
        from naic.learn.cider import make_rewards

        self._vocabulary = vocabulary
        # Of the tables only what is common to all images is kept.
        self._tables = _tables(store, vocabulary).of_others([["a"]], vocabulary)
        self._rewards: TorchRewards = make_rewards(self._tables, "cpu", form="torch")  # type: ignore[assignment]

    def __call__(
        self, agents: Sequence[Chances], said: Sequence[int], references: Sequence[str], topk: int
    ) -> Judged:
        """The worth of what a team said.

        Args:
            agents: the words of each of N agents.
            said: which of them each one said.
            references: what people say of the image.
            topk: k, how many likeliest words of an agent are compared.

        Raises:
            ConfigError: a word that the model does not know, a reference without words, or an agent
                whose likeliest words have no probability.
        """
        import torch

        from naic.learn.losses import counterfactual_advantage

        for number, text in enumerate(references, 1):
            if not tokenise(text):
                raise ConfigError(f"reference {number}", "it has no word", "Leave it out.")
        ids = [[self._id(n, text) for text, _ in own] for n, own in enumerate(agents, 1)]
        team = [own[place] for own, place in zip(ids, said, strict=True)]
        orders = [_likeliest(n, own, topk) for n, own in enumerate(agents, 1)]
        # An agent with fewer words than others has its own once more, with a share of nothing.
        likely = torch.tensor(team)[:, None].repeat(1, max(map(len, orders)))  # (N, k)
        log_probs = torch.full(likely.shape, -math.inf, dtype=torch.float64)
        for n, order in enumerate(orders):
            likely[n, : len(order)] = torch.tensor([ids[n][place] for place in order])
            chances = [agents[n][place][1] for place in order]
            log_probs[n, : len(order)] = torch.tensor(chances, dtype=torch.float64).log()
        rewards = self._rewards.of_others(self._tables.of_others([references], self._vocabulary))
        [reward], [outcomes] = rewards.judge(torch.tensor([team]), likely[None], torch.tensor([0]))
        advantage = counterfactual_advantage(
            reward[None, None], outcomes[None, None], log_probs[None]
        )
        worths = []
        for n, order in enumerate(orders):
            shares = log_probs[n].softmax(-1).tolist()
            told = zip(likely[n].tolist(), shares, outcomes[n].tolist(), strict=True)
            own = [self._outcome(team, n, *row) for row in itertools.islice(told, len(order))]
            worths.append(Worth(float(advantage[0, 0, n]), tuple(own)))
        sentence = self._vocabulary.decode(team)
        return Judged(float(reward), sentence, tuple(worths), self._unknown(references))

    def _id(self, agent: int, text: str) -> int:
        """A word that agent number `agent` can say."""
        id_ = self._vocabulary.id(text)
        if id_ in NEVER:
            why = f"{printable(text)!r} is no word of the model"
            raise ConfigError(f"agent {agent}", why, "Send the words that it gave.")
        return id_

    def _outcome(self, team: list[int], agent: int, id_: int, share: float, r: float) -> Outcome:
        changed = [*team[:agent], id_, *team[agent + 1 :]]
        return Outcome(self._vocabulary.word(id_), share, r, self._vocabulary.decode(changed))

    def _unknown(self, references: Sequence[str]) -> tuple[str, ...]:
        words = dict.fromkeys(word for text in references for word in tokenise(text))
        return tuple(word for word in words if self._vocabulary.id(word) in NEVER)


def _likeliest(agent: int, words: Chances, topk: int) -> list[int]:
    """The places of the likeliest words of agent number `agent`, the likeliest first."""
    order = sorted(range(len(words)), key=lambda place: -words[place][1])[:topk]
    if not words[order[0]][1]:
        why = "none of its words has a probability"
        raise ConfigError(f"agent {agent}", why, "Send the words with their confidence.")
    return order


def _tables(folder: Path, vocabulary: Vocabulary) -> "References":
    """The tables of a store; they stay beside it, if it can be written to."""
    from naic.learn.cider import References

    store = FeatureStore(folder)
    splits = {record.split for record in store.records if record.captions}.intersection(LEARNT_FROM)
    if not splits:
        why = f"{folder} has no captions of a split that is learnt from"
        known = ", ".join(filter(None, LEARNT_FROM))
        raise ConfigError(WHERE, why, f"Such are: {known}, or none named at all.")
    try:
        return References.beside(store, vocabulary, splits)
    except WriteError:
        training = [
            first and record.split in splits
            for record, first in zip(store.records, store.first_views, strict=True)
        ]
        captions = [record.captions for record in store.records]
        return References.build(captions, vocabulary, training)
