"""The two sides of benchmarks/house.py: their sources in a folder, and how to run them."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
SIDE = ROOT / "benchmarks" / "house_side.py"
BATCH = 25  # images in a step of training
Found = dict[str, Any]
MODEL = """[model]
width = {width}
heads = 4
encoder_layers = 2
decoder_layers = 2
hidden = {width}
dropout = 0.0
"""
TRAIN = """stage = "{stage}"
captioner = "{captioner}"
out = "{out}"
{start}
[data]
features = "{store}"
{pseudo}
[schedule]
kind = "cosine"
learning_rate = 1e-4
warmup_steps = 1
total_epochs = {epochs}
[run]
epochs = {epochs}
batch = {batch}
log_every = 1
validate_every = {epochs}
save_every = 1
[engine]
device = "cpu"
"""


class Tree(NamedTuple):
    """One side: its sources, and a folder in which it may write."""

    name: str
    sources: Path
    work: Path

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-P", str(SIDE), str(self.sources), *words]

    def environment(self) -> dict[str, str]:
        return os.environ | {
            "PYTHONPATH": str(self.sources),
            "NAIC_CACHE": str(self.work / "cache"),
        }

    def naic(self, *words: str, entered: Path | None = None) -> str:
        """Run `naic WORDS` with these sources, and give what it printed."""
        how = ["naic"] if entered is None else ["entered", str(entered)]
        ran = subprocess.run(
            self.command(*how, *words), cwd=self.work, env=self.environment(),
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if ran.returncode:
            raise SystemExit(f"{self.name}: naic {shlex.join(words)}\n{ran.stdout}{ran.stderr}")
        return ran.stdout

    def store(self, name: str, scenes: int, backbone: str = "blobs") -> Path:
        """A small feature store of drawn scenes."""
        out = self.work / name
        words = ["--backbone", backbone, "--out", str(out), "--device", "cpu"]
        self.naic("prepare", "shapes", str(scenes), *words)
        return out

    def config(self, name: str, stage: str, store: Path, **values: Any) -> Path:  # noqa: ANN401
        """A config of `naic train` in words that both sides know; it writes to work/NAME.

        Values: epochs, batch; start, a model folder; pseudo, a store of pseudo captions; width of
        the model; more, lines of its table [model].
        """
        start, pseudo = values.get("start"), values.get("pseudo")
        text = TRAIN.format(
            stage=stage,
            captioner="causal" if stage == "teacher_xe" else "parallel",
            out=self.work / name,
            start=f'start = "{start}"' if start else "",
            store=store,
            pseudo=f'pseudo = ["{pseudo}"]' if pseudo else "",
            epochs=values.get("epochs", 1),
            batch=values.get("batch", BATCH),
        )
        if start is None:  # it has the sizes of the model that it starts from
            text += MODEL.format(width=values.get("width", 32)) + values.get("more", "")
        path = self.work / f"{name}.toml"
        path.write_text(text, encoding="utf-8")
        return path


def check_out(name: str, commit: str, folder: Path) -> Tree:
    """The sources and configs of a commit, or of the working tree."""
    tree, work = folder / name, folder / f"{name}-work"
    tree.mkdir()
    work.mkdir()
    if commit == ".":
        for part in ("src", "configs"):
            shutil.copytree(ROOT / part, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        archive = subprocess.run(
            ["git", "archive", commit, "src", "configs"], cwd=ROOT, capture_output=True, check=True
        )
        subprocess.run(["tar", "-x"], input=archive.stdout, cwd=tree, check=True)
    return Tree(name, tree / "src", work)
