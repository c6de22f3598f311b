"""A process that does nothing but decode images; `decoding.py` starts it and talks to it.

Started as `python -m naic.data.decode_worker`. It reads tasks from standard input, writes answers
to standard output, and ends when its input ends: however the parent dies, no orphan stays.

    task:   its length (8 bytes), the length of its JSON (8 bytes), the JSON, the bytes of the image
    answer: 8 bytes of zeros, then the pixels; or 8 bytes of length, then why not, as JSON
"""

import json
import os
import signal
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from naic.errors import ImageError
from naic.images.converting import square_pixels

if TYPE_CHECKING:
    from naic.images.sources import ImageSource

LENGTH = struct.Struct("<Q")


def pack(image: "ImageSource", pixels: int) -> bytes | None:
    """The task to decode an image at `pixels` a side; None: only this process can load it."""
    described = image.describe()
    if described is None:
        return None
    source, data = described
    text = json.dumps({"image": source, "pixels": pixels}).encode()
    return LENGTH.pack(LENGTH.size + len(text) + len(data)) + LENGTH.pack(len(text)) + text + data


def unpack(task: bytes) -> "tuple[ImageSource, int]":
    """The image of a task without its first length, and how many pixels a side it is to have."""
    (length,) = LENGTH.unpack_from(task)
    start = LENGTH.size + length
    content = json.loads(task[LENGTH.size : start])
    return _source(content["image"], task[start:]), int(content["pixels"])


def _source(described: dict[str, Any], data: bytes) -> "ImageSource":
    from naic.images.sources import BytesImage, Cropped, FileImage, Mirrored, TarImage

    [(kind, value)] = described.items()
    match kind:
        case "file":
            return FileImage(Path(value))
        case "tar":
            archive, member, offset, size = value
            return TarImage(Path(archive), member, offset, size)
        case "bytes":
            return BytesImage(data, *value)
        case "mirrored":
            return Mirrored(_source(value, data))
        case "cropped":
            return Cropped(_source(value[0], data), tuple(value[1]))
        case _:
            from naic.data.shapes.dataset import SceneImage

            return SceneImage(*value)


def main() -> None:
    """Answer tasks until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent to deal with
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not get among the answers
    tasks = sys.stdin.buffer
    while header := tasks.read(LENGTH.size):
        _answer(tasks.read(*LENGTH.unpack(header)), answers)
        answers.flush()


def _answer(task: bytes, answers: BinaryIO) -> None:
    image, pixels = unpack(task)
    try:
        square = square_pixels(image.load(at_least=pixels), pixels)
    except (ImageError, MemoryError) as error:
        bad = error if isinstance(error, ImageError) else no_memory(image.name)
        message = json.dumps([bad.what, bad.why, bad.hint]).encode()
        answers.write(LENGTH.pack(len(message)) + message)
    else:
        answers.write(LENGTH.pack(0))
        answers.write(square.data)


def no_memory(name: str) -> ImageError:
    """An image that does not fit into memory is a bad one, not the end of the run."""
    return ImageError(name, "there is too little memory to decode it", "Scale it down first.")


if __name__ == "__main__":
    main()
