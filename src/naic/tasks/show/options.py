"""The options of `naic show`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from naic.errors import ConfigError
from naic.files import printable

_NO_FOLDERS = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf", ".html", ".json")


@dataclass(frozen=True, slots=True)
class ShowOptions:
    """What to look at; the command line fills it in.

    Attributes:
        paths: A feature store; or folders of training runs, or with such folders in them.
        html: Write a page of the runs to this file: where they stand, their curves, and the
            settings in which they differ.
        svg: Draw the curves of the runs: into one image, if the name ends in .svg, else into a
            folder with an image of each.
        json: Print one JSON object of the runs, for programs.
        examples: How many images of a feature store to show.
    """

    paths: Annotated[Positional[tuple[Path, ...]], arg(metavar="PATH ...")]
    html: Annotated[Path | None, arg(metavar="FILE")] = None
    svg: Annotated[Path | None, arg(metavar="FILE")] = None
    json: bool = False
    examples: int = 3

    def check(self) -> None:
        """Refuse what cannot be, before anything is read."""
        if not self.paths:
            hint = "Name the folder of a training run or a feature store: naic show runs/mine"
            raise ConfigError("PATH", "no folder was named", hint)
        if self.html is not None and self.html.suffix.lower() not in (".html", ".htm"):
            why = f"the name {printable(self.html.name)!r} ends in neither .html nor .htm"
            raise ConfigError("--html", why, "A browser goes by the name.")
        if self.svg is not None and self.svg.suffix.lower() in _NO_FOLDERS:
            why = f"what is drawn is SVG, and no {self.svg.suffix}"
            raise ConfigError("--svg", why, "Name a file that ends in .svg, or a folder.")
        if self.examples < 0:
            raise ConfigError("--examples", f"{self.examples} is below 0", "Take 0 or more.")

    def check_store(self) -> None:
        """Refuse what is for runs alone."""
        for option, given in (
            ("--html", self.html is not None),
            ("--svg", self.svg is not None),
            ("--json", self.json),
        ):
            if given:
                why = "it is for training runs, and this is a feature store"
                raise ConfigError(option, why, "Leave it out.")
        if len(self.paths) > 1:
            why = "a feature store is shown by itself"
            raise ConfigError("PATH", why, "Give a command for each.")
