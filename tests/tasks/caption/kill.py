"""Kills `naic caption` on a folder with SIGKILL again and again, and compares the captions.

    python -m tests.tasks.caption.kill --kills 10 --out docs/results/caption-kills.json

Each kill strikes when a random number of captions has been added since the start of that run, and a
random moment later. Of text files, every third one waits for a file that is being written. After
each kill all files that have a final name are looked at: each must be whole. A model nobody
trained, with a backbone of its own, looks at drawn scenes, so captions and confidences differ.
"""

import argparse
import contextlib
import io
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from safetensors.torch import load_file, save_file

from naic.cli.main import main as naic
from naic.data.shapes.dataset import records
from naic.files import TEMPORARY_SUFFIX, WEIGHTS
from tests.runtime.small import NETWORK, make_model

IMAGES = 120
POLL_SECONDS, CLOSELY = 0.002, 0.0002
STARTING_SECONDS = 2.0
MOST_TRIES = 3  # for each kill: a run that is fast may end before
FEW = 5  # captions: if there were no more, none could be told from another's
FORMATS = ("jsonl", "csv", "txt")


@dataclass(frozen=True, slots=True)
class Kill:
    """What a kill hit."""

    format: str
    captions: int  # there when it struck
    hit: str


def make_home(folder: Path) -> None:
    """The model, the images, of which some are torn, and a folder for each way to caption."""
    sharpen(make_model(folder / "model", backbone=NETWORK, seed=3))
    (folder / "photos").mkdir()
    for number, record in enumerate(records(IMAGES, 0)):
        path = folder / "photos" / f"{number % 3}" / f"{number:04d}.png"
        path.parent.mkdir(exist_ok=True)
        record.image.load().save(path)
        if number % 50 == 7:
            path.write_bytes(path.read_bytes()[:100])


def sharpen(model: Path) -> None:
    """Make a model that nobody trained say other things of other images.

    As it is drawn, what it sees fades from layer to layer, and a mix-up of captions would not show.
    """
    weights = load_file(model / WEIGHTS)
    for name, weight in weights.items():
        if name.startswith("backbone.") and weight.ndim == 4:
            weight *= 3
    weights["decoder.layers.0.cross.out.weight"] *= 5
    weights["decoder.output.bias"].zero_()
    save_file(weights, model / WEIGHTS)


class Trial:
    """One output, made by runs that are killed."""

    def __init__(self, home: Path, kind: str, name: str) -> None:
        self.home, self.kind = home, kind
        self.out = home / name / ("texts" if kind == "txt" else f"captions.{kind}")
        self.out.parent.mkdir()

    def words(self) -> list[str]:
        paths = [str(self.home / "photos"), "--model", str(self.home / "model")]
        settings = ["--format", self.kind, "--batch", "4", "--device", "cpu"]
        sure = [] if self.kind == "txt" else ["--confidence"]
        return ["caption", *paths, *settings, *sure, "--out", str(self.out)]

    def start(self) -> "subprocess.Popen[bytes]":
        command, quiet = [sys.executable, "-m", "naic", *self.words()], subprocess.DEVNULL
        return subprocess.Popen(command, stdout=quiet, stderr=quiet)

    def captions(self) -> int:
        """How many are on the disk, in whatever state."""
        if self.kind == "txt":
            return len(list(self.out.rglob("*.txt")))
        part = self.out.with_name(self.out.name + TEMPORARY_SUFFIX)
        try:
            return max(part.read_bytes().count(b"\n") - 1, 0)
        except FileNotFoundError:
            return 0

    def being_written(self) -> set[str]:
        """Files that have been begun and not finished; a journal is no such file."""
        found = {path.name for path in self.out.parent.rglob(f"*{TEMPORARY_SUFFIX}")}
        return found - {self.out.name + TEMPORARY_SUFFIX}

    def finish(self) -> None:
        """Go on to the end, in this process; some images are torn."""
        quiet = io.StringIO()
        with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
            assert naic(self.words()) == 3

    def content(self) -> dict[str, bytes]:
        """Every file, with its path."""
        folder = self.out.parent
        return {
            str(path.relative_to(folder)): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file()
        }

    def strike(self, more: int, delay: float, *, during_a_write: bool) -> Kill | None:
        """Start a run and kill it `delay` seconds after `more` new captions.

        None when it ended by itself before.
        """
        before, left = self.captions(), self.being_written()
        due: float | None = None
        with self.start() as process:
            while process.poll() is None:
                if due is None and self.captions() >= before + more:
                    due = time.monotonic() + delay
                ready = due is not None and time.monotonic() >= due
                if ready and not during_a_write:
                    process.kill()
                elif ready and self.being_written() - left:
                    # Stopped first: the write may end between our look and the kill.
                    process.send_signal(signal.SIGSTOP)
                    time.sleep(0.01)
                    caught = bool(self.being_written() - left)
                    process.send_signal(signal.SIGKILL if caught else signal.SIGCONT)
                time.sleep(CLOSELY if ready else POLL_SECONDS)
        if process.returncode == 3:
            return None
        assert process.returncode == -signal.SIGKILL, f"the run failed: {process.returncode}"
        captions = self.captions()
        if self.being_written() - left:
            return Kill(self.kind, captions, "writing a file")
        return Kill(self.kind, captions, "captioning" if captions > before else "starting")


