"""Everything a run is made of, found and checked before anything is written."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from naic.data.batches import Targets
from naic.data.features import PLUGIN, FeatureStore, refuse_unknown
from naic.errors import ConfigError
from naic.models.captioners import Taken, captioner_spec, take_weights
from naic.models.contract import CaptionerSpec
from naic.models.folder import LoadedModel, ModelSettings, load_model
from naic.text import Vocabulary
from naic.text.vocabulary import NEVER
from naic.train.card import DataSignature, sign_data
from naic.train.config import check, model_config, with_plugins
from naic.train.kept import Kept, human_targets, open_store
from naic.train.settings import Settings
from naic.train.stages import stage_of

if TYPE_CHECKING:  # a run without pseudo captions needs none of them
    from naic.data.joined import AnyStore, SeenImages
    from naic.data.pseudo import PseudoStore

CONFIG, VOCABULARY = "config.toml", "vocab.json"  # the settings are written last
PIXELS = "pixels"  # the backbone that leaves the seeing to the model


@dataclass(frozen=True)
class Inputs:
    """What was found.

    Attributes:
        settings: the run's, with `[model]` in full: what the file leaves out is the start model's.
        store: the labelled images: validation and rewards come from it.
        images: what the targets' rows are rows of: `store`, and unlabelled ones after it.
        pseudo: whose captions are learnt instead of those of people, if there are any.
        start: for people: what was taken from the start model; empty without one.
        config: `[model]` as the captioner's own dataclass.
        seen: of a model with a backbone inside: the images whose captions that learns from.
    """

    settings: Settings
    store: FeatureStore
    images: "AnyStore"
    pseudo: "tuple[PseudoStore, ...]"
    vocabulary: Vocabulary
    targets: Targets
    validation: list[int]
    spec: CaptionerSpec
    config: Any
    model: nn.Module
    start: str
    seen: "SeenImages | None"

    @property
    def steps(self) -> int:
        """How many steps the run has in all."""
        run = self.settings.run
        return max(1, round(run.epochs * len(self.targets) / run.batch))

    @property
    def model_settings(self) -> ModelSettings:
        """What a model folder says of its model."""
        inside = self.spec.backbone(self.config)
        seen_by = [str(self.store.index[PLUGIN])] if PLUGIN in self.store.index else []
        return ModelSettings(
            captioner=self.settings.captioner,
            features=self.store.dim,
            words=len(self.vocabulary),
            backbone=str(self.store.index["backbone"]),
            model=self.config,
            pixels=int(self.store.index["pixels"]),
            digest="" if inside else str(self.store.index.get("weights", "")),
            made_with=tuple(dict.fromkeys((*self.settings.plugins, *seen_by))) or None,
        )

    @property
    def more_files(self) -> dict[str, bytes]:
        """What a model folder holds of this run beside its model."""
        if self.seen is None:
            return {}
        from naic.data.joined import SEEN

        return {SEEN: self.seen.as_json()}

    def sign(self) -> DataSignature:
        """Which data the run learns from."""
        return sign_data(self.store, self.settings.data.train, self.pseudo, self.images.stores[1:])


def find_inputs(settings: Settings, kept: Kept | None = None) -> Inputs:
    """Open the store, settle the vocabulary, build the model, take the start model's weights."""
    check(settings)  # they need not come from a file
    store = open_store(kept, settings.data.features)
    known = Counter(record.split for record in store.records)
    refuse_unknown((*settings.data.train, *settings.data.validation), known)
    begun = None if settings.start is None else load_model(settings.start)
    spec = captioner_spec(settings.captioner)
    if begun is not None and type(begun.settings.model) is spec.config:
        sizes = {**_sizes(begun, store, spec), **settings.model}
        settings = replace(settings, model=sizes)
    config = model_config(settings)
    wanted = spec.backbone(config)
    _check_pixels(store, wanted)
    _check_boxes(store, config)
    if begun is not None:
        _check_start(settings, begun, store, wanted)
    settings = with_plugins(replace(settings, model=asdict(config)), wanted)
    pseudo = _open_pseudo(settings)
    known_words = _teacher_words(settings, pseudo) if begun is None else begun.vocabulary
    vocabulary = _vocabulary(settings, store, known_words)
    stage_of(settings).check(settings, len(vocabulary) - len(NEVER))
    torch.manual_seed(settings.seed)
    model = spec.begin(config, store.dim, vocabulary)
    start = ""
    if begun is not None:
        taken = take_weights(model, _first_weights(begun, wanted))
        _check_taken(settings, taken)
        start = taken.describe()
    elif wanted:
        take_weights(model, _first_weights(None, wanted))
    length: int = model.length  # type: ignore[assignment]
    seen = _seen(settings, store, begun) if wanted else None
    before = seen if begun is not None and _own_backbone(begun) else None
    images, targets = _find_targets(settings, store, pseudo, vocabulary, length, before, kept)
    return Inputs(
        settings=settings,
        store=store,
        images=images,
        pseudo=pseudo,
        vocabulary=vocabulary,
        targets=targets,
        validation=_validation_rows(settings, store),
        spec=spec,
        config=config,
        model=model,
        start=start,
        seen=seen,
    )


