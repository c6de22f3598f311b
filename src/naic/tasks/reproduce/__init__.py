"""`naic reproduce`: the paper's ladder and tables on any data, from one call."""

from naic.tasks.reproduce.preset import find_preset, read_preset
from naic.tasks.reproduce.report import Reproduced
from naic.tasks.reproduce.run import StageState, dry_run, reproduce
from naic.tasks.reproduce.run_file import TABLES, ReproduceOptions

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
