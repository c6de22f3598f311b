"""A teacher beside a student's engine: its pass over given sentences, and where it comes from."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from naic.backbones.inside import backbone_digest, backbone_tensors
from naic.backbones.load import (
    DEFAULT_PIXELS,
    backbone_spec,
    pretrained_backbone,
    trainable_backbone,
)
from naic.decode.best_first import Sentence
from naic.decode.decoding import Decoding
from naic.decode.policy import log_policy
from naic.errors import BackboneError, CheckpointError, ConfigError, MissingExtraError
from naic.models.contract import CaptionerSpec
from naic.models.folder import LoadedModel, ModelSettings, load_model
from naic.runtime.engines import (
    KINDS,
    RECORDING,
    WARM_UP,
    EagerEngine,
    GraphEngine,
    Whole,
    kernels,
)
from naic.runtime.fuse import fuse
from naic.runtime.rescore import (
    LogProbs,
    Rescoring,
    as_words,
    candidates,
    chosen,
    rescored,
)
from naic.runtime.sentences import Proposals
from naic.text.vocabulary import PAD, Vocabulary

AT_ONCE = 16  # images: a teacher gives a number to each of V words, at all places of all sentences
WHERE = "--rescore"
_CAUSAL = "Name a causal model: runs/teacher/best"


class TeacherForced(nn.Module):
    """A causal model that says how likely given sentences are.

    Attributes:
        model: its network, for features.
        rounded: whether it learnt from features in a store, which are float16.
        length: N, the places of a sentence.
    """

    def __init__(self, model: nn.Module, *, rounded: bool) -> None:
        super().__init__()
        self.model, self.rounded = model, rounded
        self.length = int(model.length)  # type: ignore[arg-type]  # as every captioner has
        self._settled = False

    @torch.inference_mode(False)
    def settle(self, features: Tensor) -> None:
        """Before the first pass, on its device: compute once what depends on no image."""
        if not self._settled:
            fuse(self.model, features[:1])
            self._settled = True

    def forward(self, features: Tensor, words: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, n, N) log-probabilities of the words (B, n, N), each after those before it.

        0 for PAD, after the end of a sentence: the sum is the sentence's.
        """
        seen = features.half() if self.rounded else features
        own = log_policy(self.model(seen, mask, words))  # (B, n, N, V)
        likely = own.gather(-1, words[..., None])[..., 0]
        return likely.masked_fill(words == PAD, 0.0)


class _Pass(NamedTuple):
    """A recorded pass: it reads features where the student's pass leaves them."""

    graph: torch.cuda.CUDAGraph
    features: Tensor
    words: Tensor
    log_probs: Tensor


class Rescorer:
    """A teacher beside a student's engine, run as that is: eager, compiled or recorded.

    Attributes:
        how: what was asked for.
    """

    def __init__(
        self,
        teacher: TeacherForced,
        how: Rescoring,
        vocabulary: Vocabulary,
        engine: EagerEngine,
    ) -> None:
        """`engine` runs a student that keeps what it saw (`Watched`)."""
        self.how = how
        self._teacher = teacher.to(engine.device, KINDS[engine.precision]).eval()
        self._vocabulary, self._engine = vocabulary, engine
        self._run = teacher
        if engine.runtime == "compile":
            self._run = torch.compile(teacher, dynamic=False)  # type: ignore[assignment]
        self._passes: dict[int, _Pass] = {}

    def __call__(
        self, said: Proposals, decoding: Decoding
    ) -> tuple[Proposals, list[list[Sentence]]]:
        """What the engine has just said, chosen anew.

        Returns:
            the chosen sentences as a causal model proposes them, words and log-probabilities
            (B, N, 1) of the teacher; and all sentences in their new order, with the teacher's
            log-probabilities.
        """
        found = candidates(said, self.how.choices, decoding, self._vocabulary)
        features = self._engine.features
        assert features is not None  # of a `Watched`
        # The engine may have filled its batch up: the same images are looked at here.
        words = as_words(found, len(features), self.how.choices, self._teacher.length)
        log_probs = self._score(features, torch.from_numpy(words))[: len(found)]
        if not np.isfinite(log_probs).all():
            why = "it gives no probability to any word: its weights are no numbers"
            hint = "Use a whole copy of the model, or --runtime eager, which computes with more."
            raise CheckpointError(str(self.how.teacher), why, hint)
        ranked = rescored(found, log_probs, self.how.weight)
        sentences = [[Sentence(one.words, one.teacher) for one in own] for own in ranked]
        return chosen(ranked, words.shape[2]), sentences

    @torch.inference_mode()
    def _score(self, features: Tensor, words: Tensor) -> LogProbs:
        """(P, n, N) on the host, of features (P, R, F) and words on the host."""
        if isinstance(self._engine, GraphEngine):
            return self._replay(features, words)
        self._teacher.settle(features)
        device = features.device
        # Compiled code is for one size of batch, and made anew for another.
        few = len(words) if self._engine.runtime == "compile" else AT_ONCE
        parts = zip(torch.split(features, few), torch.split(words, few), strict=True)
        found = [self._run(seen, own.to(device)).float().cpu() for seen, own in parts]
        scores: LogProbs = torch.cat(found).numpy()
        return scores

    def _replay(self, features: Tensor, words: Tensor) -> LogProbs:
        with torch.cuda.device(features.device):
            size = len(features)
            if size not in self._passes:
                with RECORDING:
                    self._teacher.settle(features)
                    self._passes[size] = self._record(features, words)
            recorded = self._passes[size]
            assert recorded.features is features  # a student's graph leaves them in one place
            recorded.words.copy_(words)
            recorded.graph.replay()
            torch.cuda.current_stream().synchronize()
        return recorded.log_probs.numpy().copy()

    def _record(self, features: Tensor, like: Tensor) -> _Pass:
        """As `GraphEngine` does it, with the copies from and to the host."""
        device, words = features.device, like.clone().pin_memory()
        stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        with torch.cuda.stream(stream), kernels(len(features), side):
            for _ in range(WARM_UP):
                self._run(features, words.to(device))
        torch.cuda.current_stream().wait_stream(stream)
        log_probs = torch.empty(words.shape, dtype=torch.float32, pin_memory=True)
        graph = torch.cuda.CUDAGraph()
        recording = torch.cuda.graph(graph, None, stream, capture_error_mode="thread_local")
        with recording, kernels(len(features), side):
            found = self._run(features, words.to(device, non_blocking=True))
            log_probs.copy_(found.float(), non_blocking=True)
        return _Pass(graph, features, words, log_probs)


