"""The contract of a captioner: all that train, distil, caption, benchmark, export and pack know.

A captioner is one module in this folder: a frozen dataclass of settings, a network, and how the
network is asked for words, put together as a `CaptionerSpec`; and one line in `captioners.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from naic.decode.decoding import CHOICES, Decoding, without_repeats
from naic.decode.stepwise import Beams
from naic.errors import ConfigError


@dataclass(frozen=True)
class CaptionerSpec:
    """How a captioner is made, and how it is asked for words.

    Its network is an nn.Module with an attribute `length`, N, and `forward(features, mask, words)`,
    which gives logits (B, C, N, V) of C captions an image, or (B, 1, N, V) if the words make no
    difference to it.

    Attributes:
        config: the frozen dataclass of its settings, [model] in a config file.
        build: (config, feature size F, vocabulary size V) to the network; also on torch's "meta"
            device, where only the shapes are found.
        propose: (model, features (B, R, F), mask (B, R) or None, K) to the K likeliest words of
            each place and their log-probabilities, (B, N, K) both, the best first. A captioner
            that writes word by word has chosen before it goes on, and gives K = 1.
        beams: (model, features, mask, width, keep) to the `keep` likeliest sentences that a search
            by `width` at a time finds; None: it cannot search, and cannot be a teacher.
        sample: (model, features, mask, S) to words (B, S, N) by chance; only scst needs it.
        reads_words: whether the network is given the words before the next one: it is then trained
            by the stages that have words to give, and else by those that ask for all at once.
        glances: whether the network's `forward` also takes `shown` (B, C, N), words that some of
            its places are told while it learns (PAD: none), and then gives logits (B, C, N, V).
        one_pass: whether `propose` is the same computation for every image, so that it can be
            exported as one graph.
        holds_backbone: whether its config has a field `backbone`: the name of a backbone that is
            part of the network, which then takes pixels; empty: it takes features.
    """

    config: type[Any]
    build: Callable[[Any, int, int], nn.Module]
    propose: Callable[[Any, Tensor, Tensor | None, int], tuple[Tensor, Tensor]]
    beams: Callable[[Any, Tensor, Tensor | None, int, int], Beams] | None = None
    sample: Callable[[Any, Tensor, Tensor | None, int], Tensor] | None = None
    reads_words: bool = False
    glances: bool = False
    one_pass: bool = True
    holds_backbone: bool = False

    def backbone(self, config: Any) -> str:  # noqa: ANN401 - of the type that `config` names
        """The backbone inside a model of these settings; empty: none."""
        return str(config.backbone) if self.holds_backbone else ""

    def for_features(self, model: nn.Module, config: Any, words: int) -> nn.Module:  # noqa: ANN401
        """The same captioner without the backbone inside it; the weights are shared."""
        inside = self.backbone(config)
        if not inside:
            return model
        from naic.backbones.inside import without_backbone
        from naic.backbones.load import trainable_backbone

        blind = replace(config, backbone="")
        plain = self.build(blind, trainable_backbone(inside).dim, words)
        plain.load_state_dict(without_backbone(model.state_dict()), assign=True)
        return plain.train(model.training)

    @torch.no_grad()
    def caption(
        self, model: nn.Module, features: Tensor, mask: Tensor | None, decoding: Decoding
    ) -> Tensor:
        """Words (B, N) of each image, the same each time."""
        if decoding.beam > 1:
            if self.beams is None:
                why = f"this captioner cannot follow {decoding.beam} sentences: it has one pass"
                raise ConfigError("beam", why, "Give beam = 1.")
            return self.beams(model, features, mask, decoding.beam, 1).words[:, 0]
        if decoding.repeats:
            return self.propose(model, features, mask, 1)[0][..., 0]
        words, log_probs = self.propose(model, features, mask, CHOICES)
        if words.shape[-1] == 1:  # it has heard what it said before
            return words[..., 0]
        words = words.cpu()
        chosen = without_repeats(words.numpy(), log_probs.float().cpu().numpy())
        return words.gather(2, torch.from_numpy(chosen)[..., None])[..., 0]
