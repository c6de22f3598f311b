"""The ladder from one call: stages, then tables, then figures and the page of captions."""

import time
from dataclasses import dataclass, replace

from naic.data.features import FeatureStore
from naic.errors import ConfigError
from naic.progress import Callbacks
from naic.resume import claim, locked
from naic.tasks.evaluate.options import check_log, names_test
from naic.tasks.reproduce.parallel_stages import make_together
from naic.tasks.reproduce.plan import StagePlan
from naic.tasks.reproduce.preset import TRAINED, Preset, read_preset, read_train
from naic.tasks.reproduce.report import Reproduced, TableMaker, read_reproduced
from naic.tasks.reproduce.run_file import ReproduceOptions, RunFile, request
from naic.tasks.reproduce.scoring import ReturnedScorer, Scorer, report_rows
from naic.tasks.reproduce.stage_runner import StageRunner


@dataclass(frozen=True)
class StageState:
    """A stage, and what a run would do about it: "done", "go on" or "make"."""

    name: str
    state: str


def reproduce(options: ReproduceOptions, callbacks: Callbacks, command: str = "") -> Reproduced:
    """Run what is not done yet; of a finished run, give its tables again.

    Raises:
        ConfigError: an unknown preset or table, a folder of another preset, data that is missing.
        TrainingError: a stage collapsed; the same call goes on when its cause is mended.
    """
    options.check()
    preset = read_preset(options.preset, quick=options.quick)
    if options.references is not None:
        return _score_returned(preset, options, callbacks, command)
    run_file = RunFile.open(preset, options)
    finished = run_file.content.get("finished") == request(preset, options)
    # Who asks for the tables alone may have METEOR by now, and not then.
    if finished and not options.only_tables and run_file.all_there():
        kept = read_reproduced(options, preset.splits[1:])
        if kept is not None:
            return kept
    options = run_file.by_its_name(options)
    plan = _checked(preset, options, run_file)
    began = time.monotonic()
    with claim(options.out):
        run_file = RunFile.open(preset, options)
        run_file.begin(command)
        runner = StageRunner(preset, options, plan, run_file)
        if not options.only_tables:
            _make_stages(runner, options, callbacks)
        scorers = [Scorer(runner, options, callbacks.say, split) for split in preset.splits]
        found = TableMaker(runner, options, callbacks, scorers).make()
        done = None if found.left_out else request(preset, options)
        run_file.end(time.monotonic() - began, done)
    return found


def _score_returned(
    preset: Preset, options: ReproduceOptions, callbacks: Callbacks, command: str
) -> Reproduced:
    """Tables of a folder that has captions and logs, and neither features nor weights."""
    run_file = RunFile.returned(preset, options)
    options = run_file.as_run(options)
    plan = make_plan(preset, options)
    began = time.monotonic()
    with locked(options.out):
        run_file = RunFile.returned(preset, options)
        run_file.begin_scoring(command)
        runner = StageRunner(preset, options, plan, run_file)
        scorers = [ReturnedScorer(runner, options, callbacks.say, split) for split in preset.splits]
        found = TableMaker(runner, options, callbacks, scorers).make()
        run_file.end(time.monotonic() - began, run_file.content.get("finished"))
    return found


def _checked(preset: Preset, options: ReproduceOptions, run_file: RunFile) -> StagePlan:
    """The plan, once nothing is known that would stop it: before anything is written."""
    plan = make_plan(preset, options)
    runner = StageRunner(preset, options, plan, run_file)
    runner.check_data(plan.stages(options.chosen))
    check_machine(preset, device=options.device, graph=options.graph)
    given = runner.is_given("features")
    data = FeatureStore(runner.folder("features")).index if given else preset.files["prepare"]
    if names_test(preset.splits) and data.get("reader") != "shapes":
        check_log(options.log)  # not after the hours of training
    if options.only_tables and not given and not runner.is_finished("features", 0):
        why = "there are no features yet, and so nothing to make tables of"
        raise ConfigError(str(options.out), why, "Leave out --only-tables.")
    return plan


