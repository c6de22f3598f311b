"""How captions are to be found, as a config says it."""

from dataclasses import dataclass

from naic.errors import ConfigError


@dataclass(frozen=True)
class Decoding:
    """How to find the captions of a captioner.

    Attributes:
        beam: Sentences followed at a time; 1 is greedy.
        repeats: Whether agents who speak at once may say a word twice in a row, as the paper's do.
            Tables let them, so that training shows; people who want captions do not.
    """

    beam: int = 1
    repeats: bool = True

    def __post_init__(self) -> None:
        if self.beam < 1:
            raise ConfigError("beam", f"{self.beam} is below 1", "Give 1 (greedy) or more.")
