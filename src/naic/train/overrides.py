"""Settings from the command line: each is text, and where it goes decides how it is read."""

import dataclasses
import difflib
import tomllib
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from naic.errors import ConfigError


def put_over(values: dict[str, Any], name: str, text: str, kind: Any) -> None:  # noqa: ANN401
    """Put `text` in the place `name` ("run.epochs") of `values`, the content of a TOML file.

    It is read as TOML, or else as it stands. `kind` is the type of that place: where it is a name
    or a path the text is never taken for a number or a date, so that `--out 2024` is a folder.
    """
    *tables, key = name.split(".")
    for table in tables:
        values = values.setdefault(table, {})
        if not isinstance(values, dict):
            raise ConfigError(f"--{name}", f"{table} is no table", "Check the name.")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    values[key] = text if _is_text(kind) and not isinstance(value, str) else value


def kind_of(name: str, kind: Any) -> Any:  # noqa: ANN401
    """The type of a field of the dataclass `kind`, or of one in it; None: no such field."""
    for part in name.split("."):
        if not dataclasses.is_dataclass(kind):
            return None
        kind = get_type_hints(kind).get(part)
    return kind


def unknown(name: str, *kinds: tuple[str, Any]) -> ConfigError:
    """What to say of an option that no dataclass has; each of `kinds` comes with its prefix."""
    known = [prefix + other for prefix, kind in kinds for other in _names(kind)]
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"Did you mean --{close[0]}?" if close else "docs/train.md has them all."
    return ConfigError(f"--{name}", "there is no such setting", hint)


def _names(kind: Any) -> list[str]:  # noqa: ANN401
    """The names of all settings in a dataclass, and in those that are in it."""
    found = []
    for name, inner in get_type_hints(kind).items():
        within = _names(inner) if dataclasses.is_dataclass(inner) else []
        found += [f"{name}.{other}" for other in within] or [name]
    return found


def _is_text(kind: Any) -> bool:  # noqa: ANN401
    """Whether it is a string or a path, perhaps an optional one; a list of them is not."""
    choices = () if get_origin(kind) is tuple else get_args(kind)
    return str in (kind, *choices) or Path in (kind, *choices)
