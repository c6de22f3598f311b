"""A trained model put to use: pictures in, captions out, each word with how sure the model is."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from naic.backbones import Backbone, load_backbone
from naic.backbones.extract import extract
from naic.backbones.load import DEFAULT_PIXELS, choose_device
from naic.captioners.folder import CONFIG, WEIGHTS, ModelSettings, load_model
from naic.decode.greedy import greedy
from naic.decode.parallel import parallel
from naic.errors import BackboneError, CheckpointError, ConfigError, ImageError
from naic.models.captioner import Captioner as Network
from naic.runtime.pictures import Picture, any_source, is_one
from naic.text.vocabulary import PERIOD

SHIPPED = Path(__file__).parent.parent / "shipped"
BATCH = 16  # pictures at once: more are no faster on a CPU
MOST_PIXELS = 2048  # a side: a stranger's config must not fill the memory


@dataclass(frozen=True, slots=True)
class Word:
    """A word as the model knows it, and the probability that the model gave it."""

    text: str
    confidence: float


@dataclass(frozen=True, slots=True)
class Caption:
    """What the model says of a picture.

    Attributes:
        text: the sentence without its period.
        words: its words, one for each agent before the one that said the period.
    """

    text: str
    words: tuple[Word, ...]


def shipped_model() -> Path:
    """The folder of the model that comes inside the package."""
    if not (SHIPPED / WEIGHTS).is_file():
        why = "this copy of naic has no model inside"
        hint = "Name a model folder with --model, or install naic from its wheel."
        raise CheckpointError(str(SHIPPED), why, hint)
    return SHIPPED


class Captioner:
    """A model on its device, ready to be shown pictures.

    A model that was trained on features gets them from the backbone that they came from; a model
    with eyes of its own, as the shipped one, takes the pixels.
    """

    def __init__(self, model: Path | None = None, *, device: str = "auto") -> None:
        """Load the model folder `model`, or the shipped one.

        Raises:
            CheckpointError: there is no such model, or it is damaged.
            BackboneError: the backbone here is not the one that the model learnt from.
            MissingExtraError: the backbone's weights are not installed.
            ConfigError: the device is not there.
        """
        folder = shipped_model() if model is None else Path(model)
        chosen = choose_device(device)
        loaded = load_model(folder, device=chosen)
        assert isinstance(loaded.model, Network)  # as all of CAPTIONERS are
        self._folder = folder
        self._model = loaded.model
        self._vocabulary = loaded.vocabulary
        self._backbone = _backbone(folder, loaded.settings, chosen)

    def caption(self, pictures: Sequence[Picture]) -> list[Caption]:
        """A caption for each picture: a path, the bytes of a file, a Pillow image, or an array.

        Raises:
            ImageError: a picture that cannot be used. `each` goes on with the others.
        """
        captions = []
        for outcome in self.each(pictures):
            if isinstance(outcome, ImageError):
                raise outcome
            captions.append(outcome)
        return captions

    def each(
        self, pictures: Sequence[Picture], *, batch: int = BATCH
    ) -> Iterator[Caption | ImageError]:
        """For each picture, in order, its caption, or why it has none; `batch` of them at once.

        The next pictures are decoded while these are captioned.
        """
        if is_one(pictures):
            raise ConfigError("pictures", "this is one picture, not several", "Give a list: [it].")
        if batch < 1:
            raise ConfigError("batch", f"{batch} is below 1", "Try 16.")
        sources = [any_source(picture, number) for number, picture in enumerate(pictures, 1)]
        try:
            for seen in extract(sources, self._backbone, batch=batch):
                outcomes: dict[int, Caption | ImageError] = dict(seen.errors)
                if seen.positions:
                    captions = self._say(seen.features)
                    outcomes.update(zip(seen.positions, captions, strict=True))
                for position in sorted(outcomes):
                    yield outcomes[position]
        except torch.OutOfMemoryError as error:
            why = f"{batch} pictures at once do not fit the memory of {self._backbone.device}"
            raise ConfigError("--batch", why, "Lower it, or use --device cpu.") from error

    @torch.inference_mode()
    def _say(self, seen: Tensor) -> list[Caption]:
        """Captions for features (B, R, F), which for a model with eyes are pixels."""
        if seen.is_floating_point():
            seen = seen.half()  # as in the store that the model learnt from
        if self._model.causal:
            said = greedy(self._model, self._model.encode(seen))
            words, log_probs = said.words, said.log_probs
        else:
            words, log_probs, *_ = parallel(self._model, seen, None)
        if not bool(log_probs.isfinite().all()):
            why = "it gives no probability to any word: its weights are no numbers"
            raise CheckpointError(str(self._folder), why, "Use a whole copy of the model.")
        rows = zip(words.tolist(), log_probs.exp().tolist(), strict=True)
        return [self._caption(ids, confidences) for ids, confidences in rows]

    def _caption(self, ids: list[int], confidences: list[float]) -> Caption:
        end = ids.index(PERIOD) if PERIOD in ids else len(ids)
        words = tuple(
            Word(self._vocabulary.word(id_), confidence)
            for id_, confidence in zip(ids[:end], confidences[:end], strict=True)
        )
        return Caption(self._vocabulary.decode(ids), words)


def _backbone(folder: Path, settings: ModelSettings, device: torch.device) -> Backbone:
    """What a picture goes through first; for a model with eyes of its own, nothing that sees."""
    pixels = settings.pixels or DEFAULT_PIXELS
    if not 0 < pixels <= MOST_PIXELS:
        why = f"pictures of {pixels:,} pixels a side are not from 1 to {MOST_PIXELS:,}"
        raise CheckpointError(str(folder / CONFIG), why, "Use the file as it was saved.")
    name = "pixels" if settings.model.eyes else settings.backbone
    found = load_backbone(name, pixels=pixels, device=str(device))
    if settings.digest and found.digest != settings.digest:
        why = f"it learnt from {settings.backbone} with other weights than those installed"
        hint = "Put its own eyes into it: naic pack MODEL --eyes MODEL_WITH_EYES --out DIR"
        raise BackboneError(str(folder), why, hint)
    if found.dim != settings.features:
        why = f"it reads {settings.features} numbers a region, and {found.name} gives {found.dim}"
        raise BackboneError(str(folder), why, f"Use the {CONFIG} and {WEIGHTS} of one model.")
    return found
