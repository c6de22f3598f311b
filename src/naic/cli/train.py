"""`naic train CONFIG.toml`: every setting of a run is an option."""

import contextlib
import dataclasses
import json
import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, dataclass, field, make_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import tyro
from tyro.conf import FlagCreatePairsOff, Positional, arg

from naic.cli.main import BAD_USAGE, INTERRUPTED
from naic.config import read_toml, value_of
from naic.errors import ConfigError
from naic.models.config import TransformerConfig
from naic.plugins import OPTION_WORDS, use_all
from naic.train.settings import STAGE_NAMES, Settings

HELP = """Train a captioner: one stage on a feature store.

CONFIG is a TOML file with the settings below: configs/ has some, docs/train.md explains them. An
option wins over the file; a list or a table is written as in TOML: --data.train '["train",
"restval"]', --cmal.reward '{ "my_rewards:short" = 0.5 }'.

The run's folder (--out) gets config.toml, vocab.json, metrics.jsonl, tensorboard/, checkpoints/,
the best model in best/, captions of the validation images in captions/, and report.json.

Exit codes: 0 done; 1 failed or collapsed (the best weights so far are kept); 2 bad usage."""
# What a path leads to, where that is not any file.
_PATHS = {"out": "DIR", "start": "DIR", "data.features": "STORE"}
_METAVARS = {
    int: "INT",
    float: "FLOAT",
    str: "TEXT",
    bool: "{true,false}",
    dict[str, float]: "TABLE",
}
_DRY_RUN = "Check everything, say what would be done, write nothing."
_OWN = ("config", "resume", "nproc", "dry_run")  # options that are no settings
_UNSET = "\0"  # no word of a command line: None would be the text "None" to tyro


@dataclass(frozen=True)
class Request:
    """The command line, taken apart."""

    config: Path
    overrides: list[tuple[str, str]]
    resume: bool
    nproc: int
    dry_run: bool


def make_options(model: type) -> Any:  # noqa: ANN401
    """What tyro parses: all settings, each as text, and `_UNSET` where it is not given.

    As text, since they are put over what the file says: what is wrong with the one is then told
    like what is wrong with the other. `model` has the captioner's own settings.
    """
    own = [
        _option("config", str, "CONFIG", "The settings, a TOML file.", Positional),
        _option("resume", str, "{auto}", "Go on from the last checkpoint, or begin."),
        _option("nproc", str, "N", "Processes on this machine (default: 1)."),
        _option("dry_run", bool, None, _DRY_RUN, FlagCreatePairsOff),
    ]
    return _as_text(Settings, "", {"model": model}, own)


def _option(name: str, kind: Any, metavar: str | None, text: str, *markers: Any) -> Any:  # noqa: ANN401
    shown = arg(metavar=metavar, help=text, help_behavior_hint="")
    return name, Annotated[(kind, *markers, shown)], False if kind is bool else _UNSET


def _as_text(kind: Any, prefix: str, inner: dict[str, type], own: Sequence[Any] = ()) -> Any:  # noqa: ANN401
    """The dataclass with text for every value; `inner` has dataclasses for its dicts."""
    options: list[Any] = list(own)
    kinds = get_type_hints(kind) | inner
    for one in dataclasses.fields(kind):
        wanted = kinds[one.name]
        if dataclasses.is_dataclass(wanted):
            made = _as_text(wanted, f"{prefix}{one.name}.", {})
            options.append((one.name, made, field(default_factory=made)))
        else:
            shown = arg(metavar=_metavar(prefix + one.name, wanted), help_behavior_hint=_hint(one))
            options.append((one.name, Annotated[str, shown], _UNSET))
    found = make_dataclass(kind.__name__, options, frozen=True)
    found.__doc__ = kind.__doc__  # where tyro finds what each setting means
    return found


def _metavar(name: str, kind: Any) -> str:  # noqa: ANN401
    if name == "stage":
        return f"{{{','.join(STAGE_NAMES)}}}"
    if get_origin(kind) is Literal:
        return f"{{{','.join(get_args(kind))}}}"
    if get_origin(kind) is tuple:
        return "LIST"
    return _METAVARS.get(kind) or _PATHS.get(name, "PATH")


def _hint(one: "dataclasses.Field[Any]") -> str:
    """What holds where neither the file nor the command line says anything."""
    if one.default is one.default_factory is MISSING:
        return "(required, here or in CONFIG)"
    value = {} if one.default is MISSING else one.default
    return "(default: none)" if value in (None, "", {}) else f"(default: {json.dumps(value)})"


OPTIONS = make_options(TransformerConfig)  # what the verb takes, where no captioner is named


