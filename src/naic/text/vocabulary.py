"""The words a model can say, and the way between sentences and rows of ids."""

import hashlib
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Self

from naic.errors import VocabularyError
from naic.files import write_atomically
from naic.text.tokeniser import SPLITS, tokenise

PERIOD, BOS, UNK, PAD = range(4)
SPECIAL = (".", "<bos>", "<unk>", "<pad>")
NEVER = (BOS, UNK, PAD)  # in the vocabulary, and never said
# Function words that practically never end a caption written by a person: used at least 1,000 times
# in COCO's training captions, and fewer than 1 use in 100 is at the end. `benchmarks/endings.py`
# measures it. A fixed list: shares measured with different lists could not be compared.
# fmt: off
BAD_ENDINGS = (
    "a", "across", "against", "an", "and", "are", "as", "at", "being", "beside", "during", "each",
    "for", "from", "has", "have", "his", "in", "into", "is", "its", "many", "near", "next", "of",
    "on", "onto", "or", "several", "some", "that", "the", "their", "this", "through", "to",
    "towards", "under", "very", "while", "who", "with",
)
# fmt: on
MAX_IDS = 16_383  # CIDEr packs four ids of 14 bits into one integer

_FORMAT = "naic-vocabulary"
_VERSION = 1
_LETTERS = re.compile("[a-z ]*")
_HALVES = frozenset(SPLITS.values())
_CLITICS = frozenset(["'s", "'m", "'d", "'re", "'ve", "'ll", "n't"])
# Control characters, halves of characters, ends of lines and paragraphs; then what turns the
# direction of writing.
_STEERING = frozenset({"Cc", "Cs", "Zl", "Zp"})
_TURNING = frozenset(map(chr, (0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))))
_BRACKETS = {"-lrb-": "(", "-rrb-": ")", "-lsb-": "[", "-rsb-": "]", "-lcb-": "{", "-rcb-": "}"}


