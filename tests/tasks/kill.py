"""Kills `naic prepare` with SIGKILL again and again, lets it resume, and compares the bytes.

    python -m tests.tasks.kill --kills 20 --out docs/results/kills.json

Each kill strikes at a random moment of the run. Every third one waits for a file that is being
written and strikes then, since that is the moment at which a careless program loses data. What
was hit is read off the disk after the kill. A run that ended before its kill is no kill; every
store that was killed at least once is finished and compared.
"""

import argparse
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from naic.files import TEMPORARY_SUFFIX

IMAGES, PER_SHARD = 384, 16
POLL_SECONDS = 0.0002


Words = Callable[[Path], list[str]]


@dataclass(frozen=True, slots=True)
class Kill:
    """What a kill hit."""

    seconds: float  # into the run
    hit: str
    shards: int  # whole ones on the disk afterwards


def command(out: Path) -> list[str]:
    """A run of two dozen shards that takes a few seconds."""
    words = f"prepare shapes {IMAGES} --per-shard {PER_SHARD} --batch 8 --device cpu --pixels 128"
    words += " --backbone efficientnet-lite0"
    return [sys.executable, "-m", "naic", *words.split(), "--out", str(out)]


def start(out: Path, words: Words = command) -> subprocess.Popen[bytes]:
    quiet = subprocess.DEVNULL
    return subprocess.Popen(words(out), stdout=quiet, stderr=quiet, start_new_session=True)


def being_written(out: Path) -> set[str]:
    """Files that have been begun and not finished."""
    return {path.name for path in out.glob(f"*{TEMPORARY_SUFFIX}")}


def whole_shards(out: Path) -> int:
    return len(list(out.glob("shard-*.safetensors")))


def what_was_hit(out: Path, leftovers: set[str], shards_before: int) -> str:
    """The phase a killed run was in, from what it left and what was there before it."""
    parts, shards = being_written(out), whole_shards(out)
    if not parts - leftovers and (parts or not (out / "plan.json").exists()):
        return "start-up, nothing written yet"
    if parts:
        return f"writing {min(parts - leftovers).removesuffix(TEMPORARY_SUFFIX).rpartition('.')[0]}"
    if shards * PER_SHARD == IMAGES:
        return "finishing, all shards written"
    computing = f"computing shard {shards}"
    return computing if shards > shards_before else f"start-up, or {computing}"


def strike(out: Path, delay: float, *, during_a_write: bool, words: Words = command) -> Kill | None:
    """Start a run and kill it; None when it ended by itself before."""
    began, leftovers, shards_before = time.monotonic(), being_written(out), whole_shards(out)
    with start(out, words) as process:
        while process.poll() is None:
            late_enough = time.monotonic() - began >= delay
            leftovers &= being_written(out)  # what is gone and comes again is new
            if late_enough and not during_a_write:
                process.kill()
            elif late_enough and being_written(out) - leftovers:
                # Stopped first: the write may end between our look and the kill.
                process.send_signal(signal.SIGSTOP)
                time.sleep(0.01)
                caught = bool(being_written(out) - leftovers)
                process.send_signal(signal.SIGKILL if caught else signal.SIGCONT)
            time.sleep(POLL_SECONDS)
    if process.returncode == 0:
        return None
    assert process.returncode == -signal.SIGKILL, f"the run failed: {process.returncode}"
    hit = what_was_hit(out, leftovers, shards_before)
    return Kill(round(time.monotonic() - began, 3), hit, whole_shards(out))


def trials(
    kills: int, seed: int, folder: Path, words: Words = command
) -> tuple[list[Kill], dict[str, bool]]:
    """So many real kills, and for each store that was finished whether it is the unbroken one.

    `words` is the command for a folder, of so many images in so large shards.
    """
    rng = random.Random(seed)
    began = time.monotonic()
    with start(folder / "unbroken", words) as process:
        assert process.wait() == 0
    duration = time.monotonic() - began
    struck: list[Kill] = []
    identical: dict[str, bool] = {}
    while len(struck) < kills:
        out = folder / f"trial-{len(identical)}"
        before = len(struck)
        for _ in range(rng.randint(1, 4)):  # so many kills before this store may be finished
            during_a_write = len(struck) % 3 == 2
            delay = rng.uniform(0, duration)
            hit = strike(out, delay, during_a_write=during_a_write, words=words)
            if hit is None:
                break
            struck.append(hit)
        with start(out, words) as process:  # finishes it, or finds it finished
            assert process.wait() == 0
        if len(struck) > before:  # a store that was never hit proves nothing
            identical[out.name] = same(out, folder / "unbroken")
        shutil.rmtree(out)
    return struck, identical


def same(one: Path, other: Path) -> bool:
    """Whether two folders hold the same files, byte for byte."""
    names = [sorted(path.name for path in folder.iterdir()) for folder in (one, other)]
    return names[0] == names[1] and all(
        (one / name).read_bytes() == (other / name).read_bytes() for name in names[0]
    )


def main() -> None:
    """Run the trials, print what each kill hit, keep it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        struck, identical = trials(chosen.kills, chosen.seed, Path(folder))
    for kill in struck:
        print(f"killed after {kill.seconds:6.3f} s: {kill.hit}; {kill.shards} shards whole")
    print(f"{len(struck)} kills, {sum(identical.values())} of {len(identical)} stores identical")
    if chosen.out:
        result = {
            "command": f"python -m tests.tasks.kill --kills {chosen.kills} --seed {chosen.seed}",
            "images": IMAGES,
            "per_shard": PER_SHARD,
            "kills": [asdict(kill) for kill in struck],
            "stores": len(identical),
            "identical": sum(identical.values()),
        }
        chosen.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    sys.exit(not all(identical.values()))


if __name__ == "__main__":
    main()
