"""The kinds of captioners there are: what it takes to build one and to let it speak.

A new one is a model, its decoding and its config, and one line in `CAPTIONERS`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from naic.decode.beam import beam_search
from naic.decode.decoding import Decoding
from naic.decode.greedy import greedy
from naic.decode.parallel import parallel
from naic.decode.policy import log_policy
from naic.decode.repeats import agreed
from naic.decode.sample import choose, sample
from naic.errors import ConfigError
from naic.models.config import TransformerConfig
from naic.models.decoder import Memory
from naic.models.transformer import Captioner
from naic.models.with_backbone import SeeingCaptioner


@dataclass(frozen=True)
class Family:
    """All that the training loop, the evaluation and a model folder know of a captioner.

    Its model is an nn.Module with an attribute `length` and `forward(features, mask, words)`, which
    gives logits (B, C, N, V), or (B, 1, N, V) if the words make no difference to it.

    Attributes:
        config: the dataclass of [model] in a config file.
        build: makes the model from the config, the feature size and the vocabulary size; also on
            torch's "meta" device, where only the shapes are found.
        caption: (model, features, mask, decoding) to words (B, N), the same each time.
        sample: (model, features, mask, samples) to words (B, S, N) by chance; only the stage scst
            needs it.
        stages: the stages it can be trained with. The first two ask for a forward pass without
            words; a model that is given the words before the next one names others.
        widest_beam: the most sentences that `caption` can follow at once; None: any number.
    """

    config: type[Any]
    build: Callable[[Any, int, int], nn.Module]
    caption: Callable[[Any, Tensor, Tensor | None, Decoding], Tensor]
    sample: Callable[[Any, Tensor, Tensor | None, int], Tensor] | None = None
    stages: tuple[str, ...] = ("student_xe", "cmal")
    widest_beam: int | None = 1


def _build_causal(config: TransformerConfig, features: int, words: int) -> Captioner:
    return _captioner(config)(config, features, words, causal=True)


def _build_parallel(config: TransformerConfig, features: int, words: int) -> Captioner:
    return _captioner(config)(config, features, words, causal=False)


def _captioner(config: TransformerConfig) -> type[Captioner]:
    return SeeingCaptioner if config.backbone else Captioner


def _caption_causal(
    model: Captioner, features: Tensor, mask: Tensor | None, decoding: Decoding
) -> Tensor:
    memory = _encode(model, features, mask)
    if decoding.beam == 1:
        return greedy(model, memory).words
    return beam_search(model, memory, decoding.beam).words[:, 0]


def _caption_parallel(
    model: Captioner, features: Tensor, mask: Tensor | None, decoding: Decoding
) -> Tensor:
    if decoding.beam != 1:
        raise ConfigError(
            "beam",
            f"a parallel captioner cannot follow {decoding.beam} sentences: it has one pass",
            "Give beam = 1.",
        )
    if decoding.repeats:
        return parallel(model, features, mask).words
    return agreed(model, features, mask)[0]


@torch.no_grad()
def _encode(model: Captioner, features: Tensor, mask: Tensor | None) -> Memory:
    return model.encode(features, mask)


def _sample_causal(model: Captioner, features: Tensor, mask: Tensor | None, samples: int) -> Tensor:
    return sample(model, _encode(model, features, mask), samples).words


@torch.no_grad()
def _sample_parallel(
    model: Captioner, features: Tensor, mask: Tensor | None, samples: int
) -> Tensor:
    log_probs = log_policy(model(features, mask))  # (B, 1, N, V)
    return choose(log_probs.expand(-1, samples, -1, -1))


CAPTIONERS: dict[str, Family] = {
    "causal": Family(
        TransformerConfig,
        _build_causal,
        _caption_causal,
        _sample_causal,
        stages=("teacher_xe", "scst"),
        widest_beam=None,
    ),
    "parallel": Family(TransformerConfig, _build_parallel, _caption_parallel, _sample_parallel),
}
