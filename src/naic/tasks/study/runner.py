"""Makes the variants of a study, each in a folder of its own; what is finished is not made again.

Several processes may work on one study at the same time, each on variants of its own: every variant
has its own notes (`run.json`), and is locked while it is made.
"""

import gc
import json
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naic import __version__
from naic.errors import ConfigError, StoreError
from naic.files import REPRODUCTION, remove_folder, remove_temporaries, sweep, write_atomically
from naic.resume import claim, pretty
from naic.tasks.options import DistilOptions
from naic.tasks.reproduce.preset import is_finished
from naic.tasks.reproduce.run_file import ReproduceOptions, digest, machine
from naic.tasks.study.spec import TRAIN, Study, Variant, runs_of

if TYPE_CHECKING:
    from naic.train.kept import Kept
    from naic.train.settings import Settings

WEIGHTS, INDEX = "model.safetensors", "index.json"
HALF = "half"  # the best model in float16, in a variant's folder
LAST = 0.1  # the share of a run's steps that are its end


class VariantRunner:
    """The folder of a study, and how its variants are made.

    Attributes:
        runs: by the folder of a variant, the settings of its runs.
    """

    def __init__(self, study: Study, options: ReproduceOptions, command: str = "") -> None:
        """Reads the settings of all variants, those too that are not to be made now."""
        self.study = study
        self._options = options
        self._command = command
        self.runs = {own.slug: runs_of(study, own, options) for own in study.variants}

    def folder(self, variant: Variant) -> Path:
        """Where a variant is, or will be."""
        return self._options.out / variant.slug

    def model(self, variant: Variant) -> Path:
        """Its best model."""
        return self.folder(variant) / TRAIN / "best"

    def is_finished(self, variant: Variant) -> bool:
        """Whether there is nothing left to do for it."""
        return all(map(is_finished, self.runs[variant.slug].values())) and bool(
            read_note(self.folder(variant)).get("finished")
        )

    def state(self, variant: Variant) -> str:
        """What a call would do about it: "done", "go on" or "make"."""
        if self.is_finished(variant):
            return "done"
        return "go on" if self.folder(variant).is_dir() else "make"

    def check_sources(self, variants: Iterable[Variant]) -> None:
        """Refuse what is not there, or is not what a variant was begun with."""
        for variant in variants:
            sources = self._sources(variant)
            missing = [path for path, found in sources.items() if found == "None"]
            if missing:
                where = f"{self.study.path}: variant {variant.name!r}"
                raise ConfigError(where, f"{missing[0]} is not there", "Make it, or mend the path.")
            kept = read_note(self.folder(variant)).get("made_from", sources)
            for path, found in sources.items():
                if kept.get(path) != found:
                    why = f"it was made from another {path} than is there now"
                    folder = self.folder(variant)
                    raise StoreError(str(folder), why, f"Remove {folder} to make it again.")

    def missing(self, variant: Variant) -> list[str]:
        """Variants that it needs, to begin with or to learn from, and that are not finished."""
        return [own.name for own in self._needed(variant) if not self.is_finished(own)]

    def _needed(self, variant: Variant) -> list[Variant]:
        names = (variant.after, variant.taught)
        return [self.study.find(name) for name in dict.fromkeys(names) if name is not None]

    @contextmanager
    def hold(self, variant: Variant) -> Iterator[bool]:
        """Keep other processes from a variant; False: another one is at it."""
        with ExitStack() as stack:
            try:
                stack.enter_context(claim(self.folder(variant)))
                held = True
            except StoreError as error:
                if error.__cause__ is not None:  # it cannot be opened, or not be locked at all
                    raise
                held = False
            yield held

    def make(self, variant: Variant, kept: "Kept") -> None:
        """Make a variant that is held, or the rest of it."""
        folder = self.folder(variant)
        remove_temporaries(folder, REPRODUCTION)
        if self.is_finished(variant):
            return
        note = read_note(folder) | {
            "name": variant.name,
            "changes": variant.changes,
            "made_from": self._sources(variant),
            "naic": __version__,
            "machine": machine(),
            "command": self._command,
        }
        write_atomically(folder / REPRODUCTION, pretty(note))
        note.setdefault("runs", {})
        if variant.taught is not None and "taught_seconds" not in note:
            note["taught_seconds"] = self._teach(variant, self.study.find(variant.taught))
            write_atomically(folder / REPRODUCTION, pretty(note))
        for name, settings in self.runs[variant.slug].items():
            if is_finished(settings) and name in note["runs"]:
                continue
            peak = self._train(settings, kept)
            before = note["runs"].get(name, {}).get("peak_gpu_bytes")
            found = [size for size in (peak, before) if size is not None]
            own = {"peak_gpu_bytes": max(found, default=None), **reported(settings.out)}
            note["runs"][name] = own
            write_atomically(folder / REPRODUCTION, pretty(note))
        if self.study.settings.half:
            keep_half(self.model(variant), folder / HALF)
        write_atomically(folder / REPRODUCTION, pretty(note | {"finished": True}))

    def _sources(self, variant: Variant) -> dict[str, str]:
        """The digests of all that a variant is made from, but for its own runs."""
        found = {}
        for settings in self.runs[variant.slug].values():
            data = settings.data
            if settings.start is not None and not settings.start.is_relative_to(self._options.out):
                found[str(settings.start)] = digest(settings.start / WEIGHTS)
            for needed in self._needed(variant):
                before = self.model(needed) / WEIGHTS
                if before.is_file():  # else it is not made yet
                    found[str(before)] = digest(before)
            given = () if variant.taught is not None else data.pseudo
            for store in (data.features, *given, *data.unlabelled):
                found[str(store)] = digest(store / INDEX)
        return found

    def _teach(self, variant: Variant, teacher: Variant) -> float:
        """Let another variant caption the images that this one learns from; gives the seconds."""
        from naic.tasks.distil import distil

        began = time.monotonic()
        settings = self.runs[variant.slug][TRAIN]
        (target,) = settings.data.pseudo
        distil(
            DistilOptions(
                self.model(teacher),
                target,
                features=(settings.data.features,),
                splits=settings.data.train,
                beam=self.study.settings.beam,
                device=self._options.device,
            )
        )
        return time.monotonic() - began

    def _train(self, settings: "Settings", kept: "Kept") -> int | None:
        """Run it to its end; gives the most memory that a GPU held, features included."""
        import torch

        from naic.train.loop import train

        on_gpu = torch.cuda.is_available() and settings.engine.device != "cpu"
        if on_gpu:
            torch.cuda.reset_peak_memory_stats()
        try:
            train(settings, resume=True, command=self._command, kept=kept)
        finally:  # after one that failed others come, too
            if settings.engine.compile:
                # After some recompilations torch gives up, and the runs of one process add theirs
                # up. What was compiled is in inductor's cache on the disk: the next run finds it.
                torch.compiler.reset()
        if not on_gpu:
            return None
        gc.collect()  # a run's graph, before the next takes as much; features stay in `kept`
        torch.cuda.empty_cache()
        return int(torch.cuda.max_memory_allocated())


