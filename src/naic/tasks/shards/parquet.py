"""Parquet: shards of images in, captions out. pyarrow is imported here alone."""

import contextlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from naic.errors import DataError, MissingExtraError
from naic.files import printable
from naic.images.sources import BytesImage, ImageSource, NoImage
from naic.storage import name_of
from naic.tasks.shards.rows import AGAIN, Columns, Row, stored_image

# What columns are called where nobody says: of Hugging Face's datasets, of tables made from
# webdatasets, of tables of paths. The first one that is there counts.
IMAGE_COLUMNS = (
    *("image", "img", "jpg", "jpeg", "png", "webp", "image_bytes", "bytes"),
    *("path", "image_path", "file_name", "filename", "file", "url", "image_url"),
)
KEY_COLUMNS = ("key", "__key__", "id", "image_id")
_AT_ONCE = 64  # rows: as many files of images are in memory
_BUFFER = 1 << 20  # bytes of a column that are read ahead
Cell = bytes | str | Mapping[str, Any] | None


def import_pyarrow() -> Any:  # noqa: ANN401 - it ships no types
    """The package with its module for Parquet.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import pyarrow.parquet
    except ImportError as error:
        hint = "Run: pip install 'naic[scale]'"
        raise MissingExtraError(
            "pyarrow", "is not installed, and Parquet takes it", hint
        ) from error
    return pyarrow


def parquet_rows(path: Path, source: str, columns: Columns) -> Iterator[Row]:
    """The rows of a Parquet file: images as bytes, as {bytes, path}, or as paths.

    A row group is read as it is needed, so that a shard may be larger than the memory.
    """
    arrow = import_pyarrow()
    reading = {"buffer_size": _BUFFER, "pre_buffer": False}
    with _damage_of(arrow, source), arrow.parquet.ParquetFile(path, **reading) as file:
        names = file.schema_arrow.names
        image = _column(source, columns.image, IMAGE_COLUMNS, names)
        if image is None:
            why = f"none of its columns is known to have images: {', '.join(names)}"
            raise DataError(name_of(source), why, "Name one: --image-column NAME")
        key = _column(source, columns.key, KEY_COLUMNS, names)
        wanted = [image, *([] if key in (None, image) else [key])]
        for name in wanted:
            if names.count(name) > 1:
                why = f"{names.count(name)} of its columns are called {name}"
                raise DataError(name_of(source), why, "Give each a name of its own.")
        number = 0
        for batch in file.iter_batches(_AT_ONCE, columns=wanted, use_threads=False):
            cells = batch.column(image).to_pylist()
            keys = [None] * len(cells) if key is None else batch.column(key).to_pylist()
            for cell, own in zip(cells, keys, strict=True):
                yield _row(own, cell, number, source)
                number += 1


def captions_file(columns: Mapping[str, Sequence[Any]], about: Mapping[str, Any]) -> bytes:
    """A Parquet file of captions; the same columns give the same bytes.

    Args:
        columns: `key`, `caption`, `confidence`, perhaps `alternatives`, and `error`.
        about: what the file says of itself.
    """
    arrow = import_pyarrow()
    text, number = arrow.string(), arrow.float64()
    kinds = {
        "key": text,
        "caption": text,
        "confidence": number,
        "alternatives": arrow.list_(arrow.struct([("caption", text), ("confidence", number)])),
        "error": text,
    }
    schema = arrow.schema([(name, kinds[name]) for name in columns])
    schema = schema.with_metadata({"naic": json.dumps(about)})
    made = io.BytesIO()
    table = arrow.table({name: list(values) for name, values in columns.items()}, schema=schema)
    arrow.parquet.write_table(table, made, compression="zstd")
    return made.getvalue()


@contextlib.contextmanager
def _damage_of(arrow: Any, source: str) -> Iterator[None]:  # noqa: ANN401
    """What pyarrow says of a file that it cannot read, as our own error."""
    try:
        yield
    except (arrow.ArrowException, OSError, ValueError) as error:
        said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        why = f"it cannot be read as Parquet ({said.rstrip('.')})"
        raise DataError(name_of(source), why, AGAIN) from error


def _column(
    source: str, asked: str | None, usual: Sequence[str], names: Sequence[str]
) -> str | None:
    """The column that was asked for, or the first of the usual names that is there."""
    if asked is not None and asked not in names:
        why = f"it has no column {asked!r}; its columns are {', '.join(names)}"
        raise DataError(name_of(source), why, "Name one of them, or leave the option out.")
    return asked or next((name for name in usual if name in names), None)


def _row(key: object, cell: Cell, number: int, source: str) -> Row:
    """One row; without a column of keys it is known by its path, or by its place."""
    path = (
        cell if isinstance(cell, str) else cell.get("path") if isinstance(cell, Mapping) else None
    )
    known = key if key is not None else path if path else number
    if isinstance(known, bytes):  # text that nothing marks as such
        known = known.decode(errors="surrogateescape")
    name = printable(str(known))
    return Row(name, _image(cell, name, source))


def _image(cell: Cell, name: str, source: str) -> ImageSource:
    if isinstance(cell, Mapping):
        data, path = cell.get("bytes"), cell.get("path")
        cell = data if data is not None else path
    if isinstance(cell, bytes):
        return BytesImage(cell, name)
    if isinstance(cell, str):
        return stored_image(cell, source)
    why = "the row has no image" if cell is None else f"{type(cell).__name__} is no image"
    return NoImage(name, why, "Look at this row, and at --image-column.")
