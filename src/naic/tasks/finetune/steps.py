"""The steps of `naic finetune`: room for new words, features, two stages, the tuned model."""

import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from naic.data.features import FeatureStore
from naic.errors import BackboneError, DataError, Problem
from naic.files import whole_folder
from naic.progress import Callbacks
from naic.tasks.finetune.plan import HELD_OUT, TRAIN, FinetuneOptions, FinetunePlan
from naic.tasks.options import PrepareOptions
from naic.tasks.prepare import prepare

if TYPE_CHECKING:  # torch takes a second to import: not before there is work for it
    from torch import Tensor

    from naic.models.folder import LoadedModel
    from naic.train.settings import Settings
    from naic.train.validate import Validation

WORK, BEST, LAST = "work", "best", "xe-last"
_BITS, _BACKBONE_BITS = 8, 12  # of a weight: nothing is lost that a caption would show
_CMAL_RATE = 2.0  # of that of cross-entropy: slower, it does not mend what that has done
_SAVES = 4  # checkpoints of a stage: each is three times the model
_VALIDATIONS = 5  # of a stage: the best weights of these are kept


def write_start(
    folder: Path, model: Path, loaded: "LoadedModel", new_words: tuple[str, ...]
) -> None:
    """The model unpacked, so that its backbone can make features, with room for the new words.

    `model` is the folder that it was loaded from.
    """
    from naic.models.folder import write_model
    from naic.tasks.pack import seen_images
    from naic.text import Vocabulary

    vocabulary = Vocabulary((*loaded.vocabulary.words, *new_words))
    weights = grow(loaded.model.state_dict(), len(new_words))
    settings = replace(loaded.settings, words=len(vocabulary))
    card, more = "# The start of a fine-tuning\n", seen_images(model)
    write_model(folder, weights, settings, vocabulary, card, more)


def grow(weights: "dict[str, Tensor]", words: int) -> "dict[str, Tensor]":
    """Room for so many more words, which share what the model gives to an unknown word.

    Where it expected a word that it does not know is where a new one is likely to stand; taken
    together, the new words are as likely there as the unknown one was. In a model with transitions
    they go with all their neighbours alike, until it has learnt more.
    """
    import torch

    from naic.models.chain import TRANSITIONS
    from naic.text import UNK

    grown = dict(weights)
    if words:
        weight, bias = grown["decoder.output.weight"], grown["decoder.output.bias"]
        rows = weight[UNK].expand(words, -1)
        shares = (bias[UNK] - math.log(words)).expand(words)
        grown["decoder.output.weight"] = torch.cat([weight, rows])
        grown["decoder.output.bias"] = torch.cat([bias, shares])
        for name in (f"{TRANSITIONS}before.weight", f"{TRANSITIONS}after.weight"):
            if name in grown:
                grown[name] = torch.nn.functional.pad(grown[name], (0, 0, 0, words))
    return grown


def make_features(
    options: FinetuneOptions,
    loaded: "LoadedModel",
    plan: FinetunePlan,
    callbacks: Callbacks,
) -> tuple[FeatureStore, list[Problem]]:
    """Features of all images by the model's own backbone, or by the one that it learnt from."""
    settings, own = loaded.settings, loaded.spec.backbone(loaded.settings.model)
    work = options.out / WORK
    asked = PrepareOptions(
        plan.reader,
        options.captions,
        out=work / "features",
        backbone=own or settings.backbone,
        weights=work / "start" if own else None,
        pixels=settings.pixels,
        device=options.device,
    )
    done = prepare(asked, callbacks, plan.reading)
    if settings.digest and done.store.index["weights"] != settings.digest:
        why = f"it learnt from {settings.backbone} with other weights than those installed"
        hint = (
            "Give it its backbone first: naic pack MODEL --backbone MODEL_WITH_BACKBONE --out DIR"
        )
        raise BackboneError(str(options.model), why, hint)
    for split in (TRAIN, HELD_OUT):
        if not any(record.split == split for record in done.store.records):
            why = f"of its images for {split}, not one can be opened"
            raise DataError(options.captions, why, f"See {work / 'features' / 'errors.jsonl'}.")
    return done.store, done.errors


