"""The Slurm script of docs/train.md, with programs of the same names in place of Slurm's."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from torch.distributed import run as torchrun

from naic.cli.train import _parse
from naic.train.config import read_settings, settings_toml
from naic.train.loop import train
from naic.train.setup import check_processes
from tests.train.runs import EPOCH, make_learnable_store, make_settings, on_one_thread
from tests.train.test_two_processes import losses

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "train.md").read_text(encoding="utf-8")
CONFIG = "configs/coco/teacher_xe.toml"
SCONTROL = """#!/bin/bash
[ "$*" = "show hostnames $SLURM_JOB_NODELIST" ] || exit 9
echo localhost
echo second
"""
# The options before the program are srun's own; it runs one on each node.
SRUN = """#!/bin/bash
while [[ "$1" == --* ]]; do shift; done
for node in $(seq "$SLURM_NNODES"); do
  SLURM_NODEID=$((node - 1)) "$@" & started+=($!)
done
for one in "${started[@]}"; do wait "$one" || exit 1; done
"""
WORDS = """#!/bin/bash
printf '%s\\n' "$@" >> words
"""
TORCHRUN = f"""#!/bin/bash
exec {sys.executable} -m torch.distributed.run "$@"
"""


def script() -> str:
    """The one on the page."""
    found = re.findall(r"```bash\n(#!.*?)```", PAGE, re.DOTALL)
    assert len(found) == 1
    return str(found[0])


def submit(
    folder: Path, torchrun: str, port: int, nodes: int = 2
) -> subprocess.CompletedProcess[str]:
    """Run the script as Slurm would, in a job of one card a node."""
    programs = folder / "programs"
    programs.mkdir()
    for name, text in (("scontrol", SCONTROL), ("srun", SRUN), ("torchrun", torchrun)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    (folder / "train.sh").write_text(script().replace(":29500", f":{port}"))
    job = {"JOB_ID": "7", "JOB_NODELIST": "n[1-2]", "NNODES": str(nodes), "GPUS_ON_NODE": "1"}
    environment = {f"SLURM_{name}": value for name, value in job.items()}
    paths = {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(
        ["bash", "train.sh"],
        cwd=folder,
        env=os.environ | environment | paths | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_its_lines_start_one_torchrun_on_each_node(tmp_path: Path) -> None:
    done = submit(tmp_path, WORDS, 29500)
    assert (done.returncode, done.stderr) == (0, "")
    words = (tmp_path / "words").read_text().splitlines()
    half = words[: len(words) // 2]
    assert words == half * 2
    parsed: Any = torchrun.parse_args(half)  # type: ignore[no-untyped-call]
    assert (parsed.nnodes, parsed.nproc_per_node) == ("2", "1")
    assert (parsed.rdzv_backend, parsed.rdzv_endpoint) == ("c10d", "localhost:29500")
    assert (parsed.rdzv_id, parsed.module, parsed.training_script) == ("7", True, "naic")
    verb, *ours = parsed.training_script_args
    assert verb == "train"
    request = _parse(ours)
    assert request.resume
    assert str(request.config) == CONFIG
    settings = read_settings(ROOT / CONFIG, request.overrides)
    assert settings.data.spread == 16
    check_processes(settings, "cuda", 16)


@pytest.mark.slow
def test_its_lines_train_on_two_nodes_what_one_process_learns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real torchrun, and all of its words but the port."""
    from tests.train.nodes import free_port

    make_learnable_store(tmp_path / "store")
    monkeypatch.chdir(tmp_path)
    rare = {"validate_every": 100.0, "save_every": 100.0, "batch": 16, "epochs": 8.0}
    data = {"spread": 16}
    model = {"dropout": 0.0}
    settings = make_settings(Path("store"), Path("run"), model=model, data=data, run=rare)
    Path(CONFIG).parent.mkdir(parents=True)
    Path(CONFIG).write_text(settings_toml(settings).replace("spread = 16", "spread = 1"))
    done = submit(tmp_path, TORCHRUN, free_port())
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("best model: ") == 1
    shared = losses(Path("run"))
    Path("run").rename("shared")
    with on_one_thread():
        train(replace(settings, run=replace(settings.run, accumulate=2)))
    assert len(shared) == 8 * EPOCH / 2
    assert shared == pytest.approx(losses(Path("run")), rel=1e-6)
