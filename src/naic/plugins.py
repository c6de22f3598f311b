"""Captioners and backbones from outside the package, in modules that the user names.

A plug-in is a Python module with one dictionary or both:

    CAPTIONERS = {"mean": CaptionerSpec(...)}
    BACKBONES = {"means": BackboneSpec(...)}

From then on they are as those of naic. A plug-in is code, and runs with all that its user may do:
so it is named on a command line (`--plugin MODULE`), in the settings of a run (`plugins`), or in a
program; a model folder tells which it was made with, and that is never imported.
"""

import re
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import TypeVar

from naic.errors import ConfigError
from naic.importing import load_module

T = TypeVar("T")

OPTION = "--plugin"  # of any verb
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")  # + and @ and : have meanings in a backbone's
_PAGE = "See docs/add-captioner.md and docs/add-backbone.md."
OPTION_WORDS: list[str] = []  # what the command line named, for a command that does the same
_USED: list[str] = []


def use(plugin: str | ModuleType, asked_by: str = "plugins") -> None:
    """Make known what a plug-in brings; it may be known already.

    Args:
        plugin: the name of a module, as Python imports it; or the module.
        asked_by: where it was named, for the error.

    Raises:
        ConfigError: it cannot be imported, brings nothing, or brings a name that is taken.
    """
    module = load_module(plugin, asked_by) if isinstance(plugin, str) else plugin
    name = module.__name__
    if name in _USED:
        return
    from naic.backbones import load
    from naic.models import captioners
    from naic.models.contract import CaptionerSpec

    own = _brought(module, "CAPTIONERS", CaptionerSpec, asked_by)
    _refuse_taken(name, own, captioners.CAPTIONERS, captioners.BROUGHT, asked_by)
    seeing = _brought(module, "BACKBONES", load.BackboneSpec, asked_by)
    _refuse_taken(name, seeing, load.BACKBONES, load.BROUGHT, asked_by)
    if not own and not seeing:
        why = f"{name} brings nothing: it has neither CAPTIONERS nor BACKBONES"
        raise ConfigError(asked_by, why, _PAGE)
    captioners.CAPTIONERS.update(own)
    captioners.BROUGHT.update(dict.fromkeys(own, name))
    load.BACKBONES.update(seeing)
    load.BROUGHT.update(dict.fromkeys(seeing, name))
    _USED.append(name)
    if asked_by == OPTION:
        OPTION_WORDS.extend((OPTION, name))


def use_all(plugins: object, asked_by: str = "plugins") -> None:
    """The same for each of a list, as a file or a program gives it."""
    if isinstance(plugins, str) or not isinstance(plugins, Iterable):
        why = f"{plugins!r} is no list of modules"
        raise ConfigError(asked_by, why, 'Write ["package.module"].')
    for plugin in plugins:
        use(plugin if isinstance(plugin, ModuleType) else str(plugin), asked_by)


def used() -> tuple[str, ...]:
    """The modules that are in use."""
    return tuple(_USED)


def _brought(module: ModuleType, table: str, kind: type[T], asked_by: str) -> Mapping[str, T]:
    """What a module has in a dictionary of this name; none if it has no such dictionary."""
    found = vars(module).get(table, {})
    where = f"{module.__name__}.{table}"
    if not isinstance(found, Mapping):
        raise ConfigError(asked_by, f"{where} is no dictionary", _PAGE)
    for name, spec in found.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            why = f"{where} has the name {name!r}, and names are letters, digits, and . _ -"
            raise ConfigError(asked_by, why, "Choose another name.")
        if not isinstance(spec, kind):
            why = f"{where}[{name!r}] is of type {type(spec).__name__}, not {kind.__name__}"
            raise ConfigError(asked_by, why, _PAGE)
    return found


def _refuse_taken(
    plugin: str, names: Iterable[str], taken: Mapping[str, T], by: Mapping[str, str], asked_by: str
) -> None:
    """Two of one name: who asks for it would not know which they get."""
    for name in names:
        if name in taken:
            whose = f"the plug-in {by[name]}" if name in by else "naic itself"
            why = f"{plugin} brings {name!r}, and {whose} has one of that name"
            raise ConfigError(asked_by, why, "Choose another name for it.")
