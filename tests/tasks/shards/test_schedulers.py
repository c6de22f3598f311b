"""The examples of docs/scale.md for schedulers, each job run with the number that it would get."""

import os
import re
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from naic.cli.main import main
from naic.tasks.shards import run
from naic.tasks.shards.making import Worker
from naic.tasks.shards.status import StatusOptions, status
from tests.tasks.shards.made import make_tar

PAGE = (Path(__file__).parents[3] / "docs" / "scale.md").read_text(encoding="utf-8")
SHARDS = 11
# What a scheduler's machine has: `naic` only keeps its words here, a NUL after each.
NAIC = '#!/bin/sh\nprintf "%s\\0" "$@" > words\n'
SRUN = '#!/bin/sh\nexec "$@"\n'


def example(kind: str) -> str:
    [found] = re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


class Machine:
    """A folder in place of /data, and programs in place of those of a machine."""

    def __init__(self, folder: Path, models: Path) -> None:
        self.folder, self._models = folder, models
        for name, text in (("naic", NAIC), ("srun", SRUN)):
            path = folder / "bin" / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        for number in range(SHARDS):
            make_tar(folder / f"in/{number:03d}.tar", [number])

    def run(self, command: list[str], **variables: str) -> None:
        """Run a job, with its paths moved here, and then what it asked naic for."""
        path = f"{self.folder}/bin:{os.environ['PATH']}"
        own = [word.replace("/data/", f"{self.folder}/") for word in command]
        environment = os.environ | {"PATH": path} | variables
        subprocess.run(own, check=True, cwd=self.folder, env=environment)
        words = (self.folder / "words").read_text().rstrip("\0").split("\0")
        assert main([*words, "--model", str(self._models / "seeing"), "--device", "cpu"]) == 0


@pytest.fixture
def machine(tmp_path: Path, models: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    def in_this(asked: Any, out: Any, shards: Any, done: Any, tell: Any) -> None:
        worker = Worker(asked, tell)
        for shard in shards:
            done(worker(shard))

    monkeypatch.setattr(run, "in_processes", in_this)
    return Machine(tmp_path, models)


def all_is_done(folder: Path) -> bool:
    found = status(StatusOptions(out=str(folder / "captions")))
    return len(found.done) == SHARDS and not found.missing


def test_the_jobs_of_the_slurm_array_make_all_shards(machine: Machine) -> None:
    script = example("bash")
    first, last = map(int, re.findall(r"--array=(\d+)-(\d+)", script)[0])
    for number in range(first, last + 1):
        machine.run(["bash", "-eu", "-c", script], SLURM_ARRAY_TASK_ID=f"{number}")
    assert all_is_done(machine.folder)


def test_the_pods_of_the_kubernetes_job_make_all_shards(machine: Machine) -> None:
    job = yaml.safe_load(example("yaml"))
    spec = job["spec"]
    assert (job["kind"], spec["completionMode"]) == ("Job", "Indexed")
    assert spec["podFailurePolicy"]["rules"][0]["onExitCodes"]["values"] == [3]
    assert spec["template"]["spec"]["restartPolicy"] == "Never"  # which such a policy needs
    [container] = spec["template"]["spec"]["containers"]
    for index in range(spec["completions"]):
        command = [*container["command"], *container["args"]]
        machine.run(command, JOB_COMPLETION_INDEX=f"{index}")
    assert all_is_done(machine.folder)
