"""The style of people's captions beside what the model says of the same photos."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from naic.data.records import Record
from naic.text.find_style import find_style, take_off
from naic.text.style import Style

MOST_ASKED = 200  # photos: a style shows in fewer
ENOUGH = 0.95  # of the captions: the model says the rest already, but for a slip or two


@dataclass(frozen=True, slots=True)
class OwnStyle:
    """What was found.

    Attributes:
        style: its rules; None: there are none.
        explained: the share of the photos whose caption is just what the model says, rewritten.
        around: what `--prefix` and `--suffix` would do as well; None: more than these.
    """

    style: Style | None = None
    explained: float = 0.0
    around: tuple[str, str] | None = None

    @property
    def is_all(self) -> bool:
        """Whether nothing but the style, if there is one, is left to learn."""
        return self.explained >= ENOUGH


def find_own_style(folder: Path, device: str, records: Sequence[Record]) -> OwnStyle:
    """Ask the model what it says of some photos, and compare."""
    from naic.data.decoding import decode_batches
    from naic.runtime.captioner import BATCH, Captioner

    some = records[:: -(-len(records) // MOST_ASKED)]
    captioner = Captioner(folder, device=device)
    said: list[str] = []
    wanted: list[Sequence[str]] = []
    for seen in decode_batches(
        [record.image for record in some], captioner.engine.pixels, batch=BATCH, processes=False
    ):  # an image that cannot be opened is named when features are made
        said += [caption.text for caption in captioner.say(seen.pixels, style=False)]
        wanted += [some[position].captions for position in seen.positions]
    found = find_style(said, wanted)
    return OwnStyle(found.style, found.explained, found.around)


def without_style(records: Sequence[Record], style: Style | None) -> list[Record]:
    """Their captions without the fixed beginning and end, which the weights need not learn."""
    if style is None:
        return [*records]
    return [
        replace(
            r, captions=tuple(filter(None, (take_off(style, c) for c in r.captions))) or r.captions
        )
        for r in records
    ]
