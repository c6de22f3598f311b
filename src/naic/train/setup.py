"""From settings to an engine that is ready to step: a new run's, or a killed one's."""

import json
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import MISSING, asdict, dataclass, fields
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate import Accelerator, PartialState
from accelerate.state import AcceleratorState, is_initialized
from accelerate.utils import InitProcessGroupKwargs, broadcast_object_list
from torch import Tensor

from naic.config import flat
from naic.data.batches import check_spread
from naic.device import choose_device
from naic.errors import CheckpointError, ConfigError, StoreError
from naic.files import remove_temporaries, write_atomically
from naic.models.folder import check_fit
from naic.resume import STATE, locked, refuse_changed, refuse_strangers
from naic.train import checkpoint
from naic.train.batches import Feed, Shares, check_shares, share_out
from naic.train.checkpoint import Snapshot
from naic.train.config import current, settings_toml
from naic.train.engine import TrainingEngine, check_engine, prepare_speed
from naic.train.inputs import CONFIG, VOCABULARY, Inputs, find_inputs
from naic.train.kept import Kept
from naic.train.rewarding import find_rewards, judged_images
from naic.train.settings import Settings
from naic.train.stages import make_tools, stage_of

if TYPE_CHECKING:  # few runs have rewards of their own
    from naic.learn.own_rewards import OwnReward

# What may change between two parts of one run: it decides when to stop, where code is found, or in
# how many parts a step is taken, not what is learnt.
_MAY_CHANGE = {"out", "plugins", "run.epochs", "validation.report"}
_MAY_CHANGE |= {"run.accumulate", "engine.patience"}
_MAY_CHANGE |= {"guard.fraction", "guard.from_epoch"}


@dataclass(frozen=True)
class TrainingState:
    """A run before its next step."""

    accelerator: Accelerator
    inputs: Inputs
    engine: TrainingEngine
    feed: Feed
    step: int  # how many steps were made
    state: dict[str, Any]  # what the checkpoint kept beside tensors; empty for a new run
    shares: Shares
    parts: int  # in which each process takes its share of a step
    own: "Sequence[OwnReward]" = ()


@contextmanager
def take_folder(
    settings: Settings, *, resume: bool, kept: Kept | None = None
) -> Iterator[tuple[Accelerator, Inputs]]:
    """Take the run's folder, and find all it needs."""
    accelerator = _accelerator(settings)
    check_processes(settings, accelerator.device.type, accelerator.num_processes)
    with ExitStack() as stack:
        if accelerator.is_main_process:
            try:
                settings.out.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                why = f"cannot be made a folder ({error.strerror})"
                raise StoreError(str(settings.out), why, "Choose another --out.") from error
            stack.enter_context(locked(settings.out))
        inputs = find_inputs(settings, kept)
        if accelerator.is_main_process:
            check_folder(inputs, resume=resume)
        if accelerator.num_processes > 1:
            from naic.train.peers import check_agreement

            check_agreement(accelerator, inputs)
        yield accelerator, inputs


@contextmanager
def set_up(
    accelerator: Accelerator,
    inputs: Inputs,
    kept: Kept | None = None,
    own: "Sequence[OwnReward]" = (),
) -> Iterator[TrainingState]:
    """Make the engine, and restore the last checkpoint; `kept` is what runs hand on."""
    settings, kept = inputs.settings, kept or Kept()
    with _matrix_precision(), closing(_feed(inputs, accelerator, kept)) as feed:
        inputs.model.to(accelerator.device)
        tools = make_tools(
            settings,
            inputs.spec,
            inputs.model,
            inputs.vocabulary,
            find_rewards(inputs, accelerator, kept, own),
            prepare_speed(inputs.model, settings.engine),
        )
        engine = TrainingEngine(accelerator, tools, feed)
        step, state = _restore(engine, inputs, accelerator)
        world = accelerator.num_processes
        shares, parts = share_out(settings.run, world, state.get("shares"))
        feed.cut(parts)
        if accelerator.is_main_process:
            _open_run(inputs)
        yield TrainingState(accelerator, inputs, engine, feed, step, state, shares, parts, own)


