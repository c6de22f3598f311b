"""Several stages at the same time, each in a process of its own.

Small models do not keep many cores, or a GPU, busy: two stages side by side take less time than one
after the other. Only the main process writes run.json.
"""

import contextlib
import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from naic.errors import TrainingError
from naic.plugins import use_all, used
from naic.progress import SILENT, Callbacks
from naic.tasks.reproduce.stage_runner import StageRunner

Entry = tuple[str, int]  # a stage, and the number of its seed


def make_together(
    runner: StageRunner,
    stages: list[Entry],
    jobs: int,
    callbacks: Callbacks,
    made: Callable[[str], None],
) -> None:
    """Make the stages, `jobs` at a time, each as soon as what it needs is there.

    If one fails, those under way are finished, so that their work is kept, and then it is raised.

    Args:
        runner: makes them.
        stages: in an order in which each comes after what it needs.
        jobs: how many at once.
        callbacks: are told of each stage that begins or ends.
        made: called with the name of each stage that is done.
    """
    waiting, running = list(stages), dict[Future[dict[str, Any]], Entry]()
    threads = max(1, (os.cpu_count() or 1) // jobs)
    context = multiprocessing.get_context("spawn")  # a fork would share torch's threads
    with ProcessPoolExecutor(
        jobs, context, initializer=_begin, initargs=(os.getpid(), used()), max_tasks_per_child=1
    ) as pool:
        while waiting or running:
            for entry in _ready(runner, waiting, list(running.values()))[: jobs - len(running)]:
                waiting.remove(entry)
                place = len(stages) - len(waiting)
                callbacks.say(f"[{place}/{len(stages)}] {runner.name(*entry)}")
                runner.announce(*entry)
                running[pool.submit(_make_one, runner, *entry, threads)] = entry
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                name = runner.name(*running[future])
                runner.run_file.note(name, **_result(future, name))
                callbacks.say(f"{name}: done")
                made(running.pop(future)[0])


def _ready(runner: StageRunner, waiting: list[Entry], running: list[Entry]) -> list[Entry]:
    """The stages whose needs are neither waiting nor under way."""
    missing = {runner.name(*entry) for entry in (*waiting, *running)}
    return [
        (stage, number)
        for stage, number in waiting
        if missing.isdisjoint(runner.name(n, number) for n in runner.plan.jobs[stage].needs)
    ]


def _begin(parent: int, plugins: tuple[str, ...]) -> None:
    """In the other process, before it has anything to do: it must not outlive the first one.

    One that waits for work would wait for ever, since it holds both ends of the queue itself. What
    the first one knows by `plugins` is made known here too.
    """
    from naic.train.watchdog import LAUNCHER_PID, watch_parent

    os.environ[LAUNCHER_PID] = str(parent)  # it may have died while this process came up
    watch_parent()
    use_all(plugins)


def _result(future: Future[dict[str, Any]], name: str) -> dict[str, Any]:
    try:
        return future.result()
    except BrokenProcessPool as error:
        why = "a process was ended from outside; most often the memory was too small"
        hint = "Run the same command again, it goes on; with fewer --jobs it takes less memory."
        raise TrainingError(name, why, hint) from error


def _make_one(runner: StageRunner, stage: str, number: int, threads: int) -> dict[str, Any]:
    """In the other process: make a stage, and give what the journal is to say of it."""
    import torch

    torch.set_num_threads(threads)
    runner.run_file.only_in_memory = True
    with (
        Path(os.devnull).open("w") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        runner.make(stage, number, SILENT)
    return runner.run_file.stage(runner.name(stage, number))
