"""How likely a caption is to be right, by the probability that the model gave to it; without torch.

A network that was trained by rewards is sure of nearly all that it says, and often wrong. What it
is sure of is still worth something: of captions that it finds more probable, more are right. A map
of two numbers, fitted on images that it has not learnt from, makes a chance out of the probability
(`benchmarks/calibrate.py`; what is called right: docs/decisions/030-confidence.md). It belongs to
the weights that it was fitted for, and is a file of its own in their folder, so that a model
without one is a model too.
"""

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path

from naic.errors import CheckpointError, DataError
from naic.files import parse_json

CALIBRATION = "calibration.json"
MOST_SURE = 0.9999  # probabilities above it are one: half precision and 8 bits cannot tell them
_FORMAT = "naic-calibration-1"
_HINT = "Use the file as it was made, or remove it: confidences are then probabilities."


@dataclass(frozen=True, slots=True)
class Calibration:
    """1 / (1 + exp(-(slope · logit p + intercept))): the chance of a caption of probability p.

    Attributes:
        slope: above 0, so that the more probable of two captions never has the lower chance.
        intercept: of what is as probable as not.
    """

    slope: float
    intercept: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.slope) and math.isfinite(self.intercept) and self.slope > 0):
            why = f"slope {self.slope} and intercept {self.intercept} make no rising map"
            raise DataError(CALIBRATION, why, "Fit it to captions of which some are right.")

    def __call__(self, log_prob: float) -> float:
        """The chance that a caption with this log-probability is right."""
        score = self.slope * logit(log_prob) + self.intercept
        # exp of a large number overflows, that of a small one is 0.
        return 1 / (1 + math.exp(-score)) if score > 0 else math.exp(score) / (1 + math.exp(score))

    def as_json(self) -> str:
        """The content of the file."""
        return json.dumps({"format": _FORMAT, **asdict(self)})


def logit(log_prob: float) -> float:
    """The logarithm of p / (1 - p), of log p; beyond `MOST_SURE` it no longer rises."""
    own = min(log_prob, math.log(MOST_SURE))
    return own - math.log(-math.expm1(own))


def parse_calibration(text: str, where: str) -> Calibration:
    """The map that a text holds.

    Raises:
        CheckpointError: it holds none; `where` it stands is named.
    """
    try:
        content = parse_json(text, where)
        if not isinstance(content, dict) or content.get("format") != _FORMAT:
            raise CheckpointError(where, f"is no map of the format {_FORMAT}", _HINT)
        return Calibration(float(content["slope"]), float(content["intercept"]))
    except DataError as error:
        raise CheckpointError(where, error.why, _HINT) from error
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise CheckpointError(where, f"cannot be read ({error!r})", _HINT) from error


def read_calibration(folder: Path) -> Calibration | None:
    """The map in a model's folder; None: there is none."""
    path = folder / CALIBRATION
    if not path.exists():
        return None
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(str(path), f"cannot be read ({error})", _HINT) from error
    return parse_calibration(text, str(path))


def calibration_file(folder: Path) -> dict[str, bytes]:
    """The map in a model's folder as a file for another one with the same weights, if it is there.

    Raises:
        CheckpointError: it is damaged.
    """
    found = read_calibration(folder)
    return {} if found is None else {CALIBRATION: f"{found.as_json()}\n".encode()}
