"""A captioner that writes word by word and is no Transformer, in the teacher's place."""

from dataclasses import replace
from pathlib import Path

from torch import nn

from naic.errors import ConfigError
from naic.models.folder import load_model
from naic.models.transformer import TransformerCaptioner
from naic.runtime.engines import Whole
from naic.runtime.load import LoadedWhole
from naic.tasks.benchmark.timing import never_end


def other_writer(folder: Path, student: LoadedWhole, features: int, words: int) -> Whole | None:
    """The captioner in a folder, seeing with the student's backbone, with room for so many words.

    Args:
        folder: what `--teacher` names.
        student: the model that it is timed against.
        features: F, the size of the features that the student's backbone makes.
        words: how many it writes.

    Returns:
        it; None: it is a Transformer, or does not write word by word.

    Raises:
        ConfigError: it takes other features, or says other words than the student.
        CheckpointError: the folder is damaged, or there is none.
    """
    loaded = load_model(folder)
    if not loaded.spec.reads_words or isinstance(loaded.model, TransformerCaptioner):
        return None
    hint = "Name a teacher of the student's vocabulary and backbone."
    if loaded.vocabulary.fingerprint != student.vocabulary.fingerprint:
        raise ConfigError("--teacher", f"{folder} has other words than the student", hint)
    if loaded.settings.features != features:
        why = f"{folder} takes features of size {loaded.settings.features}, and these have"
        raise ConfigError("--teacher", f"{why} {features}", hint)
    config = replace(loaded.settings.model, length=words)
    model = loaded.spec.build(config, features, loaded.settings.words).eval()
    model.load_state_dict(loaded.model.state_dict())
    never_end(model)
    backbone = student.whole.model.backbone if student.whole.backbone is None else None
    assert backbone is None or isinstance(backbone, nn.Module)
    return Whole(loaded.spec, model, backbone or student.whole.backbone)


def reads_again(teacher: Whole | None) -> bool:
    """Whether a teacher can do without a cache: a Transformer reads all words so far."""
    return teacher is not None and isinstance(teacher.model, TransformerCaptioner)
