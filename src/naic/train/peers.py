"""The processes of a run, on one machine or several: they agree, share a step out, may get lost."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from accelerate import Accelerator
from accelerate.utils import gather_object
from torch.distributed import DistError

from naic.config import flat
from naic.errors import ConfigError, TrainingError
from naic.train.config import settings_toml
from naic.train.inputs import Inputs
from naic.train.settings import RunSettings

# Where things lie may differ between machines; what lies there may not.
_PLACES = {"out", "start", "plugins"}
_PLACES |= {"data.features", "data.vocabulary", "data.pseudo", "data.unlabelled"}
_LIBRARIES = ("gloo", "NCCL")  # by which processes talk; their errors are plain RuntimeErrors


@dataclass(frozen=True)
class Shares:
    """How a step is shared out, as checkpoints keep it.

    Attributes:
        accumulate: `run.accumulate` as it was set.
        pieces: into how many pieces the run cut a step when it began: its processes times parts.
    """

    accumulate: int
    pieces: int


def share_out(run: RunSettings, world: int, before: Mapping[str, int] | None) -> tuple[Shares, int]:
    """How this part of a run shares its steps out, and the parts that each process takes.

    A step has as many images whatever their number, so with fewer processes each has more of them.
    So that no more are in memory at once than when the run began, it takes them in more parts;
    unless `run.accumulate` was set anew, which then holds.
    """
    if before is None or before["accumulate"] != run.accumulate:
        return Shares(run.accumulate, world * run.accumulate), run.accumulate
    parts = max(run.accumulate, -(-before["pieces"] // world))
    while run.batch % (world * parts):  # of one image each at the latest
        parts += 1
    return Shares(run.accumulate, before["pieces"]), parts


def check_agreement(accelerator: Accelerator, inputs: Inputs) -> None:
    """Refuse processes that would learn from other data, or otherwise: what came of it is nobody's.

    Each machine reads its own files. That of process 0 says what is meant.
    """
    if accelerator.num_processes == 1:
        return
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
