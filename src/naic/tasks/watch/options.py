"""The options of `naic watch`."""

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import FlagCreatePairsOff, Positional, arg

from naic.errors import ConfigError
from naic.files import printable, what_is
from naic.tasks.caption.options import (
    CHOICES,
    CaptionOptions,
    Precision,
    Runtime,
    Write,
    choices_of,
    path_word,
)

SETTLE = 2.0  # seconds
SELDOM = 60.0  # seconds between looks where events tell of what is new
OFTEN = 5.0  # seconds between looks where nothing does
LONGEST = 86_400.0  # seconds: what is longer is a slip


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """Which folder, which model, and where the captions go; the command line fills it in.

    Attributes:
        folder: The folder that photos arrive in, with all folders beneath it.
        model: A model folder, a file or folder of `naic export`, or an owner/name of the hub; by
            default the model inside naic.
        rescore: A causal model, the teacher of a parallel one, that chooses which of its likeliest
            sentences is said.
        rescore_choices: How many sentences it chooses from.
        rescore_weight: What the model's own opinion counts beside the teacher's, as a factor of the
            logarithm of its probability.
        out: A folder that takes the text files, in folders as the photos are; by default each lies
            beside its photo.
        write: Put the captions where other programs read them: xmp, a file photo.xmp beside each
            photo; exif, into the photo itself, by ExifTool. What a person wrote there stays.
        recursive: Watch the folders beneath FOLDER too.
        prefix: Text to put before each caption.
        suffix: Text to put after each caption.
        alternatives: Give the likeliest N sentences; the first is the caption itself.
        max_words: Cut longer captions, at a word that can end a sentence.
        max_chars: The same for characters, prefix and suffix counted.
        min_confidence: Leave out captions that are less sure than this, from 0 to 1.
        forbid: Words that are not to be said.
        prefer: Words to say rather than others, where the model thinks of them at all.
        neutral: Say person, people, child in place of guessed genders.
        style: Write captions in the style of the model, if it has learnt one.
        device: auto, cpu, cuda or cuda:N.
        runtime: How the model is run; auto chooses as naic caption does.
        precision: In which numbers; auto chooses as naic caption does.
        batch: How many photos are captioned at once.
        settle: A photo is whole when its size and time have not changed for so many seconds, and
            it can be opened.
        poll: Look at the folder every so many seconds, and rely on no events: for folders of a
            network, which send none. By default events tell of new photos, and a look every minute
            finds what they missed; without the extra naic[watch] there is a look every 5 seconds.
        once: Caption what is new, and end: for cron.
    """

    folder: Annotated[Positional[Path], path_word("FOLDER"), arg(metavar="FOLDER")]
    model: Annotated[Path | None, path_word("--model"), arg(metavar="MODEL")] = None
    rescore: Annotated[Path | None, path_word("--rescore"), arg(metavar="TEACHER")] = None
    rescore_choices: Annotated[int, arg(metavar="N")] = CHOICES
    rescore_weight: Annotated[float, arg(metavar="W")] = 0.0
    out: Annotated[Path | None, path_word("--out"), arg(metavar="DIR")] = None
    write: Annotated[Write | None, arg(metavar=choices_of(Write))] = None
    recursive: bool = True
    prefix: str = ""
    suffix: str = ""
    alternatives: Annotated[int, arg(metavar="N")] = 0
    max_words: Annotated[int | None, arg(metavar="N")] = None
    max_chars: Annotated[int | None, arg(metavar="N")] = None
    min_confidence: Annotated[float | None, arg(metavar="P")] = None
    forbid: Annotated[str, arg(metavar="WORDS")] = ""
    prefer: Annotated[str, arg(metavar="WORDS")] = ""
    neutral: bool = False
    style: bool = True
    device: str = "auto"
    runtime: Runtime = "auto"
    precision: Precision = "auto"
    batch: int = 16
    settle: Annotated[float, arg(metavar="SECONDS")] = SETTLE
    poll: Annotated[float | None, arg(metavar="SECONDS")] = None
    once: Annotated[bool, FlagCreatePairsOff] = False

    @property
    def place(self) -> Path:
        """The folder that takes the text files: one watch at a time has it."""
        return self.out or self.folder

    def captioning(self) -> CaptionOptions:
        """What `naic caption` would be asked for: it has all options of this one but its own."""
        names = {field.name for field in dataclasses.fields(CaptionOptions)}
        shared = [field.name for field in dataclasses.fields(self) if field.name in names]
        given = {name: getattr(self, name) for name in shared}
        return CaptionOptions((self.folder,), format=None if self.write else "txt", **given)

    def check(self) -> None:
        """Refuse what cannot be, before anything is looked at."""
        if not 0 <= self.settle <= LONGEST:
            why = f"{self.settle} is not from 0 to {LONGEST:,.0f} seconds"
            raise ConfigError("--settle", why, f"Try {SETTLE:.0f}.")
        if self.poll is not None and not (0 < self.poll <= LONGEST and math.isfinite(self.poll)):
            why = f"{self.poll} is not above 0 and at most {LONGEST:,.0f} seconds"
            raise ConfigError("--poll", why, "Try 30.")
        if self.once and self.poll is not None:
            why = "--once looks once, and does not come again"
            raise ConfigError("--poll", why, "Give one of the two.")
        self.captioning().check()

    def check_folders(self) -> None:
        """Refuse folders that are none."""
        if what_is(self.folder) != "folder":
            missing = what_is(self.folder) == "missing"
            why = "there is no such folder" if missing else "it is no folder"
            raise ConfigError(printable(str(self.folder)), why, "Name the folder to watch.")
        if self.out is not None and what_is(self.out) not in ("folder", "missing"):
            why = "it is no folder"
            raise ConfigError(f"--out {printable(str(self.out))}", why, "Name a folder.")
