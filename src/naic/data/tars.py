"""The table of contents of an uncompressed tar, so that its images are read in place."""

import posixpath
import tarfile
from pathlib import Path
from typing import NamedTuple

from naic.errors import DataError

_PACKED = {
    b"\x1f\x8b": "gzip",
    b"\xfd7zXZ\x00": "xz",
    b"BZh": "bzip2",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
}
_BLOCK = 512  # a tar is made of blocks of this many bytes
_REST = 1 << 20  # bytes that are read at once of what follows the end: ten thousand are usual


class TarMember(NamedTuple):
    """Where the bytes of one file lie in its archive."""

    name: str
    offset: int
    size: int


def index_tar(path: Path) -> dict[str, TarMember]:
    """The files of a tar by their path without `./`; of two with one path the later counts.

    That is what unpacking gives: a tar that was appended to holds the newer file last. Links
    inside the tar stand for the file they lead to.

    Raises:
        DataError: the file is compressed, no tar, cut off or damaged.
    """
    members: dict[str, TarMember] = {}
    links: dict[str, str] = {}
    try:
        _refuse_packed(path)
        with tarfile.open(path, "r:") as tar:
            while (info := tar.next()) is not None:
                # Every header is kept otherwise: much memory for an archive of 118,000 images.
                tar.members = []  # type: ignore[attr-defined]
                key = _key(info.name)
                if info.isreg() and not info.issparse():
                    members[key] = TarMember(info.name, info.offset_data, info.size)
                elif info.islnk():
                    links[key] = _key(info.linkname)
                elif info.issym():
                    links[key] = _key(posixpath.join(posixpath.dirname(info.name), info.linkname))
            end = tar.offset
        _check_end(path, end)
    except (tarfile.TarError, OSError, ValueError, OverflowError, EOFError) as error:
        hint = "Give --images a folder or an uncompressed tar; copy the file again if it is one."
        raise DataError(str(path), f"it cannot be read as a tar ({error})", hint) from error
    for key, target in links.items():
        if key not in members and target in members:
            members[key] = members[target]
    return members


def _key(name: str) -> str:
    return posixpath.normpath(name).lstrip("/")


def _refuse_packed(path: Path) -> None:
    with path.open("rb") as file:
        head = file.read(6)
    for magic, kind in _PACKED.items():
        if head.startswith(magic):
            why = f"it is compressed ({kind}), so images in it cannot be read in place"
            raise DataError(str(path), why, "Unpack it, and pass the folder or the plain tar.")


def _check_end(path: Path, end: int) -> None:
    """Python's tarfile takes a damaged header for the end of the archive; we want to know.

    Nor does it see a second archive behind the end of the first (`cat a.tar b.tar`).
    """
    with path.open("rb") as file:
        file.seek(end)
        if file.read(_BLOCK).strip(b"\0"):
            raise ValueError(f"damaged after byte {end}")
        while rest := file.read(_REST):
            if rest.strip(b"\0"):
                raise ValueError(f"it ends at byte {end}, and more follows, as of a second tar")
