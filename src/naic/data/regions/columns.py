"""Parquet and Arrow: a row for each image, its features as lists or as bytes.

    image_id (or id, key, __key__)   text or a number
    features                         lists (R x F), fixed in size or not; or bytes with `shape`
                                     (R, F) and perhaps `dtype`, such as <f2
    boxes, width, height             as elsewhere

A group of rows of all files is in memory at a time, or none where the file can be mapped (Arrow).
No Parquet file stays open: there may be thousands.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from naic.data.regions.fields import BROKEN, KINDS, READ, Regions, from_fields, package
from naic.errors import DataError
from naic.files import printable

_IDS = ("image_id", "id", "key", "__key__", "img_id")
_COLUMNS = {*READ, *KINDS, "shape"}
_PARQUET = b"PAR1"


class ColumnSource:
    """A Parquet file, or an Arrow file or stream."""

    # whose group of rows is in memory, the how many-th, and the group
    _held: ClassVar[tuple["ColumnSource", int, Any] | None] = None

    def __init__(self, path: Path) -> None:
        self.where = str(path)
        self._arrow = package("pyarrow")
        try:
            self._open(path)
        except (*BROKEN, self._arrow.ArrowException) as error:
            why = f"is neither Parquet nor Arrow ({error})"
            raise DataError(printable(self.where), why, "Get it again if it is cut off.") from error
        self._places: dict[str, tuple[int, int]] = {}  # the group of rows, and the row in it
        self._id = next((name for name in _IDS if name in self._names), None)
        if self._id is None:
            why = f"no column has ids: there are {', '.join(self._names[:8])}"
            raise DataError(printable(self.where), why, f"Ids are called {', '.join(_IDS)}.")

    def keys(self) -> Sequence[str]:
        """The ids, in the order of the rows."""
        if not self._places:
            try:
                self._find_rows()
            except (*BROKEN, self._arrow.ArrowException) as error:
                why = f"its ids cannot be read ({error})"
                raise DataError(printable(self.where), why, "Get the file again.") from error
        return list(self._places)

    def _find_rows(self) -> None:
        for group in range(self._groups):
            ids = self._read(group, [self._id]).column(0)
            for row, id_ in enumerate(ids.to_pylist()):
                name = id_.decode("utf-8", "replace") if isinstance(id_, bytes) else str(id_)
                self._places.setdefault(name, (group, row))

    def read(self, key: str) -> Regions:
        """One row."""
        self.keys()
        group, row = self._places[key]
        where = f"{printable(self.where)}, {printable(key)}"
        try:
            held = ColumnSource._held
            if held is None or held[0] is not self or held[1] != group:
                held = ColumnSource._held = None  # before the next one is read, not with it
                wanted = [name for name in self._names if name in _COLUMNS]
                held = ColumnSource._held = (self, group, self._read(group, wanted))
            table = held[2]
            fields = {name: _plain(table.column(name)[row]) for name in table.column_names}
        except (*BROKEN, self._arrow.ArrowException) as error:
            why = f"cannot be read ({error})"
            raise DataError(where, why, "Get the file again.") from error
        return from_fields({n: v for n, v in fields.items() if v is not None}, where)

    def _open(self, path: Path) -> None:
        with path.open("rb") as file:
            parquet = file.read(len(_PARQUET)) == _PARQUET
        self._path, self._footer, self._table = path, None, None
        if parquet:
            with package("pyarrow.parquet").ParquetFile(path) as file:
                self._footer = file.metadata
                self._names, self._groups = file.schema_arrow.names, file.num_row_groups
            return
        mapped = self._arrow.memory_map(str(path))
        try:
            self._table = package("pyarrow.ipc").open_file(mapped).read_all()
        except self._arrow.ArrowInvalid:
            mapped.seek(0)
            self._table = package("pyarrow.ipc").open_stream(mapped).read_all()
        self._names, self._groups = self._table.column_names, 1

    def _read(self, group: int, names: Sequence[str | None]) -> Any:  # noqa: ANN401 - a table
        if self._footer is not None:
            own = package("pyarrow.parquet")
            with own.ParquetFile(self._path, metadata=self._footer) as file:
                return file.read_row_group(group, columns=names)
        assert self._table is not None
        return self._table.select(names)


def _plain(scalar: Any) -> Any:  # noqa: ANN401 - as the column has it
    """Numbers, text and bytes as they are; lists of lists (of lists) as one array."""
    if not scalar.is_valid or not hasattr(scalar, "values"):
        return scalar.as_py()
    flat, shape = scalar.values, [len(scalar)]
    while hasattr(flat, "flatten") and hasattr(flat.type, "value_type"):
        lengths = set(flat.value_lengths().to_pylist())
        if len(lengths) > 1:
            raise ValueError("its lists are not of one length")
        shape.append(lengths.pop() if lengths else 0)
        flat = flat.flatten()
    return flat.to_numpy(zero_copy_only=False).reshape(shape)