@dataclass(frozen=True)
class Vocabulary:
    """An ordered list of words; a word's place in it is its id.

    The period comes first because it is the end marker: a row of zeros is a row of ends.

    Attributes:
        words: the four special tokens, then the ordinary words, most frequent first.
    """

    words: tuple[str, ...]
    _ids: dict[str, int] = field(init=False, repr=False, compare=False)
    _spoken: dict[int, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check(self.words, "vocabulary")
        object.__setattr__(self, "_ids", {word: i for i, word in enumerate(self.words)})
        spoken = dict(enumerate(self.words[len(SPECIAL) :], len(SPECIAL)))
        object.__setattr__(self, "_spoken", spoken)

    @classmethod
    def build(cls, captions: Iterable[str], *, more_than: int = 5) -> Self:
        """Take the words that occur more than `more_than` times, most frequent first."""
        counts: Counter[str] = Counter()
        for caption in captions:
            counts.update(tokenise(caption))
        for special in SPECIAL:
            del counts[special]  # a caption that spells out "<unk>" makes it no word
        kept = sorted((-n, word) for word, n in counts.items() if n > more_than and harmless(word))
        if len(kept) + len(SPECIAL) > MAX_IDS:
            enough = -kept[MAX_IDS - len(SPECIAL)][0]
            raise VocabularyError(
                "vocabulary",
                f"{len(kept):,} words occur more than {more_than} times, and with the special "
                f"tokens at most {MAX_IDS:,} ids fit 14 bits",
                f"Raise the threshold: more_than={enough} fits.",
            )
        return cls((*SPECIAL, *(word for _, word in kept)))

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._ids

    def id(self, word: str) -> int:
        """The id of a word, or of `<unk>` for a word that is not here."""
        return self._ids.get(word, UNK)

    def word(self, id: int) -> str:
        """The word with this id."""
        if not 0 <= id < len(self.words):
            why = f"the vocabulary has the ids 0 to {len(self.words) - 1}"
            hint = "Use the vocabulary that the model or the data was made with."
            raise VocabularyError(f"id {id}", why, hint)
        return self.words[id]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the word list: tables made for another list are refused by it."""
        return hashlib.sha256(json.dumps(self.words).encode()).hexdigest()

    def encode(self, caption: str | Sequence[str], length: int = 16) -> list[int]:
        """A caption, or its tokens, as exactly `length` ids.

        Up to length - 1 words get the period and then padding. A longer caption is cut and gets no
        period: a made-up end would teach the model to stop after "with a".
        """
        tokens = tokenise(caption) if isinstance(caption, str) else caption
        ids = [self._speakable(token) for token in tokens[:length]]
        if len(ids) < length:
            ids.append(PERIOD)
        return ids + [PAD] * (length - len(ids))

    def decode(self, ids: Iterable[int]) -> str:
        """Ids as a sentence: up to the first period, clitics joined to their words.

        For the ids of a caption of known words, tokenising the sentence gives its words again. The
        exceptions are tokens that depend on a sign which was dropped, such as "it." out of "it.,".
        """
        ids = [*ids]
        try:
            tokens = [self._spoken[i] for i in ids]
        except KeyError:  # a mark, or no id at all
            end = ids.index(PERIOD) if PERIOD in ids else len(ids)
            tokens = [self.word(i) for i in ids[:end] if i not in (BOS, PAD)]
        return spell(tokens)

    def save(self, path: Path) -> None:
        """Write the vocabulary as JSON; the file is either the old one or the whole new one."""
        write_atomically(path, self.as_json())

    def as_json(self) -> bytes:
        """What `save` writes."""
        text = json.dumps({"format": _FORMAT, "version": _VERSION, "words": self.words}, indent=0)
        return f"{text}\n".encode()

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a saved vocabulary; anything unexpected in it is an error that says what."""
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise _refuse(path, f"it cannot be read ({error.strerror})") from error
        except (ValueError, RecursionError) as error:
            raise _refuse(path, "it is not valid JSON") from error
        if not isinstance(data, dict) or data.get("format") != _FORMAT:
            raise _refuse(path, f'it has no "format": "{_FORMAT}"')
        if data.get("version") != _VERSION:
            raise _refuse(path, f"its version is {data.get('version')!r}, and {_VERSION} is known")
        if data.keys() != {"format", "version", "words"}:
            raise _refuse(path, f"its keys are {', '.join(sorted(data))}")
        words = data["words"]
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise _refuse(path, '"words" is not a list of strings')
        _check(tuple(words), str(path))
        return cls(tuple(words))

    def _speakable(self, token: str) -> int:
        """The id of a token in a text, where only the period may stand for itself."""
        i = self._ids.get(token, UNK)
        return UNK if i in (BOS, PAD) else i


def _refuse(where: object, why: str) -> VocabularyError:
    return VocabularyError(
        str(where), why, "Use the vocab.json that was saved with the model, or build a new one."
    )


def _check(words: tuple[str, ...], where: str) -> None:
    """Refuse a word list that ids could not be trusted with."""
    if words[: len(SPECIAL)] != SPECIAL:
        raise _refuse(where, f"the first words are not {' '.join(SPECIAL)}")
    if len(words) > MAX_IDS:
        raise _refuse(where, f"it has {len(words):,} words, and at most {MAX_IDS:,} fit 14 bits")
    if len(set(words)) != len(words):
        twice = next(word for word, n in Counter(words).items() if n > 1)
        raise _refuse(where, f"the word {twice!r} occurs twice")
    if "" in words:
        raise _refuse(where, "one of the words is empty")
    if harmful := [word for word in words if not harmless(word)]:
        raise _refuse(where, f"the word {harmful[0]!r} has signs that steer a terminal or a text")


def harmless(word: str) -> bool:
    """No control characters, line ends, halves of characters or changes of direction.

    A caption is printed and written to files; the words of a stranger's model must not do more
    than be read.
    """
    return not any(unicodedata.category(sign) in _STEERING or sign in _TURNING for sign in word)


def spell(tokens: list[str]) -> str:
    """Tokens as a sentence, clitics joined to their words."""
    plain = " ".join(tokens)
    if _LETTERS.fullmatch(plain) and _HALVES.isdisjoint(tokens):
        return plain  # nearly all captions: nothing is to be joined, and nothing can be taken apart
    spelled = [_spell(token) for token in tokens]
    readable = _join(tokens, spelled)
    # "5" and "1/2" side by side would become one fraction; two spaces keep them apart.
    for sentence in (readable, " ".join(spelled), "  ".join(spelled)):
        if tokenise(sentence) == tokens:
            return sentence
    return readable


@lru_cache(maxsize=2 * MAX_IDS)  # it is asked for each word of each caption
def _spell(token: str) -> str:
    """The token as one would write it: "AT&T", whose capitals are what keeps it together."""
    bracketed = token
    for name, sign in _BRACKETS.items():
        bracketed = bracketed.replace(name, sign)
    for spelling in (bracketed, token, token.capitalize(), token.upper()):
        if tokenise(spelling) == [token]:
            return spelling
    return token


def _join(tokens: list[str], spelled: list[str]) -> str:
    """A readable sentence: halves of one word are put together again."""
    sentence = ""
    for i, written in enumerate(spelled):
        before = tokens[i - 1] if i else ""
        clitic = written in _CLITICS or SPLITS.get(before) == written
        attached = clitic and tokenise(spelled[i - 1] + written) == tokens[i - 1 : i + 1]
        after_open = bool(i) and spelled[i - 1] in "([{"
        space = "" if not i or attached or after_open or written in ")]}" else " "
        sentence += space + written
    return sentence
