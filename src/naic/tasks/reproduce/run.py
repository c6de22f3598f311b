"""The ladder from one call: stages, then tables, then figures and the page of captions."""

import time
from dataclasses import dataclass

from naic.data.features import FeatureStore
from naic.errors import ConfigError
from naic.files import locked, writing
from naic.tasks.evaluate.options import check_log
from naic.tasks.evaluate.test_evaluations import names_test
from naic.tasks.reproduce.journal import Journal, request
from naic.tasks.reproduce.options import ReproduceOptions
from naic.tasks.reproduce.parallel_stages import make_together
from naic.tasks.reproduce.plan import Plan
from naic.tasks.reproduce.preset import Preset, read_preset
from naic.tasks.reproduce.report import Report, Reproduced, read_reproduced
from naic.tasks.reproduce.scoring import ReturnedScorer, Scorer, report_rows
from naic.tasks.reproduce.settings import (
    check_machine,
    check_report,
    check_schedule,
    read_train,
)
from naic.tasks.reproduce.stage_runner import Listener, StageRunner


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
    if options.references is not None:
        return _score_returned(preset, options, listener, command)
    journal = Journal.open(preset, options)
    finished = journal.content.get("finished") == request(preset, options)
    # Who asks for the tables alone may have METEOR by now, and not then.
    if finished and not options.only_tables and journal.all_there():
        kept = read_reproduced(options)
        if kept is not None:
            return kept
    options = journal.by_its_name(options)
    plan = _checked(preset, options, journal)
    with writing(options.out):
        options.out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with locked(options.out):
        journal = Journal.open(preset, options)
        journal.begin(command)
        runner = StageRunner(preset, options, plan, journal)
        if not options.only_tables:
            _make_stages(runner, options, listener)
        scorer = Scorer(runner, options, listener.say)
        found = Report(runner, options, listener, scorer).make()
        done = None if found.left_out else request(preset, options)
        journal.end(time.monotonic() - began, done)
    return found


def _score_returned(
    preset: Preset, options: ReproduceOptions, listener: Listener, command: str
) -> Reproduced:
    """Tables of a folder that has captions and logs, and neither features nor weights."""
    journal = Journal.returned(preset, options)
    options = journal.as_run(options)
    plan = make_plan(preset, options)
    began = time.monotonic()
    with locked(options.out):
        journal = Journal.returned(preset, options)
        journal.begin_scoring(command)
        runner = StageRunner(preset, options, plan, journal)
        scorer = ReturnedScorer(runner, options, listener.say)
        found = Report(runner, options, listener, scorer).make()
        journal.end(time.monotonic() - began, journal.content.get("finished"))
    return found


def _checked(preset: Preset, options: ReproduceOptions, journal: Journal) -> Plan:
    """The plan, once nothing is known that would stop it: before anything is written."""
    plan = make_plan(preset, options)
    runner = StageRunner(preset, options, plan, journal)
    runner.check_data(plan.stages(options.chosen))
    check_machine(preset, device=options.device, graph=options.graph)
    given = runner.is_given("features")
    data = FeatureStore(runner.folder("features")).index if given else preset.files["prepare"]
    if names_test([preset.settings.report]) and data.get("reader") != "shapes":
        check_log(options.log)  # not after the hours of training
    if options.only_tables and not given and not runner.is_finished("features", 0):
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
    runner = StageRunner(preset, options, plan, journal)
    lines = []
    for stage, number in _stages(plan, options):
        state = "make"
        if runner.is_given(stage) or runner.is_finished(stage, number):
            state = "done"
        elif runner.has_begun(stage, number):
            state = "go on"
        lines.append(Outlook(runner.name(stage, number), state))
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


def _make_stages(runner: StageRunner, options: ReproduceOptions, listener: Listener) -> None:
    stages = _stages(runner.plan, options)

    def made(stage: str) -> None:
        if stage == "features":  # what cannot be reported is not trained for hours
            store = FeatureStore(runner.folder(stage))
            report_rows(store, runner.preset.settings.report)

    if options.jobs > 1:
        make_together(runner, stages, options.jobs, listener, made)
        return
    for place, (stage, number) in enumerate(stages, 1):
        listener.say(f"[{place}/{len(stages)}] {runner.name(stage, number)}")
        runner.make(stage, number, listener)
        made(stage)
