"""A preset: a folder of TOML files that says how the ladder is run on some data.

From these come the settings of each training stage, with the run's own folders put in.
"""

import json
import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import naic
from naic.config import read_toml, structure
from naic.data.pseudo import PseudoStore
from naic.errors import ConfigError
from naic.tasks.options import WIDEST_BEAM

if TYPE_CHECKING:  # reading settings checks them, which needs torch: not before there is work
    from naic.tasks.reproduce.plan import Train
    from naic.train.settings import CMALSettings, Settings


FOLDERS = {"tiny": "shapes", "coco": "coco", "paper": "paper"}  # name -> folder in configs/
PRESET = "preset.toml"
TRAINED = ("teacher_xe", "teacher_scst", "student_base", "student_kd", "cmal")
NEEDED = ("prepare", *TRAINED)
BASELINES = ("none", "ma", "sc", "loo", "cf")
LADDER = (
    "AIC XE beam 1",
    "AIC XE beam 3",
    "AIC beam 1",
    "AIC beam 3",
    "NAIC-base",
    "+weight-init",
    "+KD",
    "+CMAL",
    "+unlabelled",
)


@dataclass(frozen=True)
class PresetSettings:
    """What preset.toml says.

    Attributes:
        report: the split that the tables are about; no stage learns from it or chooses by it.
        also_report: splits with tables of their own, without SPICE; models may be chosen by them.
        beam: beam width of the teacher when it captions for the students.
        keep: how many sentences of that beam a student learns.
        seed: of the first students, the next ones have the next; the teacher has its file's own.
        scst: the teacher is trained by SCST after XE.
        systems: the rows of the ladder to make.
        topk: the k of table 4.
        baselines: those of table 3.
        loo_samples: sentences sampled for an image by the baseline "loo", which needs others.
        shares: of the unlabelled images, for table 5.
        same_steps: students that learn from unlabelled images too make as many steps as the
            others; otherwise as many epochs.
        spice: score SPICE too, where it is installed: a second for every three images.
        server: write the results files that COCO's server takes; the images are COCO's.
        examples: images of the page with captions side by side.
        limit: the first so many images only; None: what prepare.toml says.
        unlabelled_limit: likewise for unlabelled.toml.
        epochs: by config file, epochs instead of the file's own.
        quick: what `--quick` puts over all of this.
    """

    report: str = "test"
    also_report: tuple[str, ...] = ()
    beam: int = 3
    keep: int = 1
    seed: int = 1
    scst: bool = True
    systems: tuple[str, ...] = LADDER
    topk: tuple[int, ...] = (1, 2, 5)
    baselines: tuple[str, ...] = BASELINES
    loo_samples: int = 2
    shares: tuple[float, ...] = (0.5, 1.0)
    same_steps: bool = True
    spice: bool = True
    server: bool = False
    examples: int = 12
    limit: int | None = None
    unlabelled_limit: int | None = None
    epochs: dict[str, float] = field(default_factory=dict)
    quick: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Preset:
    """A preset that was read.

    Attributes:
        name: as the user gave it.
        files: the content of each TOML file, by its name without the suffix.
    """

    name: str
    folder: Path
    settings: PresetSettings
    files: dict[str, dict[str, Any]]

    def path(self, config: str) -> Path:
        """One of its files."""
        return self.folder / f"{config}.toml"

    @property
    def splits(self) -> tuple[str, ...]:
        """Those that there are tables of, `report` first."""
        return tuple(dict.fromkeys((self.settings.report, *self.settings.also_report)))

    @property
    def has_unlabelled(self) -> bool:
        """Whether it says where images without captions come from."""
        return "source" in self.files.get("unlabelled", {})


def find_preset(name: str) -> Path:
    """The folder of a preset: one of ours by its name, else a path.

    Ours are in the package where it was installed from a wheel, else in the source checkout.
    """
    if name in FOLDERS:
        package = Path(naic.__file__).parent
        for configs in (package / "configs", package.parents[1] / "configs"):
            if (configs / FOLDERS[name] / PRESET).is_file():
                return configs / FOLDERS[name]
        why = "its files are neither in the package nor in a checkout around it"
        raise ConfigError(f"--preset {name}", why, "Install naic again, or give a folder.")
    folder = Path(name)
    if (folder / PRESET).is_file():
        return folder
    why = f"it holds no {PRESET}" if folder.is_dir() else "there is no such preset"
    hint = f"There are {', '.join(FOLDERS)}; or give a folder such as configs/shapes."
    raise ConfigError(f"--preset {name}", why, hint)


def read_preset(name: str, *, quick: bool = False) -> Preset:
    """Read and check the files of a preset; with `quick` its short form."""
    folder = find_preset(name)
    values = read_toml(folder / PRESET)
    if quick and not values.get("quick"):
        why = f"{folder / PRESET} has no [quick]"
        raise ConfigError("--quick", why, "Leave it out, or add the settings of a short form.")
    over = values.pop("quick", {})
    if not isinstance(over, dict):
        raise ConfigError(f"{folder / PRESET}: quick", "it is no table", "Write it as [quick].")
    settings = structure(values | (over if quick else {}), PresetSettings, str(folder / PRESET))
    missing = [f"{config}.toml" for config in NEEDED if not (folder / f"{config}.toml").is_file()]
    if missing:
        raise ConfigError(str(folder), f"there is no {', '.join(missing)}", "Add it.")
    _check(settings, folder / PRESET)
    optional = ["unlabelled"] if (folder / "unlabelled.toml").is_file() else []
    files = {config: read_toml(folder / f"{config}.toml") for config in (*NEEDED, *optional)}
    return Preset(name, folder, settings, files)