@contextmanager
def _matrix_precision() -> Iterator[None]:
    """What a run sets for the whole program is set back: others may come after it."""
    before = torch.get_float32_matmul_precision()
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def check_processes(settings: Settings, device: str, processes: int) -> None:
    """What so many processes, in all, cannot do on this kind of device."""
    check_engine(settings.engine, device, processes)
    check_spread(settings.run.batch, settings.data.spread)
    check_shares(settings.run.batch, processes, settings.run.accumulate)


def check_cards(device: str, processes: int) -> None:
    """Each process of a machine needs a card of its own."""
    cards = torch.cuda.device_count()
    if device == "cuda" and processes > cards:
        why = f"there is no card for process {processes} of this machine, which has {cards}"
        raise ConfigError("--nproc", why, 'Start fewer, or set engine.device to "cpu".')


def _accelerator(settings: Settings) -> Accelerator:
    """Several processes find each other here; mixed precision stays the engine's business."""
    chosen = choose_device(settings.engine.device)
    if chosen.index:
        why = f"a run takes the first card it sees, and this is {chosen}"
        raise ConfigError("engine.device", why, 'Write "cuda", and set CUDA_VISIBLE_DEVICES.')
    check_cards(chosen.type, int(os.environ.get("LOCAL_RANK", "0")) + 1)
    # accelerate keeps to the first device of a program, whatever a later run asks for.
    if is_initialized() and PartialState().device.type != chosen.type:
        if PartialState().num_processes > 1:
            why = f"these processes found each other on {PartialState().device.type}"
            raise ConfigError("engine.device", why, "Begin this run in a program of its own.")
        AcceleratorState._reset_state(reset_partial_state=True)
    accelerator = Accelerator(
        cpu=chosen.type == "cpu",
        mixed_precision="no",  # not what the environment says
        kwargs_handlers=[
            InitProcessGroupKwargs(timeout=timedelta(minutes=settings.engine.patience))
        ],
    )
    if accelerator.device.type != chosen.type:
        why = f"this run wants {chosen.type}, and accelerate chose {accelerator.device.type}"
        raise ConfigError("engine.device", why, "Unset ACCELERATE_... in the environment.")
    return accelerator


def check_folder(inputs: Inputs, *, resume: bool) -> None:
    """Refuse a folder of something else, or of another run than the one that shall go on."""
    out = inputs.settings.out
    path = out / CONFIG
    if not path.exists():
        # A run that was killed while it began may have left its vocabulary, whole or in part.
        refuse_strangers(out, [f"{VOCABULARY}*", f"{CONFIG}.*"], "run")
        return
    if not resume:
        why = "there is a run in this folder"
        raise ConfigError(str(out), why, "Go on with --resume auto, or choose another --out.")
    # A run may have been begun before its model had all of these settings.
    unset = {f"model.{one.name}": one.default for one in fields(inputs.config)}
    # One rate held for all weights then, and a run without a backbone inside has no other.
    unset |= {"optimiser.backbone_rate": inputs.settings.optimiser.backbone_rate}
    if inputs.spec.backbone(inputs.config):
        unset |= {"optimiser.backbone_rate": 1.0}
    unset |= {"optimiser.block_rate": 1.0, "optimiser.frozen_steps": 0}
    unset |= {"data.views": [], "data.spread": 1}
    # Nor had its stage; what it had not was as it is by default.
    table = stage_of(inputs.settings).table
    own = fields(getattr(inputs.settings, table))
    unset |= {f"{table}.{one.name}": one.default for one in own if one.default is not MISSING}
    _same_run(path, tomllib.loads(settings_toml(inputs.settings)), unset)


def _open_run(inputs: Inputs) -> None:
    """Write what a run begins with; it may be there already, but for a number of epochs, say.

    Last of all that can fail before the first step: what could not begin leaves no run behind.
    """
    out = inputs.settings.out
    remove_temporaries(out, VOCABULARY, CONFIG)
    inputs.vocabulary.save(out / VOCABULARY)
    # The settings come last: where they are, all that a run needs to begin is there.
    write_atomically(out / CONFIG, settings_toml(inputs.settings).encode())
    checkpoint.clean(out)


