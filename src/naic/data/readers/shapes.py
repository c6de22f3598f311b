"""The embedded dataset of drawn scenes; here the source is how many of them are wanted."""

from collections.abc import Iterator

from naic.data import shapes
from naic.data.readers.entries import Entry
from naic.errors import DataError
from naic.files import printable


def read_shapes(source: str, seed: int) -> Iterator[Entry]:
    """Entries of `source` scenes; the same number and seed give the same scenes."""
    if not (source.isascii() and source.isdigit() and len(source) < 10 and int(source) > 0):
        why = "it is not a number of scenes"
        raise DataError(printable(source), why, "Shapes are asked for by a number, such as 2000.")
    for number, record in enumerate(shapes.records(int(source), seed), 1):
        where = f"scene {number}"
        yield Entry(
            where=where,
            id=record.id,
            captions=[(where, caption) for caption in record.captions],
            split=record.split,
            image=record.image,
            facts=record.facts,
        )
