"""`naic doctor`: what is installed, what works, and what to do about the rest.

Everything is tried rather than guessed, and nothing that fails may stop the examination: a doctor
who dies with the patient helps nobody.
"""

import importlib.metadata
import os
import platform
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from naic import __version__, device
from naic.errors import NaicError
from naic.files import cache_folder

State = Literal["works", "missing", "attention", "problem"]
# What an extra is for; what it is made of, the package's own metadata says.
EXTRAS = {
    "train": "captions on a GPU, and naic prepare, train, distil, finetune, reproduce, pack",
    "metrics": "METEOR and, with Java, SPICE in naic evaluate",
    "onnx": "naic export",
    "watch": "naic watch that hears of new photos at once",
    "serve": "naic serve, captions over HTTP",
    "remote": "paths in object stores and on web servers, in naic shards",
    "scale": "naic shards of Parquet, and in object stores",
    "ray": "naic shards --engine ray",
    "regions": "naic prepare --features of HDF5, LMDB and Parquet",
    "hub": "naic pack --hub",
    "timm": "any timm model as the backbone of naic prepare",
}
OLDEST, TOO_NEW = (3, 11), (3, 13)
LITTLE_MEMORY = 1 << 30  # the model takes half of it, and a batch of images the rest
CAPTIONING = "captioning"
NO_CARD = "no NVIDIA card: captions are made on the processor"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        name: the thing.
        state: "works"; "missing": something that can be done without; "attention": it works, but
            worse than it could; "problem": naic cannot caption.
        what: what was found.
        todo: what to do about it; empty where nothing needs to be done.
    """

    name: str
    state: State
    what: str
    todo: str = ""


def examine() -> Iterator[Finding]:
    """All findings, each as soon as it is known: the last ones take seconds."""
    programs = (_java, _exiftool)
    machine = (_processor, _memory, _graphics)
    for look in (_python, _packages, *_extras(), *machine, *programs, *_places()):
        yield _safely(look)
    yield from caption_something()


def captions_work(findings: list[Finding]) -> bool:
    """Whether naic can do what it is for."""
    return all(finding.state != "problem" for finding in findings)


def _safely(look: Callable[[], Finding]) -> Finding:
    try:
        return look()
    except Exception as error:  # of any kind: the others are still to be looked at
        name = look.__name__.strip("_")
        return Finding(name, "attention", f"could not be looked at ({_short(error)})")


def _python() -> Finding:
    version = platform.python_version()
    where = f"naic {__version__}, Python {version}, {platform.platform(terse=True)}"
    if not OLDEST <= sys.version_info[:2] < TOO_NEW:
        todo = "Use Python 3.11 or 3.12: naic was tried with no other."
        return Finding("versions", "attention", where, todo)
    return Finding("versions", "works", where)


def _packages() -> Finding:
    """What naic always needs."""
    found, missing = _versions("")
    if missing:
        todo = f"Run: pip install {' '.join(missing)}"
        return Finding("packages", "problem", f"missing: {', '.join(missing)}", todo)
    return Finding("packages", "works", found)


def _extras() -> Iterator[Callable[[], Finding]]:
    for name, purpose in EXTRAS.items():
        yield lambda name=name, purpose=purpose: _extra(name, purpose)  # type: ignore[misc]


def _extra(name: str, purpose: str) -> Finding:
    found, missing = _versions(name)
    title = f"extra {name}"
    if missing:
        todo = f"For {purpose}: pip install 'naic[{name}]'"
        return Finding(title, "missing", f"not installed: {', '.join(missing)}", todo)
    return Finding(title, "works", f"{purpose}: {found}")


def _versions(extra: str) -> tuple[str, list[str]]:
    """The packages of an extra (empty: those always needed) with versions, and those missing."""
    found, missing = [], []
    for package in requirements(extra):
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(package)
    return ", ".join(found), missing


def requirements(extra: str) -> list[str]:
    """The names of the packages that naic's metadata asks for under an extra."""
    names = []
    for line in importlib.metadata.requires("naic") or ():
        package, _, condition = line.partition(";")
        wanted = re.search(r"extra == ['\"](.+?)['\"]", condition)
        if (wanted[1] if wanted else "") == extra:
            names.append(re.split(r"[\s<>=!~\[(]", package.strip(), maxsplit=1)[0])
    return names


def _processor() -> Finding:
    cores, threads = device.usable_cores(), device.threads()
    asked = os.environ.get("OMP_NUM_THREADS")
    what = f"{cores} cores to use of {os.cpu_count()}, {threads} threads"
    what += f", OMP_NUM_THREADS={asked}" if asked else ""
    if threads > cores:
        todo = f"Threads that wait for each other are slow: export OMP_NUM_THREADS={cores}"
        return Finding("processor", "attention", what, todo)
    busy = os.getloadavg()[0]
    if busy > cores + 1:
        todo = "Others use this machine now: expect captions to take longer."
        return Finding("processor", "attention", f"{what}; {busy:.1f} programs run at once", todo)
    return Finding("processor", "works", what)


