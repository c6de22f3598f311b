"""The options of `naic benchmark`."""

import math
import os
import shlex
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from naic.errors import ConfigError
from naic.tasks.options import WORDS

Runtime = Literal["eager", "compile", "graph", "onnx"]
Rival = Literal["blip", "vit-gpt2"]
MOST_BATCH = 4096


@dataclass(frozen=True, slots=True)
class BenchmarkOptions:
    """What to time, and how long; the command line fills it in.

    Attributes:
        model: The student: a model folder, or an owner/name of the hub; by default the model
            inside naic.
        teacher: A causal model of the same shape. Without one, a model of that shape that nobody
            trained, which takes the same time.
        size: transformer-base: random weights in the size of the paper, in place of a model.
        device: auto, cpu, cuda or cuda:N.
        runtimes: How the models are run; both always in the same way. By default graph and eager
            on a GPU, eager and onnx on a processor. compile takes minutes to get ready.
        parts: decode, from features to words; whole, from pixels to words; or all.
        batches: Images at once. By default 1 4 16 64 256 on a GPU, 1 4 16 on a processor.
        words: How many the teacher and the others write: a sentence of the usual ten words and its
            end.
        against: Other captioners to time. By default both, if the package transformers is there;
            --against alone: none.
        seconds: How long each figure is timed.
        out: A JSON file for all figures, written anew after each group; charts come beside it.
        dry_run: List what would be timed, and time nothing.
    """

    model: Annotated[Positional[Path | None], arg(metavar="[MODEL]")] = None
    _: KW_ONLY
    teacher: Annotated[Path | None, arg(metavar="DIR")] = None
    size: Literal["shipped", "transformer-base"] = "shipped"
    device: str = "auto"
    runtimes: tuple[Runtime, ...] | None = None
    parts: Literal["all", "decode", "whole"] = "all"
    batches: tuple[int, ...] | None = None
    words: int = WORDS
    against: tuple[Rival, ...] | None = None
    seconds: float = 0.5
    out: Annotated[Path | None, arg(metavar="FILE.json")] = None
    dry_run: bool = False

    def check(self) -> None:
        """Refuse what cannot be, before anything is loaded."""
        if self.size != "shipped":
            for name, given in (("MODEL", self.model), ("--teacher", self.teacher)):
                if given is not None:
                    why = f"--size {self.size} has random weights, and no place for {given}"
                    raise ConfigError(name, why, "Leave one of them out.")
        for batch in self.batches or ():
            if not 1 <= batch <= MOST_BATCH:
                why = f"{batch} is not from 1 to {MOST_BATCH:,}"
                raise ConfigError("--batches", why, "Try 1 4 16.")
        if self.batches == () or self.runtimes == ():
            name = "--batches" if self.batches == () else "--runtimes"
            raise ConfigError(name, "none is named", "Name one, or leave it out.")
        if self.words < 1:
            raise ConfigError("--words", f"{self.words} is below 1", "Try 11.")
        if not 0 < self.seconds < math.inf:
            why = f"{self.seconds} is no time to measure in"
            raise ConfigError("--seconds", why, "Try 0.5.")
        self._check_out()

    def _check_out(self) -> None:
        if self.out is None:
            return
        if self.out.suffix != ".json":
            raise ConfigError("--out", f"{self.out} is not called .json", "Name it FILE.json.")
        if os.path.lexists(self.out):
            raise ConfigError("--out", f"{self.out} is there already", "Choose a new name.")
        if not self.out.parent.is_dir():
            raise ConfigError("--out", f"there is no folder {self.out.parent}", "Make it first.")

    def command(self) -> str:
        """What was asked for, so that it can be asked for again."""
        words = ["naic", "benchmark", *([str(self.model)] if self.model else [])]
        for name, value in (
            ("--teacher", self.teacher),
            ("--runtimes", self.runtimes),
            ("--batches", self.batches),
            ("--against", self.against),
        ):
            if value is not None:
                several = value if isinstance(value, tuple) else (value,)
                words += [name, *map(str, several)]
        words += ["--size", self.size, "--device", self.device, "--parts", self.parts]
        words += ["--words", str(self.words), "--seconds", f"{self.seconds:g}"]
        return shlex.join(words if self.out is None else [*words, "--out", str(self.out)])