def _same_run(path: Path, now: dict[str, Any], unset: dict[str, Any]) -> None:
    try:
        before = unset | dict(flat(current(tomllib.loads(path.read_text(encoding="utf-8")))))
    except (OSError, ValueError) as error:
        raise CheckpointError(str(path), f"cannot be read ({error})", "Begin a new run.") from error
    after = dict(flat(now))
    fixed = sorted((before.keys() | after.keys()) - _MAY_CHANGE)
    request = {name: after.get(name) for name in fixed}
    refuse_changed(str(path), before, request, "Change it back, or begin a new run: --out DIR.")


def _feed(inputs: Inputs, accelerator: Accelerator, kept: Kept) -> Feed:
    settings, judged = inputs.settings, judged_images(inputs)
    return Feed(
        inputs.images,
        inputs.targets,
        batch=settings.run.batch,
        # More places than any image has captions would be filled with padding.
        captions=min(settings.data.captions, inputs.targets.ids.shape[1]),
        seed=settings.seed,
        rank=accelerator.process_index,
        world=accelerator.num_processes,
        accumulate=settings.run.accumulate,
        spread=settings.data.spread,
        device=accelerator.device,
        keep=settings.data.keep,
        fill=stage_of(settings).fill(settings),
        kept=kept,
        judged=None if judged is None else judged[inputs.targets.rows],
    )


def _restore(
    engine: TrainingEngine, inputs: Inputs, accelerator: Accelerator
) -> tuple[int, dict[str, Any]]:
    """Process 0 reads the last checkpoint, the others get it from there: they may lack the disk."""
    found: list[Any] = [None]
    if accelerator.is_main_process:
        path = checkpoint.latest(inputs.settings.out)
        if path is not None:
            snapshot: Snapshot = checkpoint.load(path)
            _check_snapshot(path, snapshot, engine, inputs)
            engine.restore(snapshot.model, snapshot.optimiser, snapshot.average)
            found = [(snapshot.step, snapshot.state)]
    if accelerator.num_processes > 1:
        broadcast_object_list(found)
    if found[0] is None:
        return 0, {}
    engine.share()
    step, state = found[0]
    return int(step), dict(state)


def _check_snapshot(path: Path, snapshot: Snapshot, engine: TrainingEngine, inputs: Inputs) -> None:
    """Refuse a whole checkpoint that is of another run, or of this run on other data."""
    hint = "Put back the checkpoint of this run."
    if not {"guard", "seconds"} <= snapshot.state.keys():
        raise CheckpointError(str(path / STATE), "is of no training run", hint)
    weights, _, average = engine.tensors()
    for name, given, expected in (
        ("model", snapshot.model, weights),
        ("optimiser", snapshot.optimiser, _moments(engine, snapshot.optimiser)),
        ("average", snapshot.average, average),
    ):
        check_fit(path / f"{name}.safetensors", given, expected, hint)
    now = json.loads(json.dumps(asdict(inputs.sign())))
    before = snapshot.state.get("data", now)  # checkpoints of before it was kept have none
    if before != now:
        parts = ", ".join(key for key in now if before.get(key) != now[key])
        why = f"the run was begun on other data than is there now ({parts} differ)"
        folder = str(inputs.store.folder)
        raise StoreError(folder, why, "Put that back, or begin a new run: --out DIR.")


def _moments(engine: TrainingEngine, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors shaped like Adam's, and the baseline's; a weight never trained has none."""
    named = [(n, p) for n, p in engine.plain.named_parameters() if f"step/{n}" in given]
    counts = {f"step/{name}": torch.zeros(()) for name, _ in named}
    moments = {f"{key}/{n}": p for n, p in named for key in ("exp_avg", "exp_avg_sq")}
    return counts | moments | engine.rewards_seen()
