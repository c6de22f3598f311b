"""What of a fine-tuning is kept: the model as it was, a style beside it, or tuned weights."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from naic.tasks.finetune.judge import Gain, Judged, compare, in_words
from naic.tasks.finetune.report import Kept
from naic.text import tokenise

People = Mapping[str, Sequence[str]]  # the captions of the photos kept aside
NOTHING = "nothing to learn: the model says your captions already"
_OFTEN = 0.25  # of the photos that people say a new word of: said less often, it was not learnt


class Said(NamedTuple):
    """Of how many of the photos kept aside that people say a new word of it is said."""

    photos: int
    of: int

    @property
    def often(self) -> bool:
        """Whether the new words count as learnt."""
        return self.of > 0 and self.photos >= _OFTEN * self.of


def new_words_said(captions: Mapping[str, str], people: People, new_words: Sequence[str]) -> Said:
    """Of a photo with several new words any of them will do."""
    wanted = {
        id_: {*new_words} & {word for text in own for word in tokenise(text)}
        for id_, own in people.items()
    }
    asked = [id_ for id_, words in wanted.items() if words]
    return Said(sum(bool(wanted[id_] & {*tokenise(captions[id_])}) for id_ in asked), len(asked))


def choose(
    choices: Sequence[tuple[Kept, Judged]], people: People, new_words: Sequence[str]
) -> tuple[Kept, Judged]:
    """The best of what there is, the model as it was first, by CIDEr.

    A style that costs nothing is kept, since CIDEr knows no capitals; weights have to be better
    than the model without them. New words are what was asked for, and with one caption for each
    photo CIDEr hardly sees them: weights that have learnt them need only be no worse but by chance.
    """
    best = choices[0]
    for kept, own in choices[1:]:
        better = own.cider > best[1].cider or (kept == "style" and own.cider == best[1].cider)
        if kept == "weights" and new_words_said(own.captions, people, new_words).often:
            better = better or compare(own.captions, best[1].captions, people).high >= 0
        if better:
            best = kept, own
    return best


def verdict(kept: Kept, gain: Gain, photos: int, said: Said) -> str:
    """How much better that is, as one would say it."""
    if kept == "as it was":
        return f"no better on {photos:,} photos kept aside: the model was left as it was"
    if kept == "style":
        value, low, high = (100 * number for number in (gain.value, gain.low, gain.high))
        more = f"{value:+.1f} CIDEr, {low:+.0f} to {high:+.0f}, on {photos:,} photos kept aside"
        return f"what the model says, in your style ({more})"
    words = f"; new words are said of {said.photos} of {said.of} that have them"
    return in_words(gain, photos) + (words if said.of else "")
