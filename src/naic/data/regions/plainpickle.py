"""The plain data of a pickle, read without unpickling.

A pickle is a program, and to load one is to run it: nothing here does. The databases of ViLBERT
and its kin hold pickles of nothing but dictionaries, numbers, text, bytes and arrays of numbers;
the few steps which those take are followed one by one. A pickle that has any other step is refused.
Arrays and ordered dictionaries are calls in a pickle: a few names are known, and what comes of them
is made here, without calling them.
"""

import pickletools
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from naic.errors import DataError

_CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_VALUES = frozenset(
    {"INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"}
    | {"STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"}
    | {"UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"}
)
_IGNORED = frozenset({"PROTO", "FRAME", "STOP"})
_KEEPING = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})
_TAKING = frozenset({"GET", "BINGET", "LONG_BINGET"})
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_NAMES = {
    "collections OrderedDict": "dictionary",
    "_codecs encode": "bytes",  # as protocols before 3 have them
    "__builtin__ bytes": "no bytes",
    "numpy dtype": "type",
    "numpy ndarray": "array",
    **{f"numpy.{own}.multiarray _reconstruct": "new array" for own in ("core", "_core")},
    **{f"numpy.{own}.multiarray scalar": "scalar" for own in ("core", "_core")},
}
_NUMBERS = re.compile(r"[iu][1248]|f[248]|b1")  # types of numpy
_HOW = (
    "naic unpickles nothing, since that runs what the file says. Where you trust the file, write "
    "its features with numpy.savez(ID.npz, x=features, bbox=boxes, image_w=W, image_h=H), and "
    "import that folder: npz:FOLDER"
)


@dataclass(frozen=True, slots=True)
class _Known:
    """One of the names above."""

    meaning: str


@dataclass(slots=True)
class _Type:
    """A type of numbers; its order of bytes comes after it."""

    code: str
    order: str = "<"


@dataclass(slots=True)
class _Array:
    """An array, which is empty until its shape and numbers come."""

    numbers: Any = None


class _Stack:
    """Values in the order in which they came, and where groups of them begin."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._marks: list[int] = []
        self._kept: dict[int, Any] = {}

    def mark(self) -> None:
        self._marks.append(len(self.values))

    def group(self) -> list[Any]:
        """All values since the last mark, taken away."""
        return self.last(len(self.values) - self._marks.pop())

    def last(self, count: int) -> list[Any]:
        """So many values, taken away."""
        if count < 0 or count > len(self.values):
            raise ValueError("it takes more than there is")
        at = len(self.values) - count
        taken = self.values[at:]
        del self.values[at:]
        return taken

    def keep(self, place: int | None) -> None:
        self._kept[len(self._kept) if place is None else place] = self.values[-1]

    def take(self, place: int) -> None:
        self.values.append(self._kept[place])


def plain_value(data: bytes, where: str) -> Any:  # noqa: ANN401 - whatever the pickle holds
    """The value of a pickle of plain data.

    Raises:
        DataError: it holds anything else, or is no whole pickle. `where` it is.
    """
    stack = _Stack()
    try:
        for code, argument, _ in pickletools.genops(data):
            if not _step(stack, code.name, argument):
                what = f" ({argument})" if isinstance(argument, str) else ""
                why = f"it is a pickle that holds more than plain data: {code.name}{what}"
                raise DataError(where, why, f"{_HOW}.")
        (value,) = stack.values
        value = _settled(value)
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError) as error:
        why = f"it is no whole pickle ({error})"
        raise DataError(where, why, "Get the file again.") from error
    return value


def _step(stack: _Stack, name: str, argument: Any) -> bool:  # noqa: ANN401 - of any type
    """Follow one step; False: this one is not followed."""
    if name in _VALUES or name in _CONSTANTS:
        stack.values.append(_CONSTANTS.get(name, argument))
    elif name == "MARK":
        stack.mark()
    elif name in _KEEPING or name == "MEMOIZE":
        stack.keep(None if name == "MEMOIZE" else int(argument))
    elif name in _TAKING:
        stack.take(int(argument))
    elif name in _TUPLES or name == "TUPLE":
        own = stack.group() if name == "TUPLE" else stack.last(_TUPLES[name])
        stack.values.append(tuple(own))
    elif name in ("EMPTY_LIST", "LIST"):
        stack.values.append(stack.group() if name == "LIST" else [])
    elif name in ("APPEND", "APPENDS"):
        own = stack.group() if name == "APPENDS" else stack.last(1)
        stack.values[-1].extend(own)
    elif name in ("EMPTY_DICT", "DICT"):
        own = stack.group() if name == "DICT" else []
        stack.values.append(dict(zip(own[::2], own[1::2], strict=True)))
    elif name in ("SETITEM", "SETITEMS"):
        own = stack.group() if name == "SETITEMS" else stack.last(2)
        stack.values[-1].update(zip(own[::2], own[1::2], strict=True))
    elif name in ("GLOBAL", "STACK_GLOBAL"):
        called = argument if name == "GLOBAL" else " ".join(stack.last(2))
        if called not in _NAMES:
            return False
        stack.values.append(_Known(_NAMES[called]))
    elif name == "REDUCE":
        stack.values.append(_made(*stack.last(2)))
    elif name == "BUILD":
        (state,) = stack.last(1)
        _complete(stack.values[-1], state)
    else:
        return name in _IGNORED
    return True


def _made(known: _Known, own: tuple[Any, ...]) -> Any:  # noqa: ANN401 - of any type
    """What a known name makes of the values that it is given."""
    match known.meaning:
        case "dictionary":
            return dict(*own)
        case "bytes":
            text, _ = own
            return text.encode("latin-1")
        case "no bytes":
            if not own:
                return b""
        case "type":
            code = own[0]
            if not _NUMBERS.fullmatch(code):
                raise ValueError(f"an array of {code}, not of numbers")
            return _Type(code)
        case "new array":
            return _Array()
        case "scalar":
            (number,) = _array(*own)
            return number.item()
    raise ValueError(f"{known.meaning} is no call")


def _complete(made: Any, state: tuple[Any, ...]) -> None:  # noqa: ANN401 - of any type
    """The second half of a type or an array."""
    if isinstance(made, _Type):
        made.order = state[1]
    elif isinstance(made, _Array):
        _, shape, type_, by_columns, data = state
        made.numbers = _array(type_, data).reshape(shape, order="F" if by_columns else "C")
    else:
        raise TypeError("nothing that has a second half")


def _array(type_: _Type, data: bytes | str) -> Any:  # noqa: ANN401 - of whatever numbers
    raw = data.encode("latin-1") if isinstance(data, str) else data  # text: from Python 2
    return np.frombuffer(raw, np.dtype(type_.order.replace("|", "<") + type_.code))


def _settled(value: Any) -> Any:  # noqa: ANN401 - whatever the pickle holds
    """Arrays in place of what stood for them, in the fields of the value."""
    if isinstance(value, dict):
        return {
            name: own.numbers if isinstance(own, _Array) else own for name, own in value.items()
        }
    return value
