"""Makes the stages of a reproduction, each in a folder of its own; what is finished is reused."""

import gc
import json
import time
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naic.config import structure
from naic.data.features import FeatureStore
from naic.data.joined import JoinedStore, check_unseen
from naic.data.pseudo import PseudoStore, PseudoWriter
from naic.errors import ConfigError, StoreError
from naic.progress import Callbacks
from naic.resume import claim
from naic.tasks.distil import distil
from naic.tasks.options import DistilOptions, PrepareOptions
from naic.tasks.prepare import prepare
from naic.tasks.reproduce.plan import Distil, Prepare, Share, StagePlan, Train
from naic.tasks.reproduce.preset import Preset, is_finished, read_train, train_settings
from naic.tasks.reproduce.run_file import ReproduceOptions, RunFile, digest

if TYPE_CHECKING:
    from naic.train.settings import Settings

STORES = ("features", "unlabelled-features")


class StageRunner:
    """The folder of a reproduction, and how its stages are made."""

    def __init__(
        self, preset: Preset, options: ReproduceOptions, plan: StagePlan, run_file: RunFile
    ) -> None:
        self.preset = preset
        self.plan = plan
        self.run_file = run_file
        self._options = options

    def name(self, stage: str, number: int) -> str:
        """What a stage is called for the seed `number`, from 0: its folder in the run's."""
        return stage if number == 0 or self.plan.is_shared(stage) else f"seed-{number + 1}/{stage}"

    def folder(self, stage: str, number: int = 0) -> Path:
        """Where a stage is, or will be; features may be given from outside."""
        return self._given(stage) or self._options.out / self.name(stage, number)

    def is_given(self, stage: str) -> bool:
        """Whether the user brought it."""
        return self._given(stage) is not None

    def _given(self, stage: str) -> Path | None:
        if stage == "features":
            return self._options.features
        return self._options.unlabelled if stage == "unlabelled-features" else None

    def is_finished(self, stage: str, number: int) -> bool:
        """Whether there is nothing left to do for a stage."""
        there = (self.folder(stage, number) / "index.json").is_file()
        match self.plan.jobs[stage]:
            case Train() as job:
                needed = [name for name in job.needs if not self.is_finished(name, number)]
                return not needed and is_finished(self.settings(job, stage, number))
            case job if there and not self.is_given(stage):
                # Of other settings it is not finished: making it compares plans, and refuses.
                asked = self._asked(job)
                return bool(self.run_file.stage(stage).get("settings", asked) == asked)
            case _:
                return there

    def has_begun(self, stage: str, number: int) -> bool:
        """Whether something of it is there."""
        return self.folder(stage, number).is_dir()

    def check_data(self, stages: Collection[str]) -> None:
        """Refuse a run whose data is not there, before anything is written."""
        for stage in stages:
            job = self.plan.jobs[stage]
            if self.is_given(stage):
                FeatureStore(self.folder(stage))
            elif isinstance(job, Prepare):
                self._prepare_options(job.config)
        given = [name for name in STORES if name in stages and self.is_given(name)]
        if len(given) == len(STORES):
            JoinedStore([FeatureStore(self.folder(name)) for name in STORES])
            self._check_unseen()

    def make(self, stage: str, number: int, callbacks: Callbacks) -> None:
        """Make a stage, or the rest of it; those it needs are there."""
        if self.is_given(stage):
            return
        name = self.name(stage, number)
        sources = self._sources(stage, number)
        if self.has_begun(stage, number):
            self._check_sources(name, sources)
        job, noted = self.plan.jobs[stage], "seconds" in self.run_file.stage(name)
        if self.is_finished(stage, number) and (noted or isinstance(job, Train)):
            if not noted:  # killed after its end, before our note
                self.run_file.note(name, made_from=sources, **self._reported(stage, number))
            return
        began = time.monotonic()
        self.run_file.note(name, made_from=sources)
        match job:
            case Prepare(config):
                self._prepare(stage, config, callbacks)
            case Distil(teacher, features):
                self._distil(stage, teacher, features, callbacks)
            case Share(whole, share):
                self._share(stage, whole, share)
            case Train():
                self._train(job, stage, number)
        # A run counts its own seconds, those of before a kill too.
        seconds = {"seconds": time.monotonic() - began} | self._reported(stage, number)
        settings = {} if isinstance(job, Train) else {"settings": self._asked(job)}
        self.run_file.note(name, **settings, **seconds)

    def announce(self, stage: str, number: int) -> None:
        """Note what a stage that another process is about to make is made from."""
        if not self.is_given(stage) and not self.has_begun(stage, number):
            self.run_file.note(self.name(stage, number), made_from=self._sources(stage, number))

    def _reported(self, stage: str, number: int) -> dict[str, float]:
        """What a training run says of its length; of other stages nothing is kept."""
        if not isinstance(self.plan.jobs[stage], Train):
            return {}
        report = json.loads((self.folder(stage, number) / "report.json").read_bytes())
        return {"seconds": report["seconds"], "steps": report["steps"]}

    def settings(self, job: Train, stage: str, number: int) -> "Settings":
        """The settings of a training stage, whose needs are finished."""
        return train_settings(
            self.preset,
            job,
            {name: self.folder(name, number) for name in job.needs},
            self.folder(stage, number),
            seed=None if self.plan.is_shared(stage) else self.preset.settings.seed + number,
            device=self._options.device,
            graph=self._options.graph,
        )

    def identity(self, stage: str, number: int) -> str:
        """What tells a finished stage from another of the same name."""
        is_run = isinstance(self.plan.jobs[stage], Train)
        file = "best/model.safetensors" if is_run else "index.json"
        return digest(self.folder(stage, number) / file)

    def _asked(self, job: Prepare | Distil | Share) -> dict[str, Any]:
        """What decides how a store comes out, beside what it is made from; a run keeps its own."""
        own = self.preset.settings
        match job:
            case Prepare(config):
                limit = own.limit if config == "prepare" else own.unlabelled_limit
                return self.preset.files[config] | ({} if limit is None else {"limit": limit})
            case Distil():
                data = read_train(self.preset, "student_kd").data
                held_out = list(dict.fromkeys([*data.validation, *self.preset.splits]))
                splits = {"train": [*data.train], "held_out": held_out}
                return {"beam": own.beam, "keep": own.keep, **splits}
            case Share():
                return {"share": job.share}

    def _sources(self, stage: str, number: int) -> dict[str, str]:
        needs = self.plan.jobs[stage].needs
        return {self.name(name, number): self.identity(name, number) for name in needs}

    def _check_sources(self, name: str, sources: dict[str, str]) -> None:
        """A model of a teacher that was trained anew since would be a row of another table."""
        kept = self.run_file.stage(name).get("made_from", sources)
        for other, identity in sources.items():
            if kept.get(other) != identity:
                why = f"it was made from another {other} than is there now"
                folder = self._options.out / name
                raise StoreError(str(folder), why, f"Remove {folder} to make it again.")

    def _prepare(self, stage: str, config: str, callbacks: Callbacks) -> None:
        options = self._prepare_options(config)
        options = replace(options, out=self.folder(stage), device=self._options.device)
        prepare(options, callbacks)

    def _prepare_options(self, config: str) -> PrepareOptions:
        path, values = self.preset.path(config), self.preset.files[config]
        missing = [name for name in ("reader", "source") if name not in values]
        if missing:
            option = "--features" if config == "prepare" else "--unlabelled"
            hint = f"Make a store with `naic prepare` and give it: {option} STORE."
            why = f"it names no {' and no '.join(missing)}: the data is yours to bring"
            raise ConfigError(str(path), why, hint)
        options = structure(values, PrepareOptions, str(path))
        own = self.preset.settings
        limit = own.limit if config == "prepare" else own.unlabelled_limit
        return options if limit is None else replace(options, limit=limit)

    def _distil(self, stage: str, teacher: str, features: str, callbacks: Callbacks) -> None:
        own = self.preset.settings
        options = DistilOptions(
            model=self.folder(teacher) / "best",
            out=self.folder(stage),
            features=(self.folder(features),),
            splits=self._taught_splits(features),
            beam=own.beam,
            keep=own.keep,
            device=self._options.device,
        )
        distil(options, callbacks)

    def _taught_splits(self, features: str) -> tuple[str, ...]:
        """Which images the teacher captions for the students.

        Of the labelled store what human captions are learnt from too, so that the methods
        differ in nothing but the captions; of an unlabelled one all that is not held out.
        """
        data = read_train(self.preset, "student_kd").data
        if features == "features":
            return data.train
        self._check_unseen()
        held_out = {*data.validation, *self.preset.splits}
        records = FeatureStore(self.folder(features)).records
        splits = tuple(sorted({record.split for record in records} - held_out))
        if not splits:  # no names would mean all of them
            why = f"all its images are of splits that are held out: {', '.join(sorted(held_out))}"
            raise StoreError(str(self.folder(features)), why, "Prepare images of another split.")
        return splits

    def _check_unseen(self) -> None:
        """Unlabelled means unseen: by teacher and df, and by the backbone of both stores."""
        from naic.backbones.load import is_tuned

        stores = [FeatureStore(self.folder(name)) for name in STORES]
        labelled, unlabelled = ({record.id for record in store.records} for store in stores)
        if both := labelled & unlabelled:
            why = (
                f"{len(both):,} of its images are in the labelled store too, such as {min(both)!r}"
            )
            hint = "Prepare each from other images: --splits, or another --seed of shapes."
            raise StoreError(str(self.folder("unlabelled-features")), why, hint)
        check_unseen(stores[1], stores[:1], tuned=is_tuned(stores[1].index))

    def _share(self, stage: str, whole: str, share: float) -> None:
        """The first part of a store, in the order of its images; nothing is captioned again."""
        store, folder = PseudoStore(self.folder(whole)), self.folder(stage)
        ids = list(store.taught)[: max(1, round(share * len(store)))]
        own = ("format", "images", "captions", "naic", "shards")
        settings = {key: value for key, value in store.index.items() if key not in own}
        with claim(folder):
            writer = PseudoWriter(folder, ids, {**settings, "share": share}, max(1, len(ids)))
            writer.write(0, [store.taught[id_] for id_ in ids])
            writer.finish(store.vocabulary, {})

    def _train(self, job: Train, stage: str, number: int) -> None:
        import torch

        from naic.train.loop import train

        settings = self.settings(job, stage, number)
        train(settings, resume=True, command=self.run_file.command)
        if settings.engine.compile:
            # After some recompilations torch gives up, and the runs of one process add theirs up.
            torch.compiler.reset()
        gc.collect()  # a run's graph and features, before the next takes as much
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
