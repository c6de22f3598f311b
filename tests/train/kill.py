"""Kills the workers of `naic train` with SIGKILL again and again, and compares what comes of it.

    python -m tests.train.kill --trials 20 --out docs/results/training_kills.json

Each trial is a run of two processes. Two to four times one of them, chosen at random, is killed in
a phase chosen beforehand; the same command goes on each time; what it ends with is compared with
the unbroken run, file by file. At least every third kill strikes while a checkpoint is being
written, since that is the moment at which a careless program loses data.

To be sure of the phase both workers are stopped first, the phase is read off the disk while
nothing moves, and then the one is killed.
"""

import argparse
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from naic.data.shapes.dataset import records
from naic.train.logs import read_metrics
from tests.data.stores import make_store
from tests.train.processes import gone, seconds_until
from tests.train.sameness import differences
from tests.train.watching import PROCESSES, STEPS, VALIDATE_EVERY, Attempt, write_config

POLL_SECONDS = 0.0005
GONE_SECONDS = 60.0  # the longest that a worker may outlive its partner
MOST_KILLS = 4


@dataclass(frozen=True, slots=True)
class Kill:
    """What a kill hit."""

    trial: int
    phase: str  # while both workers stood still
    step: int  # the last one that was logged
    rank: int  # as the launcher told it
    half_written: bool  # whether a half-written checkpoint was left on the disk
    seconds: float  # until all processes were gone


@dataclass(frozen=True, slots=True)
class Aim:
    """When to strike."""

    phase: str
    step: int  # not before this one is logged
    delay: float  # seconds: after the start for "start-up", else at most, after it was seen


def trials(count: int, seed: int, folder: Path, kills: int = MOST_KILLS) -> dict[str, Any]:
    """So many trials of two to `kills` kills each: what each kill hit, what each run ended with."""
    rng = random.Random(seed)
    scenes = records(VALIDATE_EVERY * 10)
    make_store(
        folder / "store",
        [scene.captions for scene in scenes],
        splits=[scene.split for scene in scenes],
        facts=[scene.facts for scene in scenes],
        per_shard=len(scenes),
    )
    write_config(folder / "config.toml")
    ready, whole = _unbroken(folder / "unbroken")
    improved = _improvements(folder / "unbroken" / "run")
    struck: list[Kill] = []
    ended: dict[int, list[str]] = {}
    for trial in range(count):
        home = folder / f"trial-{trial}"
        planned, done = rng.randint(2, kills), 0
        while done < planned:
            attempt = Attempt(home)
            last = STEPS * (done + 1) // (planned + 1)  # leaves room for the kills to come
            saves = sum(kill.phase == "save" for kill in struck)
            owing = 3 * saves <= len(struck) + 3  # ahead, since a run at its end saves no more
            aim = choose_aim(rng, attempt.begun_at, last, improved, ready, save=owing)
            hit = strike(attempt, trial, aim, rng)
            print(hit or f"trial {trial}: it ended before {aim}", flush=True)
            if hit:
                struck.append(hit)
                done += 1
        Attempt(home).finish()
        ended[trial] = differences(home / "run", folder / "unbroken" / "run")
        shutil.rmtree(home)
    return {
        "processes": PROCESSES,
        "steps": STEPS,
        "seconds_of_the_unbroken_run": round(whole, 1),
        "trials": count,
        "identical": sum(not names for names in ended.values()),
        "different_files": {str(trial): names for trial, names in ended.items() if names},
        "phases": dict(Counter(kill.phase for kill in struck)),
        "slowest_end": max((kill.seconds for kill in struck), default=0.0),
        "kills": [asdict(kill) for kill in struck],
    }


def strike(attempt: Attempt, trial: int, aim: Aim, rng: random.Random) -> Kill | None:
    """Wait for the moment, then kill a worker; None when the run ended by itself before."""
    began = time.monotonic()
    workers: list[int] = []
    while attempt.running():
        workers = workers or attempt.workers()
        if workers and _due(attempt, aim, began):
            if aim.phase != "start-up":
                time.sleep(rng.uniform(0, aim.delay))
            _send(workers, signal.SIGSTOP)
            time.sleep(0.01)
            # A start-up may be over sooner than the first one was: then whatever comes after it.
            if aim.phase in (attempt.phase(), "start-up"):
                return _kill(attempt, workers, trial, rng)
            _send(workers, signal.SIGCONT)
        # Importing takes seconds, and needs the cores that we would spend on looking.
        early = aim.phase != "file" and attempt.phase() == "start-up"
        time.sleep(0.02 if early else POLL_SECONDS)
    attempt.finish()
    return None


def _due(attempt: Attempt, aim: Aim, began: float) -> bool:
    if aim.phase == "start-up":
        return time.monotonic() - began >= aim.delay
    return attempt.phase() == aim.phase and attempt.step() >= aim.step


def _kill(attempt: Attempt, workers: list[int], trial: int, rng: random.Random) -> Kill | None:
    """Kill one of the stopped workers; None when it had just ended by itself."""
    phase, step, victim = attempt.phase(), attempt.step(), rng.choice(workers)
    began = time.monotonic()
    _send([victim], signal.SIGKILL)
    if phase == "save" or rng.random() < 0.5:
        # The other one gets no time to finish what it does, such as the save.
        seconds_until(lambda: gone(victim), GONE_SECONDS)  # the launcher has seen it
        time.sleep(0.1)
    _send(workers, signal.SIGCONT)
    code = attempt.process.wait(GONE_SECONDS)
    seconds_until(lambda: all(map(gone, workers)), GONE_SECONDS)
    seconds = time.monotonic() - began
    if code == 0:
        return None
    told = attempt.told()
    named = re.findall(r"^naic train: rank (\d+): was killed by SIGKILL", told, re.MULTILINE)
    assert code == 1, told
    assert len(named) == 1, told
    half_written = attempt.half_written()
    if phase == "save" and not half_written:
        phase = "step"  # the other one had time to finish it: this machine is busy
    assert attempt.went_on(), "it began anew, although there was a checkpoint"
    return Kill(trial, phase, step, int(named[0]), half_written, round(seconds, 2))


def _send(workers: list[int], number: signal.Signals) -> None:
    for pid in workers:
        with suppress(ProcessLookupError):  # a run may come to its end at any time
            os.kill(pid, number)


def choose_aim(
    rng: random.Random, first: int, last: int, improved: list[int], ready: float, *, save: bool
) -> Aim:
    """A phase that is still to come after step `first`, and a step of it."""
    step = rng.randint(max(first, 0), max(first, last))
    phases = ["start-up", "file"]
    if first < STEPS:
        phases += ["step", "validation", "save"]
    if first < max(improved):
        phases += ["best"]
    if last > STEPS / 2:
        phases += ["report", "last file"]
    phase = "save" if save and first < STEPS else rng.choice(phases)
    if phase == "best":
        step = min(step, max(improved) - 1)
    elif phase == "file":
        step = 0  # the first to be written: settings, the log
    elif phase == "last file":
        phase, step = "file", STEPS  # captions, the report, the card
    if phase == "start-up":
        return Aim(phase, 0, rng.uniform(0, ready))
    return Aim(phase, step, {"step": 0.03, "validation": 0.03, "report": 0.1}.get(phase, 0.0))


def _unbroken(home: Path) -> tuple[float, float]:
    """The run that all others are compared with: seconds until it was ready, and in all."""
    attempt, began = Attempt(home), time.monotonic()
    seconds_until(lambda: attempt.phase() != "start-up" or not attempt.running(), 120)
    ready = time.monotonic() - began
    attempt.finish()
    return ready, time.monotonic() - began


def _improvements(run: Path) -> list[int]:
    """The steps at which there was a new best model."""
    best, steps = -1.0, []
    for line in read_metrics(run):
        if "cider" in line and float(line["cider"]) > best:
            best = float(line["cider"])
            steps.append(int(line["step"]))
    return steps


def main() -> None:
    """Run the trials, print what each kill hit, keep it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = trials(chosen.trials, chosen.seed, Path(folder))
    print(f"{len(result['kills'])} kills {result['phases']}, all gone within", end=" ")
    print(f"{result['slowest_end']} s; {result['identical']} of {result['trials']} runs identical")
    if chosen.out:
        words = f"python -m tests.train.kill --trials {chosen.trials} --seed {chosen.seed}"
        text = json.dumps({"command": words, **result}, indent=1)
        chosen.out.write_text(f"{text}\n", encoding="utf-8")
    sys.exit(result["identical"] != result["trials"])


if __name__ == "__main__":
    main()
