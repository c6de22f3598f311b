"""A decoding process that one kind of file brings down, and that prints at another."""

import os
import signal

from PIL import Image

from naic.data import decode_worker
from naic.images.sources import FileImage


def load(image: FileImage, at_least: int | None = None) -> Image.Image:
    if image.name == "deadly.tif":
        os.kill(os.getpid(), signal.SIGSEGV)
    print("a library that prints", flush=True)
    return Image.new("RGB", (8, 8), (3, 3, 3))


if __name__ == "__main__":
    FileImage.load = load  # type: ignore[assignment,method-assign]
    decode_worker.main()
