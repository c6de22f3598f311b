"""The part of benchmarks/house.py that times both sides, in turns in one run."""

import json
import statistics
import subprocess
from collections.abc import Callable
from pathlib import Path

from house_trees import BATCH, Found, Tree  # type: ignore[import-not-found]

COLD = 3  # steps at the start of a run that do not count


class Clock:
    """A process that has the shipped model loaded, and times captions when asked."""

    def __init__(self, tree: Tree, image: Path) -> None:
        self._process = subprocess.Popen(
            tree.command("clock", str(image)), cwd=tree.work, env=tree.environment(),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def milliseconds(self) -> float:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


def in_turns(turns: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Milliseconds of both sides; who comes first changes from round to round."""
    found: dict[str, list[float]] = {name: [] for name in turns}
    for number in range(rounds):
        for name in sorted(turns, reverse=bool(number % 2)):
            found[name].append(turns[name]())
    return found


def speed(trees: list[Tree], image: Path, rounds: int) -> Found:
    """Both sides in turns: a caption, a step of the teacher's XE, a step of CMAL."""
    clocks = {tree.name: Clock(tree, image) for tree in trees}
    for clock in clocks.values():
        clock.milliseconds()  # the first turn, cold, does not count
    found = {"caption": in_turns({n: c.milliseconds for n, c in clocks.items()}, rounds)}
    for clock in clocks.values():
        clock.close()
    store = trees[0].store("speed-store", 1000)
    trees[0].naic("train", str(trees[0].config("from", "student_xe", store, width=256)))
    start = trees[0].work / "from" / "best"
    for stage in ("teacher_xe", "cmal"):
        options: Found = {"start": start} if stage == "cmal" else {"width": 256}
        runs = {tree.name: Steps(tree, stage, store, options) for tree in trees}
        for run in runs.values():
            run.milliseconds()  # compiles what is compiled once
        found[stage] = in_turns({name: run.milliseconds for name, run in runs.items()}, rounds)
    return found


class Steps:
    """Runs of `naic train`, one after the other, of which each tells what its steps took."""

    def __init__(self, tree: Tree, stage: str, store: Path, options: Found) -> None:
        self._tree, self._stage, self._store = tree, stage, store
        self._options, self._runs = options, 0

    def milliseconds(self) -> float:
        """The median step of a new run, without the first ones: log_every is 1."""
        self._runs += 1
        name = f"{self._stage}-{self._runs}"
        config = self._tree.config(name, self._stage, self._store, **self._options)
        self._tree.naic("train", str(config))
        lines = (self._tree.work / name / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        speeds: list[float] = [
            found["images_per_second"]
            for line in lines
            if "images_per_second" in (found := json.loads(line))
        ]
        return 1000 * float(BATCH) / statistics.median(speeds[COLD:])
