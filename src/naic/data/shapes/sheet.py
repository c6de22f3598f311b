"""Many scenes on one sheet, with what is said of them: for a README, or to look through a set."""

from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont

from naic.data.shapes.drawing import draw
from naic.data.shapes.phrasing import captions
from naic.data.shapes.scenes import CANVAS, Scene
from naic.errors import ConfigError

MARGIN = 20
TEXT_SIZE = 15
LINE = 20  # pixels from one line of text to the next
SHOWN = 2  # captions under each picture
INK = ((30, 30, 34), (110, 110, 118))  # each caption in its own grey, to tell them apart


def contact_sheet(scenes: Sequence[Scene], columns: int = 4) -> Image.Image:
    """The pictures in rows of `columns`, with two of their captions under each."""
    if not scenes or columns < 1:
        raise ConfigError(
            f"a sheet of {len(scenes)} scenes in {columns} columns",
            "there is nothing to show",
            "Give at least one scene and one column.",
        )
    font = ImageFont.load_default(TEXT_SIZE)
    columns = min(columns, len(scenes))
    texts = [[_wrap(text, font) for text in captions(scene)[:SHOWN]] for scene in scenes]
    tops = [MARGIN]  # of each row, and of the end
    for start in range(0, len(scenes), columns):
        most = max(sum(map(len, text)) for text in texts[start : start + columns])
        tops.append(tops[-1] + CANVAS + LINE * most + 2 * MARGIN)
    sheet = Image.new("RGB", (columns * (CANVAS + MARGIN) + MARGIN, tops[-1]), "white")
    pen = ImageDraw.Draw(sheet)
    for number, scene in enumerate(scenes):
        left, top = MARGIN + number % columns * (CANVAS + MARGIN), tops[number // columns]
        sheet.paste(draw(scene), (left, top))
        pen.rectangle((left, top, left + CANVAS - 1, top + CANVAS - 1), outline=(205, 205, 205))
        down = top + CANVAS + MARGIN // 2
        for ink, lines in zip(INK, texts[number], strict=True):
            for line in lines:
                pen.text((left, down), line, fill=ink, font=font)
                down += LINE
    return sheet


def _wrap(text: str, font: ImageFont.ImageFont | ImageFont.FreeTypeFont) -> list[str]:
    """The text in lines no wider than a picture."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".lstrip()
        if lines[-1] and font.getlength(longer) > CANVAS:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines
