"""A folder of images of which some are bad, each in one of ten ways."""

import os
import zlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

from PIL import Image


def jpeg(number: int, pixels: int = 48) -> bytes:
    """A small image that is not quite like the next one."""
    image = Image.new("RGB", (pixels, pixels), (number % 256, number * 7 % 256, 128))
    image.putpixel((number % pixels, number // pixels % pixels), (255, 255, 255))
    buffer = BytesIO()
    image.save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


def _chunk(kind: bytes, data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")


def _png(width: int, height: int, data: bytes) -> bytes:
    head = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([8, 2, 0, 0, 0])
    parts = (_chunk(b"IHDR", head), _chunk(b"IDAT", data), _chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def _instead(make: Callable[[Path], None]) -> Callable[[Path], None]:
    """Something else than a file under the file's name."""

    def replace(path: Path) -> None:
        path.unlink()
        make(path)

    return replace


# Each takes the path of a good JPEG and makes it bad.
WAYS: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:-200]),
    "noise": lambda path: path.write_bytes(bytes((i * 73 + 41) % 256 for i in range(4000))),
    "a web page": lambda path: path.write_text("<!DOCTYPE html><html>404</html>"),
    "a folder": _instead(Path.mkdir),
    "a dangling link": _instead(lambda path: path.symlink_to("nowhere.jpg")),
    "a pipe": _instead(os.mkfifo),
    "a bomb": lambda path: path.write_bytes(_png(60000, 60000, zlib.compress(bytes(1000)))),
    "damaged data": lambda path: path.write_bytes(_png(48, 48, b"this is no deflate stream")),
    "HEIC": lambda path: path.write_bytes(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(100)),
}


def make_folder(folder: Path, good: int, bad_of_each: int) -> dict[str, str]:
    """`good` good images with bad ones among them; gives the bad names and what is wrong."""
    folder.mkdir()
    count = good + bad_of_each * len(WAYS)
    names = [f"{number:05d}.jpg" for number in range(count)]
    for number, name in enumerate(names):
        (folder / name).write_bytes(jpeg(number))
    stride = count // (bad_of_each * len(WAYS))
    bad = {}
    for number, way in enumerate(list(WAYS) * bad_of_each):
        name = names[number * stride]
        WAYS[way](folder / name)
        bad[name] = way
    return bad
