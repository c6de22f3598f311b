"""Captions back to what they claim: the grammar of the little language, read strictly.

A parallel decoder's typical slips ("a red red circle", "a circle above", "... with a") must not
count as captions, so whatever the grammar does not allow is refused with the word it stopped at.
Adding a phrasing means adding it here and in `phrasing.py`; a test holds the two together.
"""

from typing import NoReturn

from naic.data.shapes.words import (
    BACKGROUNDS,
    COLOURS,
    NUMBERS,
    PICTURES,
    RELATION_OF,
    SHAPE_OF,
    SHAPES,
    SIZE_OF,
    Claims,
    Mention,
    Quality,
    Relation,
    Total,
    article,
)
from naic.errors import DataError

MOST_LISTED = 3
VERBS = {"is": False, "sits": False, "are": True, "sit": True}  # verb: takes the plural


def parse(words: list[str]) -> Claims:
    """What a caption, given as lower-case words, claims; raises DataError if it is no caption."""
    parser = _Parser(words)
    parser.caption()
    if parser.at < len(words):
        parser.fail("the end of the caption")
    return parser.reading


class _Parser:
    """Reads from left to right; one or two words ahead always decide what comes next."""

    def __init__(self, words: list[str]) -> None:
        self.words = words
        self.at = 0
        self.reading = Claims()

    def fail(self, wanted: str) -> NoReturn:
        found = f"word {self.at + 1} is '{self.word()}'" if self.word() else "the caption ends"
        hint = "Write it like 'a large red circle above a small blue square'."
        raise DataError(f"'{' '.join(self.words)}'", f"{found} where {wanted} was expected", hint)

    def word(self, ahead: int = 0) -> str:
        """A word still to be read, or nothing after the end."""
        place = self.at + ahead
        return self.words[place] if place < len(self.words) else ""

    def take(self, *wanted: str) -> str:
        """Read one of these words."""
        if self.word() not in wanted:
            self.fail(" or ".join(f"'{word}'" for word in wanted))
        self.at += 1
        return self.words[self.at - 1]

    def caption(self) -> None:
        """Any of the openings, and what follows it."""
        first, second = self.word(), self.word(1)
        if first == "there":
            self.at += 1
            place, verb = self.at, self.take("is", "are")
            mentions = self.description()
            self.agree(place, VERBS[verb], mentions[:1])
        elif first in ("the", "this") and second in PICTURES:
            self.at += 2
            self.take("shows")
            self.description()
        elif second in PICTURES and first == article(second):
            self.at += 2
            self.take("of")
            self.description()
        elif first == "a" and second in BACKGROUNDS:
            self.background()
            self.take("with")
            self.listing()
            self.take("on")
            self.take("it")
        elif first == "between" or self.relation_ahead():
            self.fronted()
        else:
            subject = self.listing()
            if self.word() in VERBS:
                self.verb_phrase(subject)
            else:
                self.tail(subject)

    def description(self) -> tuple[int, ...]:
        """Shapes with what is said of them, without a verb of their own."""
        subject = self.listing()
        self.tail(subject)
        return subject

    def tail(self, subject: tuple[int, ...]) -> None:
        """What may follow a noun: a clause with "that" or "with", a relation, the background."""
        if self.word() == "that":
            self.at += 1
            place, verb = self.at, self.take("is", "are")
            self.agree(place, VERBS[verb], subject)
            self.adjectives(subject)
        elif self.word() == "with":
            self.at += 1
            self.accompaniment(subject)
            if self.word() == "and":
                self.at += 1
                self.accompaniment(subject)
        elif self.word() == "between" or self.relation_ahead():
            self.place(subject)
        self.maybe_background()

    def verb_phrase(self, subject: tuple[int, ...]) -> None:
        """A verb and where the subject is, or what it is like."""
        place, verb = self.at, self.take(*VERBS)
        self.agree(place, VERBS[verb], subject)
        if self.word() == "containing":
            self.fail("a place")
        if self.word() == "between" or self.relation_ahead():
            self.place(subject)
            self.maybe_background()
        elif self.word() == "on":
            self.maybe_background()
        elif verb in ("is", "are"):
            self.adjectives(subject)
        else:
            self.fail("a place")

    def place(self, subject: tuple[int, ...]) -> None:
        """A relation, or "between", and what it relates to."""
        if self.word() == "between":
            ends = self.ends()
            self.reading.relations.append(Relation(subject, "between", ends))
        else:
            name = self.relation_name()
            self.reading.relations.append(Relation(subject, name, self.listing()))

    def fronted(self) -> None:
        """The place first: "above a blue square is a red circle"."""
        if self.word() == "containing":
            self.fail("a place")
        between = self.word() == "between"
        name = "between" if between else self.relation_name()
        right = self.ends() if between else self.listing()
        place, verb = self.at, self.take(*VERBS)
        subject = self.listing()
        self.agree(place, VERBS[verb], subject)
        self.reading.relations.append(Relation(subject, name, right))
        self.maybe_background()

    def ends(self) -> tuple[int, int]:
        """The two shapes that something is between."""
        self.take("between")
        first = self.noun_phrase()
        self.take("and")
        second = self.noun_phrase()
        return self.keep(first), self.keep(second)

    def accompaniment(self, subject: tuple[int, ...]) -> None:
        """After "with": shapes, and where they stand to the subject by a pronoun."""
        others = self.listing()
        many = self.count(subject) > 1
        if self.word() == "to" and self.word(1) in ("its", "their"):
            self.at += 1
            self.take("their" if many else "its")
            name = f"{self.take('left', 'right')} of"
        else:
            if self.word() == "containing":
                self.fail("a place")
            name = self.relation_name()
            self.take("them" if many else "it")
        self.reading.relations.append(Relation(others, name, subject))

    def adjectives(self, subject: tuple[int, ...]) -> None:
        """A size, a colour or both, said of one noun phrase that does not say them already."""
        if len(subject) > 1:
            self.fail("a place")
        mention = self.reading.mentions[subject[0]]
        open_words = dict.fromkeys(SIZE_OF, "size") if mention.size is None else {}
        if mention.colour is None:
            open_words |= dict.fromkeys(COLOURS, "colour")
        while True:
            kind = open_words.get(self.word())
            if kind is None:
                self.fail("an adjective that says something new")
            self.reading.qualities.append(Quality(subject[0], self.word()))
            self.at += 1
            open_words = {word: other for word, other in open_words.items() if other != kind}
            if self.word() != "and":
                return
            self.at += 1

    def listing(self) -> tuple[int, ...]:
        """One to three noun phrases joined by "and", or a total with its parts after it."""
        first = self.noun_phrase()
        if first.count > 1 and first.shape is None and self.noun_ahead():
            parts = self.listing()
            self.reading.totals.append(Total(first, parts))
            return parts
        mentions = [self.keep(first)]
        joined = True  # the last two of a list need "and" between them
        while self.noun_ahead() or self.word() == "and":
            if len(mentions) == MOST_LISTED or (joined and len(mentions) > 1):
                self.fail("the end of the list")
            joined = self.word() == "and"
            self.at += joined
            mentions.append(self.keep(self.noun_phrase()))
        if not joined:
            self.fail("'and' and another shape")
        return tuple(mentions)

    def noun_ahead(self) -> bool:
        """Whether a noun phrase begins here."""
        return self.word() in ("a", "an", "the") or self.word() in NUMBERS

    def noun_phrase(self) -> Mention:
        """Determiner, adjectives in their order, noun, all agreeing with each other."""
        start = self.at
        count = self.determiner()
        size = colour = None
        if self.word() in SIZE_OF:
            size = SIZE_OF[self.take(self.word())]
        if self.word() in COLOURS:
            colour = self.take(self.word())
        nouns = {"shapes", *SHAPES.values()} if count > 1 else {"shape", *SHAPES}
        if self.word() not in nouns:
            self.fail("a shape in the plural" if count > 1 else "a shape")
        shape = SHAPE_OF.get(self.take(self.word()))
        right = article(self.words[start + 1])
        if self.words[start] in ("a", "an") and self.words[start] != right:
            self.at = start
            self.fail(f"'{right}'")
        return Mention(" ".join(self.words[start : self.at]), count, size, colour, shape)

    def determiner(self) -> int:
        """An article or a number; says how many there are."""
        if not self.noun_ahead():
            self.fail("a shape with its article or number")
        word = self.take(self.word())
        if word == "a" and self.word() in ("pair", "group") and self.word(1) == "of":
            self.at += 2
            return 2 if self.word(-2) == "pair" else NUMBERS[self.take("two", "three")]
        if word == "the" and self.word() in NUMBERS:
            return NUMBERS[self.take("two", "three")]
        return NUMBERS.get(word, 1)

    def relation_ahead(self) -> bool:
        """Whether a relation is named here."""
        return any(tuple(self.words[self.at : self.at + len(p)]) == p for p, _ in RELATION_OF)

    def relation_name(self) -> str:
        """Read a relation in any of its wordings."""
        for phrase, name in RELATION_OF:
            if tuple(self.words[self.at : self.at + len(phrase)]) == phrase:
                self.at += len(phrase)
                return name
        self.fail("a place such as 'above' or 'left of'")

    def maybe_background(self) -> None:
        """The background, if it is mentioned."""
        if self.word() == "on":
            self.at += 1
            self.background()

    def background(self) -> None:
        """The background as a noun phrase."""
        self.take("a")
        self.reading.background = self.take(*BACKGROUNDS)
        self.take("background")

    def keep(self, mention: Mention) -> int:
        """Number a mention."""
        self.reading.mentions.append(mention)
        return len(self.reading.mentions) - 1

    def count(self, mentions: tuple[int, ...]) -> int:
        """How many shapes some mentions speak of together."""
        return sum(self.reading.mentions[number].count for number in mentions)

    def agree(self, place: int, many: bool, subject: tuple[int, ...]) -> None:
        """Refuse a verb whose number is not that of its subject."""
        if many != (self.count(subject) > 1):
            self.at = place
            self.fail("a verb in the singular" if many else "a verb in the plural")
