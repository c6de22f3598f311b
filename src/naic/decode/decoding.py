"""How captions are to be found, as a config says it."""

from dataclasses import dataclass

from naic.errors import ConfigError


@dataclass(frozen=True)
class Decoding:
    """How to find the captions of a captioner.

    Attributes:
        beam: Sentences followed at a time; 1 is greedy.
    """

    beam: int = 1

    def __post_init__(self) -> None:
        if self.beam < 1:
            raise ConfigError("beam", f"{self.beam} is below 1", "Give 1 (greedy) or more.")
