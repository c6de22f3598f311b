"""What each agent of a parallel captioner said of an image, and what it could have said.

A caption tells of the words that are in it. Here are all agents, those after the period too: a
word of theirs would be heard if the period were replaced.
"""

import math
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from naic.decode.chains import told_after
from naic.decode.decoding import Decoding
from naic.errors import ConfigError
from naic.runtime.sentences import Caption, Proposals, places_said
from naic.runtime.wording import Wording
from naic.text.neutral import TABLE
from naic.text.vocabulary import PERIOD, Vocabulary

if TYPE_CHECKING:
    from naic.models.transformer import TransformerCaptioner
    from naic.runtime.attention import Looks
    from naic.runtime.ready import Engine

CHOICES = 10  # words of an agent that are told
_END = "."


class Agent(NamedTuple):
    """One of the N places of a sentence.

    Attributes:
        words: what it could have said with its probabilities, the likeliest first; "." is the end
            of the sentence.
        said: which of them it said.
    """

    words: tuple[tuple[str, float], ...]
    said: int


@dataclass(frozen=True, slots=True)
class Explained:
    """A caption and how it came about.

    Attributes:
        caption: what is made of the agents' words.
        agents: all N of them.
        end: the place of the agent that says the period; N: none does.
        looks: where the agents looked; None: what runs the model does not tell (`can_look`).
        seconds: that the network's pass took.
    """

    caption: Caption
    agents: tuple[Agent, ...]
    end: int
    looks: "Looks | None"
    seconds: float


class Pass:
    """An engine that is called once, and remembers it.

    Attributes:
        said: what it proposed.
        looks: where the agents looked.
        seconds: how long it took.
    """

    said: Proposals
    seconds: float

    def __init__(self, engine: "Engine") -> None:
        self.looks: Looks | None = None
        self._engine = engine

    def __call__(self, pixels: npt.NDArray[np.uint8]) -> Proposals:
        """Of one image, uint8 (1, P, P, 3)."""
        network = can_look(self._engine)
        if network is not None:
            from naic.runtime.attention import recording

        with nullcontext() if network is None else recording(network) as recorded:
            began = time.perf_counter()
            self.said = self._engine(pixels)
            self.seconds = time.perf_counter() - began
        if recorded is not None:
            self.looks = recorded.looks()
        return self.said


def can_look(engine: "Engine") -> "TransformerCaptioner | None":
    """The network whose attention can be recorded; None: there is none that would tell.

    torch's eager runtime calls the modules of the network one after the other. Compiled code, a
    recorded graph and ONNX Runtime do not, and other captioners may not look at the image so.
    """
    if engine.runtime != "eager":
        return None
    from naic.models.transformer import TransformerCaptioner
    from naic.runtime.engines import EagerEngine

    network = engine.network if isinstance(engine, EagerEngine) else None
    if type(network) is TransformerCaptioner and not network.causal:
        return network
    return None


def agents_of(
    own: Proposals, said: Proposals, vocabulary: Vocabulary, decoding: Decoding
) -> tuple[tuple[Agent, ...], int]:
    """The agents of one image, and which of them ends the sentence.

    With transitions a word has the probability that it has after the word said before it; after
    the end nothing is said before, and the agents tell what they think of by themselves.

    Args:
        own: what the network proposed, (1, N, K).
        said: the same; or what a teacher chose of it, (1, N', 1).
        vocabulary: the words.
        decoding: which sentences may be said.

    Raises:
        ConfigError: a word was chosen before the next one was thought of.
    """
    words, log_probs, pairs = own
    if words.shape[-1] == 1:
        why = "it writes word by word, and has no agents"
        raise ConfigError("the model", why, "Use a parallel one.")
    wording = Wording(vocabulary, decoding)
    places = places_said(own, wording) if said is own else _places_of(said, own)
    if places is None:  # the first of each
        places = np.zeros(words.shape[:2], np.intp)
    chosen = words[0, np.arange(words.shape[1]), places[0]].tolist()
    likely = log_probs[0].astype(np.float64)
    if pairs is not None:
        heard = wording.heard(chosen)
        likely[:heard] = told_after(words, log_probs, pairs, places)[0, :heard]
    rows = zip(words[0].tolist(), likely.tolist(), chosen, strict=True)
    agents = tuple(_agent(wording, *row) for row in rows)
    ends = (n for n, one in enumerate(agents) if one.words[one.said][0] == _END)
    return agents, next(ends, len(agents))


def _places_of(said: Proposals, own: Proposals) -> npt.NDArray[np.intp]:
    """(1, N) where each agent has the word that a teacher chose; its first, if it has not.

    It has not where a sentence was cut: what is left ends with a period of the teacher's.
    """
    chosen = said.words[:, : own.words.shape[1]]
    spoken = np.cumsum(chosen[..., 0] == PERIOD, 1) <= (chosen[..., 0] == PERIOD)
    same = (own.words == chosen) & spoken[..., None]
    places: npt.NDArray[np.intp] = same.argmax(-1)
    return places


def _agent(wording: Wording, ids: Sequence[int], log_probs: Sequence[float], said: int) -> Agent:
    """An agent by its words; what it may not say is not told.

    Words that are the same without a guessed gender are one, if guesses are not wanted.
    """
    word = wording.vocabulary.word
    spell = (lambda id_: TABLE.get(word(id_), word(id_))) if wording.decoding.neutral else word
    table: dict[str, float] = {}
    for id_, value in zip(ids, log_probs, strict=True):
        if id_ not in wording.wanted.forbidden:
            table[spell(id_)] = table.get(spell(id_), 0.0) + math.exp(value)
    own = spell(said)
    if said in wording.wanted.forbidden:
        # All that it thinks of is forbidden: the sentence ends, which is less likely yet.
        own = _END
        table.setdefault(_END, math.exp(min(log_probs)))
    ordered = sorted(table.items(), key=lambda pair: -pair[1])
    told = ordered[:CHOICES]
    if all(text != own for text, _ in told):
        told[-1] = (own, table[own])
    words = tuple((text, min(1.0, chance)) for text, chance in told)
    return Agent(words, next(n for n, (text, _) in enumerate(words) if text == own))
