"""LMDB: the databases of ViLBERT, volta and UNITER, an entry for each image.

ViLBERT's values are pickles of plain data and arrays (`plainpickle.py`), UNITER's are maps of
msgpack or whole .npz files. Its list of all keys, under `keys`, is not needed.
"""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from naic.data.regions.fields import BROKEN, READ, Regions, from_fields, package
from naic.data.regions.plainpickle import plain_value
from naic.errors import DataError
from naic.files import printable

_LIST = b"keys"
_PROTOCOLS = range(2, 6)  # of pickles that begin with their number
_LOOSE = 64  # pages at the end that a database may have counted and never written


class LmdbSource:
    """An open database; nothing is written to it, not even a lock."""

    def __init__(self, path: Path) -> None:
        self.where = str(path)
        lmdb = package("lmdb")
        self._error: type[Exception] = lmdb.Error
        try:
            self._database = lmdb.open(
                str(path), subdir=path.is_dir(), readonly=True, lock=False, readahead=False
            )
        except lmdb.Error as error:
            why = f"cannot be opened as an LMDB ({error})"
            hint = "Name the folder with data.mdb, or the .mdb file."
            raise DataError(printable(self.where), why, hint) from error
        self._refuse_cut(path / "data.mdb" if path.is_dir() else path)
        self._names: dict[str, bytes] = {}

    def _refuse_cut(self, path: Path) -> None:
        """What is read beyond the end of a file that is mapped ends the process, without a word."""
        page, pages = self._database.stat()["psize"], self._database.info()["last_pgno"] + 1
        size = path.stat().st_size
        if size < (pages - _LOOSE) * page:
            why = f"it is cut off: {size:,} bytes of {pages * page:,}"
            raise DataError(printable(self.where), why, "Get it again.")

    def keys(self) -> Sequence[str]:
        """The keys as text, without the `.npz` that UNITER's have."""
        if not self._names:
            try:
                with self._database.begin() as reading, reading.cursor() as cursor:
                    for key in cursor.iternext(keys=True, values=False):
                        if key != _LIST:
                            name = key.decode("utf-8", "replace").removesuffix(".npz")
                            self._names.setdefault(name, bytes(key))
            except self._error as error:
                why = f"its keys cannot be read ({error})"
                raise DataError(printable(self.where), why, "Get it again.") from error
        return list(self._names)

    def read(self, key: str) -> Regions:
        """Decode one entry."""
        where = f"{printable(self.where)}, {printable(key)}"
        self.keys()
        try:
            with self._database.begin() as reading:
                value = reading.get(self._names[key])
        except self._error as error:
            raise DataError(where, f"cannot be read ({error})", "Get the file again.") from error
        return from_fields(_fields(value, where), where)


def _fields(value: bytes, where: str) -> dict[str, Any]:
    """The fields of an entry, by what its first bytes tell of it."""
    if value[:1] == b"\x80" and value[1:2] and value[1] in _PROTOCOLS:
        found = plain_value(value, where)
    elif value.startswith(b"PK"):
        try:
            with np.load(io.BytesIO(value), allow_pickle=False) as archive:
                found = {name: archive[name] for name in archive.files if name in READ}
        except BROKEN as error:
            why = f"is no whole .npz file ({error})"
            raise DataError(where, why, "Get the file again.") from error
    else:
        found = _unpacked(value, where)
    if not isinstance(found, dict):
        why = f"it holds a {type(found).__name__} where named fields are expected"
        raise DataError(where, why, "Is this a database of features?")
    return {_text(name): field for name, field in found.items()}


def _text(name: object) -> str:
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)


def _unpacked(value: bytes, where: str) -> Any:  # noqa: ANN401 - whatever it holds
    """A value of msgpack; arrays in it are maps, as the package msgpack-numpy writes them."""
    msgpack = package("msgpack")
    try:
        return msgpack.unpackb(value, object_hook=_array, strict_map_key=False)
    except (*BROKEN, msgpack.UnpackException) as error:
        why = f"it is neither a pickle nor msgpack ({error})"
        raise DataError(where, why, "Is this a database of features?") from error


def _array(found: dict[Any, Any]) -> Any:  # noqa: ANN401 - an array, or the map as it is
    named = {_text(name): field for name, field in found.items()}
    if "nd" not in named:
        return found
    if _text(named.get("kind", b"")):  # of objects, which are pickles, or of structures
        raise ValueError("an array in it does not hold plain numbers")
    array = np.frombuffer(named["data"], np.dtype(_text(named["type"])))
    return array.reshape(named["shape"]) if named["nd"] else array[0]
