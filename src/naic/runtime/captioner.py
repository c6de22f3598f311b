"""A trained model put to use: images in, captions out, each word with how sure the model is."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar, Unpack, overload

import numpy as np

from naic.data.decoding import decode_batches
from naic.decode.best_first import Sentence
from naic.decode.decoding import Decoding
from naic.decode.wishes import Wishes, as_decoding
from naic.errors import ConfigError, ImageError
from naic.images.sources import ImageLike
from naic.runtime.given import (
    Pixels,
    all_of,
    as_several,
    check_pixels,
    check_proposals,
    check_several,
    enough_memory,
    sources,
)
from naic.runtime.ready import make_ready, shipped_model
from naic.runtime.rescore import Rescoring, as_said
from naic.runtime.sentences import (
    Alternative,
    Caption,
    Proposals,
    Word,
    found_sentences,
    texts,
    write,
)

if TYPE_CHECKING:
    from naic.runtime.explain import Explained

__all__ = ["Alternative", "Caption", "Captioner", "Rescoring", "Wishes", "Word", "shipped_model"]

BATCH = 16  # images at once: more are no faster on a CPU
Told = TypeVar("Told")
Proposed: TypeAlias = tuple[Proposals, Sequence[Sequence[Sentence]] | None, Decoding]


class Captioner:
    """A model on its device, ready to be shown images.

    A model that was trained on features gets them from the backbone that they came from; a model
    with a backbone inside, as the shipped one, takes the pixels. Several threads may use one object
    at once: they take turns at the model, which has all cores to itself then.

    Attributes:
        engine: what runs the model: its runtime, device, precision and size of images.
        vocabulary: the words that it can say.
        calibration: what makes chances of being right of its captions' probabilities; None: the
            model has no such map, or a teacher has the last word.
        style: how its sentences are written for people; None: as they are said.
    """

    def __init__(
        self,
        model: str | Path | None = None,
        *,
        device: str = "auto",
        runtime: str = "auto",
        precision: str = "auto",
        rescore: str | Path | Rescoring | None = None,
        plugins: Sequence[str | ModuleType] = (),
    ) -> None:
        """Load a model; without one named, the one inside naic.

        Args:
            model: a model folder; an exported .onnx file, or its folder; or "owner/name", which is
                fetched from the hub if there is no such folder.
            device: "auto" (a GPU if there is one), "cpu", "cuda", "cuda:1", ...
            runtime: "auto", "eager", "compile", "graph" or "onnx".
            precision: "auto", "float32", "bfloat16", "float16" or "int8".
            rescore: a causal model, the teacher of a parallel one: it chooses which of the ten
                likeliest sentences is said. A `Rescoring` for another number of them.
            plugins: modules of yours that bring captioners or backbones; see `naic.plugins`.

        Raises:
            CheckpointError: there is no such model, or it is damaged.
            BackboneError: the backbone here is not the one that the model learnt from.
            MissingExtraError: the backbone's weights, or ONNX Runtime, are not installed.
            ConfigError: the device is not there or too small, or the runtime does not fit it.
        """
        if plugins:
            from naic.plugins import use_all

            use_all(plugins)
        where = shipped_model() if model is None else model
        if rescore is not None and not isinstance(rescore, Rescoring):
            rescore = Rescoring(rescore)
        ready = make_ready(where, device, runtime, precision, rescore)
        self.engine = ready.engine
        self.vocabulary = ready.vocabulary
        self.calibration = ready.calibration
        self.style = ready.style
        self._where = ready.where
        self._searches = ready.searches
        self._rescorer = ready.rescorer
        self._turn = threading.Lock()

    # A text is one image, though to a type checker it is as good as a list of texts.
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, images: ImageLike, *, details: Literal[False] = False, **wishes: Unpack[Wishes]
    ) -> str: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self,
        images: ImageLike,
        *,
        details: Literal[True],
        alternatives: int = 0,
        **wishes: Unpack[Wishes],
    ) -> Caption: ...
    @overload
    def __call__(
        self,
        images: Iterable[ImageLike],
        *,
        details: Literal[False] = False,
        **wishes: Unpack[Wishes],
    ) -> list[str]: ...
    @overload
    def __call__(
        self,
        images: Iterable[ImageLike],
        *,
        details: Literal[True],
        alternatives: int = 0,
        **wishes: Unpack[Wishes],
    ) -> list[Caption]: ...
    def __call__(
        self,
        images: ImageLike | Iterable[ImageLike],
        *,
        details: bool = False,
        alternatives: int = 0,
        **wishes: Unpack[Wishes],
    ) -> str | Caption | list[str] | list[Caption]:
        """What is in an image, or in each of several: the text, or with `details` a `Caption`.

        What may be wished of the words is told at `Wishes`.

        Raises:
            ImageError: an image that cannot be used. `each` goes on with the others.
        """
        if alternatives and not details:
            raise ConfigError("alternatives", "they are details", "Give details=True too.")
        several = as_several(images)
        if details:
            captions = self.caption(several, alternatives=alternatives, **wishes)
            return captions if several is images else captions[0]
        texts = all_of(self.texts(several, **wishes))
        return texts if several is images else texts[0]

    @overload
    def pipeline(  # type: ignore[overload-overlap]
        self, images: ImageLike
    ) -> list[dict[str, str]]: ...
    @overload
    def pipeline(self, images: Iterable[ImageLike]) -> list[list[dict[str, str]]]: ...
    def pipeline(
        self, images: ImageLike | Iterable[ImageLike]
    ) -> list[dict[str, str]] | list[list[dict[str, str]]]:
        """The captions in the shape of an image-to-text pipeline of transformers."""
        several = as_several(images)
        shaped = [[{"generated_text": text}] for text in all_of(self.texts(several))]
        return shaped if several is images else shaped[0]

    def caption(
        self, images: Iterable[ImageLike], *, alternatives: int = 0, **wishes: Unpack[Wishes]
    ) -> list[Caption]:
        """A caption for each image: a path, the bytes of a file, a Pillow image, or an array.

        Raises:
            ImageError: an image that cannot be used. `each` goes on with the others.
        """
        return all_of(self.each(images, alternatives=alternatives, **wishes))

    def each(
        self,
        images: Iterable[ImageLike],
        *,
        batch: int = BATCH,
        alternatives: int = 0,
        **wishes: Unpack[Wishes],
    ) -> Iterator[Caption | ImageError]:
        """For each image, in order, its caption, or why it has none; `batch` of them at once.

        The next images are decoded while these are captioned. They are taken as they are needed,
        four batches ahead of the caption at most, so that there may be millions of them.

        Args:
            images: any number of them.
            batch: how many at once.
            alternatives: how many whole sentences to give; the first is the caption itself.
            wishes: what `Wishes` has: `max_words`, `max_chars`, `forbid`, `prefer`, ...

        Raises:
            ConfigError: something was asked for that cannot be.
        """
        check_several(images, batch)
        decoding = self._decoding(wishes, alternatives)
        return self._outcomes(images, batch, partial(self._say, decoding=decoding))

    def texts(
        self, images: Iterable[ImageLike], *, batch: int = BATCH, **wishes: Unpack[Wishes]
    ) -> Iterator[str | ImageError]:
        """What `each` gives, as text alone: no probability is worked out, which takes less time.

        Raises:
            ConfigError: something was asked for that cannot be.
        """
        check_several(images, batch)
        decoding = self._decoding(wishes, 0)
        return self._outcomes(images, batch, partial(self._write, decoding=decoding))

    def say(
        self, pixels: Pixels, *, alternatives: int = 0, **wishes: Unpack[Wishes]
    ) -> list[Caption]:
        """Captions for images that are decoded already.

        Args:
            pixels: uint8 (B, P, P, 3), P being `engine.pixels`; B may be 0.
            alternatives: how many whole sentences to give; the first is the caption itself.
            wishes: what `Wishes` has: `max_words`, `max_chars`, `forbid`, `prefer`, ...

        Raises:
            ConfigError: these are no such pixels, or something was asked for that cannot be.
        """
        decoding = self._decoding(wishes, alternatives)
        check_pixels(pixels, self.engine.pixels)
        if not len(pixels):
            return []
        with enough_memory(len(pixels), self.engine.device):
            return list(self._say(pixels, decoding))

    def explain(
        self, pixels: Pixels, *, alternatives: int = 0, **wishes: Unpack[Wishes]
    ) -> "Explained":
        """The caption of one image that is decoded already, and what each agent said for it.

        The arguments are those of `say`, but for one image: uint8 (P, P, 3).

        Raises:
            ConfigError: as `say`; or the model writes word by word, and has no agents.
        """
        from naic.runtime.explain import Explained, Pass, agents_of  # few ask for it

        decoding = self._decoding(wishes, alternatives)
        images = np.asarray(pixels)[None]
        check_pixels(images, self.engine.pixels)
        run = Pass(self.engine)
        with enough_memory(1, self.engine.device):
            said, found, asked = self._proposed(run, images, decoding)
        [caption] = write(said, found, self.vocabulary, asked, self.calibration)
        agents, end = agents_of(run.said, said, self.vocabulary, decoding)
        return Explained(caption, agents, end, run.looks, run.seconds)

    def _decoding(self, wishes: Wishes, alternatives: int) -> Decoding:
        """How the words are found with these wishes."""
        decoding = as_decoding(wishes, alternatives, self.style)
        if self._rescorer is not None:
            self._rescorer.how.check_alternatives(alternatives)
        return decoding

    def _outcomes(
        self, images: Iterable[ImageLike], batch: int, say: Callable[[Pixels], Sequence[Told]]
    ) -> Iterator[Told | ImageError]:
        device = self.engine.device
        # A network on a CPU leaves little to decode with: threads do, and spare it the pipes.
        processes = device.type != "cpu"
        with enough_memory(batch, device):
            for seen in decode_batches(
                sources(images), self.engine.pixels, batch=batch, processes=processes
            ):
                outcomes: dict[int, Told | ImageError] = dict(seen.errors)
                if seen.positions:
                    outcomes.update(zip(seen.positions, say(seen.pixels), strict=True))
                for position in sorted(outcomes):
                    yield outcomes[position]

    def _say(self, pixels: Pixels, decoding: Decoding) -> Sequence[Caption]:
        """Captions for uint8 pixels (B, P, P, 3)."""
        said, found, decoding = self._proposed(self.engine, pixels, decoding)
        return write(said, found, self.vocabulary, decoding, self.calibration)

    def _write(self, pixels: Pixels, decoding: Decoding) -> Sequence[str]:
        """Their texts."""
        said, _, decoding = self._proposed(self.engine, pixels, decoding)
        return texts(said, self.vocabulary, decoding)

    def _proposed(
        self, engine: Callable[[Pixels], Proposals], pixels: Pixels, decoding: Decoding
    ) -> Proposed:
        """What is said of pixels, the sentences of a search, and what is asked of the words.

        `engine` is the engine, however it is called.
        """
        with self._turn:
            said = engine(pixels)
            check_proposals(said, self._where, self.engine.precision)
            if self._rescorer is not None:
                return *self._rescorer(said, decoding), as_said(decoding)
            if decoding.alternatives and self._searches is not None:
                words, scores = self._searches.beams(pixels, decoding.alternatives)
                return said, found_sentences(words.tolist(), scores.tolist()), decoding
            return said, None, decoding
