"""`neutral`: a caption without guessed genders, "a person" where the model says "a man".

A photo does not tell a person's gender, and for one who hears a caption read out, a wrong guess is
worse than none. It works on the finished words, by a table and a few rules of grammar: no rule adds
a word, so that a caption of at most N words stays one.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from naic.text.vocabulary import BAD_ENDINGS

# What is said instead, and of what: a person, and several of them.
PEOPLE = {
    ("person", "people"): (
        *("man", "men", "woman", "women", "guy", "guys", "lady", "ladies", "gentleman"),
        *("gentlemen", "dude", "dudes", "gal", "gals", "lad", "lads"),
    ),
    ("child", "children"): ("boy", "boys", "girl", "girls", "son", "sons", "daughter", "daughters"),
    ("parent", "parents"): (
        *("mother", "mothers", "father", "fathers", "mom", "moms", "dad", "dads"),
        *("mum", "mums", "mommy", "daddy"),
    ),
    ("grandparent", "grandparents"): ("grandmother", "grandfather", "grandma", "grandpa"),
    ("grandchild", "grandchildren"): ("granddaughter", "grandson"),
    ("sibling", "siblings"): ("brother", "brothers", "sister", "sisters"),
    ("spouse", "spouses"): ("husband", "husbands", "wife", "wives"),
    ("partner", "partners"): ("girlfriend", "girlfriends", "boyfriend", "boyfriends"),
    ("newlywed", "newlyweds"): ("bride", "brides", "groom", "grooms"),
    ("officer", "officers"): ("policeman", "policemen", "policewoman", "policewomen"),
    ("firefighter", "firefighters"): ("fireman", "firemen"),
    ("fisher", "fishers"): ("fisherman", "fishermen"),
    ("businessperson", "businesspeople"): (
        *("businessman", "businessmen", "businesswoman", "businesswomen"),
    ),
    ("salesperson", "salespeople"): ("salesman", "salesmen", "saleswoman", "saleswomen"),
    ("videographer", "videographers"): ("cameraman", "cameramen"),
    ("server", "servers"): ("waiter", "waiters", "waitress", "waitresses"),
}
PRONOUNS = {
    **{"he": "they", "she": "they", "him": "them", "his": "their", "her": "their"},
    **{"hers": "theirs", "himself": "themselves", "herself": "themselves"},
}
# Left out before what they describe; by themselves, "a male on a bike", a person.
DESCRIBING = {"male": "person", "female": "person", "males": "people", "females": "people"}

_NUMBERS = (
    *("a", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven"),
    *("twelve",),
)
_FUNCTION = frozenset((*BAD_ENDINGS, "'s", "but", "by", "down", "off", "over", "up", "was", "were"))
_VERBS = {"is": "are", "was": "were", "has": "have", "does": "do", "'s": "'re"}
AN = re.compile(r"(?!eu|one\b|uni|use)[aeiou]|honest|hour")
_MOST_ADJECTIVES = 2


def _is_several(word: str) -> bool:
    return word.endswith(("men", "s")) and not word.endswith("ss")


_NOUNS = {
    word: pair[_is_several(word)] for pair, words in PEOPLE.items() for word in words
} | DESCRIBING
_PAIRS = {noun: pair for pair in PEOPLE for noun in pair}  # of a neutral noun its two forms
TABLE = _NOUNS | PRONOUNS  # word by word
SAID = frozenset((*_PAIRS, *PRONOUNS.values()))  # to forbid one of these leaves nobody to speak of


class Piece(NamedTuple):
    """Words of the neutral sentence, and which words of the sentence they stand for.

    Attributes:
        words: none or more.
        begin: the first of the words that they stand for.
        end: the one after the last.
    """

    words: tuple[str, ...]
    begin: int
    end: int


def neutral(words: Sequence[str]) -> list[Piece]:
    """A sentence without guessed genders; the pieces stand for all of its words, in order."""
    pieces: list[Piece] = []
    place = 0
    while place < len(words):
        piece = _together(words, place) or _by_itself(words, place)
        pieces.append(piece)
        place = piece.end
    return list(articles(_joined(pieces, words), words))


def _by_itself(words: Sequence[str], place: int) -> Piece:
    """A word and, where they go with it, those after it."""
    word = words[place]
    before = words[place - 1] if place else ""
    after = [*words[place + 1 : place + 4], "", "", ""]
    if word in DESCRIBING and _describes(after[0]):
        return Piece((), place, place + 1)
    both = after[0] == "and" and after[1] in DESCRIBING and _describes(after[2])
    if word in DESCRIBING and both:  # "male and female players"
        return Piece((), place, place + 3)
    if word in ("men", "women") and after[0] == "'s" and _describes(after[1]):
        return Piece((), place, place + 2)  # "a women's restroom"
    if before in ("he", "she") and word not in (_FUNCTION - _VERBS.keys()) | TABLE.keys():
        return Piece((_plural_verb(word),), place, place + 1)
    if word in ("boy", "girl") and before == "baby":
        return Piece((), place, place + 1)
    if word == "her" and not _describes(after[0]):
        return Piece(("them",), place, place + 1)
    kept = word == "man" and after[0] == "made"  # "a man made lake"
    return Piece((word if kept else TABLE.get(word, word),), place, place + 1)


def _describes(following: str) -> bool:
    """Whether what comes before this word can be said of it: "a male surfer", not "a male in"."""
    return bool(following) and following not in _FUNCTION and not following.endswith(("ing", "ed"))


def _plural_verb(verb: str) -> str:
    """What they do that he does: "rides" is "ride"."""
    if verb in _VERBS:
        return _VERBS[verb]
    if verb.endswith("ies") and len(verb) > 4:
        return f"{verb[:-3]}y"
    if verb.endswith(("sses", "shes", "ches", "xes", "zzes", "oes")):
        return verb[:-2]
    return verb[:-1] if verb.endswith("s") and not verb.endswith("ss") else verb


class _Named(NamedTuple):
    """People as they are named: "a young man".

    Attributes:
        article: with what they begin; empty: with nothing.
        adjectives: what is said of them.
        noun: the neutral one.
        end: the place after them.
    """

    article: str
    adjectives: tuple[str, ...]
    noun: str
    end: int

    @property
    def number(self) -> int | None:
        """How many they are; None: it is not said."""
        if self.noun == _PAIRS[self.noun][0]:
            return 1
        return _NUMBERS.index(self.article) + 1 if self.article in _NUMBERS[1:] else None


def _named(words: Sequence[str], place: int) -> _Named | None:
    """The people that are named from a place on."""
    article = words[place] if words[place] in (*_NUMBERS, "an", "one", "the") else ""
    begin = place + bool(article)
    for end in range(begin, min(begin + _MOST_ADJECTIVES * bool(article) + 1, len(words))):
        noun = _NOUNS.get(words[end], words[end])
        after = words[end + 1] if end + 1 < len(words) else ""
        if noun in _PAIRS and not (words[end] in DESCRIBING and _describes(after)):
            return _Named(article, tuple(words[begin:end]), noun, end + 1)
        if words[end] in _FUNCTION:
            break
    return None


def _together(words: Sequence[str], place: int) -> Piece | None:
    """As "two people" what word by word would be "a person and a person".

    Adjectives of the first hold for a second without an article: "a young man and woman".
    """
    first = _named(words, place)
    if first is None or words[first.end : first.end + 1] not in (["and"], ["or"]):
        return None
    second = _named(words, first.end + 1) if first.end + 1 < len(words) else None
    if second is None or _PAIRS[second.noun] != _PAIRS[first.noun] or second.adjectives:
        return None
    alone = first.noun == _PAIRS[first.noun][0] and not first.article
    if alone and place and words[place - 1] not in _FUNCTION:  # "the young" stands before it
        return None
    changed = {words[first.end - 1], words[second.end - 1]} & _NOUNS.keys()
    if not changed or (first.adjectives and second.article):
        return None
    if words[first.end] == "or":
        article = (first.article,) if first.article else ()
        return Piece((*article, *first.adjectives, first.noun), place, second.end)
    said = ["the"] if first.article == "the" else []
    one, other = first.number, second.number
    if one is not None and other is not None and one + other <= len(_NUMBERS):
        said.append(_NUMBERS[one + other - 1])
    return Piece((*said, *first.adjectives, _PAIRS[first.noun][1]), place, second.end)


def _joined(pieces: Sequence[Piece], words: Sequence[str]) -> list[Piece]:
    """Each piece with words: one without them goes with the next; nobody is named twice in a row.

    "Person" and "person" come together where two words of the table stand side by side.
    """
    found: list[Piece] = []
    begin: int | None = None
    for piece in pieces:
        own = Piece(piece.words, piece.begin if begin is None else begin, piece.end)
        begin = None
        again = bool(found) and own.words[:1] == found[-1].words[-1:]
        if not own.words and found and own.end == len(words):
            found[-1] = found[-1]._replace(end=own.end)
        elif not own.words:
            begin = own.begin
        elif again and _changed(own, words) | _changed(found[-1], words):
            found[-1] = found[-1]._replace(end=own.end)
        else:
            found.append(own)
    return found


def _changed(piece: Piece, words: Sequence[str]) -> bool:
    return piece.words != tuple(words[piece.begin : piece.end])


def articles(pieces: Sequence[Piece], words: Sequence[str]) -> Iterator[Piece]:
    """With "a" or "an" as the word after it wants it, if that is another than it was.

    The pieces stand for the words in order; words that none stands for were left out.
    """
    nothing = Piece((), len(words), len(words))
    for piece, after in pairwise((*pieces, nothing)):
        said = list(piece.words)
        gone = piece.end != after.begin
        if gone or _changed(piece, words) or _changed(after, words):
            following = [*said[1:], *after.words[:1]]
            for place, word in enumerate(following):
                if said[place] in ("a", "an"):
                    said[place] = "an" if AN.match(word) else "a"
        yield piece._replace(words=tuple(said))
