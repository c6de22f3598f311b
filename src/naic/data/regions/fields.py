"""One image's regions out of the fields that people's files have, whatever these are called.

All formats hold the same few things: features, boxes, how many there are, and how large the image
was. Here they become (R, F) numbers and boxes in shares of the image's sides.
"""

import base64
import binascii
import io
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from tokenize import TokenError
from typing import Any, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt

from naic.errors import DataError, MissingExtraError

FEATURES = ("feat", "x", "features", "image_features", "npy", "grid")
BOXES = ("bbox", "boxes", "image_bb", "bb")
SHARES = ("norm_bb", "spatial_features")  # boxes that are shares of the sides already
COUNTS = ("num_bbox", "num_boxes", "nbb")
WIDTHS = ("image_w", "img_w", "image_width", "width")
HEIGHTS = ("image_h", "img_h", "image_height", "height")
KINDS = ("dtype", "type")
READ = {*FEATURES, *BOXES, *SHARES, *COUNTS, *WIDTHS, *HEIGHTS}  # other fields are passed over
_SLACK = 0.02  # of a side: boxes are drawn to whole pixels, and some end a little outside
_AGAIN = "Get it again: the image is left out."
Size = tuple[float, float]  # width and height
# What numpy, its zip files, HDF5 and base64 say of bytes that are not theirs
BROKEN = (
    *(OSError, ValueError, KeyError, IndexError, EOFError, TypeError, OverflowError, RuntimeError),
    *(SyntaxError, TokenError, zipfile.BadZipFile, zlib.error, struct.error),
)


@dataclass(frozen=True, slots=True)
class Regions:
    """What a file holds of one image.

    Attributes:
        features: (R, F) of each region.
        boxes: (R, 4) left, top, right and bottom of each; None: it has none.
        size: of the image, in the boxes' unit; (1, 1): shares of its sides. None: not known.
    """

    features: npt.NDArray[np.floating[Any]]
    boxes: npt.NDArray[np.floating[Any]] | None = None
    size: Size | None = None


class RegionSource(Protocol):
    """A file or folder with the regions of many images."""

    where: str

    def keys(self) -> Sequence[str]:
        """What it calls its images, in the order in which they are best read."""
        ...

    def read(self, key: str) -> Regions:
        """The regions of one image; raises DataError if they cannot be read."""
        ...


def package(name: str) -> Any:  # noqa: ANN401 - a module without types
    """A package of the extra `regions`, or how to get it."""
    try:
        return import_module(name)
    except ImportError as error:
        hint = "Run: pip install 'naic[regions]'"
        raise MissingExtraError(name, f"is not installed ({error})", hint) from error


def from_fields(fields: Mapping[str, Any], where: str) -> Regions:
    """The regions that these fields hold; `where` they are, for errors."""
    try:
        return _from_fields(fields, where)
    except (*BROKEN, binascii.Error) as error:
        raise DataError(where, f"its features cannot be read ({error})", _AGAIN) from error


def _from_fields(fields: Mapping[str, Any], where: str) -> Regions:
    given = _first(fields, FEATURES)
    if given is None:
        named = ", ".join(sorted(map(str, fields))[:8]) or "nothing"
        why = f"no field of it has features: there are {named}"
        raise DataError(where, why, f"Fields with features are called {', '.join(FEATURES)}.")
    shares, boxes = _first(fields, SHARES), _first(fields, BOXES)
    count = _number(_first(fields, COUNTS))
    rows = None if count is None else int(count)
    found = None
    if shares is not None or boxes is not None:
        found = _numbers(boxes if shares is None else shares, fields, rows)
        found = found.reshape(len(found) if rows is None else -1, found.shape[-1])[:rows, :4]
        rows = len(found)
    # more rows than regions are filled up, if there is a count that says so
    features = _by_rows(_numbers(given, fields, rows), rows, where, exact=count is None)
    if found is not None and len(found) != len(features):
        raise DataError(where, f"{len(features)} regions have {len(found)} boxes", _AGAIN)
    width, height = _number(_first(fields, WIDTHS)), _number(_first(fields, HEIGHTS))
    size: Size | None = None
    if shares is not None:
        size = (1.0, 1.0)
    elif width is not None and height is not None:
        size = (width, height)
    return Regions(features, found, size)


def _by_rows(
    features: npt.NDArray[Any], rows: int | None, where: str, *, exact: bool
) -> npt.NDArray[np.floating[Any]]:
    """(R, F); some files have (F, R), some (H, W, F), and some, if not `exact`, further rows."""
    if features.ndim > 2:  # a grid: its cells in reading order
        features = features.reshape(-1, features.shape[-1])
    if features.ndim != 2 or not np.issubdtype(features.dtype, np.floating):
        why = f"its features are {features.dtype} of shape {features.shape}"
        raise DataError(where, why, "They have to be numbers with a point, (regions, size).")
    if rows is not None:
        if len(features) != rows and features.shape[1] == rows:
            features = features.T
        if len(features) < rows or (exact and len(features) > rows):
            why = f"it tells of {rows} regions and has features of {len(features)}"
            raise DataError(where, why, "Were features and boxes made together? Or get it again.")
    return features[:rows]


