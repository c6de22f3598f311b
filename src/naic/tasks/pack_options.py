"""The options of `naic pack`."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from naic.errors import ConfigError

FEWEST_BITS, MOST_BITS = 2, 12  # what naic.models.packing can write; to import it takes torch


@dataclass(frozen=True, slots=True)
class PackOptions:
    """Which model, whose backbone, and how small; the command line fills it in.

    Attributes:
        model: The folder of the model to pack, such as runs/student/best.
        out: The folder for the packed model; there must be none of that name.
        backbone: The folder of a model whose backbone made the features that MODEL learnt from.
            Left out, MODEL gets the backbone's own weights, unless it has a backbone already.
        bits: Bits of a weight between the backbone and the words, from 2 to 12.
        output_bits: Bits of a weight that stands for a word.
        backbone_bits: Bits of a weight of the backbone.
        dry_run: Say how large it would be and write nothing.
    """

    model: Annotated[Positional[Path], arg(metavar="MODEL")]
    out: Annotated[Path, arg(metavar="DIR")]
    backbone: Annotated[Path | None, arg(metavar="MODEL_WITH_BACKBONE")] = None
    bits: int = 5
    output_bits: int = 6
    backbone_bits: int = 10
    dry_run: bool = False

    def check(self) -> None:
        """Refuse what cannot be, before anything is read."""
        for name, value in (
            ("--bits", self.bits),
            ("--output-bits", self.output_bits),
            ("--backbone-bits", self.backbone_bits),
        ):
            if not FEWEST_BITS <= value <= MOST_BITS:
                why = f"{value} is not from {FEWEST_BITS} to {MOST_BITS}"
                raise ConfigError(name, why, "Leave it out: what it is then loses hardly anything.")

    def command(self) -> str:
        """What was typed, for the model card."""
        words = ["naic", "pack", str(self.model), "--out", str(self.out)]
        if self.backbone is not None:
            words += ["--backbone", str(self.backbone)]
        words += ["--bits", str(self.bits), "--output-bits", str(self.output_bits)]
        return shlex.join([*words, "--backbone-bits", str(self.backbone_bits)])
