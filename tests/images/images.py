"""Image files made from scratch, for the tests of `naic.images`."""

import io
import struct
import zlib

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageCms

from naic.images.formats import HAS_AVIF

Pixels = npt.NDArray[np.uint8]


def photo(width: int = 48, height: int = 36) -> Image.Image:
    """Smooth ramps with a little noise: asymmetric, so that a wrong turn shows."""
    y, x = np.mgrid[0:height, 0:width]
    ramps = np.stack([x * 255 // width, y * 255 // height, (x + y) * 255 // (width + height)], -1)
    noise = np.random.default_rng(0).integers(-10, 10, (height, width, 3))
    return Image.fromarray((ramps + noise).clip(0, 255).astype(np.uint8))


def encode(image: Image.Image, format_name: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, format_name, **options)
    return file.getvalue()


def exif(orientation: int) -> bytes:
    data = Image.Exif()
    data[0x0112] = orientation
    return data.tobytes()


def chunk(kind: bytes, payload: bytes) -> bytes:
    return struct.pack(">L", len(payload)) + kind + payload + struct.pack(
        ">L", zlib.crc32(kind + payload)
    )  # fmt: skip


def png(size: tuple[int, int], depth: int, colour: int, rows: bytes, *extra: bytes) -> bytes:
    header = chunk(b"IHDR", struct.pack(">LLBBBBB", *size, depth, colour, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress(rows))
    return b"\x89PNG\r\n\x1a\n" + header + b"".join(extra) + pixels + chunk(b"IEND", b"")


def jpeg_segment(marker: int, payload: bytes) -> bytes:
    return bytes((0xFF, marker)) + struct.pack(">H", len(payload) + 2) + payload


def icc(space: bytes, connection: bytes, kind: bytes, tags: dict[bytes, bytes]) -> bytes:
    """An ICC profile of version 2."""
    table, body, at = struct.pack(">L", len(tags)), b"", 132 + 12 * len(tags)
    for name, payload in tags.items():
        padded = payload + bytes(-len(payload) % 4)
        table += struct.pack(">4sLL", name, at + len(body), len(payload))
        body += padded
    header = struct.pack(
        ">L4xL4s4s4s12x4s28xLLL48x", at + len(body), 0x02400000, kind, space, connection, b"acsp",
        0xF6D6, 0x10000, 0xD32D,
    )  # fmt: skip
    return header + table + body


def display_p3() -> bytes:
    """The wide-gamut profile of phones, with a plain gamma of 2.2: colours must change."""
    matrix = {
        b"rXYZ": (0.51512, 0.24120, -0.00105),
        b"gXYZ": (0.29198, 0.69225, 0.04189),
        b"bXYZ": (0.15710, 0.06657, 0.78407),
        b"wtpt": (0.9642, 1.0, 0.8249),
    }
    tags = {
        name: b"XYZ \0\0\0\0" + struct.pack(">3l", *(round(v * 65536) for v in values))
        for name, values in matrix.items()
    }
    curve = b"curv\0\0\0\0" + struct.pack(">LH", 1, round(2.2 * 256))
    text = b"desc\0\0\0\0" + struct.pack(">L", 3) + b"P3\0" + bytes(78)
    tags |= {b"rTRC": curve, b"gTRC": curve, b"bTRC": curve, b"desc": text}
    return icc(b"RGB ", b"XYZ ", b"mntr", tags)


def cyan_is_red() -> bytes:
    """A press whose cyan ink is red and whose magenta and yellow are invisible."""
    white, red, black = bytes((255, 128, 128)), bytes((136, 209, 196)), bytes((0, 128, 128))  # Lab
    grid = [(cyan, key) for cyan in (0, 1) for _ in range(4) for key in (0, 1)]
    ramp = bytes(range(256))
    lut = b"mft1\0\0\0\0" + bytes((4, 3, 2, 0))
    lut += struct.pack(">9l", 65536, 0, 0, 0, 65536, 0, 0, 0, 65536)
    lut += ramp * 4 + b"".join(black if key else red if cyan else white for cyan, key in grid)
    lut += ramp * 3
    text = b"desc\0\0\0\0" + struct.pack(">L", 4) + b"red\0" + bytes(78)
    return icc(b"CMYK", b"Lab ", b"prtr", {b"A2B0": lut, b"desc": text})


def srgb() -> bytes:
    return ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def samples() -> dict[str, bytes]:
    """A valid file of every format and of most pixel layouts."""
    image = photo()
    grey = image.convert("L")
    rotated = image.rotate(90)
    files = {
        "jpeg": encode(image, "JPEG"),
        "jpeg-progressive": encode(image, "JPEG", progressive=True),
        "jpeg-metadata": encode(image, "JPEG", exif=exif(6), icc_profile=srgb(), comment=b"hello"),
        "jpeg-cmyk": encode(image.convert("CMYK"), "JPEG"),
        "mpo": encode(image, "MPO", save_all=True, append_images=[rotated]),
        "png-metadata": encode(image, "PNG", exif=exif(6), icc_profile=srgb()),
        "png-animated": encode(image, "PNG", save_all=True, append_images=[rotated]),
        "webp": encode(image, "WEBP"),
        "webp-metadata": encode(image.convert("RGBA"), "WEBP", exif=exif(6), icc_profile=srgb()),
        "webp-animated": encode(image, "WEBP", save_all=True, append_images=[rotated]),
        "gif": encode(image, "GIF"),
        "gif-animated": encode(image, "GIF", save_all=True, append_images=[rotated]),
        "tiff-big": encode(image, "TIFF", big_tiff=True),
        "tiff-metadata": encode(image, "TIFF", tiffinfo={274: 6}, icc_profile=srgb()),
        "tiff-float": encode(grey.convert("F"), "TIFF"),
        "pfm": encode(grey.convert("F"), "PPM"),
        "pgm-plain": b"P2 2 2 255 0 85 170 255 ",
    }
    files |= {f"png-{mode}": encode(image.convert(mode), "PNG") for mode in ("RGBA", "LA", "P")}
    files |= {f"bmp-{mode}": encode(image.convert(mode), "BMP") for mode in ("RGB", "P", "1")}
    for mode in ("RGB", "RGBA", "L", "P", "1", "CMYK"):
        files[f"tiff-{mode}"] = encode(image.convert(mode), "TIFF")
    for compression in ("tiff_lzw", "packbits", "jpeg"):
        files[f"tiff-{compression}"] = encode(image, "TIFF", compression=compression)
    for name, mode in (("ppm", "RGB"), ("pgm", "L"), ("pbm", "1")):
        files[name] = encode(image.convert(mode), "PPM")
    if HAS_AVIF:
        files["avif"] = encode(image, "AVIF", exif=exif(6), icc_profile=srgb())
    return files
