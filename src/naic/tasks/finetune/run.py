"""`naic finetune`: one's own captions in, a model that speaks like them out.

The model's backbone stays as it is and makes features once; what speaks is trained by cross-entropy
and then by CMAL, with the same stages as `naic train`. All of it lies in DIR/work until it is done:

    DIR/finetune.json    what the run was asked for: another request is refused
    DIR/work/            start (the model unpacked, with its new words), features, xe, cmal
    DIR/best             the tuned model
    DIR/report.json      scores on the images held out, before and after; written last
"""

import hashlib
import importlib.util
import json
import shutil
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naic.config import structure
from naic.errors import ConfigError, MissingExtraError, Problem, StoreError
from naic.files import sweep, write_atomically, writing
from naic.progress import SILENT, Callbacks
from naic.resume import claim, keep_request
from naic.tasks.finetune import steps
from naic.tasks.finetune.plan import (
    TRAIN,
    FinetuneOptions,
    FinetunePlan,
    make_plan,
    read_own_captions,
)
from naic.tasks.prepare import free_bytes

if TYPE_CHECKING:  # torch takes a second to import: not before there is work for it
    from naic.models.folder import LoadedModel

REQUEST, REPORT = "finetune.json", "report.json"
_NEEDED = ("accelerate", "numba", "tensorboard")
# Copies of the weights on the disk at the worst moment: the start, a best one of each stage and the
# one that replaces it, the end of the first, and three checkpoints of weights and two moments each.
_COPIES = 14


@dataclass(frozen=True, slots=True)
class HeldOutScore:
    """How good captions of the held-out images are, as shares of 1."""

    cider: float
    bad_endings: float


@dataclass(frozen=True, slots=True)
class BeforeAfter:
    """What was said of an image that was held out."""

    id: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Finetuned:
    """What came of it; report.json holds the same."""

    before: HeldOutScore
    after: HeldOutScore
    learnt_from: int
    held_out: int
    epochs: int
    new_words: tuple[str, ...]
    unknown: tuple[str, ...]
    seconds: float
    problems: tuple[Problem, ...]
    examples: tuple[BeforeAfter, ...]


@dataclass(frozen=True, slots=True)
class FinetuneDryRun:
    """What would be done, and what it takes."""

    plan: FinetunePlan
    model: Path
    steps: int  # of both stages
    gigabytes: float
    free_gigabytes: float


def finetune(
    options: FinetuneOptions, callbacks: Callbacks = SILENT, command: str = ""
) -> Finetuned:
    """Tune the model, or go on where an earlier run of the same command was cut off.

    Raises:
        MissingExtraError: the packages for training are not installed.
        DataError: the captions cannot be read, or are of too few images.
        ConfigError: the folder holds another run, the model cannot be tuned, or the device is not
            there.
        StoreError: the disk has too little room.
    """
    started = time.perf_counter()
    folder, loaded, plan = _find(options, callbacks)
    with claim(options.out):
        keep_request(options.out / REQUEST, _request(options, folder, plan), "fine-tuning")
        if not (options.out / REPORT).exists():
            _check_space(options.out, loaded)
            done = _tune(options, folder, loaded, plan, callbacks, command)
            finished = replace(done, seconds=time.perf_counter() - started)
            text = json.dumps(asdict(finished), indent=1)
            write_atomically(options.out / REPORT, f"{text}\n".encode())
        if not options.keep_work:
            shutil.rmtree(options.out / steps.WORK, ignore_errors=True)
        return _read_report(options.out / REPORT)


def dry_run(options: FinetuneOptions, callbacks: Callbacks = SILENT) -> FinetuneDryRun:
    """The same questions as `finetune` asks, and their answers; nothing is written."""
    folder, loaded, plan = _find(options, callbacks)
    count = 2 * max(1, round(plan.epochs * plan.learnt_from / plan.batch))
    needed, free = _bytes_needed(loaded), free_bytes(options.out)
    return FinetuneDryRun(plan, folder, count, needed / 1e9, free / 1e9)