def make_stages(
    options: FinetuneOptions, loaded: "LoadedModel", plan: FinetunePlan, work: Path
) -> "tuple[Settings, Settings]":
    """Cross-entropy from the start, then CMAL from the end of it.

    Agents that hear each other have no counterfactual baseline: theirs is leave-one-out.
    """
    from naic.learn.schedules import Schedule
    from naic.train.chain_stages import transitions_of
    from naic.train.settings import (
        CMALSettings,
        DataSettings,
        EngineSettings,
        GuardSettings,
        RunSettings,
        Settings,
    )

    steps = max(1, round(plan.epochs * plan.learnt_from / plan.batch))
    schedule = Schedule(
        kind="cosine",
        learning_rate=options.learning_rate,
        warmup_steps=min(50, steps // 10),
        total_epochs=plan.epochs,
    )
    xe = Settings(
        stage="student_xe",
        out=work / "xe",
        captioner="parallel",
        start=work / "start",
        seed=options.seed,
        data=DataSettings(work / "features", train=(TRAIN,), validation=(HELD_OUT,)),
        schedule=schedule,
        run=RunSettings(
            epochs=plan.epochs,
            batch=plan.batch,
            log_every=10,
            validate_every=max(1.0, plan.epochs / _VALIDATIONS),
            save_every=max(1.0, plan.epochs / _SAVES),
        ),
        engine=EngineSettings(device=options.device),
        guard=GuardSettings(fraction=0.0),  # the best weights are kept, whatever comes later
    )
    cmal = replace(
        xe,
        stage="cmal",
        out=work / "cmal",
        start=work / LAST,
        schedule=replace(schedule, learning_rate=_CMAL_RATE * options.learning_rate),
        # The network runs once for all samples.
        cmal=CMALSettings(samples=4, baseline="loo" if transitions_of(loaded.model) else "cf"),
    )
    return xe, cmal


def write_last(run: Path, folder: Path) -> None:
    """The weights that a stage ended with, as a model to begin the next stage with.

    Not its best ones: cross-entropy makes the agents contradict each other before CMAL makes them
    a team again, so by the captions of held-out images the best model of the first stage is
    often the one that has learnt nothing yet.
    """
    from naic.models.folder import load_model, write_model
    from naic.train import checkpoint

    path = checkpoint.latest(run)
    assert path is not None  # the last step of a run always saves one
    like = load_model(run / BEST)
    weights = checkpoint.load(path).model
    write_model(folder, weights, like.settings, like.vocabulary, "# The end of a stage\n")


def write_best(folder: Path, model: Path, loaded: "LoadedModel", work: Path) -> None:
    """The tuned model with the backbone that it began with, or as the last stage left it.

    If `model`, the folder that the start was loaded from, is a packed one, its backbone is taken as
    it is, to the bit: it has not been trained, and more bits would only make it larger.
    """
    from naic.backbones.inside import stored_backbone
    from naic.models.folder import is_packed
    from naic.tasks.options import PackOptions
    from naic.tasks.pack import pack_model

    tuned = work / "cmal" / BEST
    if loaded.spec.backbone(loaded.settings.model):
        packed = is_packed(stored_backbone(model))
        backbone, bits = (model, None) if packed else (work / "start", _BACKBONE_BITS)
        pack_model(PackOptions(tuned, folder, backbone, _BITS, _BITS, bits))
        return
    with whole_folder(folder) as temporary:
        for path in tuned.iterdir():
            shutil.copyfile(path, temporary / path.name)


def validate_held_out(loaded: "LoadedModel", store: FeatureStore, device: str) -> "Validation":
    """Captions of the held-out images, without repeats as `naic caption` would give them.

    Features stand for what the model's backbone would see; loose ends are left, so that they count.
    """
    from naic.decode.decoding import READABLE
    from naic.device import choose_device
    from naic.train.validate import Validator

    settings = loaded.settings
    model = loaded.spec.for_features(loaded.model, settings.model, settings.words)
    chosen = choose_device(device)
    rows = [row for row, record in enumerate(store.records) if record.split == HELD_OUT]
    validator = Validator(store, rows, loaded.vocabulary, batch=16, device=chosen)
    decoding = replace(READABLE, bad_endings=True)
    return validator.validate(model.to(chosen).eval(), loaded.spec, decoding)
