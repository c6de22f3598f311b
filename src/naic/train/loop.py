"""The training loop. It knows neither which stage it runs, nor which captioner."""

import os
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import torch
from accelerate import Accelerator
from torch import Tensor

from naic.decode.decoding import Decoding
from naic.device import choose_device
from naic.errors import TrainingError
from naic.learn.schedules import learning_rate
from naic.train import checkpoint
from naic.train.checkpoint import Snapshot
from naic.train.guard import Guard
from naic.train.inputs import find_inputs
from naic.train.kept import Kept
from naic.train.logs import Display, RunLog
from naic.train.report import Reporter, finished_report, scores_of
from naic.train.rewarding import try_out
from naic.train.settings import Settings
from naic.train.setup import (
    TrainingState,
    check_cards,
    check_folder,
    check_processes,
    set_up,
    take_folder,
)
from naic.train.stages import stage_of
from naic.train.tools import Logs, rewards_itself

if TYPE_CHECKING:  # few runs have rewards of their own
    from naic.learn.own_rewards import OwnReward
    from naic.train.own_rewards import GivenRewards

EXAMPLES = 3


def train(
    settings: Settings,
    *,
    resume: bool = False,
    command: str = "",
    kept: Kept | None = None,
    rewards: "GivenRewards | None" = None,
) -> dict[str, Any]:
    """Run a stage to its end, or on from its last checkpoint; gives what report.json holds.

    Of a run that is finished, the report is all there is to give. All processes call it; process 0
    alone writes. `command` is what the model card says was run. Runs that follow each other hand on
    what they read in `kept`. `rewards` are functions of one's own, by a name, with their weights:
    {"short": (short, 0.5)}, beside those that the settings name.

    Raises:
        TrainingError: the run collapsed, or memory ran out; the best weights so far are kept. Or a
            reward of one's own gave something else than a number for each sentence.
    """
    settings, own = _take(settings, rewards)
    with (
        _told_of_peers(),
        take_folder(settings, resume=resume, kept=kept) as (accelerator, inputs),
    ):
        report = finished_report(accelerator, inputs)
        if report is None:
            with set_up(accelerator, inputs, kept, own) as training:
                report = _run(Run(training, command))
        return report


def _told_of_peers() -> AbstractContextManager[None]:
    """Who is alone imports nothing of what is for several processes."""
    if "RANK" not in os.environ:  # of torchrun, or of `naic train --nproc`
        return nullcontext()
    from naic.train.peers import lost_peers_told

    return lost_peers_told()


def dry_run(settings: Settings, nproc: int, *, resume: bool) -> list[tuple[str, str]]:
    """What a run would do, found out without writing anything: names, and what to say of them."""
    run = settings.run
    device = choose_device(settings.engine.device).type
    check_cards(device, nproc)
    check_processes(settings, device, nproc)
    settings, own = _take(settings)
    found = find_inputs(settings)
    try_out(found, own)
    weights = sum(p.numel() for p in found.model.parameters())
    check_folder(found, resume=resume)
    last = checkpoint.latest(settings.out)
    processes = "1 process" if nproc == 1 else f"{nproc} processes"
    epochs = "1 epoch" if run.epochs == 1 else f"{run.epochs:g} epochs"
    learnt = f"{len(found.targets):,} images, {found.targets.captions:,} captions"
    lines = [
        ("stage", f"{settings.stage} of a {settings.captioner} captioner"),
        ("features", found.store.describe()),
        ("learns from", learnt),
        *(("pseudo", f"{store.folder}: {store.describe()}") for store in found.pseudo),
        ("validates", f"{len(found.validation):,} images"),
        ("vocabulary", f"{len(found.vocabulary):,} words"),
        ("model", f"{weights:,} parameters"),
        ("steps", f"{found.steps:,} of {run.batch} images on {processes}, {epochs}"),
        ("folder", f"{settings.out}" + (f", on from {last.name}" if last else "")),
    ]
    if own:
        named = ", ".join(f"{one.weight:g} {one.name}" for one in own)
        lines.insert(1, ("rewards", f"of your own: {named}"))
    if found.start:
        lines.insert(1, ("start", found.start))
    return lines


def _take(
    settings: Settings, rewards: "GivenRewards | None" = None
) -> "tuple[Settings, tuple[OwnReward, ...]]":
    """The settings with the names of all rewards of one's own, and these."""
    if not rewards and rewards_itself(stage_of(settings), settings):
        return settings, ()
    from naic.train.own_rewards import take_rewards

    return take_rewards(settings, rewards)


def _run(run: "Run") -> dict[str, Any]:
    try:
        run.learn()
        return run.reporter.write(run.guard, run.seconds)
    except torch.OutOfMemoryError as error:
        why = f"the device has too little of it ({str(error).partition('. ')[0]})"
        hint = "Raise run.accumulate, or lower run.batch or validation.batch; begin a new run."
        raise TrainingError("memory", why, hint) from error


