"""Up-Down (Anderson et al. 2018): one LSTM looks at regions, another one speaks.

At each word the attention LSTM hears the language LSTM, the image's mean and the last word, and
weighs the regions v[1..R]; the language LSTM hears what was seen so, and says the next word:

    x1[t] = [h2[t-1], mean v, W_words · S[t]]    h1[t] = LSTM(x1[t], h1[t-1])      (eq. 2)
    a[i,t] = w · tanh(W_v · v[i] + W_h · h1[t])                                    (eq. 3)
    α[t] = softmax(a[t])        v^[t] = Σ α[i,t] · v[i]                            (eq. 4, 5)
    x2[t] = [v^[t], h1[t]]                       h2[t] = LSTM(x2[t], h2[t-1])      (eq. 6)
    p(S[t+1]) = softmax(W_p · h2[t] + b)                                           (eq. 7)

It learns by cross-entropy (eq. 9), then by its own samples' rewards (eq. 10 to 12: the stage scst).
What differs from the paper: regions are the cells of a grid, not what a detector found, and a
sentence is drawn from all words while it learns by rewards (docs/decisions/045). A weight matrix
of the paper that multiplies several things is cut in parts here, so that what does not change from
word to word is multiplied once, and what does by as few products as can be.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from naic.models import writing
from naic.models.contract import CaptionerSpec
from naic.models.layers import WordScores, additive, linear, mean_region
from naic.models.recurrent import Cache, State, advance, check_sizes
from naic.models.writing import words_before


@dataclass(frozen=True)
class UpDownConfig:
    """The size of an Up-Down captioner; the paper's unless told otherwise.

    Attributes:
        width: Numbers that each of the two LSTMs remembers.
        embedding: Numbers that stand for a word.
        attention: Numbers by which a region and what is looked for are compared.
        dropout: Share of the numbers left out of words, and of what is said, while training.
        length: Words of a caption at most, its period counted.
    """

    width: int = 1000
    embedding: int = 1000
    attention: int = 512
    dropout: float = 0.3
    length: int = 16

    def __post_init__(self) -> None:
        check_sizes(self, ("width", "embedding", "attention"))


class UpDownMemory(NamedTuple):
    """What is kept of B images.

    Attributes:
        regions: (B, R, F) themselves, in the precision of matrix products.
        keys: (B, R, A) what they are compared by, W_v · v.
        gates: (B, 4D) what their mean does to the attention LSTM, the same at each word.
        mask: (B, 1, R), added to the attention scores; None when all regions are real.
    """

    regions: Tensor
    keys: Tensor
    gates: Tensor
    mask: Tensor | None

    @property
    def batch(self) -> int:
        """B, the images."""
        return self.keys.shape[0]

    @property
    def device(self) -> torch.device:
        """Where it is."""
        return self.keys.device


class UpDownStep(nn.Module):
    """What each word repeats: look, and speak."""

    def __init__(self, config: UpDownConfig, features: int) -> None:
        super().__init__()
        width = config.width
        self.heard = linear(2 * width, width, blocks=4)  # h2 and h1, into the attention LSTM
        self.query = nn.Linear(width, config.attention, bias=False)
        self.score = nn.Linear(config.attention, 1, bias=False)
        self.speak = linear(features + 2 * width, width, blocks=4)  # v^, h1 and h2
        for layer in (self.query, self.score):
            nn.init.xavier_uniform_(layer.weight)

    def forward(
        self, gates: Tensor, memory: UpDownMemory, looking: State, speaking: State
    ) -> tuple[State, State]:
        """Both LSTMs after one more word of W sentences an image.

        Args:
            gates: (B, W, 4D) what the word and the image do to the attention LSTM.
            memory: the images.
            looking: the attention LSTM before, (B, W, D) each.
            speaking: the language LSTM before.
        """
        before = torch.cat((speaking.hidden, looking.hidden), dim=-1)
        looking = advance(gates + self.heard(before), looking.cell)
        seen = self.look(looking.hidden, memory).to(speaking.hidden.dtype)
        heard = torch.cat((seen, looking.hidden, speaking.hidden), dim=-1)
        return looking, advance(self.speak(heard), speaking.cell)

    def look(self, hidden: Tensor, memory: UpDownMemory) -> Tensor:
        """(B, W, F) the regions, each as much as the attention LSTM (B, W, D) weighs it."""
        compared = memory.keys[:, None] + self.query(hidden)[:, :, None]  # (B, W, R, A)
        scores: Tensor = self.score(compared.tanh())[..., 0]  # (B, W, R)
        if memory.mask is not None:
            scores = scores + memory.mask
        kind = torch.promote_types(scores.dtype, torch.float32)
        weights = scores.softmax(-1, dtype=kind).to(memory.regions.dtype)
        return weights @ memory.regions


class UpDownDecoder(nn.Module):
    """Words in, scores of the next ones out, beside what is kept of the images."""

    step: type[UpDownStep] = UpDownStep

    def __init__(self, config: UpDownConfig, features: int, words: int) -> None:
        super().__init__()
        width = config.width
        self.width = width
        self.embedding = nn.Embedding(words, config.embedding)
        self.word = nn.Linear(config.embedding, 4 * width, bias=False)
        for block in self.word.weight.detach().chunk(4):
            nn.init.xavier_uniform_(block)
        # A list, as the layers of a Transformer are: training compiles what is in one.
        self.layers = nn.ModuleList([self.step(config, features)])
        self.dropout = nn.Dropout(config.dropout)
        self.output: nn.Linear = WordScores(width, words)

    def forward(self, memory: UpDownMemory, words: Tensor) -> Tensor:
        """(B, C, N, V) logits of the captions (B, C, N), all of them a word further at a time."""
        before = words_before(words).permute(2, 0, 1)  # (N, B, C)
        told: Tensor = self.hear(before, memory)  # (N, B, C, 4D)
        looking = speaking = self.silence(memory, words.shape[1])
        said = []
        # unbind, not an index for each word: its gradient is one stack instead of N sums
        for gates in told.unbind(0):
            looking, speaking = self.layers[0](gates, memory, looking, speaking)
            said.append(speaking.hidden)
        scores: Tensor = self.output(self.dropout(torch.stack(said, dim=2)))
        return scores

    def hear(self, words: Tensor, memory: UpDownMemory) -> Tensor:
        """(..., B, W, 4D) what words (..., B, W), and the image, do to the attention LSTM."""
        told: Tensor = self.word(self.dropout(self.embedding(words)))
        return told + memory.gates[:, None]

    def silence(self, memory: UpDownMemory, width: int) -> State:
        """An LSTM that has heard nothing yet of `width` sentences an image."""
        nothing = self.embedding.weight.new_zeros(memory.batch, width, self.width)
        return State(nothing, nothing)


class UpDown(nn.Module):
    """Features of an image in, scores of every word at each of N places out, word by word.

    Attributes:
        config: its size.
        length: N, the places.
        words: V, the size of the vocabulary.
    """

    decoding: type[UpDownDecoder] = UpDownDecoder

    def __init__(
        self, config: UpDownConfig, features: int, words: int, seen: int | None = None
    ) -> None:
        """`seen`: numbers of each thing that is looked at; None: it is the regions, as they are."""
        super().__init__()
        self.config = config
        self.length = config.length
        self.words = words
        seen = features if seen is None else seen
        self.keys = nn.Linear(seen, config.attention, bias=False)
        nn.init.xavier_uniform_(self.keys.weight)
        self.image = nn.Linear(features, 4 * config.width, bias=False)
        for block in self.image.weight.detach().chunk(4):
            nn.init.xavier_uniform_(block)
        self.decoder = self.decoding(config, seen, words)

    def forward(
        self, features: Tensor, mask: Tensor | None = None, words: Tensor | None = None
    ) -> Tensor:
        """Logits (B, C, N, V) of each word of captions (B, C, N) after those before it."""
        if words is None:
            raise ValueError("a captioner that writes word by word needs the words to say")
        scores: Tensor = self.decoder(self.encode(features, mask), words)
        return scores

    def encode(self, features: Tensor, mask: Tensor | None = None) -> UpDownMemory:
        """What is kept of images (B, R, F) whose real regions are True in the mask (B, R)."""
        return self.remember(features, mask, mean_region(features, mask, self.image.weight))

    def remember(self, seen: Tensor, mask: Tensor | None, mean: Tensor) -> UpDownMemory:
        """The same of what there is to look at (B, S, F), some of it masked, and the mean image."""
        device, kind = seen.device.type, self.keys.weight.dtype
        if torch.is_autocast_enabled(device):  # once, and not again at each word
            kind = torch.get_autocast_dtype(device)
        regions = seen.to(kind)
        keys: Tensor = self.keys(regions)
        blocked = None if mask is None else additive(mask[:, None], keys.dtype)
        return UpDownMemory(regions, keys, self.image(mean), blocked)

    def empty_cache(self, memory: UpDownMemory, width: int = 1) -> Cache:
        """Room for writing `width` sentences an image, nothing said yet."""
        silence = self.decoder.silence(memory, width)
        return Cache(torch.stack((*silence, *silence)))

    def step(self, words: Tensor, position: Tensor, memory: UpDownMemory, cache: Cache) -> Tensor:
        """(B, W, V) logits of the next word, after hearing `words` (B, W); writes into the cache.

        LSTMs know what they have heard: they do not need the position.
        """
        decoder = self.decoder
        states = cache.states.unbind(0)
        looking, speaking = State(*states[:2]), State(*states[2:])
        # forward: not what training compiled, which would be compiled anew for each width of beam
        looking, speaking = decoder.layers[0].forward(
            decoder.hear(words, memory), memory, looking, speaking
        )
        cache.states.copy_(torch.stack((*looking, *speaking)))
        scores: Tensor = decoder.output(decoder.dropout(speaking.hidden))
        return scores

    def follow(self, cache: Cache, parents: Tensor, position: Tensor) -> Cache:
        """The cache when, after word `position`, sentence w goes on from sentence parents[b, w]."""
        return cache.follow(parents)


UPDOWN = CaptionerSpec(
    UpDownConfig,
    UpDown,
    writing.propose,
    writing.beams,
    writing.sample,
    reads_words=True,
    one_pass=False,
)
