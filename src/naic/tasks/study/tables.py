"""The table of a study: captions, scores and times of all that is finished."""

import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from naic.errors import ConfigError, StoreError
from naic.files import write_atomically
from naic.progress import Callbacks
from naic.resume import locked, pretty
from naic.tasks.reproduce.judging import Scored
from naic.tasks.reproduce.run_file import ReproduceOptions, digest
from naic.tasks.reproduce.scoring import measure_latency
from naic.tasks.study.rows import Row, make_row, paired, write_study
from naic.tasks.study.runner import WEIGHTS, VariantRunner, read_note
from naic.tasks.study.scoring import StudyScorer, System
from naic.tasks.study.spec import FIRST, START, TEACHER, TRAIN, Study, Variant
from naic.tasks.study.speed import SPEED, Measured, measure_speed

FORMAT = "naic-study-1"
LATENCY = "latency.json"


@dataclass(frozen=True)
class Studied:
    """What came out.

    Attributes:
        content: what study.json holds.
        left_out: rows that are not there, since their variants are not finished.
    """

    content: dict[str, Any]
    left_out: list[str]


class StudyTables:
    """Captions, scores and times of what is finished."""

    def __init__(
        self,
        study: Study,
        options: ReproduceOptions,
        callbacks: Callbacks,
        runner: VariantRunner | None = None,
    ) -> None:
        """Without a runner captions are scored that were made elsewhere."""
        self._study = study
        self._options = options
        self._callbacks = callbacks
        self._runner = runner
        self._scorers: dict[str, StudyScorer] = {}

    def score(self, variant: Variant) -> None:
        """Caption and score a finished variant in all its ways; what is kept is not done again."""
        for split in self._study.settings.report:
            for system in self._systems():
                if system.folder == variant.slug:
                    self._scorer(split).score(system)

    def _scorer(self, split: str) -> StudyScorer:
        """One for each split: what people said is read once."""
        if split not in self._scorers:
            own = self._study.settings
            spice, say = split == own.report[0], self._callbacks.say
            found = StudyScorer(self._options, own.features, split, say, spice=spice)
            self._scorers[split] = found
        return self._scorers[split]

    def make(self, command: str) -> Studied:
        """Write the table of all rows that can be had."""
        out = self._options.out
        with ExitStack() as stack:
            alone = _alone(out, stack)
            own = self._study.settings
            splits, people, left_out = dict[str, Any](), dict[str, Any](), list[str]()
            for split in own.report:
                scorer = self._scorer(split)
                rows, human, missing = self._rows(scorer)
                if not rows:
                    why = "not one row of its table is finished"
                    raise ConfigError(str(out), why, "Leave out --only-tables.")
                splits[split] = {"images": len(scorer.references.records), "rows": rows}
                people[split] = human
                left_out += [name for name in missing if name not in left_out]
                if alone and split == own.report[0]:
                    self._time(scorer)
                    self._measure(scorer)
                self._put_times(rows)
            content = {
                "format": FORMAT,
                "study": self._study.path.name,
                "command": command,
                "compare_with": own.compare_with,
                "start": None if own.start is None else str(own.start),
                "teacher": None if own.teacher is None else str(own.teacher),
                "beam": own.beam,
                "splits": splits,
                "people": people,
                "left_out": left_out,
                "latency": _read(out / LATENCY),
                "speed": _read(out / SPEED),
            }
            write_study(out, content)
        return Studied(content, left_out)

    def _rows(self, scorer: StudyScorer) -> tuple[list[Row], dict[str, float], list[str]]:
        scored: dict[str, tuple[System, Scored]] = {}
        missing = []
        for system in self._systems():
            found = self._scored(system, scorer)
            if found is None:
                missing.append(system.name)
            else:
                scored[system.name] = system, found
        base = scored.get(self._study.settings.compare_with)
        teacher = next((own for own in scored.values() if own[0].folder == TEACHER), None)
        rows = []
        for system, own in scored.values():
            note = read_note(self._options.out / system.folder)
            note = _of_first(note) if system.first else note
            row = make_row(system.name, system.folder, own, note)
            before = "" if system.first else _name_before(system.folder, self._study)
            start = scored.get(before, scored.get(START))
            others = {"difference": base, "gap": teacher, "from_start": start}
            others["over_start"] = scored.get(START)  # whatever came before its own run
            for what, other in others.items():
                if other is not None and other[0] is not system:
                    row[what] = paired(own, other[1])
            row["rescored"] = system.rescored
            rows.append(row)
        human = next((own.human for _, own in scored.values()), {})
        return rows, human, missing

    def _scored(self, system: System, scorer: StudyScorer) -> Scored | None:
        """None: it is not finished, or another process is at it, and will make the table again."""
        if not self._is_ready(system, scorer):
            return None
        if (known := scorer.known(system)) is not None:
            return known
        self._callbacks.say(f"scoring {system.name} on {scorer.references.split}")
        if self._runner is None or system.folder in (START, TEACHER):
            return scorer.score(system)
        with self._runner.hold(self._find(system)) as held:
            return scorer.score(system) if held else None

    def _systems(self) -> list[System]:
        """In the order of the table: what all begin with, the variants, the teacher."""
        own = self._study.settings
        found = [] if own.start is None else [System(START, START, own.start)]
        for variant in self._study.variants:
            if variant.first is not None:
                before = self._options.out / variant.slug / FIRST / "best"
                name = _name_before(variant.slug, self._study)
                found.append(System(name, variant.slug, before, first=True))
            model = self._options.out / variant.slug / TRAIN / "best"
            for beam in variant.beams:
                name = variant.name if beam == 1 else f"{variant.name}, beam {beam}"
                found.append(System(name, variant.slug, model, beam, spice=variant.spice))
            for keep in variant.rescore:
                name = f"{variant.name} + rescore {keep}"
                found.append(System(name, variant.slug, model, 1, keep, own.teacher))
        if own.teacher is not None:
            name = f"teacher, beam {own.beam}"
            found.append(System(name, TEACHER, own.teacher, own.beam))
        return found

    def _is_ready(self, system: System, scorer: StudyScorer) -> bool:
        """Whether its captions are there, or can be made here without disturbing another."""
        if self._runner is None:
            return scorer.is_there(system)
        if system.folder in (START, TEACHER):
            return True
        return self._runner.is_finished(self._find(system))

    def _find(self, system: System) -> Variant:
        return next(own for own in self._study.variants if own.slug == system.folder)

    def _time(self, scorer: StudyScorer) -> None:
        """One image at a time, while no other process is at work; kept with what was timed."""
        teacher = self._study.settings.teacher
        if self._runner is None or scorer.store is None or teacher is None:
            return
        ready = [own for own in self._systems() if self._is_ready(own, scorer)]
        key = {own.name: digest(own.model / WEIGHTS) for own in ready if self._is_timed(own)}
        path = self._options.out / LATENCY
        if _read(path).get("models") == key:
            return
        from naic.tasks.rescore import load_pair, speaker

        self._callbacks.say("timing one image at a time")
        device, timed = self._options.device, [own for own in ready if own.name in key]
        plain = {own.name: (own.model, own.beam) for own in timed if not own.rescored}
        rescored = {
            own.name: speaker(load_pair(scorer.store, own.model, teacher), own.rescored, device)
            for own in timed
            if own.rescored
        }
        found = measure_latency(plain, scorer.store, scorer.rows, device, rescored)
        write_atomically(path, pretty(found | {"models": key}))

    def _measure(self, scorer: StudyScorer) -> None:
        """Parameters, passes and time of all rows, while no other process is at work."""
        if self._runner is None or scorer.store is None or not self._study.settings.speed:
            return
        rows = {
            own.name: Measured(own.model, own.beam)
            for own in self._systems()
            if not own.rescored and self._is_ready(own, scorer)
        }
        device, say, path = self._options.device, self._callbacks.say, self._options.out / SPEED
        found = measure_speed(rows, scorer.store, scorer.rows, device, _read(path), say)
        if found != _read(path):
            write_atomically(path, pretty(found))

    def _is_timed(self, system: System) -> bool:
        """The teacher, what all begin with, and those whose sentences are rescored."""
        variant = next((v for v in self._study.variants if v.slug == system.folder), None)
        return variant is None or (bool(variant.rescore) and not system.first)

    def _put_times(self, rows: Sequence[Row]) -> None:
        times = _read(self._options.out / LATENCY).get("milliseconds", {})
        for row in rows:
            row["latency_ms"] = times.get(row["system"])


def _name_before(folder: str, study: Study) -> str:
    """The row of what a variant's own run began with; empty: what all begin with."""
    variant = next((own for own in study.variants if own.slug == folder), None)
    if variant is None:
        return ""
    return variant.after or "" if variant.first is None else f"{variant.name}: before"


def _of_first(note: dict[str, Any]) -> dict[str, Any]:
    """What a variant's run.json says of the run before its own."""
    begin = f"{FIRST}."
    changed = {key: own for key, own in note.get("changes", {}).items() if key.startswith(begin)}
    return note | {
        "runs": {name: own for name, own in note.get("runs", {}).items() if name == FIRST},
        "changes": changed,
    }


def _alone(out: Path, stack: ExitStack) -> bool:
    """Hold the folder; False where another process works on other variants of it."""
    try:
        stack.enter_context(locked(out))
    except StoreError as error:
        if error.__cause__ is not None:  # it cannot be opened at all
            raise
        stack.enter_context(locked(out, shared=True))
        return False
    return True


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