class Watched(Whole):
    """A student that keeps what it saw: the teacher looks at it too, and the backbone runs once.

    Attributes:
        rounded: whether the model learnt from features in a store, which are float16.
    """

    def __init__(
        self, spec: CaptionerSpec, model: nn.Module, backbone: nn.Module | None, *, rounded: bool
    ) -> None:
        """`model` is one for features; without a backbone they are what it is given."""
        super().__init__(spec, model, backbone)
        self.rounded = rounded

    def seen(self, pixels: Tensor) -> Tensor:
        """What the model is given of the pixels: features (B, R, F)."""
        self.features = pixels if self.backbone is None else self.backbone(pixels)
        return self.features.half() if self.rounded else self.features


def watched(whole: Whole, settings: ModelSettings) -> Watched:
    """The same student, with its backbone taken out of it if it has one inside."""
    backbone = whole.backbone
    if backbone is None:
        backbone = whole.model.backbone  # type: ignore[assignment]  # as `holds_backbone` says
    with torch.random.fork_rng(devices=[]):  # a network is made, and its weights drawn, for nothing
        plain = whole.spec.for_features(whole.model, settings.model, settings.words)
    return Watched(whole.spec, plain, backbone, rounded=whole.backbone is not None)


def load_teacher(folder: Path, student: LoadedModel) -> TeacherForced:
    """The causal model in a folder, as one for the features that the student sees.

    Raises:
        ConfigError: it is no causal model, or not one for this student.
        CheckpointError: there is no such model, or it is damaged.
    """
    if student.spec.reads_words:
        why = "the model writes word by word itself, and has no sentences to choose from"
        raise ConfigError(WHERE, why, "Leave it out, or name a parallel --model.")
    teacher = load_model(folder)
    if not teacher.spec.reads_words:
        why = f"{folder} says all words at once, and cannot tell how well they go together"
        raise ConfigError(WHERE, why, _CAUSAL)
    if teacher.vocabulary.fingerprint != student.vocabulary.fingerprint:
        why = f"{folder} has other words than the model"
        raise ConfigError(WHERE, why, "Name the teacher that the model learnt from.")
    places, wanted = int(teacher.model.length), int(student.model.length)  # type: ignore[arg-type]
    if places < wanted:
        why = f"{folder} reads sentences of {places} words, and the model says up to {wanted}"
        raise ConfigError(WHERE, why, "Name the teacher that the model learnt from.")
    _check_backbone(folder, teacher, student)
    with torch.random.fork_rng(devices=[]):
        model = teacher.spec.for_features(
            teacher.model, teacher.settings.model, teacher.settings.words
        )
    inside = teacher.spec.backbone(teacher.settings.model)
    return TeacherForced(model.eval(), rounded=not inside)


def _check_backbone(folder: Path, teacher: LoadedModel, student: LoadedModel) -> None:
    """The teacher is given what the student sees: it must have learnt from just that."""
    hint = "Train it on features of the model's backbone: naic prepare ... --weights MODEL"
    own, other = source(teacher), source(student)
    if own != other:
        said = "{} numbers from {} at {} pixels"
        why = f"{folder} sees {said.format(*own)}, and the model {said.format(*other)}"
        raise ConfigError(WHERE, why, hint)
    if not same_weights(teacher, student):
        why = f"{folder} learnt from {own[1]} with other weights than those the model sees with"
        raise ConfigError(WHERE, why, hint)


def source(loaded: LoadedModel) -> tuple[int, str, int]:
    """What a captioner sees: the size of a feature, the backbone, and the side of the images."""
    settings, inside = loaded.settings, loaded.spec.backbone(loaded.settings.model)
    pixels = settings.pixels or DEFAULT_PIXELS
    if inside:
        return trainable_backbone(inside).dim, inside, pixels
    return settings.features, settings.backbone, pixels


def same_weights(one: LoadedModel, other: LoadedModel) -> bool:
    """Whether two captioners see with the same weights, as far as it is known."""
    inside = [_inside(loaded) for loaded in (one, other)]
    digests = [
        own or loaded.settings.digest for own, loaded in zip(inside, (one, other), strict=True)
    ]
    if not all(digests) or digests[0] == digests[1]:
        return True
    if all(inside) or not any(inside):
        return False
    # Published weights that lie in a file of their own have that file's digest.
    name = source(one)[1]
    try:
        published = backbone_spec(name).load(name, None).digest
        tensors = pretrained_backbone(name)
    except (BackboneError, MissingExtraError):
        return False
    return set(digests) == {published, backbone_digest(backbone_tensors(tensors))}


def _inside(loaded: LoadedModel) -> str:
    """The digest of the backbone inside a model; empty: it takes features."""
    if not loaded.spec.backbone(loaded.settings.model):
        return ""
    return backbone_digest(backbone_tensors(loaded.model.state_dict()))
