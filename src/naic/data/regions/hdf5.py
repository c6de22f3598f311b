"""HDF5: three ways in which captioners and VQA systems lay features out.

    ID_features, ID_boxes                      or ID_grids: a data set for each image (the M2
                                               Transformer and those after it, some of which have
                                               ID_size, height and width)
    ID/features, ID/boxes, ID/img_w, ID/img_h  a group for each image (VL-T5)
    image_features (N, R, F), image_bb         all images in one array, or end to end with
                                               `pos_boxes` (N, 2), first and last + 1 of each

The last needs to know which row is whose: `image_ids` in the file, or beside FILE.hdf5
`FILE_imgid2idx.json` or `.pkl` (a pickle of plain numbers, which is read without unpickling).
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from naic.data.regions.fields import BROKEN, FEATURES, READ, Regions, from_fields, package
from naic.data.regions.plainpickle import plain_value
from naic.errors import DataError
from naic.files import parse_json, printable

_IDS = ("image_ids", "image_id", "img_ids", "img_id", "ids")
_FLAT = re.compile(r"(.+)_(features|grids)")
_POSITIONS = "pos_boxes"


class Hdf5Source:
    """An open file, and which way its features lie in it."""

    def __init__(self, path: Path) -> None:
        self.where = str(path)
        h5py = package("h5py")
        try:
            self._file = h5py.File(path, "r")
            names = list(self._file)
        except BROKEN as error:
            why = f"cannot be opened as HDF5 ({error})"
            raise DataError(printable(self.where), why, "Get it again if it is cut off.") from error
        self._arrays = [name for name in names if name in READ]
        self._rows: dict[str, int] = {}
        self._flat: dict[str, str] = {}
        if any(name in FEATURES for name in self._arrays):
            self._rows = self._find_rows(path)
            return
        for name in names:
            found = _FLAT.fullmatch(name)  # a grid only where there are no regions
            if found and (found[2] == "features" or found[1] not in self._flat):
                self._flat[found[1]] = name
        if not self._flat:
            self._flat = {name: "" for name in names if isinstance(self._file[name], h5py.Group)}
        if not self._flat:
            why = f"has nothing that is known to be features: {', '.join(names[:6]) or 'nothing'}"
            hint = "Known are ID_features, ID/features, and image_features for all: docs/data.md."
            raise DataError(printable(self.where), why, hint)

    def keys(self) -> Sequence[str]:
        """The images, in the order of the rows where there is one."""
        return sorted(self._rows, key=self._rows.__getitem__) if self._rows else list(self._flat)

    def read(self, key: str) -> Regions:
        """Read one image's part."""
        where = f"{printable(self.where)}, {printable(key)}"
        try:
            return from_fields(self._fields(key), where)
        except BROKEN as error:
            why = f"cannot be read ({error})"
            raise DataError(where, why, "Get the file again.") from error

    def _fields(self, key: str) -> Mapping[str, Any]:
        if self._rows:
            return self._row(self._rows[key])
        name = self._flat[key]
        if not name:
            group = self._file[key]
            return {name: group[name][()] for name in group if name in READ}
        fields = {"features": self._file[name][()]}
        if name.endswith("_features") and f"{key}_boxes" in self._file:
            fields["boxes"] = self._file[f"{key}_boxes"][()]
        if f"{key}_size" in self._file:
            fields["height"], fields["width"] = self._file[f"{key}_size"][()].reshape(-1)[:2]
        return fields

    def _row(self, row: int) -> Mapping[str, Any]:
        """One image out of arrays of all."""
        file = self._file
        if _POSITIONS not in file:
            return {name: file[name][row] for name in self._arrays}
        first, last = (int(place) for place in file[_POSITIONS][row])
        return {
            name: file[name][first:last] if file[name].ndim > 1 else file[name][row]
            for name in self._arrays
        }

    def _find_rows(self, path: Path) -> dict[str, int]:
        """Which row each image has."""
        own = next((name for name in _IDS if name in self._file), None)
        if own is not None:
            ids = self._file[own][()]
            return {_text(id_): row for row, id_ in enumerate(np.asarray(ids).reshape(-1))}
        beside = path.with_name(f"{path.stem}_imgid2idx.json")
        packed = beside.with_suffix(".pkl")
        if beside.is_file():
            found = parse_json(beside.read_text(encoding="utf-8"), printable(str(beside)))
        elif packed.is_file():
            found = plain_value(packed.read_bytes(), printable(str(packed)))
        else:
            why = "holds all images in one array, and nothing says which row is whose"
            hint = f"Put {beside.name} beside it, with the row of each id, or `image_ids` into it."
            raise DataError(printable(self.where), why, hint)
        rows: dict[Any, Any] = found if isinstance(found, dict) else {"": None}
        if not all(isinstance(row, int) and row >= 0 for row in rows.values()):
            name = (beside if beside.is_file() else packed).name
            why = f"{name} beside it is no table of ids and rows"
            raise DataError(printable(self.where), why, 'Write {"ID": ROW, ...} into it.')
        return {str(id_): row for id_, row in rows.items()}


def _text(id_: Any) -> str:  # noqa: ANN401 - a number, text or bytes
    return id_.decode("utf-8", "replace") if isinstance(id_, bytes) else str(id_)
