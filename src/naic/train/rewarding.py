"""What a run's rewards compare with, and of which of its images."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from accelerate import Accelerator

from naic.data.features import StoredRecord
from naic.errors import ConfigError
from naic.learn.cider import Mix, References, Rewards, judged_only, make_rewards
from naic.text import PAD, UNK
from naic.train.batches import Bools
from naic.train.inputs import Inputs
from naic.train.kept import Kept, identity
from naic.train.stages import stage_of
from naic.train.tools import needs_references

if TYPE_CHECKING:  # few runs have rewards of their own
    from naic.learn.own_rewards import OwnReward

_TRIED = 2  # images


def judged_images(inputs: Inputs) -> Bools | None:
    """(I,) the images whose rewards are learnt from; None: all that are learnt from.

    Where people's captions are compared with, only those of `data.train` are, whatever else the
    teacher has captioned: of images that are not to be learnt from, captions may be there as well.
    """
    reward = stage_of(inputs.settings).reward
    if not inputs.pseudo or reward is None or not needs_references(reward(inputs.settings)):
        return None
    judged = np.zeros(len(inputs.images), bool)
    for row, record in enumerate(inputs.store.records):  # the first rows are those of the store
        judged[row] = record.split in inputs.settings.data.train and bool(record.captions)
    if not judged[inputs.targets.rows].any():
        why = "of none of its images people's captions are in data.train, to be rewarded by"
        raise ConfigError("data.pseudo", why, "Name a store that has captions of these too.")
    return judged


def find_rewards(
    inputs: Inputs, accelerator: Accelerator, kept: Kept, own: "Sequence[OwnReward]" = ()
) -> Rewards | None:
    """The rewards of a run on its device; None for a stage that learns from captions."""
    reward = stage_of(inputs.settings).reward
    if reward is None:
        return None
    weights = reward(inputs.settings)
    compared = None
    if needs_references(weights):
        compared = _compared(inputs, accelerator, kept, Mix(weights.cider, weights.bleu4))
    if not own:
        return compared
    from naic.learn.own_rewards import OwnRewards

    try_out(inputs, own)
    return OwnRewards(compared, own, inputs.vocabulary, _told_of(inputs))


def try_out(inputs: Inputs, own: "Sequence[OwnReward]") -> None:
    """Call functions as training will, before hours are spent: with captions, and with nothing."""
    if not own:
        return
    records, targets = _told_of(inputs), inputs.targets
    images = [records[row] for row in targets.rows[:_TRIED].tolist() for _ in range(2)]
    rows = [[word for word in ids[0] if word not in (PAD, UNK)] for ids in targets.ids[:_TRIED]]
    sentences = [text for ids in rows for text in (inputs.vocabulary.decode(ids), "")]
    for one in own:
        one.try_out(sentences, images)


def _told_of(inputs: Inputs) -> list[StoredRecord]:
    from naic.train.own_rewards import told_of

    return told_of(inputs.images.records, len(inputs.store), inputs.settings.data.train)


def _compared(inputs: Inputs, accelerator: Accelerator, kept: Kept, mix: Mix) -> Rewards:
    """What compares sentences with what people say."""
    settings = inputs.settings
    with accelerator.main_process_first():  # it leaves the tables beside the store for the others
        words, splits = inputs.vocabulary, settings.data.train
        references = kept.get(
            "references",
            (identity(inputs.store), words.fingerprint, splits),
            lambda: References.beside(inputs.store, words, splits),
        )
    judged = judged_images(inputs)
    references = references if judged is None else judged_only(references, judged)
    compiled = settings.engine.compile
    return make_rewards(references, accelerator.device, mix, compiled=compiled)
