"""What a reader should see at once in a caption: a word twice in a row, a bad ending, no word.

The scores' own tokens decide, so that what is marked on a page is what is counted in a table.
"""

import re
from collections.abc import Sequence

from naic.text import tokenise
from naic.text.vocabulary import BAD_ENDINGS

REPEAT, ENDING, EMPTY = "repeat", "ending", "empty"
_BAD_ENDINGS = frozenset(BAD_ENDINGS)
_WORD = re.compile(r"\S+")


def has_repeat(words: Sequence[str]) -> bool:
    """Whether a word is there twice in a row."""
    return any(map(str.__eq__, words, words[1:]))


def ends_badly(words: Sequence[str]) -> bool:
    """Whether the last word is one of BAD_ENDINGS; there must be a word."""
    return words[-1] in _BAD_ENDINGS


def marks(caption: str) -> list[str]:
    """What a caption is to be marked for."""
    words = tokenise(caption)
    if not words:
        return [EMPTY]
    found = ((REPEAT, has_repeat(words)), (ENDING, ends_badly(words)))
    return [mark for mark, is_so in found if is_so]


def pieces(caption: str) -> list[tuple[str, str]]:
    """The caption in pieces that join to it; each with its marks, of which most have none.

    A word as it is written can be several tokens ("dog-dog"), or none (a lone comma, which
    does not part a word from its repetition).
    """
    found: list[tuple[str, str]] = []
    end, last, previous = 0, -1, ""
    for word in _WORD.finditer(caption):
        tokens = tokenise(word[0])
        found.append((caption[end : word.start()], ""))
        found.append((word[0], REPEAT if tokens and has_repeat([previous, *tokens]) else ""))
        end = word.end()
        if tokens:
            last, previous = len(found) - 1, tokens[-1]
    if previous in _BAD_ENDINGS:
        text, mark = found[last]
        found[last] = (text, f"{mark} {ENDING}".strip())
    return _joined([*found, (caption[end:], "")])


def _joined(parts: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Neighbours without a mark as one piece."""
    whole: list[tuple[str, str]] = []
    for text, mark in parts:
        if whole and not mark and not whole[-1][1]:
            whole[-1] = (whole[-1][0] + text, "")
        elif text:
            whole.append((text, mark))
    return whole
