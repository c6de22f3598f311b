"""A sheet for a judge who must not know which model said what: photographs and captions alone.

    python -m benchmarks.photo_sheet --cache build/photos --out build/judging

The captions of two models, files of benchmarks/photos.py, in a random order that depends on --seed
only. Where both say the same of a photograph, it is asked once and counts for both. OUT gets
judgements.toml, to be filled in, and the photographs under numbers, for their names tell what is on
them. Which model said what goes into the file of --key, which the judge does not get. The filled
sheet belongs at docs/photos/judgements.toml; docs/results/photos.md is made from it and the key.
"""

import argparse
import json
import random
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.photos import ALBUM, fetch, read_album

from naic.errors import DataError

DOCS = Path(__file__).parent.parent / "docs"
SEED = 17
SHEET = "judgements.toml"
HEAD = """\
# Look at each photograph, and at the one caption beside it. Each entry is judged by itself, in this
# order: what another caption says of the same photograph does not matter.
#
# main:   "right" if the caption names the main thing of the photograph, by its own name or by a
#         wider one ("a bird" of a penguin). Mistakes about the rest do not count here.
#         "wrong" if it does not, or puts another thing in its place ("a tower" of a rocket).
# false:  all that the caption says and that is not so: things, people, numbers, colours, places,
#         actions that the photograph does not show, or shows otherwise. "" if there is nothing.
#         What is left out is not false, and neither is bad grammar by itself; where a sentence
#         makes no sense, the words that do not fit are.
# reason: a short sentence.
#
# judge:  what the judge is, and what it saw, for the reader of the page.
judge = ""
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """One caption of one photograph.

    Attributes:
        number: its place on the sheet, from 1.
        photo: the photograph's id.
        by: who says it: old, new or both.
    """

    number: int
    photo: str
    by: tuple[str, ...]
    caption: str


def entries(runs: Mapping[str, dict[str, Any]], seed: int) -> list[Entry]:
    """The captions of both models, shuffled.

    Raises:
        DataError: the models did not caption the same photographs.
    """
    said = {
        who: {photo["id"]: photo["caption"] for photo in run["photos"]} for who, run in runs.items()
    }
    first, *others = said.values()
    if any(own.keys() != first.keys() for own in others):
        raise DataError("the runs", "are of different photographs", "Caption the same album twice.")
    who_says: dict[tuple[str, str], list[str]] = {}
    for photo in sorted(first):
        for who, own in said.items():
            who_says.setdefault((photo, own[photo]), []).append(who)
    pairs = sorted(who_says)
    random.Random(seed).shuffle(pairs)
    return [
        Entry(number, photo, tuple(who_says[photo, caption]), caption)
        for number, (photo, caption) in enumerate(pairs, 1)
    ]


def write_sheet(asked: Sequence[Entry], files: Mapping[str, Path], out: Path) -> None:
    """What the judge gets: no photograph's own name, and no model's."""
    (out / "photos").mkdir(parents=True, exist_ok=True)
    numbers = {name: i for i, name in enumerate(dict.fromkeys(own.photo for own in asked), 1)}
    tables = []
    for own in asked:
        path = Path("photos") / f"{numbers[own.photo]:02}{files[own.photo].suffix}"
        shutil.copyfile(files[own.photo], out / path)
        tables.append(
            f'[[entries]]\nnumber = {own.number}\nphoto = "{path.as_posix()}"\n'
            f'caption = {json.dumps(own.caption)}\nmain = ""\nfalse = ""\nreason = ""\n'
        )
    (out / SHEET).write_text("\n".join([HEAD, *tables]), encoding="utf-8")


def write_key(
    asked: Sequence[Entry], runs: Mapping[str, dict[str, Any]], seed: int, path: Path
) -> None:
    """Which entry is whose."""
    key = {
        "command": f"python -m benchmarks.photo_sheet --cache build/photos --seed {seed}",
        "seed": seed,
        "models": {who: run["model_sha256"] for who, run in runs.items()},
        "entries": [asdict(own) for own in asked],
    }
    path.write_text(json.dumps(key, indent=1) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--album", type=Path, default=ALBUM, help="the list of photographs")
    parser.add_argument("--cache", type=Path, required=True, help="where images are kept")
    parser.add_argument("--old", type=Path, default=DOCS / "results" / "photos-before.json")
    parser.add_argument("--new", type=Path, default=DOCS / "results" / "photos.json")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--out", type=Path, required=True, help="a folder for the judge")
    parser.add_argument("--key", type=Path, default=DOCS / "photos" / "key.json")
    own = parser.parse_args(arguments)
    runs = {who: json.loads(getattr(own, who).read_text("utf-8")) for who in ("old", "new")}
    asked = entries(runs, own.seed)
    write_sheet(asked, fetch(read_album(own.album), own.cache), own.out)
    write_key(asked, runs, own.seed, own.key)


if __name__ == "__main__":
    main()