def run(arguments: Sequence[str]) -> int:
    """Parse, train, report."""
    if not arguments:
        with contextlib.suppress(SystemExit):
            _cli(OPTIONS, ["--help"])
        return BAD_USAGE
    request = _parse(list(arguments))
    worker = "RANK" in os.environ  # started by torchrun, or by ourselves
    if request.nproc > 1 and not worker and not request.dry_run:
        from naic.data.batches import check_spread
        from naic.train.batches import check_shares
        from naic.train.config import read_settings
        from naic.train.launch import launch
        from naic.train.own_rewards import take_rewards

        settings = read_settings(request.config, request.overrides)
        chosen = settings.run
        check_spread(chosen.batch, settings.data.spread)  # said once, not by each
        check_shares(chosen.batch, request.nproc, chosen.accumulate)
        take_rewards(settings)
        return launch(request.nproc, ["-m", "naic", "train", *arguments, *OPTION_WORDS])
    command = f"naic train {shlex.join([*arguments, *OPTION_WORDS])}"
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
        from naic.train.loop import dry_run

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
    """The options of our own, and those that are put over the file."""
    words, files = _sort_out(words)
    captioners = [word.partition("=")[2] for word in words if word.startswith("--captioner=")]
    named = _captioner_in(files[-1]) if files else ""
    captioner = captioners[-1] if captioners else named
    found, unknown = _cli(_options_for(captioner), words)
    if len(files) != 1:
        why = f"one config file is needed, and there are {len(files)}"
        raise ConfigError("naic train", why, "See `naic train --help`.")
    nproc = "1" if found.nproc == _UNSET else found.nproc
    if not nproc.isdecimal() or not int(nproc):
        raise ConfigError("--nproc", f"{nproc!r} is no number of processes", "Give 1 or more.")
    resume = found.resume != _UNSET
    if resume:
        value_of(found.resume, Literal["auto"], "--resume")
    # What tyro did not know, `read_settings` refuses by its name.
    others = (word.removeprefix("--").partition("=") for word in unknown)
    overrides = [*_given(found, ""), *((name, value) for name, _, value in others)]
    return Request(Path(files[0]), overrides, resume, int(nproc), found.dry_run)


def _cli(kind: Any, words: list[str]) -> tuple[Any, list[str]]:  # noqa: ANN401
    """What was given, and the words that no option takes."""
    found, unknown = tyro.cli(
        kind,
        prog="naic train",
        description=HELP,
        args=words,
        return_unknown_args=True,
    )
    return found, list(unknown)


def _sort_out(words: list[str]) -> tuple[list[str], list[str]]:
    """Options, each with its value in one word, and files: whatever comes first is told apart.

    Says in our own words what tyro would say in a box.
    """
    options: list[str] = []
    files: list[str] = []
    coming = iter(words)
    for word in coming:
        name, equals, _ = word.replace("_", "-").partition("=")
        if name in ("--dry-run", "--help", "-h"):
            if equals:
                raise ConfigError(word, "is not known", "See `naic train --help`.")
            options.append(name)
        elif name.startswith("--"):
            value = "" if equals else next(coming, "--")
            if value.startswith("--"):
                raise ConfigError(word, "its value is missing", f"Write {word} VALUE.")
            options.append(word if equals else f"{word}={value}")
        elif name.startswith("-"):
            raise ConfigError(word, "is not known", "See `naic train --help`.")
        else:
            files.append(word)
    return options, files


def _options_for(captioner: str) -> Any:  # noqa: ANN401
    """The options where this captioner is trained, which may have settings of its own."""
    if not captioner:
        return OPTIONS  # help alone needs no torch, which takes seconds to import
    from naic.models.captioners import CAPTIONERS

    spec = CAPTIONERS.get(captioner)
    return OPTIONS if spec is None else make_options(spec.config)


def _captioner_in(config: str) -> str:
    """The captioner that the file names, made known if it is a plug-in's.

    What is wrong with the file is told later.
    """
    try:
        values = read_toml(Path(config))
        if values.get("plugins"):
            use_all(values["plugins"])
        return str(values.get("captioner", ""))
    except ConfigError:
        return ""


def _given(options: Any, prefix: str) -> Iterator[tuple[str, str]]:  # noqa: ANN401
    """The settings that are given, by their names."""
    for one in dataclasses.fields(options):
        value = getattr(options, one.name)
        if dataclasses.is_dataclass(value):
            yield from _given(value, f"{prefix}{one.name}.")
        elif value != _UNSET and (prefix or one.name not in _OWN):
            yield prefix + one.name, value
