"""Modules of the user's, imported because the user named them, and for no other reason.

What a file names that may be a stranger's (a model folder, a feature store) is never passed to
`load_module`: of that, `asks_for` makes a sentence.
"""

import importlib
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType

from naic.errors import ConfigError
from naic.files import CONFIG, VOCABULARY, printable

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_LONGEST = 100  # letters of a name, and of what is none in a message
_SHOWN = 3
_WRITE = "Write it as Python imports it: package.module, or mine for the file mine.py."


def load_module(name: str, asked_by: str, never_in: Iterable[Path] = ()) -> ModuleType:
    """Import a module by its name: from where Python finds modules, or else the current folder.

    Args:
        name: as Python imports it, such as "package.module".
        asked_by: where the user named it, for the error: an option, or a file and its key.
        never_in: folders whose modules are not imported. Nor are those in a folder of a run or a
            model, by its files: such a folder may come from anyone.

    Raises:
        ConfigError: it is no name, there is no such module, it lies in such a folder, or it fails.
    """
    if not is_module_name(name):
        why = f"{ascii(name)[:_LONGEST]} is no name of a module"
        raise ConfigError(asked_by, why, _WRITE)
    _refuse_in(name, asked_by, [folder.resolve() for folder in never_in])
    found, here = _import(name, asked_by), str(Path.cwd())
    if found is None and here not in sys.path and not sys.flags.safe_path:
        # `python -m naic` looks there, the script `naic` does not. It comes last, so that files
        # that lie there stand in for nothing that is installed.
        sys.path.append(here)
        found = _import(name, asked_by)
    if found is None:
        why = f"there is no module {name} in {printable(here)}, and none is installed"
        if sys.flags.safe_path:
            why = f"no module {name} is installed, and Python was told to leave this folder out"
        raise ConfigError(asked_by, why, _WRITE)
    return found


def _import(name: str, asked_by: str) -> ModuleType | None:
    """The module; None: there is none of that name."""
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:  # what runs is the user's: anything can happen in it
        hint = f'Mend it: python -c "import {name}" shows where.'
        if isinstance(error, ModuleNotFoundError):
            if f"{name}.".startswith(f"{error.name}."):
                return None
            hint = "Install what it needs (torch: pip install 'naic[train]')."
        said = (str(error).strip().splitlines() or ["no reason given"])[0]
        why = f"{name} cannot be imported ({type(error).__name__}: {said})"
        raise ConfigError(asked_by, why, hint) from error


def _refuse_in(name: str, asked_by: str, never: Sequence[Path]) -> None:
    """Refuse a module that lies, from the current folder, in one whose code is not run."""
    folder = Path.cwd()
    for part in (*name.split("."), "__init__"):
        if any(folder.glob(part)) or any(folder.glob(f"{part}.*")):
            inside = any(folder.resolve().is_relative_to(one) for one in never)
            if inside or all((folder / own).exists() for own in (CONFIG, VOCABULARY)):
                why = f"{part} lies in a folder of a run or a model, whose code is not run"
                hint = f"Move it out of {printable(str(folder))}, if you trust it."
                raise ConfigError(asked_by, why, hint)
        folder /= part


def is_module_name(name: object) -> bool:
    """Whether it is a name that `import` could take, and nothing else is in it."""
    return isinstance(name, str) and len(name) <= _LONGEST and bool(_NAME.fullmatch(name))


def asks_for(plugins: Sequence[str] | None) -> str:
    """What to do about a name that nobody here knows, of a file that says `made_with` plug-ins.

    A stranger may have written the file: what is no name of a module is quoted, and not advised.
    """
    if not plugins:
        return "One from outside the package needs --plugin MODULE; a newer naic may know it."
    for name in plugins:
        if not is_module_name(name):
            shown = ascii(name)[:_LONGEST]
            return f"The model asks for a plug-in {shown}, which is no name of a module."
    few = plugins[:_SHOWN]
    options = " ".join(f"--plugin {name}" for name in few)
    calls = "; ".join(f'naic.plugins.use("{name}")' for name in few)
    return (
        f"The model asks for a plug-in. If you trust that, name it: {options} (in Python: {calls})"
    )
