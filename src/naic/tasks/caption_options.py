"""The options of `naic caption`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from naic.errors import ConfigError


@dataclass(frozen=True, slots=True)
class CaptionOptions:
    """Which pictures, which model, and how to print what it says; the command line fills it in.

    Attributes:
        paths: Pictures, or folders: all pictures in them and beneath.
        model: The model folder, such as runs/student/best; by default the model inside naic.
        json: Print an object for each picture, one a line.
        confidence: Show the probability that the model gave to each word.
        device: auto, cpu, cuda or cuda:N.
        batch: How many pictures are captioned at once.
    """

    paths: Annotated[Positional[tuple[Path, ...]], arg(metavar="PATH ...")]
    model: Annotated[Path | None, arg(metavar="DIR")] = None
    json: bool = False
    confidence: bool = False
    device: str = "auto"
    batch: int = 16

    def check(self) -> None:
        """Refuse what cannot be, before anything is read."""
        if not self.paths:
            hint = "Name pictures, or folders of them: naic caption photo.jpg"
            raise ConfigError("PATH", "no picture was named", hint)
        if self.batch < 1:
            raise ConfigError("--batch", f"{self.batch} is below 1", "Try 16.")
