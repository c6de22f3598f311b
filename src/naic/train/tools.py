"""What a stage of training is, and what it is given: the record of one, and its tools."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from naic.learn.cider import Rewards
from naic.learn.losses import MovingAverage, cross_entropy
from naic.models.contract import CaptionerSpec
from naic.text import Vocabulary
from naic.train.batches import Batch
from naic.train.settings import RewardSettings, Settings

Logs = dict[str, Tensor]  # 0-dim each: this batch's share of the step's value


@dataclass(frozen=True)
class Tools:
    """What a stage needs beside the model and the batch."""

    settings: Settings
    spec: CaptionerSpec
    plain: nn.Module  # the model without its wrapper for several processes: for decoding
    rewards: Rewards | None = None  # for scst and cmal
    cross_entropy: Callable[..., Tensor] = cross_entropy  # or its compiled form
    bad_endings: Tensor | None = None  # for cmal: (V,) words that no sentence should end on
    moving: MovingAverage | None = None  # for the baseline "ma"; the engine feeds it
    start: nn.Module | None = None  # for `cmal.kl`: the model as the run began, never trained


@dataclass(frozen=True)
class StageSpec:
    """One way to train: what a step does, and all that the rest of training knows of it.

    Attributes:
        step: the loss of a batch, and what is logged of it.
        table: where its own settings are in a run's, such as "cmal".
        reads_words: whether it is for captioners that are given the words before the next one.
        advice: what to change when a run of it has gone wrong.
        reward: of what it learns from rewards, the table with their weights; such a stage improves
            a model that can already caption. None: it learns from captions.
        samples: whether the captioner must be able to sample.
        dropout: whether the model is trained with it.
        fill: whether the places after the period are targets too.
        captions: of what it learns from rewards, whether captions are learnt beside them.
        check: refuses settings that cannot be, of a model that can say so many words.
        equip: adds to the tools what only this stage needs.
    """

    step: Callable[[nn.Module, Batch, Tools], tuple[Tensor, Logs]]
    table: str
    reads_words: bool
    advice: str
    reward: Callable[[Settings], RewardSettings] | None = None
    samples: bool = False
    dropout: Callable[[Settings], bool] = lambda _: True
    fill: Callable[[Settings], bool] = lambda _: False
    captions: Callable[[Settings], bool] = lambda _: False
    check: Callable[[Settings, int], None] = lambda _settings, _words: None
    equip: Callable[[Tools, Vocabulary], Tools] = lambda tools, _vocabulary: tools


def needs_references(weights: RewardSettings) -> bool:
    """Whether anything in the reward compares with what people say."""
    return bool(weights.cider or weights.bleu4)


def rewards_itself(stage: StageSpec, settings: Settings) -> bool:
    """Whether CIDEr-D and BLEU-4 are all that is rewarded, as in most runs, or nothing is.

    `train/own_rewards.py` is for the others, and not read without need.
    """
    if stage.reward is None:
        return True
    weights = stage.reward(settings)
    return not weights.reward and needs_references(weights)