def _open_pseudo(settings: Settings) -> "tuple[PseudoStore, ...]":
    if not settings.data.pseudo:
        return ()
    from naic.data.pseudo import PseudoStore

    return tuple(PseudoStore(folder) for folder in settings.data.pseudo)


def _find_targets(
    settings: Settings,
    store: FeatureStore,
    pseudo: "Sequence[PseudoStore]",
    vocabulary: Vocabulary,
    length: int,
    seen: "SeenImages | None",
    kept: Kept | None,
) -> "tuple[AnyStore, Targets]":
    """What is learnt, as rows of all images: human captions, or what a teacher says.

    `seen` has the images that a backbone inside the start model has learnt from.
    """
    if not pseudo:
        return store, human_targets(kept, store, settings.data, vocabulary, length)
    from naic.backbones.load import is_tuned
    from naic.data.joined import JoinedStore, check_unseen
    from naic.data.pseudo import look_up

    further = [FeatureStore(folder) for folder in settings.data.unlabelled]
    images = JoinedStore([store, *further]) if further else store
    for own in further:
        tuned = seen is not None or is_tuned(own.index)
        check_unseen(own, (store,), tuned=tuned, more=seen)
    taught = look_up(pseudo, images, settings.data.validation, settings.data.views)
    return images, Targets.build_pseudo(taught, vocabulary, length)


def _seen(settings: Settings, store: FeatureStore, begun: LoadedModel | None) -> "SeenImages":
    """The images whose captions this run's backbone learns from, the start model's among them."""
    from naic.data.joined import SeenImages, read_seen

    labelled = (r for r in store.records if r.split in settings.data.train and r.captions)
    ids = frozenset(record.id for record in labelled)
    if begun is None or settings.start is None or not _own_backbone(begun):
        return SeenImages(ids)
    before = read_seen(settings.start) or SeenImages(frozenset(), whole=False)
    return SeenImages(ids | before.ids, before.whole)


def _own_backbone(begun: LoadedModel) -> str:
    """The backbone that is part of the start model; empty: none."""
    return begun.spec.backbone(begun.settings.model)


def _check_pixels(store: FeatureStore, wanted: str) -> None:
    """The same matrix for each cell's pixels would be no backbone."""
    if store.index["backbone"] == PIXELS and not wanted:
        why = "the store holds pixels, and this model has no backbone to see them with"
        raise ConfigError(
            "model.backbone", why, 'Set backbone = "efficientnet-lite2", or use features.'
        )


def _check_boxes(store: FeatureStore, config: Any) -> None:  # noqa: ANN401 - of any captioner
    """Boxes are no features, and features no boxes; a captioner that has no choice reads all."""
    boxes = asdict(config).get("boxes")
    if boxes is None or bool(boxes) == store.boxes:
        return
    if store.boxes:
        why = "each region of the store ends in its box, and nothing says what becomes of that"
        hint = 'Set boxes = "coded", or "apart" to leave it unread.'
    else:
        why = f"is {boxes!r}, and the regions of the store have no boxes"
        hint = "Leave it out, or import the features with their boxes."
    raise ConfigError("model.boxes", why, hint)


def _sizes(begun: LoadedModel, store: FeatureStore, spec: CaptionerSpec) -> dict[str, Any]:
    """The start model's sizes; its backbone only for pixels, transitions not for a teacher."""
    sizes = asdict(begun.settings.model)
    if spec.reads_words and "transitions" in sizes:
        sizes["transitions"] = 0
    if _own_backbone(begun) and store.index["backbone"] != PIXELS:
        sizes["backbone"] = ""
    return sizes


