"""The `naic` command: a table of verbs. Nothing heavy is imported before a verb is chosen."""

import difflib
import importlib
import os
import select
import sys
from collections.abc import Sequence
from typing import TextIO, TypeVar

from naic import __version__
from naic.errors import ConfigError, NaicError

T = TypeVar("T")
# verb -> (module with a function `run(arguments) -> exit code`, what it does)
VERBS = {
    "caption": ("naic.cli.caption", "say what is in images"),
    "watch": ("naic.cli.watch", "caption photos as they arrive in a folder"),
    "serve": ("naic.cli.serve", "caption photos over HTTP, with a page"),
    "prepare": ("naic.cli.prepare", "turn a dataset or a folder of images into features"),
    "show": ("naic.cli.show", "say what is in a feature store, or where training runs stand"),
    "train": ("naic.cli.train", "train a captioner on a feature store"),
    "shards": ("naic.cli.shards", "caption, prepare or distil shards of images on many machines"),
    "distil": ("naic.cli.distil", "let a teacher caption images for a student to learn from"),
    "reproduce": ("naic.cli.reproduce", "run the paper's ladder, from features to tables"),
    "evaluate": ("naic.cli.evaluate", "score captions against human references"),
    "finetune": ("naic.cli.finetune", "teach the model inside naic your own captions"),
    "pack": ("naic.cli.pack", "make a trained model small, with a backbone of its own"),
    "export": ("naic.cli.export", "turn a model into one ONNX graph"),
    "benchmark": ("naic.cli.benchmark", "time captions against models that write word by word"),
    "shapes": ("naic.cli.shapes", "draw the embedded dataset as images with captions"),
    "doctor": ("naic.cli.doctor", "say what is installed, what works, and what to do"),
    "completion": ("naic.cli.completion", "print a script that completes commands in a shell"),
}

# What to tell someone who stopped a verb that can go on.
GOES_ON = {
    "watch": " The same command goes on.",
    "prepare": " The same command goes on.",
    "distil": " The same command goes on.",
    "shards": " The same command goes on.",
    "reproduce": " The same command goes on.",
    "finetune": " The same command goes on.",
    "train": " Add --resume auto to go on.",
}

# Packages that captions need none of.
OF_EXTRAS = ("torch", "accelerate", "numba")

FAILED, BAD_USAGE, SOME_SKIPPED, INTERRUPTED = 1, 2, 3, 130
STDERR = 2  # the last of the numbers that belong to standard streams


def parse(options: type[T], verb: str, description: str, arguments: Sequence[str]) -> T:
    """The options of a verb, as its words fill them in."""
    import tyro

    return tyro.cli(options, prog=f"naic {verb}", description=description, args=list(arguments))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; the result is the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    _open_closed_streams()
    code: int | None = None
    try:
        try:
            code = _choose(words)
        finally:
            sys.stdout.flush()  # here, not at the interpreter's end, where nobody can catch it
    except BrokenPipeError:
        if code is None:
            # `naic show DIR | head -1`: who wanted no more has what they wanted. If nobody reads
            # our news either, or neither pipe is it, the work may have ended in the middle.
            code = 0 if _reader_is_gone(sys.stdout) and not _reader_is_gone(sys.stderr) else FAILED
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _reader_is_gone(stream: TextIO) -> bool:
    """Whether the stream is a pipe, and its other end was closed."""
    asked = select.poll()
    try:
        asked.register(stream.fileno(), 0)  # that it is broken is told without being asked for
    except (OSError, ValueError):  # it is closed, or no file: who calls us may have put it there
        return False
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in asked.poll(0))


def _open_closed_streams() -> None:
    """Someone may start us without standard streams (`naic ... >&-`): then nobody listens.

    Their numbers are taken, too: else a file that we write would be standard output to a library.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= STDERR:
        pass
    os.close(number)
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123


def _choose(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(_help())
        return 0 if words else BAD_USAGE
    if words[0] in ("-V", "--version"):
        print(f"naic {__version__}")
        return 0
    if words[0] not in VERBS:
        close = difflib.get_close_matches(words[0], VERBS, n=1)
        hint = f"Did you mean `naic {close[0]}`?" if close else "See `naic --help`."
        print(f"naic: unknown verb {words[0]!r}. {hint}", file=sys.stderr)
        return BAD_USAGE
    return _run(words[0], words[1:])


def _run(verb: str, arguments: list[str]) -> int:
    try:
        own = _use_plugins(arguments)
        code: int = importlib.import_module(VERBS[verb][0]).run(own)
    except NaicError as error:
        if os.environ.get("NAIC_DEBUG"):
            raise
        print(f"naic {verb}: {error}", file=sys.stderr)
        return BAD_USAGE if isinstance(error, ConfigError) else FAILED
    except ModuleNotFoundError as error:
        if error.name not in OF_EXTRAS or os.environ.get("NAIC_DEBUG"):
            raise
        hint = "It comes with the extra for this: pip install 'naic[train]'"
        print(f"naic {verb}: {error.name} is not installed. {hint}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print(f"\nnaic {verb}: stopped.{GOES_ON.get(verb, '')}", file=sys.stderr)
        return INTERRUPTED
    return code


def _use_plugins(arguments: list[str]) -> list[str]:
    """Import what `--plugin MODULE` names, which any verb takes; gives the other words."""
    others: list[str] = []
    coming = iter(arguments)
    for word in coming:
        option, equals, value = word.partition("=")
        if option == "--plugin":
            from naic import plugins  # few give it, and all wait for what is imported

            plugins.use(value if equals else next(coming, ""), plugins.OPTION)
        else:
            others.append(word)
    return others


def _help() -> str:
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  {verb:<{width}}  {what}" for verb, (_, what) in VERBS.items())
    return f"""usage: naic VERB ...

Image captioning in one parallel pass.

verbs:
{verbs}

`naic VERB --help` explains a verb. `naic --version` names this version.
`--plugin MODULE` after any verb imports a Python module of yours: captioners, backbones.
Exit codes: 0 all done; 1 failed; 2 bad usage; 3 done, but some inputs could not be used."""
