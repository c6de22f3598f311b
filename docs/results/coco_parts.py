"""The parts of a ladder's page that are there on MSCOCO alone, from the files of its folder."""

import json
from pathlib import Path
from typing import Any

import coco_page  # type: ignore[import-not-found]
import coco_settings_page  # type: ignore[import-not-found]
import coco_val_page  # type: ignore[import-not-found]
from claims import ORDER, Claim, by_system, order  # type: ignore[import-not-found]

FIRST: str = coco_val_page.FIRST


class CocoParts:
    """What was read, and what the page says of it."""

    def __init__(self, folder: Path, run: dict[str, Any], rows: list[dict[str, Any]]) -> None:
        self._run, self._rows = run, rows
        names = ("shipped.json", "before.json", "stages.json", "table1-val.json")
        self._shipped, self._before, self._stages, val = (
            _read(folder / name) if (folder / name).exists() else None for name in names
        )
        self._val = None if val is None else [row | {"paper": None} for row in val]
        self._evaluated = coco_val_page.read_evaluations(folder)
        self._best = coco_page.best_student(rows, _read(folder / "curves.json"))
        log = folder.parent / "test-evaluations.jsonl"
        # What came after the first ladder is not its own.
        there = log.exists() and folder.name != FIRST
        lines = log.read_text(encoding="utf-8").splitlines() if there else []
        self._log = [json.loads(line) for line in lines]

    def head(self) -> list[str]:
        """Of what the figures are, settings, what came before."""
        parts = [coco_page.about(self._run, self._log)]
        if self._stages is not None and self._val is not None:
            parts.append(coco_settings_page.settings(self._run, self._stages))
        return parts if self._before is None else [*parts, coco_page.before(self._before)]

    def _people(self) -> dict[str, dict[str, Any]]:
        """By split, how people write."""
        also = {own["split"]: own["people"] for own in self._run["also_reported"]}
        return {self._run["reported"]["split"]: self._run["people"], **also}

    def targets(self) -> list[Claim]:
        """What was set beforehand."""
        rows = by_system(self._rows if self._val is None else self._val)
        claims = [order(rows, *pair) for pair in ORDER[:2] if {*pair} <= rows.keys()]
        if self._val is not None:
            people, best = self._people()["val"], self._best["system"]
            return [*claims, *coco_val_page.targets(self._val, best, people, self._evaluated)]
        people = self._run["people"]
        return [*claims, *coco_page.targets(self._rows, self._best, people, self._shipped)]

    def after_the_ladder(self) -> list[str]:
        """Intervals, val, and the model that ships."""
        if self._val is not None:
            return self._with_val()
        ships = [] if self._shipped is None else [coco_page.ship(self._shipped, self._best)]
        return [coco_page.intervals(self._rows, self._shipped), *ships, coco_page.SERVER]

    def _with_val(self) -> list[str]:
        people = self._people()
        best = {"test": self._best, "val": by_system(self._val or [])[self._best["system"]]}
        parts = [
            f"{coco_val_page.words_of_people(people['test'])}\n",
            coco_page.intervals(self._rows, self._shipped),
            coco_val_page.val_table(self._val, people["val"]),
        ]
        if self._evaluated:
            parts.append(coco_val_page.ships(best, people, self._evaluated))
        return [*parts, coco_page.SERVER]


def _read(path: Path) -> Any:  # noqa: ANN401
    return json.loads(path.read_text(encoding="utf-8"))
