"""`naic benchmark`: how long captions take, against models that write word by word."""

import importlib.util
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from naic import __version__
from naic.errors import NaicError
from naic.progress import SILENT, Callbacks, Progress
from naic.tasks.benchmark.report import Report, describe, notes, save
from naic.tasks.benchmark.rows import (
    BEAM,
    BEAMS,
    OTHER_MODELS,
    PRECISIONS,
    TEACHER,
    WRITTEN,
    BenchmarkOptions,
    Row,
    plan,
    with_ratios,
    without_reading_again,
    without_teacher,
)

if TYPE_CHECKING:  # torch takes a second to import: not before there is work for it
    import torch

    from naic.tasks.benchmark.models import Contest
    from naic.tasks.benchmark.other_models import OtherModels
    from naic.tasks.benchmark.timing import Run, Timed

_NAMES = {name: other_model for other_model, name in OTHER_MODELS.items()}


def dry_run(options: BenchmarkOptions) -> list[Row]:
    """The rows that would be timed; nothing is loaded.

    Raises:
        ConfigError: an option is out of range, or there is no such device.
    """
    from naic.device import choose_device

    options.check()
    device = choose_device(options.device)
    other_models = importlib.util.find_spec("transformers") is not None
    return plan(options, device.type, other_models=other_models)


def benchmark(options: BenchmarkOptions, callbacks: Callbacks = SILENT) -> Report:
    """Time all rows; after each group the file, if there is to be one, holds all so far.

    What goes wrong with one row is told there, and the others are timed.

    Args:
        options: what to time.
        callbacks: are told of the progress, in rows.

    Raises:
        ConfigError: an option is out of range, or the models do not go together.
        CheckpointError: a model cannot be used.
        WriteError: the file cannot be written.
    """
    from naic.device import choose_device, keep_freed_memory
    from naic.tasks.benchmark.other_models import OtherModels
    from naic.tasks.benchmark.teachers import reads_again
    from naic.tasks.benchmark.timing import machine

    rows = dry_run(options)
    device = choose_device(options.device)
    if device.type == "cpu":
        keep_freed_memory()  # as a Captioner does
    contest = _contest(options, device)
    if all(pair.teacher is None for pair in contest.pairs.values()):
        rows = without_teacher(rows)
    elif not any(reads_again(pair.teacher) for pair in contest.pairs.values()):
        rows = without_reading_again(rows)
    report = Report(
        naic=__version__,
        command=options.command(),
        machine=machine(device),
        model=describe(options, contest),
        words=options.words,
        seconds=options.seconds,
        notes=notes(options, rows),
        finished=False,
        rows=rows,
    )
    timer = _Timer(options, contest, OtherModels(device, PRECISIONS[device.type]))
    done: list[Row] = []
    with callbacks.progress("rows") as update:
        for _, group in itertools.groupby(rows, key=lambda row: row.group):
            done += timer.time(list(group))
            finished = len(done) == len(rows)
            shown = with_ratios([*done, *rows[len(done) :]])
            report = replace(report, rows=shown, finished=finished)
            if options.out is not None:
                save(options.out, report)
            failed = sum(row.state == "failed" for row in done)
            update(Progress(len(done), len(rows), failed))
    return report


def _contest(options: BenchmarkOptions, device: "torch.device") -> "Contest":
    from naic.runtime.captioner import shipped_model
    from naic.runtime.load import load_whole
    from naic.runtime.ready import find_model
    from naic.tasks.benchmark.models import Contest, make_pairs, transformer_base

    if options.size == "transformer-base":
        return Contest(*transformer_base(options.words), device)
    folder = shipped_model() if options.model is None else find_model(options.model)
    loaded = load_whole(folder)
    return Contest(loaded, make_pairs(loaded, options.teacher, options.words), device)


class _Timer:
    """Turns rows that are planned into rows that are timed."""

    def __init__(
        self, options: BenchmarkOptions, contest: "Contest", other_models: "OtherModels"
    ) -> None:
        self._options, self._contest, self._other_models = options, contest, other_models

    def time(self, rows: Sequence[Row]) -> Iterator[Row]:
        """All rows of a group; they take turns."""
        from naic.tasks.benchmark.timing import take_turns

        device = self._contest.device
        runs: dict[str, Run] = {}
        found: dict[str, Timed | Exception] = {}
        for row in rows:
            if row.state == "planned":
                try:
                    runs[row.name] = self._run(row)
                except Exception as error:  # of any kind: the others can still be timed
                    found[row.name] = error
        found |= take_turns(runs, device, self._options.seconds)
        for row in rows:
            yield _filled(row, found[row.name]) if row.state == "planned" else row
        runs.clear()
        _give_back_memory(device)

    def _run(self, row: Row) -> "Run":
        from naic.tasks.benchmark.models import Way

        width = BEAM if row.decoding == BEAMS else 1
        if row.model in _NAMES:
            words = self._options.words
            return self._other_models.runner(_NAMES[row.model], width, words, row.batch)
        causal, cached = row.model == TEACHER, row.cache != "off"
        way = Way(causal, width, cached, text=row.decoding == WRITTEN)
        return self._contest.runner(row.part, way, row.runtime, row.precision, row.batch)


def _filled(row: Row, found: "Timed | Exception") -> Row:
    if isinstance(found, NaicError):
        return replace(row, state="failed", why=f"{found.what}: {found.why}. {found.hint}".strip())
    if isinstance(found, Exception):
        reason = (str(found).strip().splitlines() or ["no reason given"])[0]
        return replace(row, state="failed", why=f"{type(found).__name__}: {reason}")
    return replace(
        row,
        state="timed",
        median_ms=found.median_ms,
        p99_ms=found.p99_ms,
        repeats=found.repeats,
        images_per_second=1000 * row.batch / found.median_ms,
    )


def _give_back_memory(device: "torch.device") -> None:
    """The graphs of one batch size must not stand in the way of the next."""
    import gc

    import torch

    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
