"""From a path, bytes or a file object to bytes in memory, or an ImageError that says why not."""

import errno
import os
import stat
from typing import BinaryIO, TypeAlias
from unicodedata import category

from naic.errors import ImageError

ImageInput: TypeAlias = str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO

# An image within the pixel limit fits in this many bytes in every format we open, even as 16-bit
# RGBA without compression; what is larger is something else, and reading it would fill the memory.
MAX_BYTES = 1 << 30

_KINDS = (
    (stat.S_ISDIR, "it is a folder", "Name the image files in it, or use the folder reader."),
    (stat.S_ISFIFO, "it is a named pipe", "Save its content to a file first."),
    (stat.S_ISSOCK, "it is a socket", "Name an image file."),
    (stat.S_ISCHR, "it is a device", "Name an image file."),
    (stat.S_ISBLK, "it is a device", "Name an image file."),
)
_REASONS = {
    errno.ENOENT: ("there is no such file", "Check the path."),
    errno.ENOTDIR: ("part of its path is a file, not a folder", "Check the path."),
    errno.EACCES: ("permission to read it is denied", "Change its permissions or its owner."),
    errno.EPERM: ("permission to read it is denied", "Change its permissions or its owner."),
    errno.ELOOP: ("its symbolic links go round in a circle", "Repair the link."),
    errno.ENAMETOOLONG: ("its name is too long for this system", "Give it a shorter name."),
}


def display_name(source: ImageInput, name: str | None) -> str:
    """What to call the image in a message; always printable, whatever bytes the path holds."""
    if name is None:
        name = os.fsdecode(source) if isinstance(source, str | os.PathLike) else "image data"
    if name.isprintable():
        return name
    # Surrogates (undecodable file names) cannot be printed, control characters garble a terminal;
    # unusual spaces, as macOS puts into the names of screenshots, do no harm.
    return "".join(ascii(c)[1:-1] if category(c) in {"Cc", "Cs"} else c for c in name)


def read_bytes(source: ImageInput, what: str) -> bytes:
    """All bytes of the source; raises ImageError for anything that is not a readable file."""
    try:
        data = _content(source, what)
    except (ImageError, MemoryError):
        raise
    except OSError as error:
        raise _reading_failed(source, what, error) from error
    except Exception as error:  # NUL in a path, a closed file, or whatever a file object raises
        raise ImageError(what, f"it cannot be read ({error})", "Check the path.") from error
    if not isinstance(data, bytes):
        why = f"reading it gave {type(data).__name__}, not bytes"
        raise ImageError(what, why, 'Open the file in binary mode ("rb").')
    if not data:
        raise ImageError(what, "it is empty", "Copy or download it again.")
    if len(data) > MAX_BYTES:
        raise _too_large(what)
    return data


def _content(source: ImageInput, what: str) -> object:
    """The content as the source gives it: a file object opened as text gives no bytes."""
    if isinstance(source, str | os.PathLike):
        return _read_file(os.fspath(source), what)
    if isinstance(source, bytes):
        return source
    if isinstance(source, bytearray | memoryview):
        return bytes(source)
    return source.read(MAX_BYTES + 1)


def _read_file(path: str, what: str) -> bytes:
    status = os.stat(path)  # noqa: PTH116 - a Path would refuse some names with other errors
    _check_regular(status, what)
    # Between the two looks the file may have been replaced by a pipe: never wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb", buffering=0) as file:  # noqa: PTH123 - a descriptor, not a path
        _check_regular(os.fstat(descriptor), what)
        return file.readall()


def _check_regular(status: os.stat_result, what: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        for is_kind, why, hint in _KINDS:
            if is_kind(status.st_mode):
                raise ImageError(what, why, hint)
        raise ImageError(what, "it is not a regular file", "Name an image file.")
    if status.st_size > MAX_BYTES:
        raise _too_large(what)


def _too_large(what: str) -> ImageError:
    why = f"it is larger than {MAX_BYTES >> 30} GiB"
    return ImageError(what, why, "Scale the image down, or save it as JPEG or PNG.")


def _reading_failed(source: ImageInput, what: str, error: OSError) -> ImageError:
    why, hint = _REASONS.get(
        error.errno or 0, (f"it cannot be read ({error.strerror or error})", "Check the file.")
    )
    if error.errno == errno.ENOENT and isinstance(source, str | os.PathLike):
        try:
            target = os.readlink(source)  # noqa: PTH115
        except OSError:
            pass
        else:
            why = f"it is a link to a file that does not exist ({display_name(target, None)})"
            hint = "Repair the link or restore the file."
    return ImageError(what, why, hint)
