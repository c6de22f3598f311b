"""A style: how a model's finished sentences are written for one who writes them in another way.

"photo of a dog", "dog sitting on couch", "A DOG": what is the same in all captions of a person need
not be learnt by the weights, which would say other things too by then. It is a few rules on words
that are said already, and a file of its own in the model's folder (docs/decisions/054-style.md).
How they are found: `find_style.py`.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from naic.errors import CheckpointError, DataError
from naic.files import STYLE, parse_json
from naic.text.neutral import Piece, articles
from naic.text.tokeniser import tokenise
from naic.text.vocabulary import harmless, spell

Case = Literal["lower", "sentence", "title", "words", "upper"]
CASES: tuple[Case, ...] = get_args(Case)
# Written small inside "A Dog on the Couch".
SMALL = frozenset(
    (
        *("a", "an", "and", "as", "at", "but", "by", "for", "from", "in", "into", "nor", "of"),
        *("off", "on", "onto", "or", "over", "per", "the", "to", "up", "via", "with"),
    )
)
MARKS = ",.;:!?…"  # what is joined to the word before it
MOST_SIGNS, MOST_RULES, MOST_LETTERS = 30, 500, 50  # a stranger's file must not fill the screen
_MOST_SAID_FOR = 5  # words in the place of one
_MOST_TEXT = 200_000  # characters of a file
_FORMAT = "naic-style-1"
_HINT = "Use the file as it was made, or remove it: captions are then the model's own."
_FIRST = re.compile(r"(?<!\S)([^\w\s]*)(\w)(\S*)")  # a word with its first letter
_MARK = re.compile(rf"[{MARKS}]*")


def signs(text: str) -> list[str]:
    """The words of a text as they are written, and the marks after them: "photo", ":", "a"."""
    found: list[str] = []
    for word in text.split():
        bare = word.rstrip(MARKS)
        found += filter(None, (bare, word[len(bare) :]))
    return found


def joined(parts: Iterable[str]) -> str:
    """Signs as a text again: marks stand right after the word before them."""
    text = ""
    for sign in parts:
        text += sign if not text or _MARK.fullmatch(sign) else f" {sign}"
    return text


@dataclass(frozen=True, slots=True)
class Style:
    """What is done to a sentence.

    In this order: words are left out and replaced; a fixed beginning and end are put around them;
    letters are made large; the text is closed.

    Attributes:
        before: what stands before every sentence, as `signs`: ("photo", "of").
        after: what stands after it: (",", "indoors").
        without: words of the model that are left out.
        instead: words of the model, each with the words that are said in its place.
        case: "lower": as the model writes; "sentence": the first letter is large; "title": that
            of all words but those of `SMALL`; "words": of all words; "upper": all letters.
        end: the mark that closes the text.
    """

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    instead: tuple[tuple[str, tuple[str, ...]], ...] = ()
    case: Case = "lower"
    end: str = ""
    _table: dict[str, tuple[str, ...]] = field(init=False, repr=False, compare=False)
    _begin: list[str] = field(init=False, repr=False, compare=False)
    _close: list[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if why := self._wrong():
            raise DataError(STYLE, why, "Give single words, without signs that steer a terminal.")
        table = dict.fromkeys(self.without, ()) | dict(self.instead)
        object.__setattr__(self, "_table", table)
        object.__setattr__(self, "_begin", tokenise(joined(self.before)))
        object.__setattr__(self, "_close", tokenise(joined(self.after)))

    def _wrong(self) -> str | None:
        """What cannot be in it."""
        keys = [*self.without, *(word for word, _ in self.instead)]
        said = [*keys, *(word for _, words in self.instead for word in words)]
        bad = [word for word in (*self.before, *self.after, *said) if not is_word(word)]
        if bad := bad or [word for word in said if _MARK.fullmatch(word)]:
            return f"{bad[0][: MOST_LETTERS + 1]!r} is no single word of plain signs"
        if max(len(self.before), len(self.after)) > MOST_SIGNS or len(keys) > MOST_RULES:
            return f"it has more than {MOST_SIGNS} words around a sentence or {MOST_RULES} rules"
        if len(set(keys)) < len(keys):
            return "a word is left out or replaced twice"
        if any(not 0 < len(words) <= _MOST_SAID_FOR for _, words in self.instead):
            return f"a word is replaced by none, or by more than {_MOST_SAID_FOR}"
        if self.case not in CASES:
            return f"its case is {str(self.case)[:9]!r}, not one of {', '.join(CASES)}"
        if len(self.end) > 3 or not _MARK.fullmatch(self.end):
            return f"its end is {self.end[:9]!r}, not up to three of {MARKS}"
        return None

    @property
    def puts_in(self) -> frozenset[str]:
        """The words that it brings into a sentence."""
        said = (word for _, words in self.instead for word in words)
        return frozenset((*self._begin, *self._close, *said))

    def pieces(self, words: Sequence[str], said: Sequence[Piece] | None = None) -> list[Piece]:
        """What is left of a sentence between the fixed beginning and end, and of which words.

        A word that is left out is in no piece; nor is a beginning or an end that the model says by
        itself, since `spelled` puts it there.

        Args:
            words: of the sentence.
            said: what they were made into before, as by `neutral`; None: nothing.
        """
        if said is None:
            said = [Piece((word,), place, place + 1) for place, word in enumerate(words)]
        flat = [word for piece in said for word in piece.words]
        begin, close = len(self._begin), len(flat) - len(self._close)
        first = begin if flat[:begin] == self._begin else 0
        last = close if flat[max(close, 0) :] == self._close else len(flat)
        if not self._table and (first, last) == (0, len(flat)):
            return list(said)
        found, place = [], 0
        for piece in said:
            own = [word for at, word in enumerate(piece.words, place) if first <= at < last]
            place += len(piece.words)
            if new := tuple(kept for word in own for kept in self._table.get(word, (word,))):
                found.append(piece._replace(words=new))
        return list(articles(found, words))

    def spelled(self, text: str) -> str:
        """The text of such pieces with the fixed beginning and end, in its letters, closed."""
        if not text:
            return ""
        whole = _in_case(joined((*self.before, text, *self.after)), self.case)
        return whole if whole.endswith(self.end) else whole + self.end

    def text(self, words: Sequence[str]) -> str:
        """A sentence in this style."""
        return self.spelled(spell([word for piece in self.pieces(words) for word in piece.words]))

    def describe(self) -> str:
        """In a few words for people: '"photo of" first, without a, the'."""
        parts = [f'"{joined(self.before)}" first'] if self.before else []
        parts += [f"without {', '.join(self.without)}"] if self.without else []
        parts += [f"{' '.join(words)} for {word}" for word, words in self.instead]
        parts += {
            "lower": [],
            "sentence": ["with a capital"],
            "title": ["As in a Title"],
            "words": ["Each Word Large"],
            "upper": ["ALL CAPITALS"],
        }[self.case]
        last = joined((*self.after, self.end)) if self.end else joined(self.after)
        parts += [f'"{last}" last'] if last else []
        return ", ".join(parts) or "as the model writes"

    def as_json(self) -> str:
        """The content of the file."""
        content = {
            "format": _FORMAT,
            **{name: getattr(self, name) for name in ("before", "after", "without")},
            "instead": dict(self.instead),
            "case": self.case,
            "end": self.end,
        }
        return json.dumps(content)


def is_word(word: str) -> bool:
    """Whether it can stand in a style: short, without space, and harmless to a terminal."""
    plain = 0 < len(word) <= MOST_LETTERS and harmless(word)
    return plain and not any(map(str.isspace, word))


def _in_case(text: str, case: Case) -> str:
    if case == "lower":
        return text
    if case == "upper":
        return text.upper()
    if case == "sentence":
        return _FIRST.sub(_large, text, count=1)
    small = SMALL if case == "title" else frozenset[str]()
    return _FIRST.sub(lambda own: own[0] if own.start() and own[0] in small else _large(own), text)


def _large(word: re.Match[str]) -> str:
    return f"{word[1]}{word[2].upper()}{word[3]}"


def parse_style(text: str, where: str) -> Style:
    """The style that a text holds.

    Raises:
        CheckpointError: it holds none; `where` it stands is named.
    """
    try:
        return _parse(text, where)
    except DataError as error:
        raise CheckpointError(where, error.why, _HINT) from error


def _parse(text: str, where: str) -> Style:
    if len(text) > _MOST_TEXT:
        raise DataError(where, f"has more than {_MOST_TEXT:,} characters")
    content = parse_json(text, where)
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise DataError(where, f"is no style of the format {_FORMAT}")
    keys = {"format", "before", "after", "without", "instead", "case", "end"}
    instead, end = content.get("instead"), content.get("end")
    if content.keys() != keys or not isinstance(instead, dict) or not isinstance(end, str):
        raise DataError(where, f"is not made of {', '.join(sorted(keys))}")
    before, after, without = (_words(content[name]) for name in ("before", "after", "without"))
    pairs = tuple((word, _words(said)) for word, said in instead.items())
    return Style(before, after, without, pairs, content["case"], end)


def _words(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise DataError(STYLE, f"{str(value)[:MOST_LETTERS]!r} is no list of words")
    return tuple(value)


def read_style(folder: Path) -> Style | None:
    """The style in a model's folder; None: there is none."""
    path = folder / STYLE
    if not path.exists():
        return None
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(_MOST_TEXT + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(str(path), f"cannot be read ({error})", _HINT) from error
    return parse_style(text, str(path))


def style_file(folder: Path) -> dict[str, bytes]:
    """The style in a model's folder as a file for another one with the same words, if it is there.

    Raises:
        CheckpointError: it is damaged.
    """
    found = read_style(folder)
    return {} if found is None else {STYLE: f"{found.as_json()}\n".encode()}