def _first(fields: Mapping[str, Any], names: Sequence[str]) -> Any:  # noqa: ANN401
    """What is under the first of these names that is there."""
    return next((fields[name] for name in names if name in fields), None)


def _number(value: Any) -> float | None:  # noqa: ANN401 - of a file
    """A number as files have it: also as text, or alone in an array."""
    if value is None:
        return None
    return float(value.item() if isinstance(value, np.ndarray) else value)


def _numbers(given: Any, fields: Mapping[str, Any], rows: int | None) -> npt.NDArray[Any]:  # noqa: ANN401
    """An array; of bytes, the numbers in them (as base64, plain, or a .npy file)."""
    if isinstance(given, str | bytes | memoryview):
        return _decoded(given.encode() if isinstance(given, str) else bytes(given), fields, rows)
    return np.asarray(given)


def _decoded(data: bytes, fields: Mapping[str, Any], rows: int | None) -> npt.NDArray[Any]:
    if data.startswith(b"\x93NUMPY"):
        return load_array(io.BytesIO(data))
    shape = fields.get("shape")
    if shape is None:  # base64 of float32, as in the files of the bottom-up detector
        if rows is None:
            raise ValueError("nothing says how many regions they are of")
        plain = base64.b64decode(data, validate=True)
        return np.frombuffer(plain, "<f4").reshape(rows, -1)
    sides = [int(side) for side in np.asarray(shape).reshape(-1)]
    kind = _first(fields, KINDS)
    of_four = len(data) == 4 * int(np.prod(sides, dtype=np.int64))
    return np.frombuffer(data, str(kind) if kind else "<f4" if of_four else "<f2").reshape(sides)


def load_array(file: BinaryIO) -> npt.NDArray[Any]:
    """The array of a .npy file; objects, which are pickles, are refused."""
    loaded = np.load(file, allow_pickle=False)
    if not isinstance(loaded, np.ndarray):
        raise ValueError("it is an archive of several arrays")  # noqa: TRY004 - of the file
    return loaded


def with_boxes(
    regions: Regions, size: Size | None, boxes: bool, dim: int, where: str
) -> npt.NDArray[np.float16]:
    """(R, F) or, with boxes, (R, F + 4) float16: the last four are x0, y0, x1, y1 from 0 to 1.

    Args:
        regions: of an image.
        size: of the image, where its file does not tell.
        boxes: whether there have to be some; they are left out otherwise.
        dim: F, as all other images have it.
        where: they are, for errors.
    """
    features = regions.features
    if not len(features):
        raise DataError(where, "it has no regions", _AGAIN)
    if features.shape[1] != dim:
        why = f"its regions have {features.shape[1]} numbers, others have {dim}"
        raise DataError(where, why, _AGAIN)
    with np.errstate(over="ignore", invalid="ignore"):
        halves = features.astype(np.float16)  # (R, F)
    if not np.isfinite(halves).all():
        raise DataError(where, "some of its numbers do not fit float16", _AGAIN)
    if not boxes:
        return halves
    if regions.boxes is None:
        raise DataError(where, "it has no boxes, others have", "Or pass --without-boxes.")
    shares = _shares(regions.boxes, regions.size or size, where)
    return np.concatenate((halves, shares.astype(np.float16)), 1)


def _shares(
    boxes: npt.NDArray[np.floating[Any]], size: Size | None, where: str
) -> npt.NDArray[np.float64]:
    """(R, 4) boxes as shares of the image's sides."""
    if size is None:
        why = "its boxes are in pixels, and nothing tells how large the image is"
        hint = "Name JSON files with sizes (--sizes captions_*.json), or pass --without-boxes."
        raise DataError(where, why, hint)
    if boxes.shape[1:] != (4,) or not np.isfinite(boxes).all() or min(size) <= 0:
        raise DataError(where, "its boxes are no boxes", _AGAIN)
    if boxes.max() <= 1 < min(size):
        why = "its boxes end within the first pixel: they are shares of the sides already"
        raise DataError(where, why, "Name the field `norm_bb`, or pass --without-boxes.")
    shares = boxes.astype(np.float64) / np.array([*size, *size])
    if shares.min() < -_SLACK or shares.max() > 1 + _SLACK:
        why = f"a box ends outside of an image of {size[0]:g} x {size[1]:g}"
        raise DataError(where, why, "Is this the size of the image that the detector saw?")
    if (shares[:, 2:] < shares[:, :2]).any():
        hint = "Boxes have to be left, top, right and bottom, not width and height."
        raise DataError(where, "a box ends before it begins", hint)
    clipped: npt.NDArray[np.float64] = shares.clip(0, 1)
    return clipped