class Run:
    """One run in its folder: steps, and now and then a look at how it goes."""

    def __init__(self, training: TrainingState, command: str) -> None:
        settings = training.inputs.settings
        self.settings = settings
        self.training = training
        self.engine = training.engine
        self.main = training.accelerator.is_main_process
        self.total = training.inputs.steps
        self.guard = Guard(settings.guard, settings.out, stage_of(settings).advice)
        self.seconds = 0.0
        if training.state:
            self.guard.restore(training.state["guard"])
            self.seconds = training.state["seconds"]
        resumed = training.step if training.state else None
        self.log = RunLog(settings.out, resumed) if self.main else None
        self.display = Display(settings.stage, rank=training.accelerator.process_index)
        self.reporter = Reporter(training, command)

    def learn(self) -> None:
        """The loop."""
        window = Window(self.training.accelerator, self.settings.run.batch)
        self.reporter.withdraw()
        with self.display, self.log or nullcontext():
            if self.log is not None and self.log.note:
                self.display.message(self.log.note)
            if self.training.parts > self.settings.run.accumulate:
                parts = f"each takes its share of a step in {self.training.parts} parts"
                self.display.message(f"Fewer processes than at first: {parts}.")
            if self.training.step == 0 and self.settings.start is not None:
                taken = self.training.inputs.start
                self.display.message(f"from {self.settings.start}: {taken}")
                self._validate(0)  # what the start model can do: the best until it is beaten
            for step in range(self.training.step, self.total):
                epoch = self.training.feed.epoch(step)
                rate = learning_rate(self.settings.schedule, step, epoch)
                window.add(self.engine.step(step, rate))
                done = step + 1
                validating = self._due(done, self.settings.run.validate_every)
                saving = self._due(done, self.settings.run.save_every)
                if done % self.settings.run.log_every == 0 or validating or saving:
                    self._log(done, rate, window, more=validating)
                if validating:
                    self._validate(done)
                if saving:
                    self._save(done)
                if validating or saving:
                    window.restart()

    def _due(self, done: int, every: float) -> bool:
        """Whether `done` is the step nearest to a multiple of `every` epochs, or the last one."""
        steps = every * len(self.training.inputs.targets) / self.settings.run.batch
        return int((done + 0.5) / steps) > int((done - 0.5) / steps) or done == self.total

    def _log(self, done: int, rate: float, window: "Window", *, more: bool) -> None:
        """Note the means since the last line; `more` numbers of this step come by a validation."""
        epoch = self.training.feed.epoch(done)
        means, seconds, speed = window.close()
        self.seconds += seconds
        line = {"epoch": epoch, "learning_rate": rate, **means}
        times = {"seconds": self.seconds, "images_per_second": speed}
        if self.log is not None:
            self.log.log(done, line | times)
        self.display.update(done, self.total, epoch, line | times, more=more)
        self.guard.logged(done, epoch, means)

    def _validate(self, done: int) -> None:
        """Caption the validation images with the averaged weights; keep them if they are best."""
        began = time.monotonic()
        epoch = self.training.feed.epoch(done)
        with self.engine.averaged():
            self.guard.weighed(done, finite=self.engine.finite())
            found = self.reporter.validate(Decoding(self.settings.validation.beam))
            best = self.guard.validated(done, found.cider, self.reporter.worth(found))
            if best and self.main:
                self.reporter.keep_best(done, found)
        self.seconds += time.monotonic() - began
        if self.log is not None:
            self.log.log(done, {"epoch": epoch, **scores_of(found)})
        self.display.update(done, self.total, epoch, scores_of(found))
        self.display.example(self.reporter.examples(found, EXAMPLES))
        self.guard.judge(done, epoch, found.cider)

    def _save(self, done: int) -> None:
        began = time.monotonic()
        self.guard.weighed(done, finite=self.engine.finite())
        if self.log is not None:
            self.log.sync()
            state = {
                "guard": self.guard.state(),
                "seconds": self.seconds,
                "shares": asdict(self.training.shares),
                "data": asdict(self.reporter.data),
            }
            checkpoint.save(self.settings.out, Snapshot(done, *self.engine.tensors(), state))
        self.training.accelerator.wait_for_everyone()
        self.seconds += time.monotonic() - began


class Window:
    """Means of what the steps logged since the last line, without waiting for the device."""

    def __init__(self, accelerator: Accelerator, batch: int) -> None:
        self._accelerator = accelerator
        self._batch = batch
        self._names: list[str] = []
        self._sums: Tensor | None = None  # one for all names: a kernel each would be many
        self._count = 0
        self._began = time.monotonic()

    def add(self, logs: Logs) -> None:
        """One more step."""
        self._names = list(logs)
        values = torch.stack(list(logs.values())).double()
        self._sums = values if self._sums is None else self._sums + values
        self._count += 1

    def close(self) -> tuple[dict[str, float], float, float]:
        """Means over the steps, their seconds, images a second; then it begins anew.

        Losses and rewards are shares of the whole, to be added up over processes; the norm of the
        gradient is the same everywhere.
        """
        values = self._sums
        assert values is not None
        if self._accelerator.num_processes > 1:
            values = self._accelerator.reduce(values, "sum")
        world = self._accelerator.num_processes
        means = {
            name: value / self._count / (world if name == "gradient" else 1)
            for name, value in zip(self._names, values.tolist(), strict=True)
        }
        seconds = time.monotonic() - self._began
        speed = self._count * self._batch / max(seconds, 1e-9)
        self._sums, self._count = None, 0
        self.restart()
        return means, seconds, speed

    def restart(self) -> None:
        """Time that was no step's is not counted."""
        self._began = time.monotonic()
