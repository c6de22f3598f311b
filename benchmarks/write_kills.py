"""Kills `naic caption --write` and `--undo` with SIGKILL again and again, and looks at the photos.

    python -m benchmarks.write_kills --kills 30 --out docs/results/light/write-kills.json

300 photos, drawn by us: JPEG, PNG, TIFF and WebP; some have descriptions and alt texts of their
own, some have XMP files that other programs might have made. Captions are written to XMP files,
taken back, written into the photos, and taken back. Each kill strikes when a random number of files
has been written since the start of that run, and a random moment later. After each one every photo
must have its pixels and every text that a person wrote; in the end everything is as it was: files
byte for byte, and by ExifTool's reading all fields of the photos.
"""

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.runtime.small import NETWORK, make_model
from tests.tasks.caption.metadata.photos import SUFFIXES, draw, exiftool, pixels

from naic.tasks.caption.metadata.mark import ALT_TEXT, DESCRIPTION, EXIF_DESCRIPTION, NAMESPACE
from naic.tasks.caption.metadata.xmp import scan

PHOTOS, KILLS = 300, 30
POLL_SECONDS = 0.002
STARTING_SECONDS = {"write": 2.0, "undo": 0.4}  # without a model it starts at once
PHASES = (("xmp", "write"), ("xmp", "undo"), ("exif", "write"), ("exif", "undo"))
OWN_TEXT, OWN_ALT = "Grandmother's garden, 1987 \u2013 the roses", "My grandmother among her roses"
# What a person or another program wrote, and no run may change. Programs: the last to write XMP.
KEPT = (EXIF_DESCRIPTION, DESCRIPTION, f"{DESCRIPTION}-de", ALT_TEXT, "XMP-dc:Subject", "IFD0:Make")
XMP_FILE = f"""<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="A program of 2019">
 <rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
  <rdf:Description rdf:about="" xmlns:edit="http://edits.example/1.0/"
    xmlns:dc="http://purl.org/dc/elements/1.1/" edit:Exposure="+0.35">
   <!-- by hand -->
   <dc:description><rdf:Alt>
    <rdf:li xml:lang="x-default">{OWN_TEXT}</rdf:li>
   </rdf:Alt></dc:description>
   <edit:Steps><rdf:Seq><rdf:li edit:On="1">crop</rdf:li></rdf:Seq></edit:Steps>
  </rdf:Description>
 </rdf:RDF>
</x:xmpmeta>
<?xpacket end="w"?>""".encode()


@dataclass(frozen=True, slots=True)
class Kill:
    """What a kill hit."""

    kind: str  # xmp or exif
    doing: str  # write or undo
    written: int  # files since the start of that run
    hit: str


@dataclass(frozen=True, slots=True)
class State:
    """All that there is to compare."""

    files: Mapping[Path, bytes]
    pixels: Mapping[Path, bytes]
    fields: Mapping[Path, Mapping[str, Any]]


def make_home(home: Path, count: int) -> None:
    """The model, and photos with texts of their own."""
    make_model(home / "model", backbone=NETWORK, seed=3)
    for number in range(count):
        suffix = SUFFIXES[number % len(SUFFIXES)]
        path = draw(home / "photos" / f"{number % 3}" / f"{number:04d}{suffix}", number)
        if number % 5 == 1:
            path.with_suffix(".xmp" if number % 2 else f"{suffix}.xmp").write_bytes(XMP_FILE)
    photos = sorted((home / "photos").rglob("*.*"))
    photos = [path for path in photos if path.suffix != ".xmp"]
    for place, (first, every) in {
        f"-{EXIF_DESCRIPTION}={OWN_TEXT}": (0, 3),
        f"-{DESCRIPTION}={OWN_TEXT}": (0, 6),
        f"-{DESCRIPTION}-de=Omas Garten": (0, 12),
        f"-{ALT_TEXT}={OWN_ALT}": (2, 7),
        "-XMP-dc:Subject=roses": (3, 4),
        "-IFD0:Make=A camera": (0, 2),
    }.items():
        exiftool("-q", "-overwrite_original", place, *photos[first::every])


def state(photos: Path) -> State:
    """Everything in the folder, but what a kill left half-written."""
    files = {path: path.read_bytes() for path in photos.rglob("*") if path.is_file()}
    files = {path: data for path, data in files.items() if not is_left(path)}
    images = [path for path in files if path.suffix in SUFFIXES]
    rows = json.loads(exiftool("-j", "-a", "-G1", "-b", *images))
    fields = {Path(row.pop("SourceFile")): strip(row) for row in rows}
    return State(files, {path: pixels(path) for path in images}, fields)


def strip(row: Mapping[str, Any]) -> dict[str, Any]:
    """Without what the disk says of the file, and ExifTool of itself."""
    return {k: v for k, v in row.items() if not k.startswith(("System:", "ExifTool:"))}


def is_left(path: Path) -> bool:
    """Whether it is on its way to another name."""
    return path.name.startswith(".naic-caption-") or path.name.endswith(".part")


