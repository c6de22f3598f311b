"""A student and a causal teacher of the same shape, made ready to be timed against each other.

Both have the same backbone, runtime and precision. The teacher writes a fixed number of words and
says no period before: its time does not depend on what it says.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from naic.backbones.patches import PATCH
from naic.decode.decoding import READABLE
from naic.device import Place
from naic.errors import ConfigError
from naic.models.config import TransformerConfig
from naic.models.contract import Proposed
from naic.models.folder import ModelSettings
from naic.models.transformer import CAUSAL, PARALLEL, TransformerCaptioner
from naic.runtime.engines import EagerEngine, GraphEngine, Whole
from naic.runtime.graphs import Graph
from naic.runtime.load import LoadedWhole
from naic.runtime.onnx_engine import OnnxEngine
from naic.runtime.sentences import texts
from naic.tasks.benchmark.other_models import search_again
from naic.tasks.benchmark.teachers import backbone_of, teacher_in, twin
from naic.text.vocabulary import SPECIAL, Vocabulary

# The paper's: bottom-up features, and COCO's words that are seen more than five times.
BASE_REGIONS, BASE_FEATURES, BASE_WORDS, BASE_PIXELS = 36, 2048, 9487, 256
BASE_BACKBONE = "efficientnet-lite2"


class Way(NamedTuple):
    """How something is said.

    Attributes:
        causal: by the teacher, word by word; else by the student.
        width: sentences that the teacher follows at once; 1 is greedy.
        cached: whether it keeps what it knows of the words so far.
        text: the words are also written as a sentence.
    """

    causal: bool = False
    width: int = 1
    cached: bool = True
    text: bool = False


class Pair(NamedTuple):
    """Two models that take the same, and one such input for each of B images.

    Attributes:
        student: the one that says all words at once.
        teacher: the causal one; None where none was named and the
            student is no Transformer.
        inputs: B to what both take: pixels on the host, or features, which a backbone would have
            left on its device.
    """

    student: Whole
    teacher: Whole | None
    inputs: Callable[[int], Tensor]


class Searched(Whole):
    """A causal captioner that follows several sentences, or that has no cache."""

    def __init__(self, whole: Whole, way: Way) -> None:
        super().__init__(whole.spec, whole.model, whole.backbone)
        self.way = way

    def forward(self, pixels: Tensor) -> Proposed:
        """As any `Whole`, with the score of the sentence in place of its words' probabilities."""
        model, features, width = self.model, self.seen(pixels), self.way.width
        if self.way.cached:
            assert self.spec.beams is not None  # it writes word by word
            found = self.spec.beams(model, features, None, width, 1)
            return Proposed(found.words[:, 0, :, None], found.scores)
        assert isinstance(model, TransformerCaptioner)
        words, scores = search_again(model, model.encode(features), width)
        return Proposed(words[..., None], scores[:, None])


class Contest:
    """The models in all their forms, each made when it is first asked for.

    Attributes:
        loaded: the student as it was loaded.
        pairs: "whole", which take pixels, and "decode", which take features.
        device: where they run.
    """

    def __init__(
        self, loaded: LoadedWhole, pairs: Mapping[str, Pair], device: torch.device
    ) -> None:
        self.loaded, self.pairs, self.device = loaded, pairs, device
        self._copies: dict[tuple[str, bool, str, str], Whole] = {}
        self._exported: dict[str, OnnxEngine] = {}

    def runner(
        self, part: str, way: Way, runtime: str, precision: str, batch: int
    ) -> Callable[[], object]:
        """One pass over `batch` images, up to the words on the host."""
        inputs = self.pairs[part].inputs(batch)
        if part == "decode":
            inputs = inputs.to(self.device)
        engine = self._engine(part, way, runtime, precision)
        if way.text:
            words = self.loaded.vocabulary
            return lambda: texts(engine(inputs), words, READABLE)
        return lambda: engine(inputs)

    def _engine(
        self, part: str, way: Way, runtime: str, precision: str
    ) -> EagerEngine | OnnxEngine:
        if runtime == "onnx":
            return self._onnx(precision)
        whole = self._copy(part, way.causal, runtime, precision)
        if way.causal and (way.width > 1 or not way.cached):
            whole = Searched(whole, way)
        if runtime == "compile":
            torch.compiler.reset()  # after a few sizes of batch it would go on uncompiled
            if not way.causal:
                whole.compile(dynamic=False)
        recorded = runtime == "graph" or (runtime == "compile" and self.device.type == "cuda")
        kind = GraphEngine if recorded else EagerEngine
        return kind(whole, self.loaded.pixels, self.device, precision)

    def _copy(self, part: str, causal: bool, runtime: str, precision: str) -> Whole:
        """The model on the host is kept as it is, where it is of no use as it is."""
        pair = self.pairs[part]
        whole = pair.teacher if causal else pair.student
        assert whole is not None  # rows of a teacher that is not there are left out
        compiled = runtime == "compile"
        if self.device.type == "cpu" and precision == "float32" and not compiled:
            return whole
        key = (part, causal, precision, runtime if compiled else "")
        if key not in self._copies:
            made = copy.deepcopy(whole)
            if compiled and causal:
                _compile_steps(made)
            self._copies[key] = made
        return self._copies[key]

    def _onnx(self, precision: str) -> OnnxEngine:
        from naic.runtime.export import export_graph

        if precision not in self._exported:
            made = export_graph("MODEL", self.loaded, precision)
            place = Place(self.device.type, self.device.index)
            self._exported[precision] = OnnxEngine(Graph(Path("MODEL"), made.graph), place)
        return self._exported[precision]


