"""The options of `naic finetune`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from naic.data.records import ReaderName
from naic.errors import ConfigError


@dataclass(frozen=True, slots=True)
class FinetuneOptions:
    """Whose captions, which model, and how long; the command line fills it in.

    Attributes:
        captions: A table (CSV, TSV or JSONL) with the columns image, caption and perhaps split, or
            as `naic caption` writes it; or any other dataset that `naic prepare` reads.
        out: The folder for the tuned model (DIR/best) and its scores; the same command goes on
            with a run that was cut off.
        images: Folders or .tar files with the images, when they do not lie beside CAPTIONS.
        model: The folder of the model to begin with; by default the model inside naic.
        reader: How CAPTIONS is to be read; left out, it is told from the file.
        epochs: How often each image is learnt from, by cross-entropy and then as often by CMAL;
            left out, a number that suits how many images there are.
        learning_rate: The highest one, of cross-entropy; CMAL takes twice as much.
        batch: Images in a step.
        new_words: A word that MODEL does not know is learnt if it comes this often in the captions
            to learn from; 0 learns none.
        seed: Which images are held out, if CAPTIONS has no split, and the order of the others.
        device: auto, cpu or cuda.
        skip_bad: Leave bad rows of CAPTIONS out and count them, instead of stopping at the first.
        keep_work: Keep DIR/work (features, both stages, checkpoints) when all is done.
        dry_run: Say what would be done and write nothing.
    """

    captions: Annotated[Positional[str], arg(metavar="CAPTIONS")]
    out: Annotated[Path, arg(metavar="DIR")]
    images: Annotated[tuple[Path, ...], arg(metavar="PATH ...")] = ()
    model: Annotated[Path | None, arg(metavar="DIR")] = None
    reader: ReaderName | None = None
    epochs: Annotated[int | None, arg(metavar="INT")] = None
    learning_rate: float = 5e-5
    batch: int = 10
    new_words: int = 3
    seed: int = 1
    device: str = "auto"
    skip_bad: bool = False
    keep_work: bool = False
    dry_run: bool = False

    def check(self) -> None:
        """Refuse what cannot be, before anything is read."""
        if self.epochs is not None and self.epochs < 1:
            raise ConfigError("--epochs", f"{self.epochs} is below 1", "Leave it out, or try 10.")
        if not 0 < self.learning_rate <= 0.1:
            why = f"{self.learning_rate} is not above 0 and up to 0.1"
            raise ConfigError("--learning-rate", why, "Leave it out, or try 3e-5.")
        for option, value, least in (
            ("--batch", self.batch, 1),
            ("--new-words", self.new_words, 0),
            ("--seed", self.seed, 0),
        ):
            if value < least:
                raise ConfigError(option, f"{value} is below {least}", "Leave it out.")
