"""From a TOML file to the settings of a training run, checked to the last key."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from naic.config import read_toml, structure, to_toml
from naic.errors import ConfigError
from naic.models.captioners import CAPTIONERS, captioner_spec
from naic.train.overrides import kind_of, put_over, unknown
from naic.train.settings import Settings

_TABLE_OF = {"teacher_xe": "xe", "student_xe": "xe", "scst": "scst", "cmal": "cmal"}
_LIMITS: dict[str, tuple[float, float]] = {  # from, to: both allowed
    "data.captions": (1, 1000),
    "data.more_than": (0, 10**9),
    "seed": (0, 2**63 - 1),
    "optimiser.beta1": (0, 0.9999999),
    "optimiser.beta2": (0, 0.9999999),
    "optimiser.epsilon": (1e-20, 1),
    "optimiser.weight_decay": (0, 10),
    "optimiser.clip": (0, 1e9),
    "optimiser.average": (0, 0.9999999),
    "run.epochs": (1e-6, 1e6),
    "run.batch": (1, 10**6),
    "run.accumulate": (1, 10**6),
    "run.log_every": (1, 10**9),
    "run.validate_every": (1e-6, 1e6),
    "run.save_every": (1e-6, 1e6),
    "validation.beam": (1, 100),
    "validation.batch": (1, 10**6),
    "validation.limit": (0, 10**9),
    "guard.fraction": (0, 1),
    "guard.from_epoch": (0, 1e6),
    "xe.smoothing": (0, 0.9),
    "scst.samples": (1, 1000),
    "scst.bleu4": (0, 1e6),
    "cmal.topk": (1, 16_383),
    "cmal.samples": (1, 1000),
    "cmal.entropy": (0, 1e6),
    "cmal.xe": (0, 1e6),
    "cmal.bleu4": (0, 1e6),
}


def read_settings(path: Path, overrides: Sequence[tuple[str, str]] = ()) -> Settings:
    """The file with `overrides` ("run.epochs", "3") put over it, checked."""
    values = read_toml(path)
    for name, text in sorted(overrides, key=lambda pair: pair[0].startswith("model.")):
        put_over(values, name, text, _kind(name, values))
    missing = [key for key in ("stage", "out", "captioner", "data") if key not in values]
    if missing:
        hint = "Add them to the file, or give them as options: --out DIR."
        raise ConfigError(str(path), f"there is no {', '.join(missing)}", hint)
    settings = structure(values, Settings, str(path))
    unused = {*_TABLE_OF.values()} & values.keys() - {_TABLE_OF[settings.stage]}
    if unused:
        why = f"the stage {settings.stage} does not use [{'], ['.join(sorted(unused))}]"
        raise ConfigError(str(path), why, "Remove it, or choose the stage it belongs to.")
    model_config(settings)
    check(settings)
    return settings


def _kind(name: str, values: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """The type of a setting; what is in `[model]` only the captioner knows."""
    spec = CAPTIONERS.get(str(values.get("captioner")))
    if spec is None:
        return kind_of(name, Settings)  # the captioner is refused later
    own = name.removeprefix("model.")
    kind = kind_of(name, Settings) if own == name else kind_of(own, spec.config)
    if kind is None:
        raise unknown(name, ("", Settings), ("model.", spec.config))
    return kind


def model_config(settings: Settings) -> Any:  # noqa: ANN401
    """`[model]` as its captioner's own dataclass."""
    return structure(settings.model, captioner_spec(settings.captioner).config, "[model]")


def settings_toml(settings: Settings) -> str:
    """All settings, defaults included, as a file that `read_settings` reads."""
    others = {*_TABLE_OF.values()} - {_TABLE_OF[settings.stage]}
    names = [field.name for field in fields(settings) if field.name not in others]
    return to_toml({name: getattr(settings, name) for name in names})


def check(settings: Settings) -> None:
    """Refuse values that no run could work with, and what the captioner cannot do."""
    for name, (low, high) in _LIMITS.items():
        value: Any = settings
        for part in name.split("."):
            value = getattr(value, part)
        if not low <= value <= high:  # also refuses what is not a number
            raise ConfigError(name, f"{value} is not between {low:g} and {high:g}", "Change it.")
    for name, splits in (("train", settings.data.train), ("validation", settings.data.validation)):
        if not splits:
            raise ConfigError(f"data.{name}", "it names no split", 'Name one: ["train"].')
    both = {*settings.data.train} & {*settings.data.validation}
    if both:
        why = f"{', '.join(sorted(both))} is there for training too"
        raise ConfigError("data.validation", why, "Choose a split that is not learnt from.")
    if not settings.validation.report or min(settings.validation.report) < 1:
        raise ConfigError("validation.report", "it needs beam widths of 1 or more", "Use [1, 3].")
    if settings.scst.baseline == "loo" and settings.scst.samples < 2 and settings.stage == "scst":
        why = "the leave-one-out baseline needs the rewards of other samples"
        raise ConfigError("scst.samples", why, 'Take 2 or more, or baseline = "greedy".')
    if settings.cmal.baseline == "loo" and settings.cmal.samples < 2 and settings.stage == "cmal":
        why = "the leave-one-out baseline needs the rewards of other samples"
        raise ConfigError("cmal.samples", why, 'Take 2 or more, or baseline = "cf".')
    if settings.stage in ("scst", "cmal") and settings.start is None:
        why = f"{settings.stage} improves a model that can already caption"
        raise ConfigError("start", why, "Name the folder of one: --start runs/teacher/best")
    _check_pseudo(settings)
    _check_captioner(settings)


def _check_pseudo(settings: Settings) -> None:
    """Rewards compare with what people say: pseudo captions are for cross-entropy."""
    if settings.data.pseudo and not settings.stage.endswith("_xe"):
        why = f"{settings.stage} learns from rewards against the captions of people"
        raise ConfigError("data.pseudo", why, "Leave it out, or learn from it by student_xe.")
    if settings.data.unlabelled and not settings.data.pseudo:
        why = "there is nothing to learn from images without captions"
        hint = "Let a teacher caption them with `naic distil`, and name its store: data.pseudo."
        raise ConfigError("data.unlabelled", why, hint)


def _check_captioner(settings: Settings) -> None:
    """A stage or a beam that is not for this captioner would fail late, or teach it nonsense."""
    name, stage = settings.captioner, settings.stage
    spec = captioner_spec(name)
    if stage not in spec.stages:
        fitting = ", ".join(other for other in CAPTIONERS if stage in CAPTIONERS[other].stages)
        hint = f"It has the stages {', '.join(spec.stages)}; {stage} is for: {fitting}."
        raise ConfigError("stage", f"a {name} captioner cannot be trained by {stage}", hint)
    if stage == "scst" and spec.sample is None:
        why = f"scst samples captions, and a {name} captioner has no way to"
        raise ConfigError("captioner", why, "Give its CaptionerSpec a `sample`.")
    beams = [("validation.beam", settings.validation.beam)]
    beams += [("validation.report", beam) for beam in settings.validation.report]
    for where, beam in beams:
        if spec.beams is None and beam > 1:
            why = f"a {name} captioner cannot follow {beam} sentences at once"
            raise ConfigError(where, why, "Give 1.")
