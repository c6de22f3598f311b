"""Makes confidences of a model's probabilities: how likely a caption is to be right.

python -m benchmarks.calibrate MODEL --captions dataset_coco.json.xz --images train2017 \
    --said val.jsonl --check int8=val-int8.jsonl --out docs/results/light/calibration.json

The captions of val are those of `naic caption --confidence --out val.jsonl`, which is run on the
images if there is no such file; interrupted, the same command goes on with it.
What is right is in right_captions.py. The map (two numbers, by maximum likelihood) is fitted on one
half of val and measured on the other, and the other way round; MODEL gets the map of all of val, as
calibration.json. Images are known by the numbers in their names, as COCO's are; the even numbers
are one half. What is to be checked are captions of the same images by the same model that were made
otherwise: by a graph in int8, say. The map of one half is tried on the other half of those.
"""

import argparse
import json
import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from benchmarks.right_captions import (
    PEOPLE,
    QUANTILE,
    TRAINING,
    Judge,
    one_against_others,
    read_people,
)

from naic.cli.main import main as naic
from naic.errors import DataError, NaicError
from naic.files import parse_json, write_atomically
from naic.runtime.calibration import CALIBRATION, Calibration, logit
from naic.tasks.caption.rows import image_id
from naic.text import tokenise

SPLIT = "val"
BINS = 15
SURE = 0.8
STEPS = 50  # of Newton's method: it takes about six
DRAWS, SEED = 200, 0
HALVES = ("even", "odd")
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Judged:
    """Captions of one kind.

    Attributes:
        ids: (I,) COCO's numbers of the images.
        log_probs: (I,) of the whole captions.
        right: (I,) whether they are right.
    """

    ids: npt.NDArray[np.int64]
    log_probs: Floats
    right: Bools

    def half(self, name: str) -> "Judged":
        """The images with even numbers, or those with odd ones."""
        rows = self.ids % 2 == HALVES.index(name)
        return Judged(self.ids[rows], self.log_probs[rows], self.right[rows])


def fit(captions: Judged) -> Calibration:
    """The likeliest map, by Newton's method: the logistic regression on one number."""
    scores = np.stack([_logits(captions), np.ones(len(captions.ids))], 1)  # (I, 2)
    weights = np.zeros(2)
    for _ in range(STEPS):
        chances = 1 / (1 + np.exp(-scores @ weights))
        curvature = (scores * (chances * (1 - chances))[:, None]).T @ scores
        step = np.linalg.solve(curvature, scores.T @ (captions.right - chances))
        weights += step
        if np.abs(step).max() < 1e-10:
            break
    return Calibration(*map(float, weights))


def _logits(captions: Judged) -> Floats:
    return np.array([logit(value) for value in captions.log_probs.tolist()])


def measure(sure: Floats, right: Bools) -> dict[str, Any]:
    """How far confidences are from the share of captions that are right."""
    above, wrong = sure > SURE, ~right
    return {
        "ece": calibration_error(sure, right, _equal_mass(sure)),
        "ece_by_chance": error_by_chance(sure),
        "ece_equal_width": calibration_error(sure, right, _equal_width(sure)),
        "brier": float(np.mean((sure - right) ** 2)),
        "above": float(above.mean()),
        "wrong_of_above": float(wrong[above].mean()) if above.any() else None,
        "above_of_wrong": float(above[wrong].mean()) if wrong.any() else None,
        "discrimination": discrimination(sure, right),
        "bins": reliability(sure, right),
    }


def calibration_error(sure: Floats, right: Bools, bins: Sequence[npt.NDArray[np.intp]]) -> float:
    """The expected calibration error: of each bin |confidence - share of right ones|, weighted."""
    gaps = [len(rows) * abs(float(sure[rows].mean() - right[rows].mean())) for rows in bins]
    return sum(gaps) / len(sure)


def error_by_chance(sure: Floats) -> float:
    """The mean calibration error of confidences that hold exactly: so many images are not more."""
    draw, bins = np.random.default_rng(SEED), _equal_mass(sure)
    drawn = [draw.random(len(sure)) < sure for _ in range(DRAWS)]
    return float(np.mean([calibration_error(sure, right, bins) for right in drawn]))


def reliability(sure: Floats, right: Bools) -> list[dict[str, float]]:
    """The reliability diagram: of each bin the mean confidence, and the share of right captions."""
    return [
        {
            "images": len(rows),
            "confidence": float(sure[rows].mean()),
            "right": float(right[rows].mean()),
        }
        for rows in _equal_mass(sure)
    ]


def discrimination(sure: Floats, right: Bools) -> float:
    """How often a right caption has more confidence than a wrong one, of equals half (AUROC)."""
    order = np.sort(sure)
    low, high = (np.searchsorted(order, sure, side) for side in ("left", "right"))
    ranks = (low + high + 1) / 2
    good, bad = int(right.sum()), int((~right).sum())
    if not good or not bad:
        return math.nan
    return float((ranks[right].sum() - good * (good + 1) / 2) / (good * bad))


def _equal_mass(sure: Floats) -> list[npt.NDArray[np.intp]]:
    return [rows for rows in np.array_split(np.argsort(sure, kind="stable"), BINS) if len(rows)]


