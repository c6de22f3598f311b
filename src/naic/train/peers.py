"""The processes of a run, on one machine or several: they agree, and may get lost."""

import re
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from accelerate import Accelerator
from accelerate.utils import gather_object
from torch.distributed import DistError

from naic.config import flat
from naic.errors import ConfigError, TrainingError
from naic.train.config import settings_toml
from naic.train.inputs import Inputs

# Where things lie may differ between machines; what lies there may not.
_PLACES = {"out", "start", "plugins"}
_PLACES |= {"data.features", "data.vocabulary", "data.pseudo", "data.unlabelled"}
_LIBRARIES = ("gloo", "NCCL")  # by which processes talk; their errors are plain RuntimeErrors


def check_agreement(accelerator: Accelerator, inputs: Inputs) -> None:
    """Refuse processes that would learn from other data, or otherwise: what came of it is nobody's.

    Each machine reads its own files. That of process 0 says what is meant.
    """
    settings = dict(flat(tomllib.loads(settings_toml(inputs.settings))))
    own = {name: value for name, value in settings.items() if name not in _PLACES}
    own |= {f"data ({name})": value for name, value in asdict(inputs.sign()).items()}
    own["vocabulary"] = inputs.vocabulary.fingerprint
    told: list[dict[str, Any]] = gather_object([own])
    for rank, other in enumerate(told):
        if other != told[0]:
            names = other.keys() | told[0].keys()
            differ = sorted(name for name in names if other.get(name) != told[0].get(name))
            why = f"it has not what process 0 has: {', '.join(differ)}"
            hint = "Give all machines the same settings and the same data, and begin again."
            raise ConfigError(f"process {rank}", why, hint)


@contextmanager
def lost_peers_told() -> Iterator[None]:
    """Say in one line that another process is gone, which libraries tell in forty."""
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, DistError) and not any(n in str(error) for n in _LIBRARIES):
            raise
        # "[/a/path/pair.cc:537] Read error [10.0.0.2]:1420: Connection reset by peer. This is..."
        first = re.sub(r"^\[\S+:\d+\]\s*", "", str(error)).partition("\n")[0].partition(". ")[0]
        raise TrainingError(
            "this process",
            f"another process of the run is gone, or silent for too long ({first})",
            "What it said tells why. The same command with --resume auto goes on from the last "
            "checkpoint, also with fewer processes or machines.",
        ) from error