def _check_start(settings: Settings, begun: LoadedModel, store: FeatureStore, wanted: str) -> None:
    """Refuse a start model that learnt from features of another kind."""
    own = begun.settings
    seeing = _own_backbone(begun)
    if seeing or wanted:
        from naic.backbones.inside import backbone_digest, backbone_tensors
        from naic.backbones.load import backbone_spec, trainable_backbone
    reads = trainable_backbone(seeing).dim if seeing else own.features
    given = trainable_backbone(wanted).dim if wanted else store.dim
    if reads != given:
        why = f"it takes features of size {reads}, the store has {given}"
        raise ConfigError("start", why, "Prepare the features with the start model's backbone.")
    if stage_of(settings).reward is None or (wanted and wanted == seeing):
        return
    backbone = backbone_digest(backbone_tensors(begun.model.state_dict())) if seeing else own.digest
    here = store.index.get("weights", "")
    if wanted:
        here = backbone_spec(wanted).load(wanted, None).digest
    if backbone and here and backbone != here:
        why = "what it would see comes from a backbone with other weights than its own features"
        raise ConfigError("start", why, "Prepare the features with the start model's backbone.")


def _first_weights(begun: LoadedModel | None, wanted: str) -> dict[str, Tensor]:
    """The start model's; a backbone that it does not have, or another one, is the package's."""
    weights = {} if begun is None else begun.model.state_dict()
    if wanted == ("" if begun is None else _own_backbone(begun)):
        return weights
    from naic.backbones.inside import without_backbone
    from naic.backbones.load import pretrained_backbone

    return without_backbone(weights) | (pretrained_backbone(wanted) if wanted else {})


def _teacher_words(settings: Settings, pseudo: "Sequence[PseudoStore]") -> Vocabulary | None:
    """The vocabulary of the teacher whose captions are learnt; there can be but one."""
    if settings.data.vocabulary is not None or not pseudo:
        return None
    if len({store.vocabulary.fingerprint for store in pseudo}) > 1:
        why = "the stores are of teachers with different words"
        raise ConfigError("data.pseudo", why, "Choose one vocab.json for all: data.vocabulary.")
    return pseudo[0].vocabulary


def _vocabulary(settings: Settings, store: FeatureStore, begun: Vocabulary | None) -> Vocabulary:
    """The run's own if it has begun, else the one that is named, or the start model's, or new."""
    if (settings.out / CONFIG).exists():
        return Vocabulary.load(settings.out / VOCABULARY)
    named = settings.data.vocabulary
    chosen = Vocabulary.load(named) if named is not None else begun
    if chosen is None:
        captions = (
            caption
            for record, first in zip(store.records, store.first_views, strict=True)
            if first and record.split in settings.data.train  # not twice for its mirrored twin
            for caption in record.captions
        )
        return Vocabulary.build(captions, more_than=settings.data.more_than)
    if begun is not None and chosen.fingerprint != begun.fingerprint:
        why = "its words are not those of the start model"
        raise ConfigError("data.vocabulary", why, "Leave it out: the start model's is then used.")
    return chosen


def _check_taken(settings: Settings, taken: Taken) -> None:
    """Rewards teach nothing to a model that is partly as it was drawn: its captions are noise."""
    # Not so with fresh transitions: the agents say what they said before.
    lost = [name for name in taken.reset if not name.startswith(taken.fresh)]
    if lost and stage_of(settings).reward is not None:
        why = f"{len(lost)} tensors of the model cannot be taken from it ({lost[0]})"
        hint = "Leave out [model]: the sizes are then those of the start model."
        raise ConfigError("start", f"{settings.stage} needs all of its weights, and {why}", hint)


def _validation_rows(settings: Settings, store: FeatureStore) -> list[int]:
    rows = [
        row
        for row, record in enumerate(store.records)
        if record.split in settings.data.validation and record.captions
    ]
    if not rows:
        why = f"no image of {', '.join(settings.data.validation)} has a caption to compare with"
        raise ConfigError("data.validation", why, "Name a split that has captions.")
    return rows[: settings.validation.limit or None]