def _find(
    options: FinetuneOptions, callbacks: Callbacks
) -> "tuple[Path, LoadedModel, FinetunePlan]":
    """The model and the plan; whatever is wrong with either is said before any work."""
    options.check()
    for package in _NEEDED:
        if importlib.util.find_spec(package) is None:
            why = f"training needs the package {package}, which is not installed"
            raise MissingExtraError("naic finetune", why, "Run: pip install 'naic[train]'")
    from naic.device import choose_device
    from naic.models.folder import load_model
    from naic.runtime.captioner import shipped_model

    choose_device(options.device)  # here, where one that is not there costs nothing yet
    given = read_own_captions(options, callbacks)  # before the model, which takes seconds to load
    folder = shipped_model() if options.model is None else options.model
    loaded = load_model(folder)
    if loaded.settings.captioner != "parallel":
        why = f"it is a {loaded.settings.captioner} captioner, and CMAL is for parallel ones"
        raise ConfigError(str(folder), why, "Train it with `naic train`: docs/train.md.")
    return folder, loaded, make_plan(options, given, loaded.vocabulary)


def _tune(
    options: FinetuneOptions,
    folder: Path,
    loaded: "LoadedModel",
    plan: FinetunePlan,
    callbacks: Callbacks,
    command: str,
) -> Finetuned:
    from naic.models.folder import load_model
    from naic.train.loop import train

    work = options.out / steps.WORK
    with writing(work):
        work.mkdir(exist_ok=True)
        sweep(work)
        sweep(options.out)
    if not (work / "start").exists():
        steps.write_start(work / "start", folder, loaded, plan.new_words)
    store, problems = steps.make_features(options, loaded, plan, callbacks)
    callbacks.say("before: what the model says of the images that are held out")
    before = steps.validate_held_out(loaded, store, options.device)
    xe, cmal = steps.make_stages(options, loaded, plan, work)
    for stage in (xe, cmal):
        callbacks.say(
            f"{stage.out.name}: {stage.run.epochs:g} epochs of {plan.learnt_from:,} images"
        )
        train(stage, resume=True, command=command)
        if stage is xe and not (work / steps.LAST).exists():
            steps.write_last(xe.out, work / steps.LAST)
        shutil.rmtree(stage.out / "checkpoints", ignore_errors=True)  # nobody goes on from them
    if not (options.out / steps.BEST).exists():
        steps.write_best(options.out / steps.BEST, folder, loaded, work)
    after = steps.validate_held_out(load_model(options.out / steps.BEST), store, options.device)
    return Finetuned(
        before=HeldOutScore(before.cider, before.bad_endings),
        after=HeldOutScore(after.cider, after.bad_endings),
        learnt_from=sum(record.split == TRAIN for record in store.records),
        held_out=len(after.captions),
        epochs=plan.epochs,
        new_words=plan.new_words,
        unknown=plan.unknown,
        seconds=0.0,
        problems=(*plan.problems, *problems),
        examples=tuple(
            BeforeAfter(id_, before.captions[id_], text) for id_, text in after.captions.items()
        ),
    )


def _request(options: FinetuneOptions, folder: Path, plan: FinetunePlan) -> dict[str, Any]:
    """What makes two runs the same one."""
    state = hashlib.sha256()
    for name in ("model.safetensors", "vocab.json", "config.toml"):
        state.update((folder / name).read_bytes())
    return {
        "captions": plan.digest,
        "model": state.hexdigest(),
        "epochs": plan.epochs,
        "learning_rate": options.learning_rate,
        "batch": plan.batch,
        "new_words": options.new_words,
        "seed": options.seed,
    }


def _read_report(path: Path) -> Finetuned:
    try:
        values = json.loads(path.read_bytes())
        return structure(values, Finetuned, str(path))
    except (ValueError, ConfigError) as error:
        why = f"is not as it was written ({error})"
        raise StoreError(str(path), why, "Delete it to have it made anew.") from error


def _bytes_needed(loaded: "LoadedModel") -> int:
    size: int = sum(tensor.nbytes for tensor in loaded.model.state_dict().values())
    return _COPIES * size


def _check_space(folder: Path, loaded: "LoadedModel") -> None:
    needed, free = _bytes_needed(loaded), free_bytes(folder)
    if needed > free:
        why = f"needs {needed / 1e9:.1f} GB while it works, and {free / 1e9:.1f} GB are free"
        raise StoreError(str(folder), why, "Free some space, or choose an --out on another disk.")
