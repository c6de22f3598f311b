"""Tars in the manner of WebDataset: what belongs together has one name up to the first point.

    KEY.npy                 (R, F), or (H, W, F) of a grid, such as CLIP's
    KEY.npz                 fields as in a folder of .npz files
    KEY.box.npy             (R, 4) boxes, also as KEY.boxes.npy
    KEY.json                may have the image's `width` and `height`

Everything else, such as KEY.jpg and KEY.txt, is passed over: captions come from the dataset.
"""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from naic.data.regions.fields import BROKEN, HEIGHTS, READ, WIDTHS, Regions, from_fields, load_array
from naic.data.tars import TarMember, index_tar
from naic.errors import DataError
from naic.files import parse_json, printable

_BOXES = ("box.npy", "boxes.npy")
_FEATURES = ("npy", "npz", "features.npy")
_LOOKED_AT = (*_FEATURES, *_BOXES, "json")


class TarSource:
    """The tar's table of contents; members are read in place."""

    def __init__(self, path: Path) -> None:
        self.where = str(path)
        self._path = path
        self._members: dict[str, dict[str, TarMember]] = {}
        for name, member in index_tar(path).items():
            folder, _, base = name.rpartition("/")
            key, _, ending = base.partition(".")
            whole = f"{folder}/{key}" if folder else key
            self._members.setdefault(whole, {})[ending] = member
        self._members = {
            key: own for key, own in self._members.items() if any(e in own for e in _FEATURES)
        }

    def keys(self) -> Sequence[str]:
        """Those with features, in the order of the tar."""
        return list(self._members)

    def read(self, key: str) -> Regions:
        """Put together what belongs to one image."""
        where = f"{printable(self.where)}, {printable(key)}"
        own = self._members[key]
        try:
            with self._path.open("rb") as tar:
                read = {name: _bytes(tar, own[name]) for name in _LOOKED_AT if name in own}
            fields = _fields(read)
        except BROKEN as error:
            why = f"cannot be read ({error})"
            raise DataError(where, why, "Get the tar again: the image is left out.") from error
        if "json" in read:
            told = parse_json(read["json"].decode("utf-8", "replace"), where)
            if isinstance(told, dict):
                fields |= {n: told[n] for n in (*WIDTHS, *HEIGHTS) if n in told and n not in fields}
        return from_fields(fields, where)


def _bytes(tar: io.BufferedReader, member: TarMember) -> bytes:
    tar.seek(member.offset)
    return tar.read(member.size)


def _fields(read: dict[str, bytes]) -> dict[str, Any]:
    """Features and boxes of the files that have them."""
    fields: dict[str, Any] = {}
    ending = next(ending for ending in _FEATURES if ending in read)
    if ending == "npz":
        with np.load(io.BytesIO(read[ending]), allow_pickle=False) as archive:
            fields |= {name: archive[name] for name in archive.files if name in READ}
    else:
        fields["npy"] = load_array(io.BytesIO(read[ending]))
    for ending in _BOXES:
        if ending in read:
            fields["boxes"] = load_array(io.BytesIO(read[ending]))
    return fields
