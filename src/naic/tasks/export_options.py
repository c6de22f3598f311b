"""The options of `naic export`."""

import os
import shlex
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import FlagCreatePairsOff, Positional, arg

from naic.errors import ConfigError
from naic.plugins import OPTION_WORDS


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """Which model, and as what kind of graph; the command line fills it in.

    Attributes:
        model: The model folder, such as runs/student/best; by default the model inside naic.
        out: The folder for the graph; there must be none of that name.
        web: In place of --out: the folder for a page that captions photos in the visitor's browser,
            from any web server; there must be none of that name.
        runtime_files: With --web: the unpacked npm package onnxruntime-web, whose files the page
            takes; without it they can be added later.
        beside: In place of --out: put the graph beside the weights in MODEL, without weights of its
            own, so that MODEL captions without PyTorch.
        precision: float32 says what the model says, word for word; int8 is smaller and faster, and
            says something else of some images. By default float32; with --beside both. With --web
            int8, of weights alone: a packed model says what it says.
        dry_run: Load the model, say what would be made of it, and write nothing.
    """

    model: Annotated[Positional[Path | None], arg(metavar="[MODEL]")] = None
    _: KW_ONLY
    out: Annotated[Path | None, arg(metavar="DIR")] = None
    web: Annotated[Path | None, arg(metavar="DIR")] = None
    runtime_files: Annotated[Path | None, arg(metavar="DIR")] = None
    beside: Annotated[bool, FlagCreatePairsOff] = False
    precision: Literal["float32", "int8"] | None = None
    dry_run: bool = False

    @property
    def folder(self) -> Path:
        """What is made: `out` or `web`."""
        if self.out is not None and self.web is not None:
            why = "a graph and a page are two folders, each made by a command of its own"
            raise ConfigError("--web", why, "Give --out or --web.")
        folder = self.out or self.web
        if folder is None:
            hint = "Give --out DIR, --web DIR for a page, or --beside."
            raise ConfigError("--out", "is missing", hint)
        return folder

    @property
    def kind(self) -> Literal["float32", "int8"]:
        """The precision, where none was chosen the usual one."""
        return self.precision or ("float32" if self.web is None else "int8")

    def check(self) -> None:
        """Refuse what cannot be, before anything is read."""
        if self.beside:
            self._check_beside()
        elif os.path.lexists(self.folder):
            name = "--out" if self.web is None else "--web"
            raise ConfigError(name, f"{self.folder} is there already", "Choose a new name.")
        if self.runtime_files is not None and self.web is None:
            why = "the files are those of a page, and a graph is to be made"
            raise ConfigError("--runtime-files", why, "Give --web DIR, or leave it out.")

    def _check_beside(self) -> None:
        if self.model is None:
            why = "the model inside naic has its graphs, and no other model was named"
            raise ConfigError("--beside", why, "Name a model folder: naic export MODEL --beside")
        if self.out is not None or self.web is not None:
            why = "the graph is put beside the weights in MODEL, and nowhere else"
            raise ConfigError("--beside", why, "Leave out --out and --web, or --beside.")

    def command(self) -> str:
        """What was typed, for the card."""
        model = [] if self.model is None else [str(self.model)]
        words = ["naic", "export", *model, "--out" if self.web is None else "--web"]
        words += [str(self.folder), "--precision", self.kind]
        return shlex.join([*words, *OPTION_WORDS])
