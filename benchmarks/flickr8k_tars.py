r"""Flickr8k's training photos as images without captions: squashed, in tars of at most 60 MB.

python benchmarks/flickr8k_tars.py PHOTOS TEXTS --out data/flickr

PHOTOS and TEXTS are git directories (bare ones will do) that hold the photos under Images/ and the
published lists under Flickr8k_text/; nothing is checked out:

    PHOTOS  github.com/MOMO-1897/Image-Caption at 30b00fa7b04d
    TEXTS   github.com/siddhantagwl/Image-Caption-Generation at e54a5e83a9bb

Only the 6,000 photos of the training list are taken: those of dev are for choosing, those of test
for judging. Each is squashed to 256 x 256 pixels as `naic` squashes what it reads, and kept as a
JPEG. OUT gets flickr-00.tar, flickr-01.tar ..., and flickr.txt, the list of names in their order:
what `benchmarks/backbones/extract.py` makes a store of unlabelled images of.
"""

import argparse
import io
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

from PIL import Image

from naic.images.converting import square_pixels
from naic.images.sources import BytesImage

PHOTOS, TEXTS = "30b00fa7b04d", "e54a5e83a9bb"  # commits
LISTS = "Flickr8k_text/Flickr_8k.{}Images.txt"
PREFIX = "flickr-"
PIXELS = 256
QUALITY = 90
LARGEST = 60_000_000  # bytes of a tar
HEADER = 1023  # bytes of a tar for each photo, beside its own, at most


def read_list(folder: Path, split: str, commit: str = TEXTS) -> list[str]:
    """The names of a split's photos."""
    words = ["git", "-C", str(folder), "show", f"{commit}:{LISTS.format(split)}"]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()


def training_names(folder: Path, commit: str = TEXTS) -> list[str]:
    """The photos to learn from; none that is to choose or to judge by."""
    names = read_list(folder, "train", commit)
    held_out = {name for split in ("dev", "test") for name in read_list(folder, split, commit)}
    if both := held_out & set(names):
        raise SystemExit(f"{min(both)} is held out and in the training list")
    return names


def read_photos(folder: Path, names: list[str], commit: str = PHOTOS) -> Iterator[bytes]:
    """The bytes of each photo; the program stops at one that is not there."""
    words = ["git", "-C", str(folder), "cat-file", "--batch"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as git:
        assert git.stdin is not None
        assert git.stdout is not None
        for name in names:
            git.stdin.write(f"{commit}:Images/{name}\n".encode())
            git.stdin.flush()
            answer = git.stdout.readline().split()
            if answer[-1:] == [b"missing"]:
                raise SystemExit(f"{name} is not among the photos")
            yield git.stdout.read(int(answer[2]))
            git.stdout.read(1)
        git.stdin.close()


def squash(data: bytes, name: str) -> bytes:
    """A photo as a JPEG of 256 x 256 pixels."""
    pixels = square_pixels(BytesImage(data, name).load(at_least=PIXELS), PIXELS)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "jpeg", quality=QUALITY)
    return file.getvalue()


def pack(photos: Iterator[tuple[str, bytes]], out: Path, largest: int = LARGEST) -> int:
    """Write the photos into tars one after the other; the number of tars."""
    tar, size, number = None, 0, 0
    for name, data in photos:
        needed = len(data) + HEADER
        if tar is None or size + needed > largest:
            if tar is not None:
                tar.close()
            tar, size = tarfile.open(out / f"{PREFIX}{number:02d}.tar", "w"), 0  # noqa: SIM115
            number += 1
        info = tarfile.TarInfo(name)
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
        size += needed
    if tar is not None:
        tar.close()
    return number


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("photos", type=Path)
    parser.add_argument("texts", type=Path)
    parser.add_argument("--photos-commit", default=PHOTOS)
    parser.add_argument("--texts-commit", default=TEXTS)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--limit", type=int, help="so many photos, for a dry run")
    options = parser.parse_args(argv)
    names = training_names(options.texts, options.texts_commit)[: options.limit]
    options.out.mkdir(parents=True, exist_ok=True)
    photos = read_photos(options.photos, names, options.photos_commit)
    squashed = ((name, squash(data, name)) for name, data in zip(names, photos, strict=True))
    tars = pack(squashed, options.out)
    (options.out / "flickr.txt").write_text("\n".join(names) + "\n", encoding="utf-8")
    print(f"{len(names):,} photos in {tars} tars in {options.out}", flush=True)


if __name__ == "__main__":
    main()
