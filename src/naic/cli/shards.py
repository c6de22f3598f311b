"""`naic shards TASK SHARD ... --out DIR`, `naic shards status DIR`."""

import json
import signal
import sys
from collections.abc import Sequence
from functools import partial
from types import FrameType

from naic.cli.main import BAD_USAGE, SOME_SKIPPED, parse
from naic.cli.screen import progress, teller
from naic.errors import ConfigError
from naic.files import printable
from naic.progress import Callbacks
from naic.tasks.shards.options import Asked, CaptionShards, DistilShards, PrepareShards
from naic.tasks.shards.status import JoinOptions, StatusOptions

HELP = """Make captions, features, or a teacher's captions of shards of images, on many machines.

An output appears whole or not at all. The same command goes on where a run was cut off; shards that
are done stay as they are. A shard that is damaged is named, and the others are done: exit code 3.
An image that cannot be used is an error in the output of its shard."""
_Options = CaptionShards | PrepareShards | DistilShards | StatusOptions | JoinOptions
_TASKS: dict[str, tuple[type[_Options], str]] = {
    "caption": (CaptionShards, "captions, as Parquet"),
    "prepare": (PrepareShards, "features, as a feature store"),
    "distil": (DistilShards, "a teacher's captions, for a student to learn from"),
    "status": (StatusOptions, "say what is done, missing and failed, and why; exit code 0 or 3"),
    "join": (JoinOptions, "make a store of the features or captions that are there"),
}
OPTIONS = {task: options for task, (options, _) in _TASKS.items()}  # for shell completion
_SHOWN = 20  # shards of a kind, by name


def run(arguments: Sequence[str]) -> int:
    """Choose the task, parse, work, report."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_help())
        return 0 if arguments else BAD_USAGE
    task, *words = arguments
    if task not in _TASKS:
        hint = f"Known are: {', '.join(_TASKS)}."
        raise ConfigError(f"naic shards {task}", "there is no such task", hint)
    options: _Options = parse(_TASKS[task][0], f"shards {task}", HELP, words)
    if isinstance(options, StatusOptions):
        return _status(options)
    if isinstance(options, JoinOptions):
        return _join(options)
    signal.signal(signal.SIGTERM, _stop)
    return _make(options)


def _help() -> str:
    tasks = "\n".join(f"  {task:<8} {what}" for task, (_, what) in _TASKS.items())
    return f"usage: naic shards TASK ...\n\n{HELP}\n\ntasks:\n{tasks}\n\n`naic shards TASK --help`"


def _stop(number: int, frame: FrameType | None) -> None:
    """SIGTERM, as of a scheduler, ends a run as Ctrl-C does."""
    raise KeyboardInterrupt


def _make(asked: Asked) -> int:
    from naic.tasks.shards.run import run_shards

    say = partial(print, file=sys.stderr)
    done = run_shards(asked, Callbacks(say, progress, teller("shards")))
    where = printable(asked.out)
    earlier = f" ({done.resumed:,} from before)" if done.resumed else ""
    if asked.dry_run:
        print(f"shards: {done.shards:,}{earlier}\nNothing was written (--dry-run).")
        return 0
    failed = f"; {len(done.failed):,} failed" if done.failed else ""
    print(f"shards: {done.resumed + done.made:,} of {done.shards:,}{earlier} in {where}{failed}")
    if done.made:
        bad = f"; {done.errors:,} could not be used" if done.errors else ""
        rate = f"{done.images / done.seconds:,.1f} a second"
        print(f"images: {done.images:,} in {done.seconds:,.1f} s, {rate}{bad}")
    if done.joined:
        print(f"store:  {where}, of all shards")
    return SOME_SKIPPED if done.failed else 0


def _status(options: StatusOptions) -> int:
    from naic.tasks.shards.status import status

    found = status(options)
    left = len(found.failed) + len(found.missing)
    if options.json:
        print(json.dumps(found.as_json(), indent=1))
        return SOME_SKIPPED if left else 0
    print(f"done:    {len(found.done):,} of {len(found.shards):,} shards")
    if options.images:
        seen = found.counted()
        hours = f"{seen['seconds'] / 3600:,.2f} hours of a process"
        print(f"images:  {seen['images']:,}; {seen['errors']:,} could not be used; {hours}")
    print(f"missing: {len(found.missing):,}")
    _some([printable(shard.source) for shard in found.missing])
    print(f"failed:  {len(found.failed):,}")
    _some([printable(str(problem)) for problem in found.failed])
    return SOME_SKIPPED if left else 0


def _some(lines: Sequence[str]) -> None:
    for line in lines[:_SHOWN]:
        print(f"  {line}")
    if len(lines) > _SHOWN:
        print(f"  and {len(lines) - _SHOWN:,} more; --json names all")


def _join(options: JoinOptions) -> int:
    from naic.tasks.shards.folder import read_plan
    from naic.tasks.shards.inputs import absolute
    from naic.tasks.shards.joining import join_store

    out, shards, _ = read_plan(absolute(options.out))
    there = out.look().done
    whole = [shard for shard in shards if shard.name in there]
    print(f"store:  {join_store(out, whole).describe()}")
    left = len(shards) - len(whole)
    if left:
        print(f"naic shards: {left:,} shards are not in it: naic shards status", file=sys.stderr)
    return SOME_SKIPPED if left else 0
