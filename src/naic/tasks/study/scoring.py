"""Captions of a study's models on one split, and what they are worth.

They are kept as those of a reproduction are: in `captions/` and `scores/`, with the digests of what
they came from. Captions that came back from another machine are scored without models.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from naic.data.features import FeatureStore
from naic.files import write_atomically
from naic.tasks.reproduce.judging import (
    HumanReferences,
    Judge,
    Scored,
    as_scored,
    can_add,
    read_kept,
)
from naic.tasks.reproduce.preset import PresetSettings
from naic.tasks.reproduce.run_file import ReproduceOptions, digest
from naic.tasks.reproduce.scoring import (
    caption_rows,
    judge_and_keep,
    places,
    read_references,
    report_rows,
)
from naic.tasks.study.runner import INDEX, WEIGHTS
from naic.tasks.study.spec import FIRST


@dataclass(frozen=True)
class System:
    """Who speaks in a row.

    Attributes:
        name: of the row.
        folder: what its files are called by: a variant's folder, "start" or "teacher".
        model: its model folder.
        beam: its beam width.
        rescored: so many of its sentences are rescored by `teacher`; 0: none.
        spice: score SPICE too.
        first: it is the model of the run that came before the variant's own.
    """

    name: str
    folder: str
    model: Path
    beam: int = 1
    rescored: int = 0
    teacher: Path | None = None
    spice: bool = False
    first: bool = False


class StudyScorer:
    """Scores systems on one split; from features, or from captions alone (`--references`)."""

    def __init__(
        self,
        options: ReproduceOptions,
        features: Path | None,
        split: str,
        say: Callable[[str], None],
        *,
        spice: bool = True,
    ) -> None:
        """`spice`: whether systems that ask for SPICE get it on this split."""
        self._options = options
        self.store: FeatureStore | None = None
        self.rows: list[int] = []
        if options.references is None:
            assert features is not None
            self.store = FeatureStore(features)
            self.rows = report_rows(self.store, split)
            records = [self.store.records[row] for row in self.rows]
            drawn = self.store.index.get("reader") == "shapes"
            self.references = HumanReferences(str(features), "store", split, records, drawn)
            self._data = digest(features / INDEX)
        else:
            self.references, self._data = read_references(options.references, split, say)
        self._spice = spice
        self._judges = {
            spice: Judge(self.references, PresetSettings(report=split, spice=spice), options, say)
            for spice in (False, True)
        }

    def is_there(self, system: System) -> bool:
        """Whether its captions are there."""
        return self.places(system)[0].is_file()

    def known(self, system: System) -> Scored | None:
        """What an earlier call found, if nothing is to be done for it now."""
        captions, kept = self.places(system)
        found = read_kept(kept)
        if found is None or not captions.is_file() or can_add(found):
            return None
        return as_scored(captions, found) if found["key"] == self._key(system, captions) else None

    def score(self, system: System) -> Scored:
        """Its captions, made and scored unless that was done already.

        By one process at a time: each score on `test` is a line in the log.
        """
        if (known := self.known(system)) is not None:
            return known
        captions, kept = self.places(system)
        key = self._key(system, captions)
        found = read_kept(kept)
        facts = None if found is None else found["values"]["facts"]
        if found is None or found["key"] != key or not captions.is_file():
            captions.parent.mkdir(exist_ok=True)
            if self.store is not None:
                facts = self._caption(system, captions)
        return judge_and_keep(self._judge(system), captions, kept, key, facts)

    def _judge(self, system: System) -> Judge:
        return self._judges[system.spice and self._spice]

    def places(self, system: System) -> tuple[Path, Path]:
        """Where its captions are, or will be, and where their scores."""
        name = f"{system.folder}-rescore{system.rescored}" if system.rescored else system.folder
        name = f"{name}-{FIRST}" if system.first else name
        return places(self._options.out, name, self.references.split, system.beam)

    def _key(self, system: System, captions: Path) -> dict[str, Any]:
        key: dict[str, Any] = {"split": self.references.split, "beam": system.beam}
        key |= {"data": self._data, **self._judge(system).manner}
        if self.store is None:
            return key | {"captions": digest(captions)}
        if system.teacher is not None:
            key |= {"rescored": system.rescored, "teacher": digest(system.teacher / WEIGHTS)}
        return key | {"weights": digest(system.model / WEIGHTS)}

    def _caption(self, system: System, target: Path) -> float | None:
        assert self.store is not None
        device = self._options.device
        if system.teacher is None:
            return caption_rows(self.store, self.rows, system.model, system.beam, device, target)
        from naic.tasks.rescore import Choice, load_pair, rescore_split
        from naic.train.validate import results_file

        pair, choices = load_pair(self.store, system.model, system.teacher), [system.rescored]
        said = rescore_split(self.store, self.rows, pair, choices=choices, device=device)
        write_atomically(target, results_file(said[Choice(system.rescored, 0.0)]))
        return None
