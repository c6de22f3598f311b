"""From a TOML file to the settings of a training run, checked to the last key."""

import difflib
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, get_type_hints

from naic.config import read_toml, structure, to_toml, value_of
from naic.errors import ConfigError
from naic.models.captioners import BROUGHT, CAPTIONERS, captioner_spec
from naic.models.config import current_keys
from naic.models.contract import CaptionerSpec
from naic.plugins import use_all
from naic.text import MAX_IDS
from naic.train.settings import LIMITS, Settings
from naic.train.stages import STAGES, stage_of
from naic.train.tools import StageSpec, rewards_itself


def read_settings(path: Path, overrides: Sequence[tuple[str, str]] = ()) -> Settings:
    """The file with `overrides` ("run.epochs", "3") put over it, checked."""
    values = current(read_toml(path))
    kinds = setting_kinds(Settings)
    del kinds["model"]  # a table, not a setting
    if (named := dict(overrides).get("plugins")) is not None:
        values["plugins"] = value_of(named, kinds["plugins"], "--plugins")
    if values.get("plugins"):  # what they bring the other settings may name
        use_all(values["plugins"], f"{path}: plugins")
    kinds |= choices()
    captioner = str(dict(overrides).get("captioner", values.get("captioner")))
    if captioner in CAPTIONERS:  # what is in [model] only the captioner knows
        kinds |= setting_kinds(CAPTIONERS[captioner].config, "model.")
    for name, text in overrides:
        if name in kinds:
            _put(values, name, value_of(text, kinds[name], f"--{name}"), path)
        elif captioner in CAPTIONERS or not name.startswith("model."):
            close = difflib.get_close_matches(name, kinds, n=1)
            hint = f"Did you mean --{close[0]}?" if close else "`naic train --help` lists them all."
            raise ConfigError(f"--{name}", "there is no such setting", hint)
    missing = [key for key in ("stage", "out", "captioner", "data") if key not in values]
    if missing:
        hint = "Add them to the file, or give them as options: --out DIR."
        raise ConfigError(str(path), f"there is no {', '.join(missing)}", hint)
    settings = structure(values, Settings, str(path))
    unused = _tables_of_others(settings) & values.keys()
    if unused:
        why = f"the stage {settings.stage} does not use [{'], ['.join(sorted(unused))}]"
        raise ConfigError(str(path), why, "Remove it, or choose the stage it belongs to.")
    model_config(settings)
    check(settings)
    return settings


def current(values: dict[str, Any]) -> dict[str, Any]:
    """A run's settings, which an earlier naic may have written, by the names of today."""
    values = {"plugins": []} | values
    table = values.get("model")
    return values | {"model": current_keys(table)} if isinstance(table, dict) else values


def choices() -> dict[str, Any]:
    """The types of the settings that name one of what there is."""
    return {"stage": Literal[tuple(STAGES)], "captioner": Literal[tuple(CAPTIONERS)]}


def setting_kinds(kind: Any, prefix: str = "") -> dict[str, Any]:  # noqa: ANN401
    """The type of each setting of a dataclass, and of those in it, by its name ("run.epochs")."""
    found: dict[str, Any] = {}
    for name, inner in get_type_hints(kind).items():
        if is_dataclass(inner):
            found |= setting_kinds(inner, f"{prefix}{name}.")
        else:
            found[prefix + name] = inner
    return found


def _put(values: dict[str, Any], name: str, value: object, path: Path) -> None:
    """Put an option's value in its place among those of the file."""
    *tables, key = name.split(".")
    for table in tables:
        values = values.setdefault(table, {})
        if not isinstance(values, dict):
            raise ConfigError(f"{path}: {table}", "is not a table", f"Write [{table}].")
    values[key] = value


def model_config(settings: Settings) -> Any:  # noqa: ANN401
    """`[model]` as its captioner's own dataclass."""
    config = captioner_spec(settings.captioner).config
    return structure(settings.model, config, "", table="model")


def settings_toml(settings: Settings) -> str:
    """All settings, defaults included, as a file that `read_settings` reads."""
    others = _tables_of_others(settings)
    names = [field.name for field in fields(settings) if field.name not in others]
    return to_toml({name: getattr(settings, name) for name in names})


def with_plugins(settings: Settings, inside: str) -> Settings:
    """Those too that were named on the command line, say, so that the run can go on without it.

    `inside` is the backbone inside the model, if there is one.
    """
    found = [BROUGHT.get(settings.captioner)]
    if inside:
        from naic.backbones import load

        found.append(load.BROUGHT.get(inside))
    brought = [plugin for plugin in found if plugin and plugin not in settings.plugins]
    return replace(settings, plugins=(*settings.plugins, *dict.fromkeys(brought)))


