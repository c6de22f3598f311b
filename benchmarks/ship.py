"""Puts a packed model into the package, with a card made from what was measured of it.

python benchmarks/ship.py runs/coco-packed --scores packed-val.json --photos photos/

The scores are files of `naic evaluate --json`. The photos are for the time that an image takes:
nothing else should run meanwhile.
Its confidences are calibrated afterwards: benchmarks/calibrate.py.
"""

import json
import os
import platform
import shutil
import statistics
import string
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro
from tyro.conf import Positional, arg

from naic import __version__
from naic.files import CARD
from naic.runtime.captioner import Captioner
from naic.runtime.skeleton import PRECISIONS, graph_names

ROOT = Path(__file__).parents[1]
SHIPPED = ROOT / "src" / "naic" / "shipped"
TEMPLATE = ROOT / "docs" / "shipped" / "card.md"
# Bytes; the whole wheel must stay below 95 MB.
LARGEST, LARGEST_GRAPHS = 92_000_000, 3_000_000
GRAPHS = tuple(name for precision in PRECISIONS for name in graph_names(precision))
METRICS = ("Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4", "METEOR", "ROUGE_L", "CIDEr", "SPICE")
WARM_UP, TIMED, TOGETHER = 3, 25, 64


def scores_table(files: Sequence[dict[str, Any]]) -> str:
    """A row for each evaluation, with its interval and habits; what was not measured is a dash."""
    titles = ("split", "images", *METRICS, "CIDEr, 95 %", "repeats", "bad endings", "words")
    lines = [f"| {' | '.join(titles)} |", f"|{' --- |' * len(titles)}"]
    for values in files:
        low, high = values["intervals"]["CIDEr"]
        habits = values["habits"]["captions"]
        cells = [
            ", ".join(values["source"]["split"]),
            str(values["signature"]["images"]),
            *("–" if values[name] is None else f"{100 * values[name]:.1f}" for name in METRICS),
            f"{100 * low:.1f} to {100 * high:.1f}",
            f"{100 * habits['repeats']:.2f}",
            f"{100 * habits['bad_endings']:.2f}",
            f"{habits['vocabulary']:,}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def time_images(captioner: Captioner, photos: Sequence[Path]) -> dict[str, str]:
    """Milliseconds an image: one at a time (file in, caption out), and sixteen at once."""
    single = []
    for number in range(WARM_UP + TIMED):
        began = time.perf_counter()
        captioner.caption([photos[number % len(photos)]])
        if number >= WARM_UP:
            single.append(time.perf_counter() - began)
    many = [photos[i % len(photos)] for i in range(TOGETHER)]
    began = time.perf_counter()
    list(captioner.each(many, batch=16))
    each = (time.perf_counter() - began) / len(many)
    return {"one": f"{1000 * statistics.median(single):.0f}", "many": f"{1000 * each:.0f}"}


def card(folder: Path, scores: Sequence[dict[str, Any]], speed: dict[str, str], note: str) -> str:
    """The card: the template with what was measured, and the student's own card at its end."""
    whole = sum(path.stat().st_size for path in folder.iterdir() if path.name != CARD)
    made = (folder / CARD).read_text(encoding="utf-8").split("\n", 1)[1].strip()
    cores = f"{os.cpu_count()} cores of {platform.machine()}, no GPU"
    return string.Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        speed,
        note=note.strip(),
        scores=scores_table(scores),
        words=f"{scores[0]['habits']['captions']['vocabulary']:,}",
        size=f"{whole / 1e6:.1f}",
        machine=f"{cores}, torch {torch.__version__}, naic {__version__}",
        made=made.replace("\n## ", "\n### "),
    )


def main(
    packed: Positional[Path],
    scores: Annotated[tuple[Path, ...], arg(metavar="FILE ...")],
    photos: Path,
    note: Path | None = None,
) -> None:
    """Fill the folder `shipped` of the package.

    Args:
        packed: A folder made by `naic pack`.
        scores: What `naic evaluate --json` said of its captions.
        photos: A folder of JPEG files to time it with.
        note: A file with what else the card is to say of this model.
    """
    read = [json.loads(path.read_bytes()) for path in scores]
    speed = time_images(Captioner(packed), sorted(photos.glob("*.jpg")))
    text = card(packed, read, speed, note.read_text(encoding="utf-8") if note else "")
    if not all((packed / name).is_file() for name in GRAPHS):
        raise SystemExit(f"{packed} has no graphs: naic export {packed} --beside")
    sizes = {path.name: path.stat().st_size for path in packed.iterdir() if path.name != CARD}
    graphs = sum(sizes.pop(name) for name in GRAPHS)
    whole = sum(sizes.values()) + len(text.encode())
    for what, size, most in (("", whole, LARGEST), (" in graphs", graphs, LARGEST_GRAPHS)):
        if size > most:
            raise SystemExit(f"{packed} has {size:,} bytes{what}, and {most:,} is the most")
    shutil.rmtree(SHIPPED, ignore_errors=True)
    shutil.copytree(packed, SHIPPED)
    (SHIPPED / CARD).write_text(text, encoding="utf-8")
    print(f"{SHIPPED.relative_to(ROOT)}: {whole:,} bytes, and {graphs:,} in graphs")


if __name__ == "__main__":
    tyro.cli(main)
