"""VSUA of Guo et al. (ACM MM 2019): words are aligned with objects, attributes and relations.

An image is a graph of visual semantic units. Objects o[i] have attributes a[i], and some pairs of
them relations r[i,j]; a graph convolution gives attributes and relations their surroundings:

    a'[i] = a[i] + G_a([o[i], a[i]])        r'[i,j] = r[i,j] + G_r([o[i], r[i,j], o[j]])

with G a linear layer, ReLU and dropout. The decoder is Up-Down's, but for how it looks: at each
word it attends to the units of each of the three kinds by themselves, and context-gated attention
decides which kind the word is about.

The paper has a detector and a scene-graph parser made for images, both trained on annotated
images. Here small heads predict the units from the same grid that all captioners see: which words
the objects of the image are, where each is, its attributes, and how pairs of them relate. They
learn beside the words, from a scene graph of the step's captions (`unit_graph.py`,
`scene_words.py`). The grid's
cells are units of the first kind, too: what no word was found for can still be seen. All that is
reduced or left open by the paper: docs/decisions/064-vsua.md.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from naic.models import writing
from naic.models.contract import CaptionerSpec
from naic.models.layers import linear, mean_region
from naic.models.unit_graph import Found, UnitGraph, VsuaConfig
from naic.models.updown import UpDown, UpDownConfig, UpDownDecoder, UpDownMemory, UpDownStep
from naic.text.vocabulary import PAD, Vocabulary


class GatedStep(UpDownStep):
    """Up-Down's step, which looks at units of three kinds and chooses between the kinds."""

    def __init__(self, config: UpDownConfig, features: int) -> None:
        super().__init__(config, features)
        assert isinstance(config, VsuaConfig)
        self.last = (config.named, config.pairs)  # attributes and relations come after the objects
        self.context = linear(features, config.attention)
        self.about = nn.Linear(config.width, config.attention, bias=False)
        self.gate = nn.Linear(config.attention, 1, bias=False)
        for layer in (self.about, self.gate):
            nn.init.xavier_uniform_(layer.weight)

    def look(self, hidden: Tensor, memory: UpDownMemory) -> Tensor:
        """(B, W, D) one context of the three, each as much as the next word is about its kind."""
        compared = memory.keys[:, None] + self.query(hidden)[:, :, None]  # (B, W, S, A)
        scores: Tensor = self.score(compared.tanh())[..., 0]  # (B, W, S)
        if memory.mask is not None:
            scores = scores + memory.mask
        kind = torch.promote_types(scores.dtype, torch.float32)
        regions = memory.regions
        ends = (scores.shape[-1] - sum(self.last), scores.shape[-1] - self.last[1])
        parts = zip(scores.tensor_split(ends, -1), regions.tensor_split(ends, 1), strict=True)
        found = [own.softmax(-1, dtype=kind).to(units.dtype) @ units for own, units in parts]
        contexts = torch.stack(found, 2)  # (B, W, 3, D)
        about = self.context(contexts) + self.about(hidden)[:, :, None]
        gates: Tensor = self.gate(about.tanh())  # (B, W, 3, 1)
        return (gates.softmax(2, dtype=kind).to(contexts.dtype) * contexts).sum(2)


class VsuaDecoder(UpDownDecoder):
    """Up-Down's, whose step is gated."""

    step = GatedStep


class Learning(NamedTuple):
    """What the network says while it learns: logits (B, C, N, V), and each head's loss (B,)."""

    logits: Tensor
    heads: dict[str, Tensor]


class Vsua(UpDown):
    """Up-Down that looks at visual semantic units."""

    decoding = VsuaDecoder

    def __init__(self, config: VsuaConfig, features: int, words: int) -> None:
        super().__init__(config, features, words, seen=config.width)
        self.graph = UnitGraph(config, features, words)

    def forward(  # type: ignore[override]  # it can be asked for more
        self,
        features: Tensor,
        mask: Tensor | None = None,
        words: Tensor | None = None,
        *,
        learn: bool = False,
    ) -> Tensor | Learning:
        """Logits (B, C, N, V) of captions; with `learn` the losses of the heads, too."""
        memory, found = self._encode(features, mask)
        if words is None:
            raise ValueError("a captioner that writes word by word needs the words to say")
        said: Tensor = self.decoder(memory, words)
        return Learning(said, self.graph.losses(found, words)) if learn else said

    def encode(self, features: Tensor, mask: Tensor | None = None) -> UpDownMemory:
        """What is kept of images (B, R, F): their units in place of their regions."""
        return self._encode(features, mask)[0]

    def _encode(self, features: Tensor, mask: Tensor | None) -> tuple[UpDownMemory, Found]:
        units, found = self.graph(features, mask, self.decoder.embedding)
        # All units but the regions are there in every image.
        more = units.shape[1] - features.shape[1]
        there = None if mask is None else F.pad(mask, (0, more), value=True)
        mean = mean_region(features, mask, self.image.weight)
        return self.remember(units, there, mean), found


def _meet(model: Vsua, vocabulary: Vocabulary) -> None:
    model.graph.meet(vocabulary)


def _losses(
    model: nn.Module,
    features: Tensor,
    mask: Tensor | None,
    words: Tensor,
    cross_entropy: Callable[[Tensor, Tensor], Tensor],
) -> dict[str, Tensor]:
    """The words, and beside each of them the units of its image."""
    said = model(features, mask, words, learn=True)
    count = (words != PAD).sum((1, 2))  # (B,)
    heads = {name: (own * count).sum() for name, own in said.heads.items()}
    return {"words": cross_entropy(said.logits, words), **heads}


VSUA = CaptionerSpec(
    VsuaConfig,
    Vsua,
    writing.propose,
    writing.beams,
    writing.sample,
    reads_words=True,
    one_pass=False,
    losses=_losses,
    meet=_meet,
)
