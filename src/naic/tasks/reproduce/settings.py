"""The settings of each training stage: the preset's file, with this run's folders put in."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naic.data.pseudo import PseudoStore
from naic.errors import ConfigError
from naic.tasks.reproduce.plan import Train
from naic.tasks.reproduce.preset import TRAINED, Preset

if TYPE_CHECKING:  # reading them checks them, which needs torch: not before there is work for it
    from naic.train.settings import CMALSettings, Settings


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


def check_report(preset: Preset) -> None:
    """The tables are about images that no stage has learnt from, or was chosen by."""
    split = preset.settings.report
    for config in TRAINED:
        data = read_train(preset, config).data
        if split in (*data.train, *data.validation):
            why = f"{preset.path(config)} learns from this split or chooses by it"
            hint = "Name one that is neither in data.train nor in data.validation."
            raise ConfigError(f"report = {split!r}", why, hint)


def check_machine(preset: Preset, *, device: str, graph: bool) -> None:
    """What this machine cannot do, said before anything is written."""
    from naic.device import choose_device
    from naic.train.engine import check_engine

    chosen = choose_device(device)
    for config in TRAINED:
        engine = read_train(preset, config).engine
        wanted = replace(engine, graph=graph or engine.graph)
        if wanted.graph and chosen.type != "cuda":
            asked = "--graph" if graph else str(preset.path(config))
            why = f"steps as CUDA graphs need a CUDA device, and this run is on {chosen.type}"
            hint = "Leave it out." if graph else "Use a GPU, or a preset without engine.graph."
            raise ConfigError(asked, why, hint)
        check_engine(wanted, chosen.type, 1)


def check_schedule(preset: Preset) -> None:
    """With unlabelled images too, as many steps as without them must be possible."""
    kind = read_train(preset, "student_kd").schedule.kind
    if preset.settings.same_steps and kind not in ("constant", "cosine"):
        why = f"the schedule {kind!r} counts whole epochs, and these would get shorter"
        hint = "Set same_steps = false in preset.toml, or choose constant or cosine."
        raise ConfigError(str(preset.path("student_kd")), why, hint)


def train_settings(
    preset: Preset,
    job: Train,
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


def _cmal(cmal: "CMALSettings", job: Train, loo_samples: int) -> "CMALSettings":
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
    the report only.
    """
    from naic.train.config import settings_toml

    try:
        report = json.loads((settings.out / "report.json").read_bytes())
        kept = tomllib.loads(report["config"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
    wanted = tomllib.loads(settings_toml(settings))
    sizes = {**kept.get("model", {}), **wanted.get("model", {})}
    wanted["model"] = sizes
    weights = settings.out / "best" / "model.safetensors"
    return bool(wanted == {**kept, "model": kept.get("model", {})} and weights.is_file())
