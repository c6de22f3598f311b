"""`naic reproduce`: the paper's ladder and tables on any data, from one call."""

from naic.tasks.reproduce.options import TABLES, ReproduceOptions
from naic.tasks.reproduce.parallel_stages import Listener
from naic.tasks.reproduce.preset import find_preset, read_preset
from naic.tasks.reproduce.report import Reproduced
from naic.tasks.reproduce.run import Outlook, outlook, reproduce

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
