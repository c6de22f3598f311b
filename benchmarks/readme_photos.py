"""Draws the picture of the README: photos from elsewhere, with what the shipped model says of them.

python -m benchmarks.readme_photos --cache build/photos    # as for benchmarks/photos.py

It takes the first eight of the photos of docs/results/photos.md that are CC0 or in the public
domain and are not the portrait of a person: nobody chose those that turn out well. The captions are
kept as the file's comment too, so that a test can read them.
"""

import argparse
import json
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.photos import ALBUM, Album, Photo, choose, fetch, read_album
from PIL import Image, ImageDraw, ImageFont, ImageOps

from naic.runtime.captioner import Captioner

PICTURE = Path(__file__).parents[1] / "docs" / "photos.jpg"
FREE = ("CC0-1.0", "public domain")
COUNT, COLUMNS = 8, 4
SIZE, EDGE, TEXT, FONT, LETTERS = (256, 192), 12, 54, 16, 29


def shown(album: Album) -> list[Photo]:
    """The photos of the picture, in their order."""
    free = [photo for photo in choose(album) if photo.licence in FREE]
    return [photo for photo in free if photo.thing != "person"][:COUNT]


def draw(paths: Sequence[Path], captions: Sequence[str]) -> Image.Image:
    """Photos in rows of four, each with its caption below."""
    font, rows = ImageFont.load_default(FONT), -(-len(paths) // COLUMNS)
    wide, high = SIZE[0] + EDGE, SIZE[1] + TEXT
    sheet = Image.new("RGB", (COLUMNS * wide + EDGE, rows * high + EDGE), "white")
    pen = ImageDraw.Draw(sheet)
    for number, (path, caption) in enumerate(zip(paths, captions, strict=True)):
        left, top = EDGE + number % COLUMNS * wide, EDGE + number // COLUMNS * high
        with Image.open(path) as photo:
            sheet.paste(ImageOps.fit(photo.convert("RGB"), SIZE), (left, top))
        text = "\n".join(textwrap.wrap(caption, LETTERS))
        pen.multiline_text((left, top + SIZE[1] + 4), text, fill="black", font=font)
    return sheet


def write(photos: Sequence[Photo], files: Mapping[str, Path], out: Path) -> None:
    """Caption the photos with the model inside naic, and draw both."""
    captioner, paths = Captioner(), [files[photo.id] for photo in photos]
    captions = [captioner(path) for path in paths]
    said = dict(zip((photo.id for photo in photos), captions, strict=True))
    draw(paths, captions).save(out, quality=85, optimize=True, comment=json.dumps(said).encode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--cache", type=Path, required=True, help="where the photos are or come")
    own = parser.parse_args()
    album = read_album(ALBUM)
    photos = shown(album)
    write(photos, fetch(Album(album.sources, tuple(photos)), own.cache), PICTURE)


if __name__ == "__main__":
    main()