def _memory() -> Finding:
    free = free_memory()
    what = f"{free / 2**30:.1f} GiB free"
    if free < LITTLE_MEMORY:
        todo = "Close other programs, or give a smaller --batch to naic caption."
        return Finding("memory", "attention", what, todo)
    return Finding("memory", "works", what)


def free_memory() -> int:
    """Bytes that a new process can have: the system's, or what is left of the container's."""
    page = os.sysconf("SC_PAGE_SIZE")
    name = "SC_AVPHYS_PAGES" if sys.platform == "linux" else "SC_PHYS_PAGES"
    free = page * os.sysconf(name)
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):  # caches count as free: they give way
                free = 1024 * int(line.split()[1])
        groups = Path("/sys/fs/cgroup")
        limit = int((groups / "memory.max").read_text())
        free = min(free, max(0, limit - int((groups / "memory.current").read_text())))
    except (OSError, ValueError):  # no limit ("max"), or no Linux
        pass
    return free


def _graphics() -> Finding:
    card = shutil.which("nvidia-smi")
    if not device.has_torch():
        if card is None:
            return Finding("graphics", "missing", NO_CARD)
        what = "there is an NVIDIA card, and PyTorch, which would use it, is not installed"
        return Finding("graphics", "attention", what, "Run: pip install 'naic[train]'")
    import torch

    if torch.cuda.is_available():
        cards = [
            f"{torch.cuda.get_device_name(i)} ({torch.cuda.mem_get_info(i)[1] / 2**30:.0f} GiB)"
            for i in range(torch.cuda.device_count())
        ]
        return Finding("graphics", "works", ", ".join(cards))
    if card:
        what = f"there is an NVIDIA card, and torch {torch.__version__} cannot use it"
        todo = "Install PyTorch with CUDA (docs/install.md says how), or update the driver."
        return Finding("graphics", "attention", what, todo)
    return Finding("graphics", "missing", NO_CARD)


def _java() -> Finding:
    from naic.metrics.java import find_java, java_version

    try:
        java = find_java()
        return Finding("Java", "works", f"version {java_version(java)}, {java}")
    except NaicError as error:
        todo = f"Only SPICE needs it. {error.hint}"
        return Finding("Java", "missing", f"{error.what} {error.why}", todo)


def _exiftool() -> Finding:
    from naic.tasks.caption.metadata.exiftool import find_exiftool, version

    try:
        program = find_exiftool()
        return Finding("ExifTool", "works", f"version {version(program)}, {program}")
    except NaicError as error:
        todo = f"Only naic caption --write exif needs it. {error.hint}"
        return Finding("ExifTool", "missing", error.why, todo)


def _places() -> Iterator[Callable[[], Finding]]:
    yield lambda: _place("this folder", Path.cwd(), "Go to a folder of yours, or give --out.")
    yield lambda: _place("cache", cache_folder(), "Set NAIC_CACHE to a folder of yours.")
    yield lambda: _place("temporary", Path(tempfile.gettempdir()), "Set TMPDIR to another folder.")


def _place(name: str, folder: Path, todo: str) -> Finding:
    """Whether files can be made there, or in the folder that it would be made in."""
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    try:
        with tempfile.NamedTemporaryFile(dir=there):
            pass
    except OSError as error:
        what = f"{folder}: cannot be written to ({error.strerror})"
        return Finding(name, "attention", what, todo)
    free = shutil.disk_usage(there).free
    return Finding(name, "works", f"{folder}: {free / 1e9:.1f} GB free")


def caption_something() -> Iterator[Finding]:
    """Load the model inside the package, and let it say something of a drawn image."""
    began = time.perf_counter()
    try:
        from naic.data.shapes import dataset, scenes
        from naic.runtime.captioner import Captioner

        captioner = Captioner()
        loaded = time.perf_counter()
        image = dataset.draw(scenes.make_scene(seed=0, index=3))
        text = captioner.caption([image])[0].text
    except NaicError as error:
        yield Finding(CAPTIONING, "problem", f"{error.what}: {error.why}", error.hint)
    except Exception as error:  # of any kind: that it does not work is the finding
        todo = "Install naic anew, in an empty environment: docs/install.md."
        yield Finding(CAPTIONING, "problem", _short(error), todo)
    else:
        said = time.perf_counter()
        what = f'the model says "{text}" of a drawn image'
        seconds = f"loaded in {loaded - began:.1f} s, first caption in {said - loaded:.1f} s"
        yield Finding(CAPTIONING, "works", f"{what}; {seconds}")


def _short(error: BaseException) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'no reason given'}"
