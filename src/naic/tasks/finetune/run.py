"""`naic finetune`: one's own captions in, a model that speaks like them out.

What is the same in all captions (a fixed beginning, words left out, capitals) is found first, and
kept as rules beside the weights. New words are learnt inside the model's own sentences; all else by
CMAL on people's captions from the first step, the encoder and the backbone staying as they are.
Photos that are kept aside decide what is kept. All lies in DIR/work until it is done:

    DIR/finetune.json    what the run was asked for: another request is refused
    DIR/work/            style.json, features, targets (of new words), start, xe, xe-last, cmal
    DIR/best             the tuned model, or the model as it was if that is no worse
    DIR/report.json      scores on the photos kept aside, before and after; written last
"""

import hashlib
import importlib.util
import json
import shutil
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naic.errors import ConfigError, MissingExtraError, StoreError
from naic.files import CONFIG, FINETUNING, STYLE, VOCABULARY, WEIGHTS, write_atomically
from naic.progress import SILENT, Callbacks
from naic.resume import claim, keep_request
from naic.tasks.finetune import steps
from naic.tasks.finetune.own_style import OwnStyle
from naic.tasks.finetune.plan import (
    FinetuneOptions,
    FinetunePlan,
    OwnCaptions,
    make_plan,
    read_own_captions,
)
from naic.tasks.finetune.report import Finetuned, read_report
from naic.tasks.finetune.tuning import Tuning, look_for_style
from naic.tasks.prepare import free_bytes

if TYPE_CHECKING:  # torch takes a second to import: not before there is work for it
    from naic.models.folder import LoadedModel

REPORT = "report.json"
_NEEDED = ("accelerate", "numba", "tensorboard")
# Copies of the weights on the disk at the worst moment: the start, a best one of each stage and the
# one that replaces it, the end of the first, and three checkpoints of weights and two moments each.
_COPIES = 14


@dataclass(frozen=True, slots=True)
class FinetuneDryRun:
    """What would be done, and what it takes."""

    plan: FinetunePlan
    found: OwnStyle
    model: Path
    steps: int  # of CMAL
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
    folder, loaded, given = _find(options, callbacks)
    asked = make_plan(options, given, loaded.vocabulary)
    with claim(options.out):
        keep_request(options.out / FINETUNING, _request(options, folder, asked), "fine-tuning")
        if not (options.out / REPORT).exists():
            _check_space(options.out, loaded)
            done = Tuning(options, folder, loaded, given, callbacks, command).run()
            finished = replace(done, seconds=time.perf_counter() - started)
            text = json.dumps(asdict(finished), indent=1)
            write_atomically(options.out / REPORT, f"{text}\n".encode())
        if not options.keep_work:
            shutil.rmtree(options.out / steps.WORK, ignore_errors=True)
        return read_report(options.out / REPORT)


def dry_run(options: FinetuneOptions, callbacks: Callbacks = SILENT) -> FinetuneDryRun:
    """The same questions as `finetune` asks, and their answers; nothing is written."""
    folder, loaded, given = _find(options, callbacks)
    found = look_for_style(options, folder, given)
    plan = make_plan(options, given, loaded.vocabulary, found.style)
    count = max(1, round(plan.epochs * plan.learnt_from / plan.batch))
    count = 0 if found.is_all and not plan.new_words else count
    needed, free = _bytes_needed(loaded), free_bytes(options.out)
    return FinetuneDryRun(plan, found, folder, count, needed / 1e9, free / 1e9)


def _find(
    options: FinetuneOptions, callbacks: Callbacks
) -> "tuple[Path, LoadedModel, OwnCaptions]":
    """The model and the captions; whatever is wrong with either is said before any work."""
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
    return folder, loaded, given


def _request(options: FinetuneOptions, folder: Path, plan: FinetunePlan) -> dict[str, Any]:
    """What makes two runs the same one."""
    state = hashlib.sha256()
    for path in (folder / name for name in (WEIGHTS, VOCABULARY, CONFIG, STYLE)):
        state.update(path.read_bytes() if path.exists() else b"")
    return {
        "table of captions": plan.digest,
        "model": state.hexdigest(),
        "epochs": plan.epochs,
        "learning_rate": plan.learning_rate,
        "batch": plan.batch,
        "style": options.style,
        "new_words": options.new_words,
        "seed": options.seed,
    }


def _bytes_needed(loaded: "LoadedModel") -> int:
    size: int = sum(tensor.nbytes for tensor in loaded.model.state_dict().values())
    return _COPIES * size


def _check_space(folder: Path, loaded: "LoadedModel") -> None:
    needed, free = _bytes_needed(loaded), free_bytes(folder)
    if needed > free:
        why = f"needs {needed / 1e9:.1f} GB while it works, and {free / 1e9:.1f} GB are free"
        raise StoreError(str(folder), why, "Free some space, or choose an --out on another disk.")
