"""The steps of `naic finetune`: features, what is said, new words, CMAL, the tuned model."""

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from naic.data.features import FeatureStore
from naic.data.joined import backbone
from naic.data.pseudo import PseudoWriter, Taught
from naic.errors import BackboneError, DataError, Problem
from naic.files import CARD, STYLE, remove_folder, whole_folder
from naic.progress import Callbacks
from naic.tasks.finetune.plan import HELD_OUT, TRAIN, FinetuneOptions, FinetunePlan
from naic.tasks.finetune.words import grow, pairs_of, stand_ins, with_new_words
from naic.tasks.options import PrepareOptions
from naic.tasks.prepare import prepare
from naic.text import UNK, Vocabulary
from naic.text.style import Style
from naic.text.tokeniser import tokenise

if TYPE_CHECKING:  # torch takes a second to import: not before there is work for it
    from naic.learn.schedules import Schedule
    from naic.models.folder import LoadedModel
    from naic.train.settings import Settings

WORK, BEST, START, FEATURES, TARGETS, LAST = (
    "work",
    "best",
    "start",
    "features",
    "targets",
    "xe-last",
)
_STYLED = """
## Its style

`naic finetune` found a style in captions, and `style.json` puts it on all that this model says:
{}. Its weights are {}. `naic caption --no-style` gives the sentence without it.
"""
_BITS, _BACKBONE_BITS = 8, 12  # of a weight: nothing is lost that a caption would show
_SAVES = 4  # checkpoints of a stage: each is three times the model
_VALIDATIONS = 6  # of CMAL: the best weights of these are kept
_OTHERS = 200  # photos without new words, of which the model goes on saying what it said
_WORDS_SEEN, _WORDS_EPOCHS, _WORDS_RATE = 1000, 20, 2e-4  # of the stage that learns new words


class First(NamedTuple):
    """What is learnt by cross-entropy before CMAL.

    Attributes:
        images: how many; 0: there is no such stage.
        far: whether it is all of people's captions, and not new words alone.
    """

    images: int = 0
    far: bool = False


def write_start(
    folder: Path,
    loaded: "LoadedModel",
    index: Mapping[str, Any],
    found: Mapping[str, tuple[str, ...]],
) -> None:
    """The captioner for features, unpacked, with room for new words; `index` is their store's."""
    from naic.models.folder import write_model

    settings, known = loaded.settings, loaded.vocabulary
    plain = loaded.spec.for_features(loaded.model, settings.model, settings.words)
    alike = [[known.id(word) for word in instead] for instead in found.values()]
    vocabulary = Vocabulary((*known.words, *found))
    if loaded.spec.backbone(settings.model):
        settings = replace(
            settings,
            features=int(index["dim"]),
            backbone=str(index["backbone"]),
            model=replace(settings.model, backbone=""),
            pixels=int(index["pixels"]),
            digest=str(index["weights"]),
        )
    settings = replace(settings, words=len(vocabulary))
    weights = grow(plain.state_dict(), alike, UNK)
    write_model(folder, weights, settings, vocabulary, "# The start of a fine-tuning\n")


