"""Folders with a file for each image: `ID.npz` or `ID.npy`, as many captioners have them.

cocobu_att/ID.npz    `feat` (R, F), with (R, 4) boxes in `cocobu_box/ID.npy` beside the folder
NAME.jpg.npz         `x` (F, R) or (R, F), `bbox`, `num_bbox`, `image_w`, `image_h`
ID.npy               (R, F), or (H, W, F) of a grid
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from naic.data.regions.fields import (
    BOXES,
    BROKEN,
    FEATURES,
    READ,
    SHARES,
    Regions,
    from_fields,
    load_array,
)
from naic.errors import DataError
from naic.files import printable, walk

_SUFFIXES = (".npz", ".npy")
_FEATURES, _BOXES = "_att", "_box"  # ends of the names of two folders


class FolderSource:
    """Finds the files once, and opens one when its image is asked for."""

    def __init__(self, folder: Path) -> None:
        self.where = str(folder)
        if not folder.is_dir():
            why = "there is no such folder"
            raise DataError(printable(self.where), why, "Name the folder with the .npz files.")
        self._files: dict[str, str] = {}

        def failed(name: str, error: OSError) -> None:
            why = f"the folder cannot be listed ({error.strerror or error})"
            raise DataError(printable(name), why, "Check its permissions.")

        for inner, names in walk(str(folder), failed):
            for name in names:
                suffix = name[-len(_SUFFIXES[0]) :]
                if suffix in _SUFFIXES:
                    path = os.path.join(inner, name)  # noqa: PTH118
                    self._files[os.path.relpath(path, folder).removesuffix(suffix)] = path
        beside = folder.absolute()
        name = beside.name.removesuffix(_FEATURES) + _BOXES
        self._boxes = beside.with_name(name) if beside.name.endswith(_FEATURES) else None

    def keys(self) -> Sequence[str]:
        """The names of the files without their suffix."""
        return list(self._files)

    def read(self, key: str) -> Regions:
        """Open one file, and that of its boxes if it is another."""
        path = Path(self._files[key])
        fields = read_fields(path)
        if self._boxes is not None and not any(name in fields for name in (*BOXES, *SHARES)):
            boxes = self._boxes / f"{key}.npy"
            if boxes.is_file():
                fields["boxes"] = _array(boxes)
        return from_fields(fields, printable(str(path)))


def read_fields(path: Path) -> dict[str, Any]:
    """What of a .npz or .npy file is looked at; a .npz may hold pickles beside it."""
    if path.suffix == ".npy":
        return {FEATURES[0]: _array(path)}
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files if name in READ}
    except BROKEN as error:
        raise _broken(path, error) from error


def _array(path: Path) -> Any:  # noqa: ANN401 - an array of what the file has
    try:
        with path.open("rb") as file:
            return load_array(file)
    except BROKEN as error:
        raise _broken(path, error) from error


def _broken(path: Path, error: Exception) -> DataError:
    why = f"is no whole file of numpy ({error})"
    return DataError(printable(str(path)), why, "Get it again: the image is left out.")
