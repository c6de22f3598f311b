"""The options of `naic reproduce`, and run.json.

It says what a reproduction was asked for, what each stage was made from, and how long it took.
"""

import json
import os
import platform
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import arg

from naic import __version__
from naic.errors import ConfigError, StoreError
from naic.files import REPRODUCTION, remove_temporaries, write_atomically
from naic.resume import digest_of, refuse_changed, refuse_strangers
from naic.tasks.reproduce.preset import Preset

# name -> its file in the run's folder; the ladder is always there
TABLES = {
    "ladder": "table1",
    "baselines": "table3",
    "topk": "table4",
    "unlabelled": "table5",
    "fill": "table_fill",
}


@dataclass(frozen=True)
class ReproduceOptions:
    """What to run, on what, and where to put it; the command line fills it in.

    Attributes:
        out: The folder for everything: features, runs, tables, figures.
        preset: tiny (drawn scenes, two cores), coco, paper, or a folder of TOML files.
        study: Instead of a preset: a file of variants of one training run, to be compared.
        only: With --study: these variants alone, with commas.
        tables: Tables beside the ladder, with commas: baselines,topk,unlabelled,fill.
        seeds: How many times each student is trained; teacher and features are shared.
        jobs: How many stages to make at the same time, each in a process of its own.
        quick: The short form that the preset describes.
        features: A feature store to use instead of the preset's own data.
        unlabelled: A feature store whose images are learnt from without their captions.
        device: auto, cpu or cuda.
        graph: Run each training step as one CUDA graph: small models then learn many times faster.
        fast: Leave out METEOR and SPICE, which take longer than all the others together.
        dry_run: Say which stages are done and which are to be made, and write nothing.
        only_tables: Train nothing: make the tables of what is finished. METEOR and SPICE that were
            missing are added where they can be had now.
        references: With --only-tables: the human captions, for a DIR that came from another
            machine without its features and weights. Its captions are scored as they are.
        log: Where evaluations on a split called test are noted, as `naic evaluate` does.
    """

    out: Annotated[Path, arg(metavar="DIR")]
    preset: Annotated[str, arg(metavar="NAME")] = ""
    study: Annotated[Path | None, arg(metavar="FILE")] = None
    only: Annotated[str, arg(metavar="NAME,...")] = ""
    tables: Annotated[str, arg(metavar="NAME,...")] = ""
    seeds: int = 1
    jobs: int = 1
    quick: bool = False
    features: Annotated[Path | None, arg(metavar="STORE")] = None
    unlabelled: Annotated[Path | None, arg(metavar="STORE")] = None
    device: str = "auto"
    graph: bool = False
    fast: bool = False
    dry_run: bool = False
    only_tables: bool = False
    references: Annotated[str | None, arg(metavar="PATH")] = None
    log: Annotated[Path | None, arg(metavar="FILE")] = None

    def check(self) -> None:
        """Refuse what cannot be."""
        if bool(self.preset) == (self.study is not None):
            why = "it is one or the other that is run"
            raise ConfigError("--preset, --study", why, "Give one of them.")
        if self.only and self.study is None:
            raise ConfigError("--only", "it names variants", "Give it with --study.")
        if self.study is not None:
            self._check_study()
        if not 1 <= self.seeds <= 100:
            raise ConfigError("--seeds", f"{self.seeds} is not from 1 to 100", "Try 1 or 3.")
        if not 1 <= self.jobs <= 1000:
            raise ConfigError("--jobs", f"{self.jobs} is not from 1 to 1000", "Try 2.")
        if self.references is not None and (self.dry_run or not self.only_tables):
            why = "it is for tables of captions that were made elsewhere"
            raise ConfigError("--references", why, "Give it with --only-tables alone.")
        for name in self.chosen:
            if name not in TABLES:
                others = ", ".join(other for other in TABLES if other != "ladder")
                raise ConfigError("--tables", f"there is no table {name!r}", f"Some of: {others}.")

    def _check_study(self) -> None:
        for name, given in (
            ("--tables", self.tables),
            ("--seeds", self.seeds != 1),
            ("--jobs", self.jobs != 1),
            ("--quick", self.quick),
            ("--unlabelled", self.unlabelled),
        ):
            if given:
                why = "a study has none: its file says what is run"
                raise ConfigError(name, why, "Leave it out.")

    @property
    def chosen(self) -> list[str]:
        """The tables to make, the ladder first, each once."""
        names = (name.strip() for name in self.tables.split(","))
        return list(dict.fromkeys(["ladder", *(name for name in names if name)]))


FORMAT = 1


