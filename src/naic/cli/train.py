"""`naic train CONFIG.toml`."""

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from naic.cli.main import INTERRUPTED
from naic.errors import ConfigError

HELP = """usage: naic train CONFIG [--resume auto] [--nproc N] [--dry-run] [--SECTION.KEY VALUE]

Train a captioner: one stage (teacher_xe, scst, student_xe or cmal) on a feature store.

  CONFIG               the settings, a TOML file: configs/ has some, docs/train.md explains them
  --resume auto        go on from the last checkpoint in the run's folder, or begin if there is none
  --nproc N            N processes on this machine (torchrun starts them on several)
  --dry-run            check everything, say what would be done, write nothing
  --section.key VALUE  put a value over the file's: --run.epochs 3 --out runs/mine --scst.samples 8

The run's folder (`out`) gets config.toml, vocab.json, metrics.jsonl, tensorboard/, checkpoints/,
the best model in best/, captions of the validation images in captions/, and report.json.
Exit codes: 0 done; 1 failed or collapsed (the best weights so far are kept); 2 bad usage."""


@dataclass(frozen=True)
class Request:
    """The command line, taken apart."""

    config: Path
    overrides: list[tuple[str, str]]
    resume: bool
    nproc: int
    dry_run: bool


def run(arguments: Sequence[str]) -> int:
    """Parse, train, report."""
    if not arguments or {"-h", "--help"} & {*arguments}:
        print(HELP)
        return 0 if arguments else 2
    request = _parse(list(arguments))
    worker = "RANK" in os.environ  # started by torchrun, or by ourselves
    if request.nproc > 1 and not worker and not request.dry_run:
        from naic.train.batches import check_shares
        from naic.train.config import read_settings
        from naic.train.launch import launch

        chosen = read_settings(request.config, request.overrides).run
        check_shares(chosen.batch, request.nproc, chosen.accumulate)  # said once, not by each
        return launch(request.nproc, ["-m", "naic", "train", *arguments])
    command = f"naic train {shlex.join(arguments)}"
    return _work(request, command) if worker else _train(request, command)


def _work(request: Request, command: str) -> int:
    """As one of several: Ctrl-C reaches all of them, and process 0 says so for all."""
    try:
        from naic.train.watchdog import watch_parent

        watch_parent()
        return _train(request, command)
    except KeyboardInterrupt:
        if os.environ["RANK"] == "0":
            raise
        return INTERRUPTED


def _train(request: Request, command: str) -> int:
    from naic.train.config import read_settings

    settings = read_settings(request.config, request.overrides)
    if request.dry_run:
        from naic.train.dry_run import dry_run

        for name, what in dry_run(settings, request.nproc, resume=request.resume):
            print(f"{name + ':':<12} {what}")
        print("Nothing was written (--dry-run).")
        return 0
    from naic.train.loop import train

    report = train(settings, resume=request.resume, command=command)
    if os.environ.get("RANK", "0") == "0":
        for row in report["scores"]:
            facts = f", facts right in {row['facts']:.1%}" if "facts" in row else ""
            print(f"beam {row['beam']}: CIDEr {row['cider']:.4f} on validation{facts}")
        print(f"best model: {settings.out / 'best'} (step {report['best_step']:,})")
    return 0


def _parse(words: list[str]) -> Request:
    """Options of our own, and `--section.key value` for the rest."""
    files: list[str] = []
    overrides: list[tuple[str, str]] = []
    resume, dry_run, nproc = False, False, 1
    while words:
        word = words.pop(0)
        if not word.startswith("-"):
            files.append(word)
            continue
        name, equals, value = word.removeprefix("--").partition("=")
        name = name.replace("-", "_")
        if not word.startswith("--") or (name == "dry_run" and equals):
            raise ConfigError(word, "is not known", "See `naic train --help`.")
        if name == "dry_run":
            dry_run = True
            continue
        if not equals:
            if not words:
                raise ConfigError(word, "its value is missing", f"Write {word} VALUE.")
            value = words.pop(0)
        if name == "resume":
            resume = _resume(value)
        elif name == "nproc":
            nproc = _number(value)
        else:
            overrides.append((name, value))
    if len(files) != 1:
        why = f"one config file is needed, and there are {len(files)}"
        raise ConfigError("naic train", why, "See `naic train --help`.")
    return Request(Path(files[0]), overrides, resume, nproc, dry_run)


def _resume(value: str) -> bool:
    if value != "auto":
        raise ConfigError("--resume", f"{value!r} is not known", "Write --resume auto.")
    return True


def _number(value: str) -> int:
    if not value.isdecimal() or not int(value):
        raise ConfigError("--nproc", f"{value!r} is no number of processes", "Give 1 or more.")
    return int(value)