def _compile_steps(whole: Whole) -> None:
    """Compile what each word repeats: all words in one piece would take many minutes."""
    model: Any = whole.model  # any that writes word by word
    model.encode = torch.compile(model.encode, dynamic=False)
    model.step = torch.compile(model.step, dynamic=False)
    if whole.backbone is not None:
        whole.backbone.compile(dynamic=False)


def make_pairs(loaded: LoadedWhole, teacher: Path | None, words: int) -> dict[str, Pair]:
    """A teacher for the student, both with and without what they see with.

    Args:
        loaded: the student.
        teacher: a causal model of the same shape, or another captioner that writes word by word;
            None: the student's weights and embeddings of chance, which take the same time.
        words: how many the teacher writes.

    Raises:
        ConfigError: the models are of another kind, or not of the same shape.
        CheckpointError: the teacher's folder is damaged, or of another vocabulary.
    """
    whole, settings = loaded.whole, loaded.settings
    student, spec = whole.model, whole.spec
    if not spec.one_pass:
        hint = "Name a parallel one first, and this one with --teacher."
        raise ConfigError("MODEL", "it writes word by word, as a teacher does", hint)
    if not 1 <= words <= whole.length:
        why = f"{words} is not from 1 to {whole.length}, the words of a sentence"
        raise ConfigError("--words", why, f"Try {whole.length}.")
    side = loaded.pixels
    features = _features(whole, _pixels(1, side))  # (1, R, F)
    plain = Whole(spec, spec.for_features(student, settings.model, settings.words), None)
    pixels_of = partial(_pixels, side=side)

    def features_of(batch: int) -> Tensor:
        return features.expand(batch, -1, -1).contiguous()

    if teacher is not None:
        other = teacher_in(teacher, loaded, features.shape[-1], words)
    elif isinstance(student, TransformerCaptioner):
        other = Whole(CAUSAL, twin(student, features.shape[-1], words), backbone_of(whole))
    else:
        return {"whole": Pair(whole, None, pixels_of), "decode": Pair(plain, None, features_of)}
    return {
        "whole": Pair(whole, other, pixels_of),
        "decode": Pair(plain, Whole(other.spec, other.model, None), features_of),
    }


def transformer_base(words: int) -> tuple[LoadedWhole, dict[str, Pair]]:
    """The paper's size, with random weights.

    It decodes the paper's features, 36 of 2,048 numbers; to see, it has an EfficientNet, since
    the paper's detector is not here.
    """
    torch.manual_seed(0)
    names = (f"word{number}" for number in range(BASE_WORDS - len(SPECIAL)))
    vocabulary = Vocabulary((*SPECIAL, *names))
    config = TransformerConfig(backbone=BASE_BACKBONE)
    settings = ModelSettings("parallel", PATCH, BASE_WORDS, "pixels", config, BASE_PIXELS)
    model = TransformerCaptioner(config, PATCH, BASE_WORDS, causal=False).eval()
    loaded = LoadedWhole(Whole(PARALLEL, model, None), settings, vocabulary, BASE_PIXELS)
    pairs = make_pairs(loaded, None, words)
    blind = replace(config, backbone="")
    student = TransformerCaptioner(blind, BASE_FEATURES, BASE_WORDS, causal=False).eval()
    decode = Pair(
        Whole(PARALLEL, student, None),
        Whole(CAUSAL, twin(student, BASE_FEATURES, words), None),
        lambda batch: torch.randn(batch, BASE_REGIONS, BASE_FEATURES).half(),
    )
    return loaded, pairs | {"decode": decode}


@torch.inference_mode()
def _features(whole: Whole, pixels: Tensor) -> Tensor:
    """(B, R, F) float16, as in a store."""
    features: Tensor = backbone_of(whole)(pixels)
    return features.half()


def _pixels(batch: int, side: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (batch, side, side, 3), dtype=torch.uint8, generator=generator)
