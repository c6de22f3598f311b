"""A small run of `naic train` with two processes, and what can be seen of it from outside."""

import os
import subprocess
import sys
from pathlib import Path

from naic.files import TEMPORARY_SUFFIX
from naic.train.logs import METRICS, Metrics, read_metrics
from tests.train.processes import children

PROCESSES = 2
STEPS, VALIDATE_EVERY, SAVE_EVERY = 40, 8, 4
BATCH = 8
COMMAND = ["-m", "naic", "train", "../config.toml", "--nproc", str(PROCESSES), "--resume", "auto"]
# Dropout, clipping and averaging are on: what they leave behind must survive a kill as well.
CONFIG = f"""
stage = "teacher_xe"
captioner = "causal"
out = "run"
seed = 4
data = {{ features = "../store", more_than = 0 }}
schedule = {{ learning_rate = 1.5e-3 }}
optimiser = {{ average = 0.9 }}
engine = {{ device = "cpu" }}
validation = {{ report = [1, 2] }}
guard = {{ fraction = 0.0 }}

[model]
width = 64
heads = 4
encoder_layers = 2
decoder_layers = 2
hidden = 128

[run]
batch = {BATCH}
epochs = {STEPS / VALIDATE_EVERY}
log_every = 1
validate_every = 1.0
save_every = {SAVE_EVERY / VALIDATE_EVERY}
"""


def write_config(path: Path) -> None:
    """Eight of ten scenes are for training, so VALIDATE_EVERY * 10 scenes are that many steps."""
    path.write_text(CONFIG)


class Attempt:
    """One `naic train` in `home`/run: the first, or one that goes on."""

    def __init__(self, home: Path) -> None:
        home.mkdir(exist_ok=True)
        self.run = home / "run"
        self._old = _temporaries(self.run)
        self._log_before = self._log_file()
        self.begun_at = _last_checkpoint(self.run)
        self._past = [line for line in read_metrics(self.run) if self._is_past(line)]
        self._errors = home / "stderr"
        with self._errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, *COMMAND],
                cwd=home,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )

    def running(self) -> bool:
        return self.process.poll() is None

    def workers(self) -> list[int]:
        """Their pids, once all of them are there."""
        found = children(self.process.pid, "naic train")
        return found if len(found) == PROCESSES else []

    def phase(self) -> str:
        """What the run is doing, from what is on the disk; exact while it is stopped."""
        new = _temporaries(self.run) - self._old
        for part, phase in (("checkpoints/.saving", "save"), ("models/.saving", "best")):
            if any(name.startswith(part) for name in new):
                return phase
        if new:
            return "file"  # one of those that are written by themselves: the log, captions, ...
        if self._log_file() == self._log_before:
            return "start-up"
        lines = read_metrics(self.run)
        last = lines[-1] if lines else {"step": 0}
        if "loss" in last and int(last["step"]) % VALIDATE_EVERY == 0:
            return "validation"
        saved = self.run / "checkpoints" / f"step-{STEPS:08d}"
        return "report" if last["step"] == STEPS and saved.exists() else "step"

    def step(self) -> int:
        """The last one that was logged."""
        lines = read_metrics(self.run)
        return int(lines[-1]["step"]) if lines else 0

    def half_written(self) -> bool:
        """Whether this run has a checkpoint's temporary folder on the disk."""
        new = _temporaries(self.run) - self._old
        return any(name.startswith("checkpoints/.saving") for name in new)

    def told(self) -> str:
        """What it wrote to standard error."""
        return self._errors.read_text()

    def finish(self) -> None:
        """Wait for its end, which must be a good one."""
        assert self.process.wait(300) == 0, self.told()
        assert self.went_on(), "it began anew, although there was a checkpoint"

    def went_on(self) -> bool:
        """Whether what was logged before the last checkpoint is still there, times and all.

        A run that began anew would come to the same end, but not at the same times.
        """
        return read_metrics(self.run)[: len(self._past)] == self._past

    def _is_past(self, line: Metrics) -> bool:
        return int(line["step"]) <= self.begun_at

    def _log_file(self) -> int:
        """The log's inode: it is written anew when a run is ready to begin, or to go on."""
        path = self.run / METRICS
        return path.stat().st_ino if path.exists() else 0


def _temporaries(run: Path) -> set[str]:
    """Files and folders that have been begun and not finished."""
    found = set()
    for place, folders, files in os.walk(run):  # which does not mind what goes while it looks
        names = [name for name in folders if name.startswith(".saving-")]
        names += [name for name in files if name.endswith(TEMPORARY_SUFFIX)]
        found |= {Path(place, name).relative_to(run).as_posix() for name in names}
    return found


def _last_checkpoint(run: Path) -> int:
    names = (path.name for path in (run / "checkpoints").glob("step-*"))
    return max((int(name.removeprefix("step-")) for name in names), default=-1)
