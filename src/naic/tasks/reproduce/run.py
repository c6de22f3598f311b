"""The ladder from one call: stages, then tables, then figures and the page of captions."""

import json
import statistics
import time
from dataclasses import dataclass

from naic.data.features import FeatureStore
from naic.errors import ConfigError
from naic.files import locked, writing
from naic.tasks.reproduce import figures, gallery, tables
from naic.tasks.reproduce.crew import make_together
from naic.tasks.reproduce.journal import Journal, request
from naic.tasks.reproduce.latency import measure_latency
from naic.tasks.reproduce.options import TABLES, ReproduceOptions
from naic.tasks.reproduce.plan import Plan, Row
from naic.tasks.reproduce.preset import Preset, read_preset
from naic.tasks.reproduce.scoring import Scorer, report_rows
from naic.tasks.reproduce.settings import (
    check_machine,
    check_report,
    check_schedule,
    read_train,
)
from naic.tasks.reproduce.workshop import Listener, Workshop

SHOWN = {  # what the page of captions shows, as in the paper's last figure
    "AIC beam 3": "teacher",
    "NAIC-base": "NAIC-base",
    "+KD": "NAIC-XE (+KD)",
    "+CMAL": "NAIC-CMAL",
}


@dataclass(frozen=True)
class Reproduced:
    """What came out.

    Attributes:
        tables: the rows of each table by its name.
        examples: a few pictures with their captions.
        left_out: rows that are not there, since their stages are not finished.
    """

    tables: dict[str, list[tables.TableRow]]
    examples: list[gallery.Example]
    left_out: list[str]


@dataclass(frozen=True)
class Outlook:
    """A stage, and what a run would do about it: "done", "go on" or "make"."""

    name: str
    state: str


def reproduce(options: ReproduceOptions, listener: Listener, command: str = "") -> Reproduced:
    """Run what is not done yet; of a finished run, give its tables again.

    Raises:
        ConfigError: an unknown preset or table, a folder of another preset, data that is missing.
        TrainingError: a stage collapsed; the same call goes on when its cause is mended.
    """
    options.check()
    preset = read_preset(options.preset, quick=options.quick)
    journal = Journal.open(preset, options)
    finished = journal.content.get("finished") == request(preset, options)
    if finished and journal.all_there() and (kept := _kept(options)) is not None:
        return kept
    options = journal.by_its_name(options)
    plan = _checked(preset, options, journal)
    with writing(options.out):
        options.out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with locked(options.out):
        journal = Journal.open(preset, options)
        journal.begin(command)
        workshop = Workshop(preset, options, plan, journal)
        if not options.only_tables:
            _make_stages(workshop, options, listener)
        found = _Tables(workshop, options, listener).make()
        done = None if found.left_out else request(preset, options)
        journal.end(time.monotonic() - began, done)
    return found


def _checked(preset: Preset, options: ReproduceOptions, journal: Journal) -> Plan:
    """The plan, once nothing is known that would stop it: before anything is written."""
    plan = make_plan(preset, options)
    workshop = Workshop(preset, options, plan, journal)
    workshop.check_data(plan.stages(options.chosen))
    check_machine(preset, device=options.device, graph=options.graph)
    given = workshop.is_given("features")
    if options.only_tables and not given and not workshop.is_finished("features", 0):
        why = "there are no features yet, and so nothing to make tables of"
        raise ConfigError(str(options.out), why, "Leave out --only-tables.")
    return plan


def outlook(options: ReproduceOptions) -> list[Outlook]:
    """Which stages are done, begun, or to be made; nothing is written."""
    options.check()
    preset = read_preset(options.preset, quick=options.quick)
    journal = Journal.open(preset, options)
    options = journal.by_its_name(options)
    plan = _checked(preset, options, journal)
    workshop = Workshop(preset, options, plan, journal)
    lines = []
    for stage, number in _stages(plan, options):
        state = "make"
        if workshop.is_given(stage) or workshop.is_finished(stage, number):
            state = "done"
        elif workshop.has_begun(stage, number):
            state = "go on"
        lines.append(Outlook(workshop.name(stage, number), state))
    return lines


def make_plan(preset: Preset, options: ReproduceOptions) -> Plan:
    """The stages and rows that this preset has with these options."""
    check_report(preset)
    cmal = read_train(preset, "cmal").cmal
    unlabelled = options.unlabelled is not None or (
        preset.has_unlabelled and options.features is None
    )
    plan = Plan(
        preset.settings,
        baseline=cmal.baseline,
        topk=cmal.topk,
        fill=read_train(preset, "student_kd").xe.fill,
        unlabelled=unlabelled and bool(preset.settings.shares),
    )
    if "unlabelled-features" in plan.stages(options.chosen):
        check_schedule(preset)
    return plan


def _stages(plan: Plan, options: ReproduceOptions) -> list[tuple[str, int]]:
    """Each stage with the number of its seed; what is shared comes once."""
    names = plan.stages(options.chosen)
    return [
        (name, number)
        for number in range(options.seeds)
        for name in names
        if number == 0 or not plan.is_shared(name)
    ]


