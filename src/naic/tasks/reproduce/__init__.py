"""`naic reproduce`: the paper's ladder and tables on any data, from one call."""

from naic.tasks.reproduce.options import TABLES, ReproduceOptions
from naic.tasks.reproduce.preset import find_preset, read_preset
from naic.tasks.reproduce.report import Reproduced
from naic.tasks.reproduce.run import Outlook, outlook, reproduce
from naic.tasks.reproduce.stage_runner import Listener

__all__ = [
    "TABLES",
    "Listener",
    "Outlook",
    "ReproduceOptions",
    "Reproduced",
    "find_preset",
    "outlook",
    "read_preset",
    "reproduce",
]
