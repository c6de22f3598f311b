"""The tables of the bottom-up detector: a line for each image, its numbers as base64.

    image_id image_w image_h num_boxes boxes features                               Anderson's
    img_id img_h img_w objects_id objects_conf attrs_id attrs_conf num_boxes boxes features
                                                                                    LXMERT's

Both are also found with further columns after `features`, such as ViLBERT's `cls_prob`: those are
passed over.

A file may have 20 GB: where its lines begin is noted in one reading, and a line is read when its
image is asked for.
"""

from collections.abc import Sequence
from pathlib import Path

from naic.data.regions.fields import Regions, from_fields
from naic.errors import DataError
from naic.files import printable

LONGEST = 2**26  # bytes of a line: 100 regions of 2,048 numbers take a million
_ANDERSON, _LXMERT = 6, 10  # columns, the last of them the features
_HEADINGS = (b"image_id", b"img_id")
_CUT = "Its file may be cut off: get it again. The image is left out."


class TsvSource:
    """Knows where each line begins."""

    def __init__(self, path: Path) -> None:
        self.where = str(path)
        self._path = path
        self._offsets: dict[str, int] | None = None

    def keys(self) -> Sequence[str]:
        """The first column, in the order of the lines."""
        if self._offsets is None:
            try:
                self._offsets = self._scan()
            except OSError as error:
                why = f"cannot be read ({error.strerror})"
                raise DataError(printable(self.where), why, "Check the path.") from error
        return list(self._offsets)

    def read(self, key: str) -> Regions:
        """Read and decode one line."""
        self.keys()
        assert self._offsets is not None
        try:
            with self._path.open("rb") as file:
                file.seek(self._offsets[key])
                cells = file.readline(LONGEST).rstrip(b"\r\n").split(b"\t")
        except OSError as error:
            why = f"cannot be read ({error.strerror})"
            raise DataError(printable(self.where), why, "Check the disk.") from error
        where = f"{printable(self.where)}, {printable(key)}"
        if len(cells) >= _ANDERSON and cells[3].isdigit():
            width, height, count, boxes, features = cells[1:_ANDERSON]
        elif len(cells) >= _LXMERT and cells[7].isdigit():
            height, width, (count, boxes, features) = cells[1], cells[2], cells[7:_LXMERT]
        else:
            why = f"its line has {len(cells)} columns, none of them such as these tables have"
            raise DataError(where, why, _CUT)
        fields = {
            "image_w": width,
            "image_h": height,
            "num_boxes": count,
            "boxes": boxes,
            "features": features,
        }
        return from_fields(fields, where)

    def _scan(self) -> dict[str, int]:
        """Where each image's line begins; of two lines of one image the first counts."""
        offsets: dict[str, int] = {}
        with self._path.open("rb") as file:
            begin = 0
            while line := file.readline(LONGEST):
                end = line.find(b"\t")
                if end < 0 or (len(line) == LONGEST and not line.endswith(b"\n")):
                    if line.strip():
                        why = f"what begins at byte {begin:,} is no line of such a table"
                        hint = "Unpack the file if it is packed; get it again if it is cut off."
                        raise DataError(printable(self.where), why, hint)
                elif line[:end] not in _HEADINGS:
                    offsets.setdefault(line[:end].decode("utf-8", "replace"), begin)
                begin += len(line)
        return offsets