def make_features(
    options: FinetuneOptions,
    folder: Path,
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
        weights=folder if own else None,
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


def say(
    loaded: "LoadedModel", store: FeatureStore, rows: Sequence[int], device: str
) -> dict[str, str]:
    """Sentences of these images by their ids, without repeats as `naic caption` would give them.

    Features stand for what the model's backbone would see; loose ends are left, so that they count.
    """
    from naic.decode.decoding import READABLE
    from naic.device import choose_device
    from naic.train.validate import Validator

    settings = loaded.settings
    model = loaded.spec.for_features(loaded.model, settings.model, settings.words)
    chosen = choose_device(device)
    validator = Validator(store, rows, loaded.vocabulary, batch=16, device=chosen)
    decoding = replace(READABLE, bad_endings=True)
    said = validator.validate(model.to(chosen).eval(), loaded.spec, decoding)
    return said.captions


def rows_of(store: FeatureStore, split: str) -> list[int]:
    """The images of a split that features were made of."""
    return [row for row, record in enumerate(store.records) if record.split == split]


def rows_to_ask(store: FeatureStore, new_words: Sequence[str]) -> list[int]:
    """The images to learn new words from, and some others; none if there are no new words."""
    if not new_words:
        return []
    new = {*new_words}
    rows = rows_of(store, TRAIN)
    with_it = [
        row
        for row in rows
        if any(not new.isdisjoint(tokenise(text)) for text in store.records[row].captions)
    ]
    others = sorted({*rows} - {*with_it})
    return sorted([*with_it, *others[:: len(others) // _OTHERS + 1]])


def write_targets(
    folder: Path,
    store: FeatureStore,
    said: Mapping[str, str],
    new_words: Sequence[str],
    vocabulary: Vocabulary,
) -> dict[str, tuple[str, ...]]:
    """Sentences to learn the new words from; gives which words each of them stands in for.

    They lie there as what a teacher says would: as captions of images by their ids.
    """
    captions = {record.id: record.captions for record in store.records if record.id in said}
    pairs = pairs_of(said, captions)
    found = {word: stand_ins(word, [*pairs.values()]) for word in new_words}
    grown = Vocabulary((*vocabulary.words, *found))
    sentences = with_new_words(pairs, captions, found, grown)
    if not (folder / "index.json").exists():
        who = {"weights": hashlib.sha256(repr(found).encode()).hexdigest()}
        teacher = {"folder": START, "vocabulary": grown.fingerprint, **who}
        settings = {"teacher": teacher, "beam": 1, "features": [backbone(store.index)]}
        folder.mkdir(exist_ok=True)
        writer = PseudoWriter(folder, [*sentences], settings, max(1, len(sentences)))
        taught = [Taught((text,), (0.0,), (True,)) for text in sentences.values()]
        for number in writer.shards:
            writer.write(number, [taught[place] for place in writer.span(number)])
        writer.finish(grown, {})
    return found


def make_stages(
    options: FinetuneOptions, loaded: "LoadedModel", plan: FinetunePlan, work: Path, first: First
) -> "tuple[Settings | None, Settings]":
    """Cross-entropy where something is new, then CMAL.

    People's sentences are no targets for agents that can speak already: those that are each shown
    a word of them no longer agree (docs/results/finetune.md). They are what sampled sentences are
    rewarded by. Only a model whose sentences have next to nothing in common with theirs, as of
    drawings, learns these first, by all of its weights: no sentence of its own would be rewarded.

    Agents that hear each other have no counterfactual baseline: theirs is leave-one-out, and the
    network runs once for all samples.
    """
    from naic.train.chain_stages import transitions_of
    from naic.train.settings import (
        CMALSettings,
        DataSettings,
        EngineSettings,
        GuardSettings,
        OptimiserSettings,
        RunSettings,
        Settings,
    )

    chain = transitions_of(loaded.model) is not None
    cmal = Settings(
        stage="cmal",
        out=work / "cmal",
        captioner="parallel",
        start=work / (LAST if first.images else START),
        seed=options.seed,
        data=DataSettings(work / FEATURES, train=(TRAIN,), validation=(HELD_OUT,)),
        schedule=_schedule(plan.learning_rate, plan.epochs, plan.learnt_from, plan.batch),
        optimiser=OptimiserSettings(frozen=() if first.far else ("encoder",)),
        run=RunSettings(
            epochs=plan.epochs,
            batch=plan.batch,
            log_every=10,
            validate_every=plan.epochs / _VALIDATIONS,
            save_every=plan.epochs / _SAVES,
        ),
        engine=EngineSettings(device=options.device),
        guard=GuardSettings(fraction=0.0),  # the best weights are kept, whatever comes later
        cmal=CMALSettings(samples=20, baseline="loo", kl=0.02)
        if chain
        else CMALSettings(samples=4, kl=0.02),
    )
    return (_first_stage(cmal, plan, work, first) if first.images else None), cmal


def _first_stage(cmal: "Settings", plan: FinetunePlan, work: Path, first: First) -> "Settings":
    """Cross-entropy with the settings of the CMAL that comes after it."""
    from naic.train.settings import CMALSettings

    epochs, rate = float(plan.epochs), plan.learning_rate
    if not first.far:
        epochs, rate = float(min(_WORDS_EPOCHS, max(1, _WORDS_SEEN / first.images))), _WORDS_RATE
    batch = min(plan.batch, first.images)
    whole = replace(cmal.run, epochs=epochs, batch=batch, validate_every=epochs)
    return replace(
        cmal,
        stage="student_xe",
        out=work / "xe",
        start=work / START,
        data=cmal.data if first.far else replace(cmal.data, pseudo=(work / TARGETS,)),
        schedule=_schedule(rate, epochs, first.images, batch),
        run=replace(whole, save_every=epochs / _SAVES),
        cmal=CMALSettings(),
    )


def _schedule(rate: float, epochs: float, images: int, batch: int) -> "Schedule":
    from naic.learn.schedules import Schedule

    warmup = min(50, max(1, round(epochs * images / batch)) // 10)
    return Schedule(kind="cosine", learning_rate=rate, warmup_steps=warmup, total_epochs=epochs)


def write_last(run: Path, folder: Path) -> None:
    """The weights that a stage ended with, as a model to begin the next stage with.

    Not its best ones: what is new costs some CIDEr before CMAL finds its place in sentences, so by
    that the best would often be the model that has learnt nothing yet.
    """
    from naic.models.folder import load_model, write_model
    from naic.train import checkpoint

    path = checkpoint.latest(run)
    assert path is not None  # the last step of a run always saves one
    like = load_model(run / BEST)
    weights = checkpoint.load(path).model
    write_model(folder, weights, like.settings, like.vocabulary, "# The end of a stage\n")


def write_best(
    out: Path, model: Path, loaded: "LoadedModel", style: Style | None, *, tuned: bool
) -> None:
    """DIR/best: the tuned captioner or the model as it was, and a style; whole or not there.

    A backbone is taken as it is: packed to the bit, since it has not been trained, and more bits
    would only make it larger. `model` is the folder that the run began with.
    """
    from naic.backbones.inside import stored_backbone
    from naic.models.folder import is_packed
    from naic.tasks.options import PackOptions
    from naic.tasks.pack import pack_model

    found, packed = model, out / WORK / "packed"
    if tuned:
        found = out / WORK / "cmal" / BEST
    if tuned and loaded.spec.backbone(loaded.settings.model):
        bits = None if is_packed(stored_backbone(model)) else _BACKBONE_BITS
        if packed.exists():
            remove_folder(packed)
        pack_model(PackOptions(found, packed, model, _BITS, _BITS, bits))
        found = packed
    with whole_folder(out / BEST) as temporary:
        for path in found.iterdir():
            if path.is_file() and path.name != STYLE:
                shutil.copyfile(path, temporary / path.name)
        if style is not None:
            (temporary / STYLE).write_text(f"{style.as_json()}\n", encoding="utf-8")
            with (temporary / CARD).open("a", encoding="utf-8") as card:
                card.write(_STYLED.format(style.describe(), "tuned" if tuned else "as they were"))
