"""Where things lie in the folder of a run: names alone, which need no torch."""

import re
from pathlib import Path

CHECKPOINTS, MODELS, BEST, STATE = "checkpoints", "models", "best", "state.json"
REPORT = "report.json"
_STEP = re.compile(r"step-(\d{8,})")


def step_name(step: int) -> str:
    """The name of a step's folder: names in order are steps in order."""
    return f"step-{step:08d}"


def checkpoints(run: Path) -> dict[int, Path]:
    """All checkpoints by their steps, oldest first, whole or not.

    Whatever has such a name counts, so that none is missed.
    """
    paths = (run / CHECKPOINTS).glob("step-*")
    matched = ((_STEP.fullmatch(path.name), path) for path in paths)
    return dict(sorted((int(m[1]), path) for m, path in matched if m))


def best_step(run: Path) -> int | None:
    """The step that the best model is of; None where there is none, or a copy of it."""
    try:
        found = _STEP.match((run / BEST).readlink().name)  # there may be more: "step-00000400-2"
    except OSError:
        return None
    return int(found[1]) if found else None
