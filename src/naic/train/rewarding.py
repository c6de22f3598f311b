"""What a run's rewards compare with, and of which of its images."""

import numpy as np
from accelerate import Accelerator

from naic.errors import ConfigError
from naic.learn.cider import References, Rewards, judged_only, make_rewards
from naic.train.batches import Bools
from naic.train.inputs import Inputs
from naic.train.kept import Kept, identity
from naic.train.stages import stage_of


def judged_images(inputs: Inputs) -> Bools | None:
    """(I,) the images whose rewards are learnt from; None: all that are learnt from.

    Only what people say of `data.train` is rewarded, whatever else the teacher has captioned: of
    images that are not to be learnt from, captions may be there as well.
    """
    if not inputs.pseudo or stage_of(inputs.settings).reward is None:
        return None
    judged = np.zeros(len(inputs.images), bool)
    for row, record in enumerate(inputs.store.records):  # the first rows are those of the store
        judged[row] = record.split in inputs.settings.data.train and bool(record.captions)
    if not judged[inputs.targets.rows].any():
        why = "of none of its images people's captions are in data.train, to be rewarded by"
        raise ConfigError("data.pseudo", why, "Name a store that has captions of these too.")
    return judged


def find_rewards(inputs: Inputs, accelerator: Accelerator, kept: Kept) -> Rewards | None:
    """The rewards of a run on its device; None for a stage that learns from captions."""
    settings = inputs.settings
    reward = stage_of(settings).reward
    if reward is None:
        return None
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
    return make_rewards(references, accelerator.device, reward(settings), compiled=compiled)