def trials(home: Path, kind: str, kills: int, seed: int) -> list[Kill]:
    """So many real kills of one run that goes on each time, and then is finished."""
    rng = random.Random(seed)
    unbroken, broken = (Trial(home, kind, f"{kind}-{kills}-{how}") for how in ("whole", "broken"))
    unbroken.finish()
    expected = unbroken.content()
    struck: list[Kill] = []
    for number in range(MOST_TRIES * kills):
        if len(struck) == kills:
            break
        if broken.content() == expected:  # it was at its end before the last kill: another one
            broken = Trial(home, kind, f"{kind}-{kills}-broken-{number}")
        most = max(1, IMAGES // (2 * kills))  # so that the end is not reached before the last
        # The file is written at the end only; of texts one is always being written.
        during = len(struck) % 3 == 2 and kind == "txt"
        more = rng.randint(0, most)
        delay = rng.uniform(0, 0.02 if more else STARTING_SECONDS)
        hit = broken.strike(more, delay, during_a_write=during)
        if hit is not None:
            struck.append(hit)
        for name, data in broken.content().items():
            if not name.endswith(TEMPORARY_SUFFIX):
                assert data == expected[name], f"{name} is not whole"
    if broken.content() != expected:
        broken.finish()
    assert broken.content() == expected
    check_whole(expected, kind)
    return struck


def check_whole(content: dict[str, bytes], kind: str) -> None:
    """None is missing, none is doubled; torn images have none."""
    good = IMAGES - sum(number % 50 == 7 for number in range(IMAGES))
    if kind == "txt":
        assert len(content) == good
        assert all(data.count(b"\n") == 1 for data in content.values())
        assert len(set(content.values())) > FEW
        return
    (data,) = content.values()
    rows = data.decode().splitlines()[kind == "csv" :]
    names = [json.loads(row)["path"] if kind == "jsonl" else row.split(",")[0] for row in rows]
    assert len(names) == len(set(names)) == good
    assert len({row.partition(",")[2] for row in rows}) == good  # no two the same: none mixed up


def main() -> None:
    """Run the trials, print what each kill hit, keep it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        make_home(home)
        struck = [
            kill for kind in FORMATS for kill in trials(home, kind, chosen.kills, chosen.seed)
        ]
    for kill in struck:
        print(f"{kill.format}: killed with {kill.captions:3d} captions there, {kill.hit}")
    print(f"{len(struck)} kills; all captions are those of a run without them, byte for byte")
    if chosen.out:
        command = f"python -m tests.tasks.caption.kill --kills {chosen.kills} --seed {chosen.seed}"
        result = {
            "command": command,
            "images": IMAGES,
            "kills": [asdict(kill) for kill in struck],
            "identical": True,  # or the run would have ended with an error
        }
        chosen.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
