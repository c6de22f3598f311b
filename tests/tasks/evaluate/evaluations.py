"""Small files of results over the drawn scenes, metrics that need no Java, what a page holds."""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from naic.data.shapes import dataset
from naic.metrics.score import Score, mean_score
from tests.data.readers.helpers import write_json

SCENES = 60  # enough for intervals
NAMES = ["Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4", "METEOR", "ROUGE_L", "CIDEr", "SPICE"]


def write_results(path: Path, captions: dict[str, str]) -> Path:
    rows = [{"image_id": image, "caption": caption} for image, caption in captions.items()]
    return write_json(path, rows)


def first_captions(count: int = SCENES, which: int = 0) -> dict[str, str]:
    return {record.id: record.captions[which] for record in dataset.records(count, 0)}


def next_captions() -> dict[str, str]:
    """Each scene with the caption of the next one: mostly wrong."""
    captions = first_captions()
    return dict(zip(captions, [*list(captions.values())[1:], "a a"], strict=True))


def fake(name: str, heard: list[float | None] | None = None) -> Callable[..., Score]:
    """A metric; `heard` gets the time limit of each call."""

    def score(
        hypotheses: Sequence[str],
        references: Sequence[Sequence[str]],
        *,
        seconds: float | None = None,
        way: str = "",
    ) -> Score:
        if heard is not None:
            heard.append(seconds)
        return mean_score(name, np.array([len(h) / 100 for h in hypotheses]))

    return score


def broken(error: BaseException) -> Callable[..., Score]:
    """A metric that fails."""

    def score(
        hypotheses: Sequence[str],
        references: Sequence[Sequence[str]],
        *,
        seconds: float | None = None,
        way: str = "",
    ) -> Score:
        raise error

    return score


def embedded(page: str) -> dict[str, Any]:
    """The data of a page of captions."""
    found = re.findall(r'<script type="application/json" id="data">([^<]*)</script>', page)
    assert len(found) == 1
    data: dict[str, Any] = json.loads(found[0])
    return data