def _check(settings: PresetSettings, path: Path) -> None:
    """Refuse what would come out as a wrong table, or late."""
    rules = (
        ("beam", 1 <= settings.beam <= WIDEST_BEAM, f"1 to {WIDEST_BEAM}"),
        ("keep", 1 <= settings.keep <= settings.beam, "1 to `beam`"),
        ("seed", settings.seed >= 0, "0 or more"),
        ("systems", set() < {*settings.systems} <= {*LADDER}, f"some of {', '.join(LADDER)}"),
        ("baselines", {*settings.baselines} <= {*BASELINES}, f"some of {', '.join(BASELINES)}"),
        ("topk", all(k >= 1 for k in settings.topk), "numbers of 1 or more"),
        ("loo_samples", settings.loo_samples >= 2, "2 or more"),
        ("shares", all(0 < share <= 1 for share in settings.shares), "above 0, 1 at most"),
        ("examples", settings.examples >= 1, "1 or more"),
        ("epochs", {*settings.epochs} <= {*TRAINED}, f"for {', '.join(TRAINED)}"),
        ("epochs", all(epochs > 0 for epochs in settings.epochs.values()), "above 0"),
    )
    for name, good, wanted in rules:
        if not good:
            raise ConfigError(f"{path}: {name}", "its value cannot be", f"It must be {wanted}.")


def read_train(preset: Preset, config: str) -> "Settings":
    """A file of the preset, checked, with the preset's own epochs."""
    from naic.train.config import read_settings

    settings = read_settings(preset.path(config))
    epochs = preset.settings.epochs.get(config)
    if epochs is None:
        return settings
    ratio = epochs / settings.run.epochs
    schedule = replace(settings.schedule, total_epochs=ratio * settings.schedule.total_epochs)
    return replace(settings, run=replace(settings.run, epochs=epochs), schedule=schedule)


def train_settings(
    preset: Preset,
    job: "Train",
    folders: dict[str, Path],
    out: Path,
    *,
    seed: int | None,
    device: str,
    graph: bool = False,
) -> "Settings":
    """What `naic.train.loop.train` takes.

    Args:
        preset: where the file is.
        job: which file, and what to put over it.
        folders: of the stages it needs, by their names.
        out: the run's folder.
        seed: None leaves that of the file.
        device: put over engine.device.
        graph: put over engine.graph, where that is false.
    """
    settings = read_train(preset, job.config)
    data = replace(
        settings.data,
        features=folders["features"],
        pseudo=tuple(folders[name] for name in job.pseudo),
        unlabelled=() if job.unlabelled is None else (folders[job.unlabelled],),
    )
    # Only the teacher may begin with a model from outside: one whose backbone made the features.
    own_start = settings.start if job.config == "teacher_xe" else None
    model = settings.model
    if job.config == "student_kd" and job.start is None:
        # No start model gives the sizes.
        model = {**read_train(preset, "student_base").model, **model}
    settings = replace(
        settings,
        out=out,
        data=data,
        model=model,
        start=own_start if job.start is None else folders[job.start] / "best",
        seed=settings.seed if seed is None else seed,
        engine=replace(settings.engine, device=device, graph=graph or settings.engine.graph),
        xe=settings.xe if job.fill is None else replace(settings.xe, fill=job.fill),
        cmal=_cmal(settings.cmal, job, preset.settings.loo_samples),
    )
    if job.unlabelled is not None and preset.settings.same_steps:
        return _same_steps(settings)
    return settings


def _cmal(cmal: "CMALSettings", job: "Train", loo_samples: int) -> "CMALSettings":
    if job.topk is not None:
        cmal = replace(cmal, topk=job.topk)
    if job.baseline is None:
        return cmal
    samples = max(cmal.samples, loo_samples) if job.baseline == "loo" else cmal.samples
    values: dict[str, Any] = {"baseline": job.baseline, "samples": samples}
    return replace(cmal, **values)


def _same_steps(settings: "Settings") -> "Settings":
    """As many steps, validations and checkpoints as with the labelled images alone."""
    labelled, *others = [len(PseudoStore(folder)) for folder in settings.data.pseudo]
    share = labelled / (labelled + sum(others))
    run = settings.run
    return replace(
        settings,
        run=replace(
            run,
            epochs=share * run.epochs,
            validate_every=share * run.validate_every,
            save_every=share * run.save_every,
        ),
        schedule=replace(settings.schedule, total_epochs=share * settings.schedule.total_epochs),
        guard=replace(settings.guard, from_epoch=share * settings.guard.from_epoch),
    )


def is_finished(settings: "Settings") -> bool:
    """Whether a run with these very settings came to its end.

    `train` would tell as well, but reads all captions first. Sizes that a start model gave are in
    the report only, and so are plug-ins that the command line named.
    """
    from naic.train.config import current, settings_toml

    try:
        report = json.loads((settings.out / "report.json").read_bytes())
        kept = current(tomllib.loads(report["config"]))
    except (OSError, ValueError, KeyError, TypeError):
        return False
    wanted = tomllib.loads(settings_toml(settings)) | {"plugins": kept["plugins"]}
    sizes = {**kept.get("model", {}), **wanted.get("model", {})}
    wanted["model"] = sizes
    weights = settings.out / "best" / "model.safetensors"
    return bool(wanted == {**kept, "model": kept.get("model", {})} and weights.is_file())
