"""Which stages and rows a reproduction has: named, ordered, and nothing run."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from naic.errors import ConfigError
from naic.tasks.reproduce.preset import PresetSettings


@dataclass(frozen=True)
class Prepare:
    """Make a feature store by a file of the preset."""

    config: str
    needs: ClassVar[tuple[str, ...]] = ()  # stages that come first


@dataclass(frozen=True)
class Distil:
    """Let a teacher caption the images of a store."""

    teacher: str
    features: str

    @property
    def needs(self) -> tuple[str, ...]:
        """Stages that come first."""
        return (self.teacher, self.features)


@dataclass(frozen=True)
class Share:
    """Take the first part of a pseudo-caption store."""

    whole: str
    share: float

    @property
    def needs(self) -> tuple[str, ...]:
        """Stages that come first."""
        return (self.whole,)


@dataclass(frozen=True)
class Train:
    """Train by a file of the preset, with some settings put over it.

    Attributes:
        start: the stage whose best model to begin with; None: from scratch.
        pseudo: pseudo-caption stores to learn instead of the human captions.
        unlabelled: the stage of further images that these stores caption.
        fill: put over xe.fill.
        baseline: put over cmal.baseline.
        topk: put over cmal.topk.
    """

    config: str
    start: str | None = None
    pseudo: tuple[str, ...] = ()
    unlabelled: str | None = None
    fill: bool | None = None
    baseline: str | None = None
    topk: int | None = None

    @property
    def needs(self) -> tuple[str, ...]:
        """Stages that come first."""
        others = [name for name in (self.start, self.unlabelled) if name is not None]
        return ("features", *others, *self.pseudo)


Job = Prepare | Distil | Share | Train


@dataclass(frozen=True)
class PlannedRow:
    """A row of a table: what it is called, and whose captions it scores."""

    system: str
    stage: str
    beam: int = 1


class StagePlan:
    """All stages that a preset knows, and the rows of its tables.

    Attributes:
        teacher: the stage whose model is the teacher.
        unlabelled: whether there are images without captions to learn from.
        jobs: by name, what each stage does.
    """

    def __init__(
        self, settings: PresetSettings, *, baseline: str, topk: int, fill: bool, unlabelled: bool
    ) -> None:
        """`baseline`, `topk` and `fill` are those of the preset's files.

        Rows with these values are the ladder's own runs.
        """
        self._settings = settings
        self._own = (baseline, topk, fill)
        self.unlabelled = unlabelled
        self.teacher = "teacher-scst" if settings.scst else "teacher-xe"
        self.jobs: dict[str, Job] = {**self._shared(), **self._students(), **self._compared()}
        if unlabelled:
            for share in settings.shares:
                self.jobs |= self._with_unlabelled(share)

    def rows(self, table: str) -> list[PlannedRow]:
        """The rows of a table, in order."""
        match table:
            case "ladder":
                return self._ladder()
            case "baselines":
                return self._baselines()
            case "topk":
                return [PlannedRow(f"k = {k}", self._cmal(topk=k)) for k in self._settings.topk]
            case "unlabelled":
                return self._shares()
            case _:
                return [
                    PlannedRow(
                        f"fill {'on' if fill else 'off'}, {stage}", self._filled(fill, stage)
                    )
                    for fill in (False, True)
                    for stage in ("XE", "CMAL")
                ]

    def stages(self, tables: Iterable[str]) -> list[str]:
        """All that the rows of these tables need, each after what it needs itself."""
        found: dict[str, None] = {}

        def add(name: str) -> None:
            for other in self.jobs[name].needs:
                add(other)
            found.setdefault(name)

        rows = [row for table in tables for row in self.rows(table)]
        # The longest way first: what many others wait for is not kept waiting by what none does.
        for row in sorted(rows, key=lambda row: -self._depth(row.stage)):
            add(row.stage)
        return list(found)

    def _depth(self, name: str) -> int:
        return 1 + max((self._depth(other) for other in self.jobs[name].needs), default=0)

    def is_shared(self, name: str) -> bool:
        """Whether all seeds share it: only students are trained anew for each."""
        return not name.startswith("naic-")

    def _shared(self) -> dict[str, Job]:
        teacher = self.teacher
        shared: dict[str, Job] = {
            "features": Prepare("prepare"),
            "teacher-xe": Train("teacher_xe"),
            "teacher-scst": Train("teacher_scst", start="teacher-xe"),
            "pseudo": Distil(teacher, "features"),
        }
        if self.unlabelled:
            shared["unlabelled-features"] = Prepare("unlabelled")
            shared["pseudo-unlabelled"] = Distil(teacher, "unlabelled-features")
        return shared

    def _students(self) -> dict[str, Job]:
        teacher, kd = self.teacher, ("pseudo",)
        return {
            "naic-base": Train("student_base"),
            "naic-init": Train("student_base", start=teacher),
            "naic-kd": Train("student_kd", start=teacher, pseudo=kd),
            "naic-cmal": Train("cmal", start="naic-kd"),
        }

    def _compared(self) -> dict[str, Job]:
        """What tables 3 and 4, and that of `fill`, add to the ladder."""
        teacher, kd = self.teacher, ("pseudo",)
        baseline, topk, fill = self._own
        other = self._filled(not fill, "XE")
        jobs: dict[str, Job] = {
            "naic-kd-scratch": Train("student_kd", pseudo=kd),
            other: Train("student_kd", start=teacher, pseudo=kd, fill=not fill),
            self._filled(not fill, "CMAL"): Train("cmal", start=other),
            "naic-cmal-scratch": Train("cmal", start="naic-kd-scratch"),
        }
        for name in self._settings.baselines:
            if name != baseline:
                for end, start in (("", "naic-kd"), ("-scratch", "naic-kd-scratch")):
                    jobs[f"naic-cmal{end}-{name}"] = Train("cmal", start=start, baseline=name)
        for k in self._settings.topk:
            if k != topk:
                jobs[f"naic-cmal-k{k}"] = Train("cmal", start="naic-kd", topk=k)
        return jobs

    def _with_unlabelled(self, share: float) -> dict[str, Job]:
        end = _end(share)
        jobs: dict[str, Job] = {}
        if share < 1:
            jobs[f"pseudo-unlabelled{end}"] = Share("pseudo-unlabelled", share)
        jobs[f"naic-kd-unlabelled{end}"] = Train(
            "student_kd",
            start=self.teacher,
            pseudo=("pseudo", f"pseudo-unlabelled{end}"),
            unlabelled="unlabelled-features",
        )
        jobs[f"naic-cmal-unlabelled{end}"] = Train("cmal", start=f"naic-kd-unlabelled{end}")
        return jobs

    def _ladder(self) -> list[PlannedRow]:
        after_xe = [PlannedRow(f"AIC XE beam {beam}", "teacher-xe", beam) for beam in (1, 3)]
        rows = [
            *(after_xe if self._settings.scst else []),  # else it is the teacher itself
            PlannedRow("AIC beam 1", self.teacher),
            PlannedRow("AIC beam 3", self.teacher, 3),
            PlannedRow("NAIC-base", "naic-base"),
            PlannedRow("+weight-init", "naic-init"),
            PlannedRow("+KD", "naic-kd"),
            PlannedRow("+CMAL", "naic-cmal"),
        ]
        if self.unlabelled:
            end = _end(max(self._settings.shares))
            rows.append(PlannedRow("+unlabelled", f"naic-cmal-unlabelled{end}"))
        return [row for row in rows if row.system in self._settings.systems]

    def _baselines(self) -> list[PlannedRow]:
        rows = []
        for what, end in (("scratch", "-scratch"), ("weight-init", "")):
            rows.append(PlannedRow(f"{what}, XE", f"naic-kd{end}"))
            rows += [
                PlannedRow(f"{what}, {name}", self._cmal(end, baseline=name))
                for name in self._settings.baselines
            ]
        return rows

    def _shares(self) -> list[PlannedRow]:
        if not self.unlabelled:
            why = "there are no unlabelled images"
            hint = "Give --unlabelled STORE, or a preset whose unlabelled.toml names a source."
            raise ConfigError("--tables unlabelled", why, hint)
        rows = [PlannedRow("0 %, XE", "naic-kd"), PlannedRow("0 %, CMAL", "naic-cmal")]
        for share in sorted(self._settings.shares):
            rows += [
                PlannedRow(f"{100 * share:g} %, XE", f"naic-kd-unlabelled{_end(share)}"),
                PlannedRow(f"{100 * share:g} %, CMAL", f"naic-cmal-unlabelled{_end(share)}"),
            ]
        return rows

    def _cmal(self, end: str = "", baseline: str | None = None, topk: int | None = None) -> str:
        """The run with these settings: the ladder's own where they are its own."""
        if baseline not in (None, self._own[0]):
            return f"naic-cmal{end}-{baseline}"
        if topk not in (None, self._own[1]):
            return f"naic-cmal{end}-k{topk}"
        return f"naic-cmal{end}"

    def _filled(self, fill: bool, stage: str) -> str:
        name = "naic-kd" if stage == "XE" else "naic-cmal"
        if fill == self._own[2]:
            return name
        return f"{name}-{'fill' if fill else 'no-fill'}"


def _end(share: float) -> str:
    """What names the runs with a share of the unlabelled images; with all of them, nothing."""
    return "" if share == 1 else f"-{100 * share:g}"