def _make_stages(workshop: Workshop, options: ReproduceOptions, listener: Listener) -> None:
    stages = _stages(workshop.plan, options)

    def made(stage: str) -> None:
        if stage == "features":  # what cannot be reported is not trained for hours
            store = FeatureStore(workshop.folder(stage))
            report_rows(store, workshop.preset.settings.report)

    if options.jobs > 1:
        make_together(workshop, stages, options.jobs, listener, made)
        return
    for place, (stage, number) in enumerate(stages, 1):
        listener.say(f"[{place}/{len(stages)}] {workshop.name(stage, number)}")
        workshop.make(stage, number, listener)
        made(stage)


class _Tables:
    """Scores, times and draws what the stages made."""

    def __init__(self, workshop: Workshop, options: ReproduceOptions, listener: Listener) -> None:
        self._workshop = workshop
        self._options = options
        self._listener = listener
        self._plan = workshop.plan
        self._scorer = Scorer(
            workshop, options.out, listener.say, device=options.device, fast=options.fast
        )
        self._left_out: list[str] = []

    def make(self) -> Reproduced:
        """All tables, figures and the page of captions."""
        out = self._options.out
        made: dict[str, list[tables.TableRow]] = {}
        for table in self._options.chosen:
            rows = [row for row in self._plan.rows(table) if self._is_there(table, row)]
            if not rows:
                continue
            self._listener.say(f"scoring {TABLES[table]}: {len(rows)} rows")
            made[table] = [self._row(table, row) for row in rows]
        if not made:
            why = "not one row of the tables is finished"
            raise ConfigError(str(out), why, "Leave out --only-tables.")
        if "ladder" in made:
            tables.add_latency(made["ladder"], self._latency())
        for table, found in made.items():
            tables.write_table(out, TABLES[table], table, found)
        self._draw(made)
        return Reproduced(made, self._examples(), self._left_out)

    def _seeds(self, row: Row) -> range:
        return range(1 if self._plan.is_shared(row.stage) else self._options.seeds)

    def _is_there(self, table: str, row: Row) -> bool:
        there = all(self._workshop.is_finished(row.stage, number) for number in self._seeds(row))
        if not there:
            self._left_out.append(f"{TABLES[table]}: {row.system}")
        return there

    def _row(self, table: str, row: Row) -> tables.TableRow:
        seeds = self._seeds(row)
        scored = [self._scorer.score(row.stage, number, row.beam) for number in seeds]
        made = tables.make_row(row.system, scored, table)
        made["stage"] = row.stage
        # The best weights are the start model's if a run only got worse: its last look shows it.
        looks = [figures.validations(self._workshop.folder(row.stage, n)) for n in seeds]
        last = [own[-1][1] / 100 for own in looks if own]
        made["last_validation_cider"] = statistics.fmean(last) if last else None
        return made

    def _latency(self) -> dict[str, float]:
        """The teacher's two ways and one student, in turns; kept with the models they are of."""
        rows = [row for row in self._plan.rows("ladder") if self._is_done(row)]
        teachers = [row for row in rows if row.system.startswith("AIC")]
        students = [row for row in rows if not row.system.startswith("AIC")]
        timed = {row.system: row for row in teachers}
        if students:
            timed["NAIC"] = students[-1]
        key = {name: self._workshop.identity(row.stage, 0) for name, row in timed.items()}
        kept = self._workshop.journal.content.get("latency", {})
        if kept.get("models") != key:
            self._listener.say("timing one picture at a time")
            models = {
                name: (self._workshop.folder(row.stage) / "best", row.beam)
                for name, row in timed.items()
            }
            store, places = self._scorer.store, self._scorer.rows
            kept = measure_latency(models, store, places, self._options.device)
            kept["models"] = key
            self._workshop.journal.content["latency"] = kept
            self._workshop.journal.save()
        return dict(kept["milliseconds"])

    def _is_done(self, row: Row) -> bool:
        return self._workshop.is_finished(row.stage, 0)

    def _draw(self, made: dict[str, list[tables.TableRow]]) -> None:
        folder = self._options.out / "figures"
        if "ladder" in made:
            figures.write_figure(folder / "ladder.svg", figures.ladder_figure(made["ladder"]))
            figures.write_figure(folder / "latency.svg", figures.speed_figure(made["ladder"]))
        for start in ("scratch", "weight-init") if "baselines" in made else ():
            runs = {
                row["system"].removeprefix(f"{start}, "): self._workshop.folder(row["stage"])
                for row in made["baselines"]
                if row["system"].startswith(start) and not row["system"].endswith("XE")
            }
            title = f"Learning by each baseline ({start}), the first seed"
            name = f"baselines-{start}.svg"
            figures.write_figure(folder / name, figures.curves_figure(title, runs))

    def _examples(self) -> list[gallery.Example]:
        rows = [row for row in self._plan.rows("ladder") if row.system in SHOWN]
        results = {
            SHOWN[row.system]: self._scorer.score(row.stage, 0, row.beam).captions
            for row in rows
            if self._is_done(row)
        }
        count = self._workshop.preset.settings.examples
        out, store = self._options.out, self._scorer.store
        examples = gallery.gather(store, self._scorer.rows, results, count, out)
        gallery.write_pages(out, examples, self._scorer.split)
        return examples


def _kept(options: ReproduceOptions) -> Reproduced | None:
    """The tables of a finished run as its files say; None if one of them is not there."""
    try:
        found = {
            table: json.loads((options.out / f"{TABLES[table]}.json").read_bytes())
            for table in options.chosen
        }
        return Reproduced(found, gallery.read_examples(options.out), [])
    except (OSError, ValueError, TypeError):
        return None
