"""`naic prepare READER SOURCE --out DIR`."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import tyro

from naic.cli.main import FAILED, SOME_SKIPPED
from naic.cli.screen import print_problems, progress, teller
from naic.config import read_toml, structure
from naic.data.readers import Reading
from naic.errors import ConfigError
from naic.progress import Callbacks
from naic.tasks.options import PrepareOptions
from naic.tasks.prepare import Prepared, PrepareDryRun, dry_run, prepare

HELP = """Turn a dataset or a folder of images into a feature store, or features that exist already.

A run that was cut off goes on when the same command is given again. Exit code 3 means: done, but
some rows or images could not be used; errors.jsonl in the store names each of them.
`--config FILE.toml` gives any of the settings below in a file; the command line wins over it."""
OPTIONS = PrepareOptions  # what the verb takes: shell completion finds it here


def run(arguments: Sequence[str]) -> int:
    """Parse, work, report."""
    options = _parse(list(arguments))
    callbacks = Callbacks(progress=progress, problem=teller("prepare"))
    if options.dry_run:
        return _print_dry_run(dry_run(options, callbacks))
    return _print_prepared(prepare(options, callbacks))


def _parse(words: list[str]) -> PrepareOptions:
    """Command line over config file over defaults."""
    default: Any = tyro.MISSING_NONPROP
    one = [word.split("=", 1) if word.startswith("--config=") else [word] for word in words]
    words = [word for parts in one for word in parts]
    if "--config" in words:
        at = words.index("--config")
        if at + 1 == len(words):
            raise ConfigError("--config", "no file is named", "Give the path of a TOML file.")
        default = _from_file(Path(words[at + 1]))
        words = words[:at] + words[at + 2 :]
    options: PrepareOptions = tyro.cli(
        PrepareOptions, prog="naic prepare", description=HELP, args=words, default=default
    )
    return options


def _from_file(path: Path) -> PrepareOptions:
    """The settings of a config file; READER and SOURCE may be left to the command line."""
    placeholders = {"reader": "folder", "source": ""}
    values = read_toml(path)
    options = structure(placeholders | values, PrepareOptions, str(path))
    absent: dict[str, Any] = {key: tyro.MISSING for key in placeholders if key not in values}
    return replace(options, **absent)


def _print_reading(reading: Reading) -> None:
    splits = ", ".join(f"{name or 'no split'} {n:,}" for name, n in reading.splits.items())
    unlabelled = f", {reading.unlabelled:,} images without any" if reading.unlabelled else ""
    print(f"images:   {len(reading.records):,} ({splits})")
    print(f"captions: {reading.captions:,}{unlabelled}")
    if reading.other_images:
        print(f"left out: {reading.other_images:,} images of other splits or past the limit")
    if reading.ignored:
        kinds = ", ".join(
            f"{n:,} {suffix or 'without suffix'}" for suffix, n in reading.ignored.most_common()
        )
        print(f"ignored:  files that are no images: {kinds}")


def _print_dry_run(found: PrepareDryRun) -> int:
    _print_reading(found.reading)
    free = "" if found.free_gigabytes is None else f" ({found.free_gigabytes:.0f} GB are free)"
    print(f"features: {found.gigabytes:.3g} GB{free}")
    if found.images_per_second is None:
        print("time:     too few images to tell")
    else:
        minutes = len(found.reading.records) / found.images_per_second / 60
        print(f"time:     {minutes:.1f} minutes at {found.images_per_second:.0f} images/s here")
    print("Nothing was written (--dry-run).")
    return print_problems(found.problems, "errors.jsonl, once the run is made")


def _print_prepared(done: Prepared) -> int:
    _print_reading(done.reading)
    print(f"features: {done.store.describe()}")
    made = len(done.reading.records) - done.resumed
    earlier = f"; {done.resumed:,} were there already" if done.resumed else ""
    print(f"time:     {done.seconds:.1f} s for {made:,} images{earlier}")
    if done.unused:
        print(f"unused:   features of {done.unused:,} images that are none of these")
    print(f"store:    {done.store.folder}")
    if done.errors:
        print_problems(done.errors, str(done.store.folder / "errors.jsonl"))
        print("Images that you mend are tried again with --retry-bad.", file=sys.stderr)
    if not len(done.store):
        print("naic prepare: not one image could be used.", file=sys.stderr)
        return FAILED
    return SOME_SKIPPED if done.errors else 0
