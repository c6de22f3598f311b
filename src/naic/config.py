"""Settings from TOML files into frozen dataclasses: a misspelt key is refused with its path."""

import dataclasses
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

from cattrs import transform_error
from cattrs.errors import BaseValidationError
from cattrs.preconf.tomllib import make_converter
from cattrs.v import format_exception

from naic.errors import ConfigError

T = TypeVar("T")

_converter = make_converter(forbid_extra_keys=True)


def _exactly(value: Any, kind: type) -> Any:  # noqa: ANN401
    """No conversions that would hide a mistake: "false" is not true, 16.7 is not 16."""
    if type(value) is kind:
        return value
    if kind is float and type(value) is int:
        return float(value)
    raise TypeError(f"{value!r} is not of type {kind.__name__}")


def _is_tuple(kind: Any) -> bool:  # noqa: ANN401
    return get_origin(kind) is tuple


def _tuple(value: Any, kind: Any) -> tuple[Any, ...]:  # noqa: ANN401
    """A list only: a word would become its letters."""
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is not a list")
    return tuple(_converter.structure(item, get_args(kind)[0]) for item in value)


for _kind in (bool, int, float, str):
    _converter.register_structure_hook(_kind, _exactly)
_converter.register_structure_hook(Path, lambda value, _: Path(_exactly(value, str)))
_converter.register_structure_hook_func(_is_tuple, _tuple)


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


def structure(values: dict[str, Any], kind: type[T], where: str) -> T:
    """`values` as a `kind`, checked to the last key; `where` names the file in the message."""
    try:
        return _converter.structure(values, kind)
    except BaseValidationError as error:
        why = "; ".join(transform_error(error, path=where, format_exception=_in_words))
        known = ", ".join(field.name for field in dataclasses.fields(kind))  # type: ignore[arg-type]
        raise ConfigError(where, why, f"Keys there are: {known}.") from error


def _in_words(error: BaseException, kind: type | None) -> str:
    """A dataclass that checks itself has said what is wrong; the rest is cattrs's to tell."""
    return str(error) if isinstance(error, ConfigError) else format_exception(error, kind)


def to_toml(settings: Any) -> str:  # noqa: ANN401
    """A dataclass as TOML that `structure` turns into the same dataclass again.

    Fields that are None are left out, as TOML has no word for them: their default must be None.
    """
    return "\n".join(_tables(settings, "")) + "\n"


def _tables(settings: Any, name: str) -> list[str]:  # noqa: ANN401
    """The lines of a table, then those of the tables in it: TOML wants its plain keys first."""
    plain, inner = [], []
    for key, value in _items(settings):
        if dataclasses.is_dataclass(value) or isinstance(value, Mapping):
            path = f"{name}.{key}" if name else key
            inner += ["", f"[{path}]", *_tables(value, path)]
        elif value is not None:
            plain.append(f"{key} = {_toml_value(value)}")
    return plain + inner if plain or name else inner[1:]


def _items(settings: Any) -> list[tuple[str, Any]]:  # noqa: ANN401
    if isinstance(settings, Mapping):
        return [(_toml_key(key), value) for key, value in settings.items()]
    return [(field.name, getattr(settings, field.name)) for field in dataclasses.fields(settings)]


def _toml_key(key: str) -> str:
    bare = key and all(sign.isascii() and (sign.isalnum() or sign in "-_") for sign in key)
    return key if bare else _toml_value(key)


def _toml_value(value: Any) -> str:  # noqa: ANN401
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str() | Path():
            # JSON's escapes are TOML's too, but for DEL, and for pairs of them beyond 16 bits.
            return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
        case tuple() | list():
            return f"[{', '.join(_toml_value(item) for item in value)}]"
    raise TypeError(f"{value!r} has no form in TOML")
