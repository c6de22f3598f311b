"""`naic distil MODEL --out DIR --features STORE`."""

from collections.abc import Sequence

from naic.cli.main import parse
from naic.cli.screen import print_problems, progress
from naic.progress import Callbacks
from naic.tasks.distil import DistilDryRun, Distilled, distil, dry_run
from naic.tasks.options import DistilOptions

HELP = """Let a teacher caption images, so that a student can learn from what it says.

The captions go into a store that `naic train` takes as data.pseudo. What people said of the images
is not read. A run that was cut off goes on when the same command is given again. Exit code 3
means: done, but some images could not be used."""
OPTIONS = DistilOptions  # what the verb takes: shell completion finds it here


def run(arguments: Sequence[str]) -> int:
    """Parse, work, report."""
    options = parse(DistilOptions, "distil", HELP, arguments)
    if options.dry_run:
        return _print_dry_run(dry_run(options))
    return _print_distilled(distil(options, Callbacks(progress=progress)))


def _print_dry_run(found: DistilDryRun) -> int:
    splits = ", ".join(f"{name or 'no split'} {n:,}" for name, n in found.splits.items())
    print(f"teacher:  {found.teacher}, on {found.device}")
    print(f"images:   {found.splits.total():,} ({splits}), in {found.shards:,} shards")
    print("Nothing was written (--dry-run).")
    return 0


def _print_distilled(done: Distilled) -> int:
    made = done.images - done.resumed
    earlier = f"; {done.resumed:,} were there already" if done.resumed else ""
    print(f"time:     {done.seconds:.1f} s for {made:,} images{earlier}")
    if done.store is None:
        print(f"waiting:  {done.missing:,} images are left to the other parts")
    else:
        print(f"captions: {done.store.describe()}")
        print(f"store:    {done.store.folder}")
    return print_problems(done.errors, "errors.jsonl of the features")
