"""Settings from TOML files into frozen dataclasses: a misspelt key is refused with its path."""

import dataclasses
import difflib
import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

import tomli_w
from cattrs.errors import ClassValidationError, ForbiddenExtraKeysError
from cattrs.preconf.tomllib import make_converter

from naic.errors import ConfigError

T = TypeVar("T")

_converter = make_converter(forbid_extra_keys=True)
# What is wrong with a value of another type, and what to write instead.
_WANTED = {
    bool: ("is not true or false", "Write true or false."),
    int: ("is not a whole number", "Give a whole number, such as 3."),
    float: ("is not a number", "Give a number, such as 0.5."),
    str: ("is not text", "Put it in quotes."),
    Path: ("is not a path", "Give a path as text, in quotes."),
}


class _BadValueError(Exception):
    """A value that cannot be: why, and what to give instead."""

    def __init__(self, why: str, hint: str) -> None:
        super().__init__(why, hint)
        self.why, self.hint = why, hint


def _exactly(value: Any, kind: type) -> Any:  # noqa: ANN401
    """No conversions that would hide a mistake: "false" is not true, 16.7 is not 16."""
    if type(value) is kind:
        return value
    if (kind, type(value)) in ((float, int), (Path, str)):
        return kind(value)
    why, hint = _WANTED[kind]
    raise _BadValueError(f"{value!r} {why}", hint)


def _is_list(kind: Any) -> bool:  # noqa: ANN401
    return get_origin(kind) is tuple


def _is_weights(kind: Any) -> bool:  # noqa: ANN401
    return bool(kind == dict[str, float])


def _is_choice(kind: Any) -> bool:  # noqa: ANN401
    return get_origin(kind) is Literal


def _choice(value: Any, kind: Any) -> Any:  # noqa: ANN401
    known = get_args(kind)
    if value not in known:
        raise _BadValueError(f"there is no {value!r}", f"One of: {', '.join(map(str, known))}.")
    return value


def _tuple(value: Any, kind: Any) -> tuple[Any, ...]:  # noqa: ANN401
    """A list only: a word would become its letters."""
    if not isinstance(value, list):
        raise _BadValueError(
            f"{value!r} is not a list", f"Write it as {_list_of(str(value), kind)}."
        )
    return tuple(_converter.structure(item, get_args(kind)[0]) for item in value)


def _weights(value: Any, kind: Any) -> dict[str, float]:  # noqa: ANN401
    """A number for each name; what is none is named."""
    if not isinstance(value, Mapping):
        raise _BadValueError(f"{value!r} is not a table", 'Write it as { "NAME" = 0.5 }.')
    for name, number in value.items():
        if type(number) not in (int, float):
            why, hint = _WANTED[float]
            raise _BadValueError(f"{number!r}, the weight of {name!r}, {why}", hint)
    return {name: float(number) for name, number in value.items()}


def _list_of(text: str, kind: Any) -> str:  # noqa: ANN401
    """How to write what was meant: "val" is ["val"], and "train, restval" ["train", "restval"]."""
    words = [word.strip("[]\"' ") for word in text.split(",")]
    quoted = map(json.dumps, words) if _is_text(get_args(kind)[0]) else words
    return f"[{', '.join(quoted)}]"


for _kind in _WANTED:
    _converter.register_structure_hook(_kind, _exactly)
_converter.register_structure_hook_func(_is_list, _tuple)
_converter.register_structure_hook_func(_is_weights, _weights)
_converter.register_structure_hook_func(_is_choice, _choice)


def read_toml(path: Path) -> dict[str, Any]:
    """The file as it stands; a syntax error names the line."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            str(path), f"cannot be read ({error.strerror})", "Check the path."
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), f"is no valid TOML ({error})", "Mend that line.") from error


def structure(values: Mapping[str, Any], kind: type[T], where: str, table: str = "") -> T:
    """`values` as a `kind`, checked to the last key.

    Args:
        values: what a file says.
        kind: a dataclass.
        where: names the file in the message; empty: there is none.
        table: the part of the file that the values are, such as "model"; empty: all of it.
    """
    try:
        return _converter.structure(values, kind)
    except (ClassValidationError, _BadValueError) as error:
        found = list(_problems(error, kind, table))
        what, why, hint = found[0]
        if len(found) > 1:
            why = f"{why}; " + "; ".join(f"{other}: {reason}" for other, reason, _ in found[1:])
        raise ConfigError(": ".join(filter(None, (where, what))), why, hint) from error


def value_of(text: str, kind: Any, name: str) -> Any:  # noqa: ANN401
    """What was given for `name` on a command line, checked, as a TOML file would have it.

    It is read as TOML, or else as it stands. Where text or a path is wanted it is never taken for
    a number or a date, so that `--out 2024` is a folder.
    """
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    if not isinstance(value, str) and _is_text(kind):
        value = text
    try:
        _converter.structure(value, kind)
    except _BadValueError as error:
        wanted = _is_list(kind) and not isinstance(value, list)
        hint = f"Write {name} '{_list_of(text, kind)}'." if wanted else error.hint
        raise ConfigError(name, error.why, hint) from error
    return value


def _is_text(kind: Any) -> bool:  # noqa: ANN401
    """Whether it is text, a path or one of some words, perhaps optional; a list of them is not."""
    if _is_list(kind) or _is_weights(kind):
        return False
    return bool({str, Path} & {kind, *get_args(kind)}) or _is_choice(kind)


def _problems(error: BaseException, kind: Any, path: str) -> Iterator[tuple[str, str, str]]:  # noqa: ANN401
    """Each thing that is wrong: the path of its key, why, and what to do."""
    if isinstance(error, ClassValidationError):
        noted, others = error.group_exceptions()
        for inner, note in noted:
            yield from _problems(inner, note.type, f"{path}.{note.name}".lstrip("."))
        for inner in others:
            yield from _problems(inner, error.cl, path)
    elif isinstance(error, ForbiddenExtraKeysError):
        known = [field.name for field in dataclasses.fields(error.cl)]
        for key in sorted(error.extra_fields):
            close = difflib.get_close_matches(key, known, n=1)
            hint = f"Did you mean {close[0]}? " if close else ""
            where = f"{path}.{key}".lstrip(".")
            yield where, "there is no such key", f"{hint}Keys there are: {', '.join(known)}."
    elif isinstance(error, _BadValueError):
        yield path, error.why, error.hint
    elif isinstance(error, ConfigError):  # a dataclass that checks itself has said what is wrong
        yield error.what, error.why, error.hint
    elif isinstance(error, KeyError):
        yield path, "is missing", "Add it."
    else:
        yield path, "is not a table", f"Write [{path}], and its keys below."


def flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Values by their names, down to the last table: {cmal = {xe = 1}} has "cmal.xe"."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def to_toml(settings: Any) -> str:  # noqa: ANN401
    """A dataclass as TOML that `structure` turns into the same dataclass again.

    Fields that are None are left out, as TOML has no word for them: their default must be None.
    """
    return tomli_w.dumps(_plain(settings))


def _plain(value: Any) -> Any:  # noqa: ANN401
    """What TOML has words for: tables, lists, text, numbers."""
    match value:
        case bool() | int() | float() | str():
            return value
        case Path():
            return str(value)
        case tuple() | list():
            return [_plain(item) for item in value]
        case Mapping():
            items = list(value.items())
        case _ if dataclasses.is_dataclass(value):
            items = [(one.name, getattr(value, one.name)) for one in dataclasses.fields(value)]
        case _:
            raise TypeError(f"{value!r} has no form in TOML")
    return {key: _plain(item) for key, item in items if item is not None}
