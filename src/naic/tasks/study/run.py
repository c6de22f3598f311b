"""A study from one call: its variants one after the other, then one table of them all."""

from traceback import clear_frames
from typing import Any

from naic.data.features import FeatureStore
from naic.errors import ConfigError, NaicError
from naic.files import REPRODUCTION
from naic.progress import Callbacks
from naic.resume import claim, keep_request
from naic.tasks.evaluate.options import check_log, names_test
from naic.tasks.reproduce.run import StageState
from naic.tasks.reproduce.run_file import ReproduceOptions
from naic.tasks.reproduce.scoring import report_rows
from naic.tasks.study.runner import WEIGHTS, VariantRunner
from naic.tasks.study.spec import TRAIN, Study, Variant, read_study
from naic.tasks.study.tables import FORMAT, Studied, StudyTables
from naic.text import Vocabulary


def run_study(options: ReproduceOptions, callbacks: Callbacks, command: str = "") -> Studied:
    """Make what is not done yet, and the table of all that is.

    Raises:
        ConfigError: a setting that cannot be, in any variant; data or models that are missing.
        NaicError, RuntimeError: a variant failed, as one that collapses does; the others and their
            table are there, and the same call goes on when its cause is mended.
    """
    options.check()
    study = read_study(options)
    if options.references is not None:
        return StudyTables(study, options, callbacks).make(command)
    runner = _checked(study, options, command)
    tables = StudyTables(study, options, callbacks, runner)
    failed: list[NaicError | RuntimeError] = []
    if not options.only_tables:
        with claim(options.out, shared=True):
            keep_request(options.out / REPRODUCTION, _request(study, options), "study")
            failed = _make_variants(study.chosen(options.only), runner, tables, callbacks)
    try:
        made = tables.make(command)  # of what did not fail, too
    except ConfigError:
        if failed:  # there is no other row
            raise failed[0] from None
        raise
    if failed:
        raise failed[0]
    return made


def _make_variants(
    variants: list[Variant], runner: VariantRunner, tables: StudyTables, callbacks: Callbacks
) -> list[NaicError | RuntimeError]:
    """One after the other; each is captioned and scored at once, should the next one be killed.

    The longest way comes first: what others wait for is not kept waiting by what none does. What
    another process is at is left to it, and so is what comes after that: it goes on there. One that
    fails, as one that collapses does, keeps no other from being made; gives why these failed.
    """
    from naic.train.kept import Kept

    places = {own.slug: place for place, own in enumerate(variants, 1)}
    waiting = sorted(variants, key=lambda own: -_way(own, variants))
    failed: list[NaicError | RuntimeError] = []
    begun = True
    with Kept() as kept:
        while waiting and begun:
            left, begun = [], False
            for variant in waiting:
                if runner.missing(variant):
                    left.append(variant)
                    continue
                callbacks.say(f"[{places[variant.slug]}/{len(variants)}] {variant.name}")
                with runner.hold(variant) as held:  # scored while held: by nobody else, too
                    if not held:
                        callbacks.say(f"{variant.name}: another process is at it")
                        continue
                    try:
                        runner.make(variant, kept)
                        tables.score(variant)
                    except (NaicError, RuntimeError) as error:  # what torch raises is the latter
                        callbacks.say(f"{variant.name}: {error}")
                        _let_go(error)
                        failed.append(error)
                        continue
                begun = True
            waiting = left
    for variant in waiting:
        missing = ", ".join(runner.missing(variant))
        callbacks.say(f"{variant.name}: it comes after {missing}, which is not finished")
    return failed


def _let_go(error: BaseException | None) -> None:
    """The frames that an error comes from hold what a run had on its device."""
    while error is not None:
        clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def _way(variant: Variant, variants: list[Variant]) -> int:
    """How many must be made one after the other from this one on."""
    later = [own for own in variants if variant.name in (own.after, own.taught)]
    return 1 + max((_way(own, variants) for own in later), default=0)


def dry_run(options: ReproduceOptions) -> list[StageState]:
    """Which variants are done, begun, or to be made; nothing is written."""
    options.check()
    study = read_study(options)
    runner = _checked(study, options, "")
    return [StageState(own.name, runner.state(own)) for own in study.chosen(options.only)]


def _checked(study: Study, options: ReproduceOptions, command: str) -> VariantRunner:
    """The runner, once nothing is known that would stop it: before anything is written."""
    from naic.device import choose_device
    from naic.train.engine import check_engine
    from naic.train.own_rewards import take_rewards

    runner = VariantRunner(study, options, command)
    _check_variants(study, runner)
    features = study.settings.features
    if features is None:
        why = "it names no features"
        raise ConfigError(str(study.path), why, "Add features = STORE, or give --features STORE.")
    store = FeatureStore(features)
    for split in study.settings.report:
        report_rows(store, split)
    if names_test(study.settings.report) and store.index.get("reader") != "shapes":
        check_log(options.log)  # not after the hours of training
    device = choose_device(options.device).type
    for settings in (own for runs in runner.runs.values() for own in runs.values()):
        check_engine(settings.engine, device, 1)
        take_rewards(settings)
        if learnt := {*settings.data.train} & {*study.settings.report}:
            why = f"{settings.out.parent.name} learns from this split"
            raise ConfigError(f"{study.path}: report: {min(learnt)!r}", why, "Name another one.")
    runner.check_sources(own for own in study.chosen(options.only) if not options.only_tables)
    _check_teacher(study)
    return runner


def _check_variants(study: Study, runner: VariantRunner) -> None:
    """Only captioners that search have rows of wider beams, and can teach others.

    And weights are not chosen by what the test split says.
    """
    from naic.models.captioners import captioner_spec

    teachers = {own.taught for own in study.variants}
    for variant in study.variants:
        runs = runner.runs[variant.slug]
        captioner = runs[TRAIN].captioner
        searches = captioner_spec(captioner).beams is not None
        where = f"{study.path}: variant {variant.name!r}"
        if any(names_test(own.data.validation) for own in runs.values()):
            why = "its best weights would be chosen on the test split"
            raise ConfigError(f"{where}: data.validation", why, 'Use ["val"].')
        if max(variant.beams) > 1 and not searches:
            raise ConfigError(f"{where}: beams", f"{captioner} says its words at once", "Use [1].")
        if variant.name in teachers and not searches:
            why = f"{captioner} cannot search for sentences, and teaches nobody"
            raise ConfigError(where, why, "Let a causal one teach.")


def _check_teacher(study: Study) -> None:
    """It must be there, and who rescores must know the student's words, by the same numbers."""
    teacher, start = study.settings.teacher, study.settings.start
    if teacher is None:
        return
    where = f"{study.path}: teacher"
    if not (teacher / WEIGHTS).is_file():
        raise ConfigError(where, f"{teacher} is no model", "Mend the path.")
    if any(variant.rescore for variant in study.variants) and start is not None:
        both = (Vocabulary.load(folder / "vocab.json") for folder in (teacher, start))
        if len({words.fingerprint for words in both}) > 1:
            why = "its words are not those of the start model, and it cannot rescore"
            raise ConfigError(where, why, "Name the teacher that the student learnt from.")


def _request(study: Study, options: ReproduceOptions) -> dict[str, Any]:
    """What may not change within a folder; variants may be added, and keep their own settings."""
    own = study.settings
    return {
        "format": FORMAT,
        "out": str(options.out),
        "start": None if own.start is None else str(own.start),
        "features": str(own.features),
        "device": options.device,
    }