def _tables_of_others(settings: Settings) -> set[str]:
    """The tables that only other stages use."""
    return {stage.table for stage in STAGES.values()} - {stage_of(settings).table}


def check(settings: Settings) -> None:
    """Refuse values that no run could work with, and what the captioner cannot do."""
    for (low, high), names in LIMITS.items():
        for name in names:
            value = attrgetter(name)(settings)
            if not low <= value <= high:  # also refuses what is not a number
                why = f"{value} is not between {low:g} and {high:g}"
                raise ConfigError(name, why, "Change it.")
    for name, splits in (("train", settings.data.train), ("validation", settings.data.validation)):
        if not splits:
            raise ConfigError(f"data.{name}", "it names no split", 'Name one: ["train"].')
    both = {*settings.data.train} & {*settings.data.validation}
    if both:
        why = f"{', '.join(sorted(both))} is there for training too"
        raise ConfigError("data.validation", why, "Choose a split that is not learnt from.")
    if not settings.validation.report or min(settings.validation.report) < 1:
        raise ConfigError("validation.report", "it needs beam widths of 1 or more", "Use [1, 3].")
    stage = stage_of(settings)
    stage.check(settings, MAX_IDS)
    if not rewards_itself(stage, settings):
        from naic.train.own_rewards import check_rewards

        check_rewards(settings)
    if stage.reward is not None and settings.start is None:
        why = f"{settings.stage} improves a model that can already caption"
        raise ConfigError("start", why, "Name the folder of one: --start runs/teacher/best")
    _check_pseudo(settings, stage)
    _check_captioner(settings)


def _check_pseudo(settings: Settings, stage: StageSpec) -> None:
    """Rewards compare with what people say: pseudo captions are for cross-entropy."""
    if settings.data.pseudo and stage.reward is not None and not stage.captions(settings):
        why = f"{settings.stage} learns from rewards against the captions of people"
        hint = "Leave it out, or learn from it by student_xe."
        if settings.stage == "cmal":
            hint = "Leave it out, or hold on to it while learning: cmal.xe above 0."
        raise ConfigError("data.pseudo", why, hint)
    if settings.data.unlabelled and not settings.data.pseudo:
        why = "there is nothing to learn from images without captions"
        hint = "Let a teacher caption them with `naic distil`, and name its store: data.pseudo."
        raise ConfigError("data.unlabelled", why, hint)


def fits(stage: StageSpec, spec: CaptionerSpec) -> bool:
    """Whether a captioner can be trained by a stage.

    A parallel one with losses of its own learns by these alone: where it does not say its words by
    the logits of one pass, these are no policy that rewards could teach.
    """
    if stage.reads_words != spec.reads_words:
        return False
    return stage.reads_words or stage.reward is None or spec.losses is None


def _check_captioner(settings: Settings) -> None:
    """A stage or a beam that is not for this captioner would fail late, or teach it nonsense."""
    name, stage = settings.captioner, stage_of(settings)
    spec = captioner_spec(name)
    if not fits(stage, spec):
        why = f"a {name} captioner cannot be trained by {settings.stage}"
        own = [other for other in STAGES if fits(STAGES[other], spec)]
        fitting = [n for n in CAPTIONERS if fits(stage, CAPTIONERS[n])]
        hint = f"It has the stages {', '.join(own)}; {settings.stage} is for: {', '.join(fitting)}."
        raise ConfigError("stage", why, hint)
    if stage.samples and spec.sample is None:
        why = f"{settings.stage} samples captions, and a {name} captioner has no way to"
        raise ConfigError("captioner", why, "Give its CaptionerSpec a `sample`.")
    if settings.xe.glance and (stage.reads_words or not spec.glances):
        why = f"words cannot be shown to a {name} captioner in {settings.stage}"
        raise ConfigError("xe.glance", why, "Set it to 0.")
    if settings.xe.fill and spec.losses is not None:
        why = f"a {name} captioner has its own way to learn where a sentence ends"
        raise ConfigError("xe.fill", why, "Leave it out.")
    if settings.xe.smoothing and not spec.smooths:
        why = f"a {name} captioner learns whole captions, whose words have no targets to smooth"
        raise ConfigError("xe.smoothing", why, "Set it to 0.")
    beams = [("validation.beam", settings.validation.beam)]
    beams += [("validation.report", beam) for beam in settings.validation.report]
    for where, beam in beams:
        if spec.beams is None and beam > 1:
            why = f"a {name} captioner cannot follow {beam} sentences at once"
            raise ConfigError(where, why, "Give 1.")
