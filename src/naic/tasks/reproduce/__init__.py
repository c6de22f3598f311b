"""`naic reproduce`: the paper's ladder and tables on any data, from one call."""

from naic.tasks.reproduce.options import TABLES, ReproduceOptions
from naic.tasks.reproduce.preset import find_preset, read_preset
from naic.tasks.reproduce.report import Reproduced
from naic.tasks.reproduce.run import StageState, dry_run, reproduce

__all__ = [
    "TABLES",
    "ReproduceOptions",
    "Reproduced",
    "StageState",
    "dry_run",
    "find_preset",
    "read_preset",
    "reproduce",
]
