"""The contract of a captioner: all that train, distil, caption, benchmark, export and pack know.

A captioner is one module: a frozen dataclass of settings, a network, and how the network is asked
for words, put together as a `CaptionerSpec`. It is in this folder, with one line in
`captioners.py`, or outside the package, as a plug-in.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from naic.decode.decoding import CHOICES, Decoding, likeliest_words, without_repeats
from naic.decode.policy import spoken
from naic.decode.stepwise import Beams
from naic.errors import ConfigError
from naic.text.vocabulary import PERIOD, Vocabulary


class Proposed(NamedTuple):
    """What a network proposes to say of B images, on its device.

    Attributes:
        words: (B, N, K) int64, the likeliest words of each agent, best first.
        log_probs: (B, N, K) theirs.
        pairs: (B, N-1, K, K) with transitions between neighbours: what is added to the score of a
            sentence in which agent n says its i-th word and agent n+1 its j-th; else None.
    """

    words: Tensor
    log_probs: Tensor
    pairs: Tensor | None = None

    def on_host(self) -> "Proposed":
        """The same on the host, the numbers as float32."""
        log_probs = self.log_probs.float().cpu()
        pairs = None if self.pairs is None else self.pairs.float().cpu()
        return Proposed(self.words.cpu(), log_probs, pairs)


@dataclass(frozen=True)
class CaptionerSpec:
    """How a captioner is made, and how it is asked for words.

    Its network is an nn.Module with an attribute `length`, N, and `forward(features, mask, words)`,
    which gives logits (B, C, N, V) of C captions an image, or (B, 1, N, V) if the words make no
    difference to it. Agents that hear each other have an attribute `transitions` that is not None,
    and give `ChainScores`.

    Attributes:
        config: the frozen dataclass of its settings, [model] in a config file.
        build: (config, feature size F, vocabulary size V) to the network; also on torch's "meta"
            device, where only the shapes are found.
        propose: (model, features (B, R, F), mask (B, R) or None, K) to the K likeliest words of
            each place and their log-probabilities. A captioner that writes word by word has chosen
            before it goes on, and gives K = 1; one with transitions gives as many as it has to
            choose from, whatever K is, and how they go together.
        beams: (model, features, mask, width, keep) to the `keep` likeliest sentences that a search
            by `width` at a time finds; None: it cannot search, and cannot be a teacher.
        sample: (model, features, mask, S) to words (B, S, N) by chance; only scst needs it.
        reads_words: whether the network is given the words before the next one: it is then trained
            by the stages that have words to give, and else by those that ask for all at once.
        glances: whether the network's `forward` also takes `shown` (B, C, N), words that some of
            its places are told while it learns (PAD: none), and then gives logits (B, C, N, V).
        losses: (model, features, mask, words (B, C, N), cross-entropy (logits, words)) to what the
            stage of cross-entropy adds up, by names ("words" is that of the words), each summed
            over all target words or images; for one that does not learn each word of a caption by
            `forward`'s logits, or not that alone. None: it does.
        smooths: whether these are of words by themselves, each with a target that can be smoothed.
        one_pass: whether `propose` is the same computation for every image, so that it can be
            exported as one graph.
        holds_backbone: whether its config has a field `backbone`: the name of a backbone that is
            part of the network, which then takes pixels; empty: it takes features.
        meet: (model, vocabulary): a new network takes from the words what it has to know of them,
            and keeps it among its weights.
    """

    config: type[Any]
    build: Callable[[Any, int, int], nn.Module]
    propose: Callable[[Any, Tensor, Tensor | None, int], Proposed]
    beams: Callable[[Any, Tensor, Tensor | None, int, int], Beams] | None = None
    sample: Callable[[Any, Tensor, Tensor | None, int], Tensor] | None = None
    reads_words: bool = False
    glances: bool = False
    losses: Callable[..., dict[str, Tensor]] | None = None
    smooths: bool = True
    one_pass: bool = True
    holds_backbone: bool = False
    meet: Callable[[Any, Vocabulary], None] | None = None

    def begin(self, config: Any, features: int, vocabulary: Vocabulary) -> nn.Module:  # noqa: ANN401
        """A new network that is to say these words."""
        model = self.build(config, features, len(vocabulary))
        if self.meet is not None:
            self.meet(model, vocabulary)
        return model

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
        said = self.propose(model, features, mask, 1 if decoding.repeats else CHOICES)
        # without transitions; or it has heard what it said before
        if said.pairs is None and (decoding.repeats or said.words.shape[-1] == 1):
            return said.words[..., 0]
        said = said.on_host()
        pairs = None if said.pairs is None else said.pairs.numpy()
        find = likeliest_words if decoding.repeats else without_repeats
        chosen = torch.from_numpy(find(said.words.numpy(), said.log_probs.numpy(), pairs))
        words = said.words.gather(2, chosen[..., None])[..., 0]
        # In a chain nobody speaks after the period.
        return words if pairs is None else words.where(spoken(words), PERIOD)