def keep_half(model: Path, target: Path) -> None:
    """The same model in float16: half the bytes, and what it is timed in.

    In place of one that is there: a call may be killed before it has said that all is done.
    """
    import torch

    from naic.models.folder import load_model, write_model

    loaded = load_model(model)
    weights = {
        name: own.to(torch.float16) if own.is_floating_point() else own
        for name, own in loaded.model.state_dict().items()
    }
    card = (model / "README.md").read_text(encoding="utf-8")
    sweep(target.parent)
    if target.exists():
        remove_folder(target)
    write_model(target, weights, loaded.settings, loaded.vocabulary, card)


def read_note(folder: Path) -> dict[str, Any]:
    """run.json of a variant; empty where there is none."""
    try:
        found = json.loads((folder / REPRODUCTION).read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def reported(run: Path) -> dict[str, Any]:
    """What a finished run says of its length, its device and its end."""
    report = json.loads((run / "report.json").read_bytes())
    found = {name: report[name] for name in ("seconds", "steps", "best_step", "device")}
    return found | {"entropy": last_entropy(run), "config": report["config"]}


def last_entropy(run: Path) -> float | None:
    """The agents' mean entropy in nats, as trained (with dropout), over a run's last steps."""
    from naic.train.logs import read_metrics

    lines = [line for line in read_metrics(run) if "entropy" in line]
    if not lines:
        return None
    end = float(lines[-1]["step"])
    values = [float(line["entropy"]) for line in lines if float(line["step"]) > (1 - LAST) * end]
    return sum(values) / len(values)
