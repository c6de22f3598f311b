"""A teacher that writes word by word, and its student's agents beside it on the same clock.

Both begin with the same pixels and run eagerly, in the same precision on the same device: what
differs is one pass for all words, or one for each.
"""

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from naic.decode.stepwise import greedy
from naic.device import keep_freed_memory
from naic.errors import ConfigError
from naic.models.folder import LoadedModel, load_model
from naic.models.transformer import TransformerCaptioner
from naic.runtime.engines import KINDS, EagerEngine, Whole, as_tensor
from naic.runtime.load import LoadedWhole, load_whole
from naic.runtime.ready import exported_file, find_model
from naic.runtime.rescorer import same_weights, source
from naic.text.vocabulary import PERIOD, Vocabulary

WHERE = "--teacher"
_CAUSAL = "Name a causal model: runs/teacher/best"


@dataclass(frozen=True, slots=True)
class Written:
    """What was written, and when.

    Attributes:
        caption: without its period.
        words: each word, the period too, with the seconds from the start until it was there.
        seconds: until the last one.
        agents: the seconds that all agents of the student took for the same image.
    """

    caption: str
    words: tuple[tuple[str, float], ...]
    seconds: float
    agents: float


class Writer:
    """A teacher and a student, loaded and warm; to be used from one thread at a time.

    Attributes:
        pixels: P, the side of the images that both take.
    """

    def __init__(
        self,
        teacher: Whole,
        vocabulary: Vocabulary,
        student: LoadedWhole,
        device: torch.device,
        precision: str,
    ) -> None:
        self.pixels = student.pixels
        self._student = EagerEngine(student.whole, student.pixels, device, precision)
        teacher.fold()
        self._teacher = teacher.to(self._student.device, KINDS[precision])
        assert isinstance(teacher.model, TransformerCaptioner)
        self._model = teacher.model
        self._vocabulary = vocabulary
        self(np.zeros((self.pixels, self.pixels, 3), np.uint8))  # warm

    @torch.inference_mode()
    def __call__(self, pixels: npt.NDArray[np.uint8]) -> Written:
        """What is written of one image, uint8 (P, P, 3)."""
        images = as_tensor(pixels[None])
        began = time.perf_counter()
        self._student(images)
        agents = time.perf_counter() - began
        self._teacher.settle(images)
        written: list[tuple[int, float]] = []
        ids: list[int] = []

        def hear(word: Tensor) -> None:
            if PERIOD not in ids:  # on a GPU it goes on after the end, and is not listened to
                ids.append(int(word[0]))  # which waits for the device
                written.append((ids[-1], time.perf_counter() - began))

        began = time.perf_counter()
        seen = self._teacher.seen(images.to(self._student.device))
        greedy(self._model, self._model.encode(seen), hear)
        words = tuple((self._vocabulary.word(id_), seconds) for id_, seconds in written)
        return Written(self._vocabulary.decode(ids), words, words[-1][1], agents)


def load_writer(teacher: str, model: Path, device: str, precision: str) -> Writer:
    """The teacher of that name beside the model in a folder.

    It sees with the backbone inside it; if it learnt from features of the model's, as for
    `--rescore`, with that one; else with the published one whose features it learnt from.

    Args:
        teacher: a folder, or an owner/name of the hub.
        model: the folder of a parallel model.
        device: where both run: "cpu", "cuda:0".
        precision: in which numbers.

    Raises:
        ConfigError: it is no causal model, or not one for these pixels.
        CheckpointError: there is no such model, or it is damaged.
        BackboneError: what it learnt to see with is not here.
    """
    folder = find_model(teacher)
    for where in (folder, model):
        if exported_file(where) is not None:
            why = f"{where} is an exported graph, and both are run by torch"
            raise ConfigError(WHERE, why, "Name the model folder that it was made from.")
    loaded, student = load_model(folder), load_whole(model)
    if not isinstance(loaded.model, TransformerCaptioner) or not loaded.model.causal:
        why = f"{folder} does not write word by word"
        raise ConfigError(WHERE, why, _CAUSAL)
    whole, place = _seeing(folder, loaded, model, student), torch.device(device)
    if place.type == "cpu":
        keep_freed_memory()
    return Writer(whole, loaded.vocabulary, student, place, precision)


def _seeing(folder: Path, loaded: LoadedModel, model: Path, student: LoadedWhole) -> Whole:
    """The teacher with what it sees with."""
    as_loaded = LoadedModel(
        student.whole.model, student.whole.spec, student.settings, student.vocabulary
    )
    pixels, wanted = source(loaded)[2], student.pixels
    if pixels != wanted:
        why = f"{folder} sees images of {pixels} pixels a side, and {model} of {wanted}"
        raise ConfigError(WHERE, why, "Name a teacher that sees what the model sees.")
    if loaded.spec.backbone(loaded.settings.model):
        return Whole(loaded.spec, loaded.model, None)
    if source(loaded) == source(as_loaded) and same_weights(loaded, as_loaded):
        backbone = student.whole.backbone or student.whole.model.backbone
        return Whole(loaded.spec, loaded.model, backbone)  # type: ignore[arg-type]
    return load_whole(folder).whole
