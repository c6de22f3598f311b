"""Who stands in the teacher's place: the captioner in a folder, or one of the student's shape.

It takes features and sees with the student's backbone, so that only the writing differs. It has
room for a fixed number of words and says no period: its time does not depend on what it says.
"""

from dataclasses import replace
from pathlib import Path

from torch import nn

from naic.backbones.inside import without_backbone
from naic.errors import ConfigError
from naic.models.folder import LoadedModel, check_fit, load_model
from naic.models.satic import GroupCaptioner
from naic.models.transformer import CAUSAL, TransformerCaptioner
from naic.runtime.engines import Whole
from naic.runtime.load import LoadedWhole
from naic.tasks.benchmark.timing import never_end

SAME = ("width", "heads", "encoder_layers", "decoder_layers", "hidden", "grid")


def teacher_in(folder: Path, student: LoadedWhole, features: int, words: int) -> Whole:
    """The captioner in a folder, seeing with the student's backbone.

    Args:
        folder: what `--teacher` names.
        student: the model that it is timed against.
        features: F, the size of the features that the student's backbone makes.
        words: how many it writes.

    Raises:
        ConfigError: it does not write word by word, takes other features, or says other words; or
            it is a causal Transformer of another shape than the student.
        CheckpointError: the folder is damaged, or there is none.
    """
    loaded = load_model(folder)
    _check(folder, loaded, student)
    hint = "Name a teacher of the student's vocabulary and backbone."
    spec, config = loaded.spec, loaded.settings.model
    inside = spec.backbone(config)
    if not inside and loaded.settings.features != features:
        why = f"{folder} takes features of size {loaded.settings.features}, and these have"
        raise ConfigError("--teacher", f"{why} {features}", hint)
    config = replace(config, length=words, **({"backbone": ""} if inside else {}))
    model = spec.build(config, features, loaded.settings.words).eval()
    weights = without_backbone(loaded.model.state_dict())
    check_fit(folder, weights, model.state_dict(), hint)
    model.load_state_dict(weights)
    never_end(model)
    return Whole(spec, model, backbone_of(student.whole))


def twin(student: TransformerCaptioner, features: int, words: int) -> nn.Module:
    """A causal captioner of the student's shape and weights, and an embedding of chance."""
    config = replace(student.config, length=words, transitions=0, backbone="")
    made = CAUSAL.build(config, features, student.words).eval()
    weights = made.state_dict()
    weights |= {name: own for name, own in student.state_dict().items() if name in weights}
    made.load_state_dict(weights)
    never_end(made)
    return made


def backbone_of(whole: Whole) -> nn.Module:
    """What it sees with, inside its model or not."""
    backbone = whole.model.backbone if whole.backbone is None else whole.backbone
    assert isinstance(backbone, nn.Module)  # of `load_whole`: each model has the one or the other
    return backbone


def reads_again(teacher: Whole | None) -> bool:
    """Whether a teacher can do without a cache: a Transformer reads all words so far.

    For one that writes groups of words there is a cache only: without one nobody has written it.
    """
    model = None if teacher is None else teacher.model
    return isinstance(model, TransformerCaptioner) and not isinstance(model, GroupCaptioner)


def _check(folder: Path, loaded: LoadedModel, student: LoadedWhole) -> None:
    if not loaded.spec.reads_words:
        raise ConfigError("--teacher", f"{folder} says all words at once", "Name a causal model.")
    if loaded.vocabulary.fingerprint != student.vocabulary.fingerprint:
        hint = "Name a teacher of the student's vocabulary and backbone."
        raise ConfigError("--teacher", f"{folder} has other words than the student", hint)
    if loaded.spec is not CAUSAL or not isinstance(student.whole.model, TransformerCaptioner):
        return  # another kind of captioner has a shape of its own
    for name in SAME:
        own, other = vars(loaded.settings.model)[name], vars(student.settings.model)[name]
        if own != other:
            why = f"{name} is {own} in {folder}, and {other} in the student"
            raise ConfigError("--teacher", why, "Models of one shape can be compared.")
