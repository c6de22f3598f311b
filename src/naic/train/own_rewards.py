"""Rewards of one's own, found by the names that the settings give, or passed in from Python.

Naming a function lets Python run its module. Only settings do that which a user names: a file, or
an option. What a folder of a run or a model holds beside them is never run.
"""

import difflib
import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from naic.data.features import StoredRecord
from naic.errors import ConfigError
from naic.importing import load_module
from naic.learn.own_rewards import OwnReward, RewardFunction
from naic.train.settings import Settings
from naic.train.stages import stage_of
from naic.train.tools import needs_references

GivenRewards = Mapping[str, tuple[RewardFunction, float]]  # by a name, with their weights
_OURS = ("cider", "bleu4", "loose_ends")  # rewards with settings of their own
_WRITE = 'Write it as "PACKAGE.MODULE:FUNCTION", as Python finds it from the current folder.'


def check_rewards(settings: Settings) -> None:
    """Refuse names and weights that cannot be; nothing is imported."""
    stage = stage_of(settings)
    if stage.reward is None:
        return
    weights = stage.reward(settings)
    for name, weight in weights.reward.items():
        what = _called(settings, name)
        if name in _OURS and hasattr(weights, name):
            hint = f"Write {stage.table}.{name} = {weight:g}."
            raise ConfigError(what, "is a setting of its own", hint)
        if not all(part.isidentifier() for part in name.replace(":", ".", 1).split(".")):
            raise ConfigError(what, "is no name of a function in a module", _WRITE)
        if name.partition(":")[0].endswith(".py"):
            raise ConfigError(what, "is a file, not a module", "Leave out .py.")
        if not math.isfinite(weight) or not weight:
            hint = "Give another number, below 0 to take it off, or leave it out."
            raise ConfigError(what, f"{weight:g} is no weight", hint)
    if weights.reward and settings.engine.graph:
        why = f"{min(weights.reward)} runs on the host, which a CUDA graph cannot wait for"
        raise ConfigError("engine.graph", why, "Set it to false.")


def take_rewards(
    settings: Settings, given: GivenRewards | None = None
) -> tuple[Settings, tuple[OwnReward, ...]]:
    """The settings with the names of all rewards, and their functions, `given` or imported.

    Settings that have the names of what is given already, as those of a run that goes on have, must
    agree in the weights.
    """
    given, stage = given or {}, stage_of(settings)
    if stage.reward is None:
        if given:
            why = f"{settings.stage} learns from captions, not from rewards"
            raise ConfigError("rewards", why, "Leave them out, or choose scst or cmal.")
        return settings, ()
    table = stage.reward(settings)
    weights = dict(table.reward)
    for name, pair in given.items():
        weight = _weight_of(name, pair)
        if weights.setdefault(name, weight) != weight:
            why = f"its weight is {weight:g}, and {weights[name]:g} in the settings"
            raise ConfigError(f"rewards[{name!r}]", why, "Give the same.")
    if not (weights or needs_references(table)):
        why = f"{table.cider:g} leaves nothing to be rewarded"
        raise ConfigError(f"{stage.table}.cider", why, "Set it to 1, or name a reward of your own.")
    own = replace(table, reward=weights)
    settings = replace(settings, **{stage.table: own})  # type: ignore[arg-type]
    check_rewards(settings)
    functions = {
        name: given[name][0] if name in given else _find(settings, name) for name in weights
    }
    for name, function in functions.items():
        _check_call(_called(settings, name), function)
    return settings, tuple(OwnReward(name, functions[name], weights[name]) for name in weights)


def _weight_of(name: str, pair: object) -> float:
    what = f"rewards[{name!r}]"
    match pair:
        case (function, int() | float() as weight) if callable(function):
            if ":" in name:
                raise ConfigError(what, "names with a colon are imported", "Choose another name.")
            return float(weight)
    why = f"{pair!r} is no pair of a function and its weight"
    raise ConfigError(what, why, f'Write rewards={{"{name}": (function, 0.5)}}.')


def _find(settings: Settings, name: str) -> RewardFunction:
    """The function of that name."""
    what = _called(settings, name)
    place, colon, attribute = name.partition(":")
    if not colon:
        hint = f"{_WRITE} One that was given from Python is given again: train(..., rewards=...)."
        raise ConfigError(what, "names no module", hint)
    own = [folder for folder in (settings.out, settings.start) if folder is not None]
    module = load_module(place, what, never_in=own)
    found: RewardFunction | None = getattr(module, attribute, None)
    if found is None or not callable(found) or isinstance(found, type):
        functions = [name for name, value in vars(module).items() if inspect.isfunction(value)]
        close = difflib.get_close_matches(attribute, functions, n=1)
        hint = f"Did you mean {place}:{close[0]}?" if close else f"Define it in {place}."
        raise ConfigError(what, f"{place} has no function {attribute!r}", hint)
    return found


def _check_call(what: str, function: RewardFunction) -> None:
    """Refuse a function that takes anything but sentences and images, where that can be told."""
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):  # written in C, say
        return
    try:
        signature.bind([], [])
    except TypeError as error:
        why = f"cannot be called with sentences and images ({error})"
        raise ConfigError(what, why, "Define it as: def NAME(sentences, images).") from error


def _called(settings: Settings, name: str) -> str:
    return f'{stage_of(settings).table}.reward."{name}"'


def told_of(
    records: Sequence[StoredRecord], labelled: int, splits: Sequence[str]
) -> list[StoredRecord]:
    """What functions are told of images: of those that are not to be learnt from, only the name.

    Of the first `labelled` images, those in `splits` are; what is known of others is kept for
    validation, or was never to be known.
    """
    return [
        record
        if row < labelled and record.split in splits
        else replace(record, captions=(), facts=None)
        for row, record in enumerate(records)
    ]
