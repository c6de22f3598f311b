"""`naic shapes DIR`: the embedded dataset as image files with captions."""

from collections.abc import Sequence
from pathlib import Path

import tyro

HELP = """Draw the embedded dataset: scenes of coloured shapes, five captions each.

DIR gets the images, captions.jsonl (which `naic prepare table DIR/captions.jsonl` reads),
facts.jsonl (what is truly in each image) and contact-sheet.png."""


def run(arguments: Sequence[str]) -> int:
    """Draw and say where."""
    tyro.cli(shapes, prog="naic shapes", description=HELP, args=list(arguments))
    return 0


def shapes(out: tyro.conf.Positional[Path], count: int = 100, seed: int = 0) -> None:
    """Draw scenes.

    Args:
        out: The folder to draw into.
        count: How many scenes.
        seed: Which scenes: the same seed gives the same scenes everywhere.
    """
    from naic.data.shapes.dataset import contact_sheet, write
    from naic.data.shapes.scenes import make_scene

    table = write(count, seed, out)
    sheet = out / "contact-sheet.png"
    contact_sheet([make_scene(seed, i) for i in range(min(count, 8))]).save(sheet)
    print(f"drew {count:,} scenes: {table}, and {sheet} to look at")


OPTIONS = shapes  # what the verb takes: shell completion finds it here
