"""A process that does nothing but decode images; `decoding.py` starts it and talks to it.

Started as `python -m naic.data.decode_worker`. It reads tasks from standard input, writes answers
to standard output, and ends when its input ends: however the parent dies, no orphan stays.

    task:   8 bytes of length, then a pickled (ImageSource, pixels)
    answer: 8 bytes of zeros, then the pixels; or 8 bytes of length, then a pickled ImageError
"""

import os
import pickle
import signal
import sys
from typing import BinaryIO

from naic.errors import ImageError
from naic.images import square_pixels

LENGTH_BYTES = 8


def main() -> None:
    """Answer tasks until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent to deal with
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not get among the answers
    tasks = sys.stdin.buffer
    while header := tasks.read(LENGTH_BYTES):
        _answer(tasks.read(int.from_bytes(header, "little")), answers)
        answers.flush()


def _answer(task: bytes, answers: BinaryIO) -> None:
    # Only the parent, which is ourselves, writes to this pipe.
    image, pixels = pickle.loads(task)  # noqa: S301
    try:
        square = square_pixels(image.load(at_least=pixels), pixels)
    except (ImageError, MemoryError) as error:
        message = pickle.dumps(error if isinstance(error, ImageError) else no_memory(image.name))
        answers.write(len(message).to_bytes(LENGTH_BYTES, "little") + message)
    else:
        answers.write(bytes(LENGTH_BYTES))
        answers.write(square.data)


def no_memory(name: str) -> ImageError:
    """An image that does not fit into memory is a bad one, not the end of the run."""
    return ImageError(name, "there is too little memory to decode it", "Scale it down first.")


if __name__ == "__main__":
    main()