class RunFile:
    """The run.json of a folder; every change is on the disk at once."""

    def __init__(self, folder: Path, content: dict[str, Any]) -> None:
        self._path = folder / REPRODUCTION
        self.content = content
        self.only_in_memory = False  # in a process that makes one stage for another

    @classmethod
    def open(cls, preset: Preset, options: ReproduceOptions) -> "RunFile":
        """That of an earlier call, if it was about the same things, else a new one.

        Raises:
            ConfigError: the folder is of another preset or other data.
            StoreError: the folder holds something else.
        """
        asked = _asked(preset, options)
        earlier = read_run_file(options.out)
        if earlier is None:
            refuse_strangers(options.out, [f"{REPRODUCTION}*"], f"reproduction ({REPRODUCTION})")
            begun = {"format": FORMAT, "out": str(options.out), **asked}
            return cls(options.out, {**begun, "calls": [], "stages": {}})
        refuse_changed(str(options.out), earlier, asked)
        return cls(options.out, earlier)

    @classmethod
    def returned(cls, preset: Preset, options: ReproduceOptions) -> "RunFile":
        """That of a run that was made on another machine.

        Raises:
            ConfigError: it is of another preset.
            StoreError: the folder holds no run.
        """
        found = read_run_file(options.out)
        if found is None:
            why = f"it has no {REPRODUCTION}, which says what was run elsewhere"
            raise StoreError(str(options.out), why, "Bring it with the captions.")
        kept = str(found.get("preset"))  # elsewhere the same preset may have been given as a folder
        name = kept if Path(kept).name == preset.folder.name else preset.name
        asked = {"preset": name, "quick": options.quick}
        refuse_changed(str(options.out), found, asked, "Give the options it was made with.")
        return cls(options.out, found)

    def as_run(self, options: ReproduceOptions) -> ReproduceOptions:
        """The options with the data that the run was made with, wherever that was."""
        given = (self.content.get(name) for name in ("features", "unlabelled"))
        features, unlabelled = (None if path is None else Path(path) for path in given)
        return replace(options, features=features, unlabelled=unlabelled)

    def by_its_name(self, options: ReproduceOptions) -> ReproduceOptions:
        """The options with the folder called as it was when it was begun.

        Its runs know each other by that name: by another one they would be other runs.
        """
        begun = Path(self.content.get("out", options.out))
        if begun == options.out:
            return options
        if begun.exists() and options.out.exists() and begun.samefile(options.out):
            return replace(options, out=begun)
        why = f"it was begun as {begun}, and its runs know their folders by that name"
        hint = "Move it back, or give the command where that path leads to it."
        raise StoreError(str(options.out), why, hint)

    def all_there(self) -> bool:
        """Whether the stages that were made are still in their folders."""
        made = (name for name, stage in self.content["stages"].items() if "seconds" in stage)
        return all(
            any(
                (self._path.parent / name / file).is_file()
                for file in ("report.json", "index.json")
            )
            for name in made
        )

    def begin(self, command: str) -> None:
        """Note a call; from here on the folder is a reproduction's."""
        remove_temporaries(self._path.parent, REPRODUCTION)
        # Seconds stay None for a call that did not come to its end.
        self.content["calls"].append({"command": command, "seconds": None})
        self.content.pop("finished", None)
        self.content["naic"] = __version__
        self.content["machine"] = machine()
        self.save()

    def begin_scoring(self, command: str) -> None:
        """Note a call that only scores; the machine of the run stays that of its stages."""
        remove_temporaries(self._path.parent, REPRODUCTION)
        call = {"command": command, "seconds": None, "machine": machine()}
        self.content["calls"].append(call)
        self.save()

    def stage(self, name: str) -> dict[str, Any]:
        """What is known of a stage; empty if it was never finished."""
        return dict(self.content["stages"].get(name, {}))

    def note(self, name: str, **values: Any) -> None:  # noqa: ANN401
        """Remember something of a stage."""
        self.content["stages"][name] = {**self.stage(name), **values}
        self.save()

    def end(self, seconds: float, finished: dict[str, Any] | None) -> None:
        """Note how long the call took, and what is done: None where rows are still missing."""
        self.content["calls"][-1]["seconds"] = seconds
        if finished is not None:
            self.content["finished"] = finished
        self.save()

    @property
    def command(self) -> str:
        """The call that is under way."""
        return str(self.content["calls"][-1]["command"])

    def save(self) -> None:
        """Write it."""
        if self.only_in_memory:
            return
        text = json.dumps(self.content, indent=1)
        write_atomically(self._path, f"{text}\n".encode())


def read_run_file(folder: Path) -> dict[str, Any] | None:
    """run.json of a folder; None where there is none."""
    path = folder / REPRODUCTION
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_bytes())
        kinds = isinstance(found["stages"], dict) and isinstance(found["calls"], list)
        if found["format"] != FORMAT or not kinds:
            raise ValueError("it is of another format")  # noqa: TRY301
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = f"cannot be used ({error})"
        raise StoreError(str(path), why, "Choose another --out.") from error
    return dict(found)


def request(preset: Preset, options: ReproduceOptions) -> dict[str, Any]:
    """All that decides what comes out: a finished run is asked for again if this is the same."""
    return {
        **_asked(preset, options),
        "files": json.loads(json.dumps(preset.files)),
        "settings": json.loads(json.dumps(preset.settings.__dict__)),
        "tables": options.chosen,
        "seeds": options.seeds,
        "fast": options.fast,
    }


def digest(path: Path) -> str:
    """What tells one version of a file from another."""
    return str(digest_of(path))[:16]


def machine() -> str:
    """For people: what it ran on."""
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"


def _asked(preset: Preset, options: ReproduceOptions) -> dict[str, Any]:
    """What may not change within a folder; its stages check the rest of their settings."""
    return {
        "preset": preset.name,
        "quick": options.quick,
        "features": None if options.features is None else str(options.features),
        "unlabelled": None if options.unlabelled is None else str(options.unlabelled),
        "device": options.device,
        "graph": options.graph,
    }
