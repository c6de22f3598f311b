"""The choice among matches: METEOR's beam search over the words of the reference.

Of the alignments of two sentences the program takes the one that covers most words (a match that
is not exact counts half, rounded down), in the fewest chunks, with the least distance between the
places of matched words. Its search keeps 40 partial alignments. They are compared in the order in
which they arose where they are equal, and the distance of a new match is added to the alignment
that leaves it out rather than to the one that takes it: both are kept, since scores depend on it.
"""

from operator import itemgetter
from typing import Any

from naic.metrics.meteor.stages import EXACT, Match

BEAM = 40
NONE = -1  # the end of the last match, where the word before has none

_first = itemgetter(0)
# (order, next word, end of our last match, our used words, their used words, chosen matches):
# used words are bits of a number; chosen matches are linked, the last first.
_State = tuple[int, int, int, int, int, Any]
# A match with all that a step needs: its gain in the order, distance, first of our words, where
# both end, our words and theirs as bits, and itself.
_Option = tuple[int, int, int, int, int, int, int, Match]


def align(matches: list[list[Match]], our_count: int) -> list[Match]:
    """The chosen matches, in the order of the reference.

    Args:
        matches: for each word of the reference those that begin there.
        our_count: words of the caption.
    """
    certain = _certain(matches, our_count)
    if not any(own for own, match in zip(matches, certain, strict=True) if match is None):
        return [match for match in certain if match is not None]
    return _search(matches, certain, our_count)


def _certain(matches: list[list[Match]], our_count: int) -> list[Match | None]:
    """Matches whose words on both sides are in no other match: they need no search."""
    ours, theirs = [0] * our_count, [0] * len(matches)
    for own in matches:
        for match in own:
            for place in range(match.ours, match.ours + match.our_count):
                ours[place] += 1
            for place in range(match.theirs, match.theirs + match.their_count):
                theirs[place] += 1
    certain: list[Match | None] = [None] * len(matches)
    for place, own in enumerate(matches):
        if len(own) == 1:
            start, count, at, our_words, _ = own[0]
            if max(theirs[start : start + count]) == 1 and max(ours[at : at + our_words]) == 1:
                certain[place] = own[0]
    return certain


def _search(matches: list[list[Match]], certain: list[Match | None], our_count: int) -> list[Match]:
    count = len(matches)
    # The order is one number: weighted words, then chunks, then distance, each with enough room.
    chunk = (sum(map(len, matches)) + 1) * max(our_count, count)
    gain = chunk * (count + 2)
    options = [[_option(match, gain) for match in own] for own in matches]
    used_ours = used_theirs = 0
    for place, match in enumerate(certain):
        if match is not None:
            used_ours |= options[place][0][5]
            used_theirs |= options[place][0][6]
    beam: list[_State] = [(0, 0, NONE, used_ours, used_theirs, None)]
    for place, own in enumerate(options):
        beam.sort(key=_first)
        beam = _step(beam[:BEAM], place, own, chunk)
    beam.sort(key=_first)
    # The last match of each closes a chunk; of equal ones the first is taken.
    _, path = min(
        ((state[0] + (chunk if state[2] != NONE else 0), state[5]) for state in beam[:BEAM]),
        key=_first,
    )
    chosen = []
    while path is not None:
        path, match = path
        chosen.append(match)
    chosen.reverse()
    return chosen


def _option(match: Match, gain: int) -> _Option:
    start, count, at, our_count, stage = match
    words = count + our_count if stage == EXACT else count // 2 + our_count // 2
    return (
        -words * gain,
        abs(start - at),
        at,
        at + our_count,
        start + count,
        ((1 << our_count) - 1) << at,
        ((1 << count) - 1) << start,
        match,
    )


def _step(beam: list[_State], place: int, own: list[_Option], chunk: int) -> list[_State]:
    """All alignments one word further: with each match that begins here, and without."""
    following: list[_State] = []
    append = following.append
    bit = 1 << place
    for state in beam:
        order, word, last, used_ours, used_theirs, path = state
        if used_theirs & bit:
            if place < word:  # within a match
                append(state)
            else:  # at a certain one
                gained, distance, at, end, following_word, _, _, match = own[0]
                order += gained + distance
                if last not in (NONE, at):
                    order += chunk
                append((order, following_word, end, used_ours, used_theirs, (path, match)))
            continue
        for gained, distance, at, end, following_word, ours, theirs, match in own:
            if used_theirs & theirs or used_ours & ours:
                continue
            new = order + gained
            if last not in (NONE, at):
                new += chunk
            append(
                (new, following_word, end, used_ours | ours, used_theirs | theirs, (path, match))
            )
            order += distance
        if last != NONE:
            order += chunk
        append((order, place + 1, NONE, used_ours, used_theirs, path))
    return following
