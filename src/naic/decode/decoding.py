"""How words are chosen: the one place that validation, tables, `naic caption` and cards share."""

from collections.abc import Sequence
from dataclasses import dataclass

from naic.errors import ConfigError
from naic.text.vocabulary import BAD_ENDINGS, PERIOD, Vocabulary

MOST_ALTERNATIVES = 100
_BAD_ENDINGS = frozenset(BAD_ENDINGS)


@dataclass(frozen=True, slots=True)
class Decoding:
    """How the captions of a captioner are found. By default as the paper's, so that training shows.

    Attributes:
        beam: Sentences followed at a time; 1 is greedy.
        repeats: Whether agents who speak at once may say a word twice in a row.
        bad_endings: Whether a sentence may end in the middle of a thought, as in "a dog with a".
        max_words: Of a sentence; None: any number.
        alternatives: Sentences to give for each image, the caption counted; 0: the caption alone.
    """

    beam: int = 1
    repeats: bool = True
    bad_endings: bool = True
    max_words: int | None = None
    alternatives: int = 0

    def __post_init__(self) -> None:
        if self.beam < 1:
            raise ConfigError("beam", f"{self.beam} is below 1", "Give 1 (greedy) or more.")
        if self.max_words is not None and self.max_words < 1:
            raise ConfigError("max_words", f"{self.max_words} is below 1", "Try 8.")
        if not 0 <= self.alternatives <= MOST_ALTERNATIVES:
            why = f"{self.alternatives} is not from 0 to {MOST_ALTERNATIVES}"
            raise ConfigError("alternatives", why, "Try 3.")

    def sentence(self, ids: Sequence[int], vocabulary: Vocabulary) -> tuple[int, ...]:
        """The words that are kept of what was said: up to its period, and to the limit.

        Without bad endings, up to the last word that can end a sentence; at least one of them.
        """
        end = ids.index(PERIOD) if PERIOD in ids else len(ids)
        end = min(end, self.max_words or end)
        while not self.bad_endings and end > 1 and vocabulary.word(ids[end - 1]) in _BAD_ENDINGS:
            end -= 1
        return tuple(ids[:end])

    def describe(self) -> str:
        """In a few words for people: "beam 3"."""
        parts = [f"beam {self.beam}"]
        parts += ["no repeats"] if not self.repeats else []
        parts += ["no loose endings"] if not self.bad_endings else []
        parts += [f"at most {self.max_words} words"] if self.max_words else []
        return ", ".join(parts)


READABLE = Decoding(repeats=False, bad_endings=False)  # for people, as `naic caption` gives them
