"""What the runtimes of a processor say of the same images, and how good that is.

naic caption VAL_IMAGES --precision float32 --format jsonl --confidence --out float32.jsonl
naic caption VAL_IMAGES --precision int8 --format jsonl --confidence --out int8.jsonl
python benchmarks/cpu_quality.py float32=float32.jsonl int8=int8.jsonl eager=eager-1000.jsonl \
    --captions dataset_coco.json.xz --split val --out docs/results/light/quality.json

Each is compared with the first on the images that both have: captions that are equal word for word,
CIDEr, BLEU-4, and the difference with its paired 95 % interval over the images.
"""

import argparse
import json
import lzma
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from naic.device import CPU
from naic.files import write_atomically
from naic.metrics.cider import bleu, cider
from naic.metrics.score import Score, differences, habits
from naic.tasks.benchmark.timing import machine
from naic.tasks.caption.rows import image_id
from naic.text.tokeniser import tokenise

TIMES, SEED = 1000, 0
Said = Mapping[int, str]


def read_said(path: Path) -> Said:
    """Captions by COCO's numbers of their images, of a file of `naic caption --format jsonl`."""
    rows = (json.loads(line) for line in path.read_text().splitlines())
    return {image_id(row["path"]): row["caption"] for row in rows}


def read_people(path: Path, split: str) -> dict[int, list[str]]:
    """What people said of the images of a split."""
    with lzma.open(path) as file:
        images = json.load(file)["images"]
    return {
        image["cocoid"]: [" ".join(tokenise(own["raw"])) for own in image["sentences"]]
        for image in images
        if image["split"] == split
    }


def scores(said: Said, people: Mapping[int, list[str]], ids: Sequence[int]) -> list[Score]:
    """CIDEr and BLEU-4 of these images."""
    own = [" ".join(tokenise(said[id_])) for id_ in ids]
    others = [people[id_] for id_ in ids]
    return [cider(own, others), bleu(own, others)[-1]]


def compare(first: Said, other: Said, people: Mapping[int, list[str]]) -> dict[str, Any]:
    """The other captions against the first ones, on the images that both have."""
    ids = sorted(first.keys() & other.keys() & people.keys())
    ours, theirs = scores(other, people, ids), scores(first, people, ids)
    found = differences(ours, theirs, times=TIMES, seed=SEED)
    return {
        "images": len(ids),
        "equal": sum(first[id_] == other[id_] for id_ in ids),
        "scores": {score.name: 100 * score.value for score in ours},
        "first": {score.name: 100 * score.value for score in theirs},
        "difference": {
            score.name: [100 * value for value in (own.value, own.low or 0, own.high or 0)]
            for score, own in zip(ours, found, strict=True)
        },
        "words": habits([" ".join(tokenise(other[id_])) for id_ in ids]).vocabulary,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("said", nargs="+", metavar="NAME=FILE")
    parser.add_argument("--captions", type=Path, required=True)
    parser.add_argument("--split", default="val")
    parser.add_argument("--out", type=Path, required=True)
    own = parser.parse_args(arguments)
    pairs = dict(named.split("=", 1) for named in own.said)
    said = {name: read_said(Path(path)) for name, path in pairs.items()}
    people = read_people(own.captions, own.split)
    first = next(iter(said))
    rows = {name: compare(said[first], found, people) for name, found in said.items()}
    found = {"machine": machine(CPU), "split": own.split, "first": first, "rows": rows}
    write_atomically(own.out, (json.dumps(found, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