def check_whole(now: State, before: State) -> None:
    """Nothing of a person's is lost or changed, whatever a run was doing."""
    assert now.pixels == before.pixels, "a photo's pixels are not what they were"
    for path, fields in before.fields.items():
        for name in KEPT:
            if name in fields:
                assert now.fields[path].get(name) == fields[name], f"{path}: {name}"
    for path, data in now.files.items():
        if path.suffix == ".xmp":
            packet = scan(data, str(path))
            if path in before.files:
                (own,) = (p.texts for p in packet.properties() if p.name.endswith(" description"))
                assert own["x-default"] == OWN_TEXT, path
                assert b'edit:On="1"' in data, path
                assert b"<!-- by hand -->" in data, path


def command(home: Path, kind: str, doing: str) -> list[str]:
    """What a person would type; the model is one that nobody trained."""
    words = ["caption", str(home / "photos")]
    if doing == "undo":
        words.append("--undo")
    else:
        words += ["--write", kind, "--model", str(home / "model"), "--device", "cpu"]
        words += ["--batch", "4"]
    return [sys.executable, "-m", "naic", *words]


def start(words: list[str]) -> "subprocess.Popen[bytes]":
    quiet = subprocess.DEVNULL
    return subprocess.Popen(words, stdout=quiet, stderr=subprocess.PIPE)


def stamps(photos: Path) -> dict[Path, tuple[int, int]]:
    """What tells whether a file has been replaced: its number on the disk, and its date."""
    found = {}
    for path in photos.rglob("*.*"):
        try:
            status = path.stat()
        except FileNotFoundError:  # on its way to another name
            continue
        if not is_left(path):
            found[path] = status.st_ino, status.st_mtime_ns
    return found


def leftovers(photos: Path) -> set[tuple[Path, int]]:
    """What kills have left half-written."""
    return {(path, path.stat().st_ino) for path in photos.rglob("*") if is_left(path)}


def changed(photos: Path, before: Mapping[Path, tuple[int, int]]) -> int:
    return len(dict(stamps(photos).items() ^ before.items()))


def strike(home: Path, kind: str, doing: str, more: int, delay: float) -> Kill:
    """Start a run and kill it `delay` seconds after `more` files were written."""
    photos = home / "photos"
    before, left, due = stamps(photos), leftovers(photos), None
    with start(command(home, kind, doing)) as process:
        while process.poll() is None:
            if due is None and changed(photos, before) >= more:
                due = time.monotonic() + delay
            if due is not None and time.monotonic() >= due:
                process.kill()
            time.sleep(POLL_SECONDS)
        assert process.stderr is not None
        said = process.stderr.read().decode()
    assert process.returncode == -signal.SIGKILL, f"it ended before its kill: {said}"
    written = changed(photos, before)
    new = leftovers(photos) - left
    hit = "a file being written" if new else ("between two files" if written else "starting")
    return Kill(kind, doing, written, hit)


def trials(home: Path, kills: int, seed: int, count: int) -> Iterator[Kill]:
    """So many real kills, shared among writing and undoing, XMP files and photos."""
    rng = random.Random(seed)
    photos = home / "photos"
    before = state(photos)
    for number, (kind, doing) in enumerate(PHASES):
        share = len(range(number, kills, len(PHASES)))
        for kill in range(share):
            # Some while it starts; the others so that the end is not reached.
            more = rng.randint(1, 2 * count // (3 * share)) if kill % 4 else 0
            delay = rng.uniform(0, 0.05 if more else STARTING_SECONDS[doing])
            yield strike(home, kind, doing, more, delay)
            check_whole(state(photos), before)
        with start(command(home, kind, doing)) as process:
            _, said = process.communicate()
        assert process.returncode == 0, said.decode()
        now = state(photos)
        check_whole(now, before)
        if doing == "write":
            written = sum(NAMESPACE.encode() in data for data in now.files.values())
            assert written > count // 2, "too few captions were written to prove anything"
        else:
            check_as_before(now, before, photos)


def check_as_before(now: State, before: State, photos: Path) -> None:
    """After --undo: the same files, XMP files byte for byte, photos field for field."""
    assert {path for path in photos.rglob("*") if path.is_file()} == {*before.files}
    assert now.fields == before.fields
    for path, data in before.files.items():
        if path.suffix == ".xmp":
            assert now.files[path] == data, f"{path} is not what it was, byte for byte"


def main() -> None:
    """Run the trials, print what each kill hit, keep it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    struck = []
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        make_home(home, PHOTOS)
        for kill in trials(home, chosen.kills, chosen.seed, PHOTOS):
            print(f"--{kill.doing} {kill.kind}: {kill.written:3d} files written; {kill.hit}")
            struck.append(kill)
    print(f"{len(struck)} kills; nothing was lost, and --undo left everything as it had been")
    if chosen.out:
        words = f"python -m benchmarks.write_kills --kills {chosen.kills} --seed {chosen.seed}"
        result = {
            "command": words,
            "photos": PHOTOS,
            "kills": [asdict(kill) for kill in struck],
            "photos_whole": True,  # or the run would have ended with an error; as are these
            "own_texts_intact": True,
            "xmp_restored_byte_for_byte": True,
            "photos_restored_field_for_field": True,
        }
        chosen.out.parent.mkdir(parents=True, exist_ok=True)
        chosen.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