def _equal_width(sure: Floats) -> list[npt.NDArray[np.intp]]:
    place = np.minimum((sure * BINS).astype(np.int64), BINS - 1)
    return [np.flatnonzero(place == number) for number in np.unique(place)]


def compare(captions: Judged, maps: dict[str, Calibration]) -> dict[str, Any]:
    """Each half before, and after the map that was fitted on the other half."""
    halves = {}
    for name, other in zip(HALVES, reversed(HALVES), strict=True):
        half = captions.half(name)
        after = np.array([maps[other](value) for value in half.log_probs.tolist()])
        halves[name] = {
            "images": len(half.ids),
            "right": float(half.right.mean()),
            "before": measure(np.minimum(np.exp(half.log_probs), 1.0), half.right),
            "after": measure(after, half.right),
        }
    return {"images": len(captions.ids), "right": float(captions.right.mean()), "halves": halves}


def read_said(path: Path, people: dict[str, list[str]], judge: Judge) -> Judged:
    """The captions in an output of `naic caption --format jsonl --confidence`, judged.

    Raises:
        DataError: it is none, or has not exactly the images that people described.
    """
    found = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        row = parse_json(line, f"{path}, row {number}")
        known = row if isinstance(row, dict) else {}
        sure = known.get("probability", known.get("confidence"))
        if not isinstance(sure, int | float):
            why = "it has no confidence"
            raise DataError(f"{path}, row {number}", why, "Make it with naic caption --confidence.")
        found[str(image_id(known["path"]))] = " ".join(tokenise(known["caption"])), float(sure)
    if found.keys() != people.keys():
        why = f"it has {len(found):,} images, not the {len(people):,} of {SPLIT}"
        raise DataError(str(path), why, f"Caption all images of {SPLIT}, and no others.")
    names = sorted(people, key=int)
    right = judge.right([found[name][0] for name in names], [people[name] for name in names])
    log_probs = np.log([max(found[name][1], math.ulp(0.0)) for name in names])
    return Judged(np.array([int(name) for name in names]), log_probs, right)


def caption_images(model: Path, images: Path, people: dict[str, list[str]], said: Path) -> None:
    """Let `naic caption` write `said`, of the images that people described."""
    paths = [str(images / f"{int(name):012d}.jpg") for name in sorted(people, key=int)]
    words = ["--model", str(model), "--confidence", "--out", str(said)]
    if naic(["caption", *paths, *words]) != 0:
        raise DataError(str(images), "not all images could be captioned", "See above.")


def people_right(judge: Judge, images: dict[str, list[str]]) -> float:
    """The share of people's captions that are right by the other people of the image."""
    return float(judge.right(*one_against_others(images, len(images))).mean())


def calibrate(
    training: dict[str, list[str]],
    people: dict[str, list[str]],
    said: Path,
    checks: dict[str, Path],
) -> tuple[Calibration, dict[str, Any]]:
    """The map of all of val, and what was measured."""
    judge = Judge.from_people(training)
    own = read_said(said, people, judge)
    maps = {name: fit(own.half(name)) for name in HALVES}
    whole = fit(own)
    others = {name: read_said(path, people, judge) for name, path in checks.items()}
    run = {
        "threshold": judge.threshold,
        "quantile": QUANTILE,
        "training_images": len(training),
        "scored_images": PEOPLE,
        "nouns": len(judge.nouns),
        "people_right": people_right(judge, people),
        "sure": SURE,
        "map": {"slope": whole.slope, "intercept": whole.intercept},
        "captions": compare(own, maps),
        "checks": {name: compare(other, maps) for name, other in others.items()},
    }
    return whole, run


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("model", type=Path, help="a model folder, which gets calibration.json")
    parser.add_argument("--captions", type=Path, required=True, help="dataset_coco.json[.xz]")
    parser.add_argument("--said", type=Path, required=True, help="of naic caption: val.jsonl")
    parser.add_argument("--images", type=Path, help="to make it of: 000000000042.jpg and so on")
    parser.add_argument(
        "--check", action="append", default=[], metavar="NAME=FILE", help="to be measured only"
    )
    parser.add_argument("--out", type=Path, required=True, help="a JSON file to write")
    own = parser.parse_args(arguments)
    checks = {name: Path(path) for name, _, path in (one.partition("=") for one in own.check)}
    shown = [own.model, "--captions", own.captions.name, "--said", own.said.name]
    shown += [] if own.images is None else ["--images", own.images.name]
    shown += [word for one in own.check for word in ("--check", one)] + ["--out", own.out]
    command = shlex.join(["python", "-m", "benchmarks.calibrate", *map(str, shown)])
    try:
        people = read_people(own.captions, (SPLIT,))
        if own.images is not None and not own.said.exists():
            caption_images(own.model, own.images, people, own.said)
        found, run = calibrate(read_people(own.captions, TRAINING), people, own.said, checks)
        text = json.dumps({"command": command, **run}, indent=1)
        own.out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(own.out, f"{text}\n".encode())
        write_atomically(own.model / CALIBRATION, f"{found.as_json()}\n".encode())
    except NaicError as error:
        raise SystemExit(f"calibrate: {error}") from None


if __name__ == "__main__":
    main()