def dry_run(options: ReproduceOptions) -> list[StageState]:
    """Which stages are done, begun, or to be made; nothing is written."""
    options.check()
    preset = read_preset(options.preset, quick=options.quick)
    run_file = RunFile.open(preset, options)
    options = run_file.by_its_name(options)
    plan = _checked(preset, options, run_file)
    runner = StageRunner(preset, options, plan, run_file)
    lines = []
    for stage, number in _stages(plan, options):
        state = "make"
        if runner.is_given(stage) or runner.is_finished(stage, number):
            state = "done"
        elif runner.has_begun(stage, number):
            state = "go on"
        lines.append(StageState(runner.name(stage, number), state))
    return lines


def make_plan(preset: Preset, options: ReproduceOptions) -> StagePlan:
    """The stages and rows that this preset has with these options."""
    check_report(preset)
    cmal = read_train(preset, "cmal").cmal
    unlabelled = options.unlabelled is not None or (
        preset.has_unlabelled and options.features is None
    )
    plan = StagePlan(
        preset.settings,
        baseline=cmal.baseline,
        topk=cmal.topk,
        fill=read_train(preset, "student_kd").xe.fill,
        unlabelled=unlabelled and bool(preset.settings.shares),
    )
    if "unlabelled-features" in plan.stages(options.chosen):
        check_schedule(preset)
    return plan


def check_report(preset: Preset) -> None:
    """The tables are about images that no stage has learnt from, or was chosen by.

    Further tables may be about those that it was chosen by.
    """
    split = preset.settings.report
    for config in TRAINED:
        data = read_train(preset, config).data
        learnt = {*data.train} & {*preset.settings.also_report}
        if learnt:
            why = f"{preset.path(config)} learns from this split"
            raise ConfigError(f"also_report: {min(learnt)!r}", why, "Name another one.")
        if split in (*data.train, *data.validation):
            why = f"{preset.path(config)} learns from this split or chooses by it"
            hint = "Name one that is neither in data.train nor in data.validation."
            raise ConfigError(f"report = {split!r}", why, hint)


def check_machine(preset: Preset, *, device: str, graph: bool) -> None:
    """What this machine cannot do, said before anything is written."""
    from naic.device import choose_device
    from naic.train.engine import check_engine

    chosen = choose_device(device)
    for config in TRAINED:
        engine = read_train(preset, config).engine
        wanted = replace(engine, graph=graph or engine.graph)
        if wanted.graph and chosen.type != "cuda":
            asked = "--graph" if graph else str(preset.path(config))
            why = f"steps as CUDA graphs need a CUDA device, and this run is on {chosen.type}"
            hint = "Leave it out." if graph else "Use a GPU, or a preset without engine.graph."
            raise ConfigError(asked, why, hint)
        check_engine(wanted, chosen.type, 1)


def check_schedule(preset: Preset) -> None:
    """With unlabelled images too, as many steps as without them must be possible."""
    kind = read_train(preset, "student_kd").schedule.kind
    if preset.settings.same_steps and kind not in ("constant", "cosine"):
        why = f"the schedule {kind!r} counts whole epochs, and these would get shorter"
        hint = "Set same_steps = false in preset.toml, or choose constant or cosine."
        raise ConfigError(str(preset.path("student_kd")), why, hint)


def _stages(plan: StagePlan, options: ReproduceOptions) -> list[tuple[str, int]]:
    """Each stage with the number of its seed; what is shared comes once."""
    names = plan.stages(options.chosen)
    return [
        (name, number)
        for number in range(options.seeds)
        for name in names
        if number == 0 or not plan.is_shared(name)
    ]


def _make_stages(runner: StageRunner, options: ReproduceOptions, callbacks: Callbacks) -> None:
    stages = _stages(runner.plan, options)

    def made(stage: str) -> None:
        if stage == "features":  # what cannot be reported is not trained for hours
            store = FeatureStore(runner.folder(stage))
            for split in runner.preset.splits:
                report_rows(store, split)

    if options.jobs > 1:
        make_together(runner, stages, options.jobs, callbacks, made)
        return
    for place, (stage, number) in enumerate(stages, 1):
        callbacks.say(f"[{place}/{len(stages)}] {runner.name(stage, number)}")
        runner.make(stage, number, callbacks)
        made(stage)
