"""The options of `naic export`."""

import os
import shlex
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from naic.errors import ConfigError


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """Which model, and as what kind of graph; the command line fills it in.

    Attributes:
        model: The model folder, such as runs/student/best; by default the model inside naic.
        out: The folder for the graph; there must be none of that name.
        precision: float32 says what the model says, word for word; int8 is smaller and faster, and
            says something else of some images.
        dry_run: Load the model, say what would be made of it, and write nothing.
    """

    model: Annotated[Positional[Path | None], arg(metavar="[MODEL]")] = None
    _: KW_ONLY
    out: Annotated[Path, arg(metavar="DIR")]
    precision: Literal["float32", "int8"] = "float32"
    dry_run: bool = False

    def check(self) -> None:
        """Refuse what cannot be, before anything is read."""
        if os.path.lexists(self.out):
            raise ConfigError("--out", f"{self.out} is there already", "Choose a new name.")

    def command(self) -> str:
        """What was typed, for the card."""
        model = [] if self.model is None else [str(self.model)]
        words = ["naic", "export", *model, "--out", str(self.out)]
        return shlex.join([*words, "--precision", self.precision])
