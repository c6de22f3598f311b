"""Which style people write in: found from what a model says of photos, and what the people say.

Captions of people differ from a model's in two ways: in how they are written, and in what they say.
Only the first is a style. So nothing becomes a rule that could be a correction: a noun in the place
of another is none, however often it comes. A rule is kept if it brings the model's sentences nearer
to the captions of enough photos, and takes them away from those of few others.
"""

import difflib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, TypeVar

from naic.text.style import CASES, MOST_SIGNS, SMALL, Case, Style, is_word, joined, signs
from naic.text.tokeniser import tokenise
from naic.text.vocabulary import BAD_ENDINGS

LEAST = 8  # photos that a rule must bring nearer
SHARE = 0.9  # of the photos that it changes, and of those that are written so
MOST_PHOTOS = 500  # that are looked at, of more every second, third, ...
_MOST_OF = 0.8  # of all captions have the beginning or the end, where some have it misspelled
_FEW = 2  # photos where "is" is left out by people who leave out "a"
_AGREES = 0.5  # of a caption's words, which the model says too
_ALIKE = 0.75  # colour and color
_LONG, _LETTERS = 100, 2000  # signs and letters of a caption that are looked at
_FUNCTION = frozenset((*BAD_ENDINGS, "was", "were", "there"))
_WITH_IT = {"a": ("an", "the"), "is": ("are", "was", "were")}  # as rare ones go, too
_END = re.compile(r"(?<=\S)\s*([.!?…]{1,3})$")
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
Seen = TypeVar("Seen", bound=Hashable)


@dataclass(frozen=True, slots=True)
class FoundStyle:
    """What was found.

    Attributes:
        style: the rules; None: there are none.
        explained: the share of photos one of whose captions is, to the letter, the model's sentence
            in this style; without one, the model's sentence.
        around: where the style is no more than a fixed text before and after the model's sentence,
            these two, as `--prefix` and `--suffix` of `naic caption` take them.
    """

    style: Style | None
    explained: float
    around: tuple[str, str] | None


class _Photo(NamedTuple):
    """The words that the model says of a photo, and the captions that people gave it."""

    said: tuple[str, ...]
    wanted: tuple[str, ...]


def find_style(said: Sequence[str], wanted: Sequence[str | Sequence[str]]) -> FoundStyle:
    """The style of people's captions, beside what a model says of the same photos.

    Args:
        said: of each photo what the model says, without any style.
        wanted: of each photo its caption as it was written, or its captions.
    """
    every = []
    for text, own in zip(said, wanted, strict=True):
        lines = [own] if isinstance(own, str) else own
        captions = [" ".join(line[:_LETTERS].split()) for line in lines]
        if any(captions):
            every.append(_Photo(tuple(tokenise(text)), tuple(filter(None, captions))))
    photos = every[:: len(every) // MOST_PHOTOS + 1]
    style = Style(case=_case(photos), end=_most(photos, _end_of) or "")
    around = (_with_beginning, _with_end)
    for find in (*around, _left_out, _replaced, *around):  # without "a" a beginning shows better
        style = find(style, photos)
    small = replace(style, case="lower")  # of "TOK, a dog" the first letter is large anyway
    style = small if small.spelled("o") == style.spelled("o") else style
    exact = sum(style.text(photo.said) in photo.wanted for photo in every)
    found = None if style == Style() else style
    explained = exact / len(every) if every else 0.0
    return FoundStyle(found, explained, None if found is None else _around(found))


def take_off(style: Style, caption: str) -> str:
    """A caption without the fixed beginning and end, for a model to learn what is between them.

    What is left is as it was written. Words that the style leaves out cannot be put back.
    """
    text = " ".join(caption.split()).removesuffix(style.end).rstrip()
    own, bare = signs(text), signs(_END.sub("", text))
    begin, close = ([sign.lower() for sign in part] for part in (style.before, style.after))
    first = len(begin) if [sign.lower() for sign in own[: len(begin)]] == begin else 0
    last = len(bare) - len(close)
    ends = bool(close) and last >= first and [sign.lower() for sign in bare[last:]] == close
    return joined(bare[first:last] if ends else own[first:]) if first or ends else text


def _around(style: Style) -> tuple[str, str] | None:
    """The text before and after, if there is nothing else to the style."""
    body = "\u0561"  # a letter that has a large form, of an alphabet that no model writes
    whole = style.spelled(body)
    if style.without or style.instead or whole.count(body) != 1 or whole == body:
        return None
    before, after = whole.split(body)
    return before, after


def _most(
    photos: Sequence[_Photo], seen: Callable[[str], Seen | None], share: float = SHARE
) -> Seen | None:
    """What is seen in the captions of nearly all photos, and of enough."""
    counts = defaultdict[Seen | None, float](float)
    for photo in photos:
        for caption in photo.wanted:
            counts[seen(caption)] += 1 / len(photo.wanted)
    value, count = max(counts.items(), key=lambda pair: pair[1], default=(None, 0.0))
    return value if count > max(LEAST, share * len(photos)) - 1e-6 else None


def _end_of(caption: str) -> str:
    found = _END.search(caption)
    return "" if found is None else found[1]


def _case(photos: Sequence[_Photo]) -> Case:
    """How large the letters are in nearly all captions."""
    for case in reversed(CASES[1:]):  # what has more large letters comes first
        if _most(photos, partial(_fits, case)) == case:
            return case
    return "lower"


def _fits(case: Case, caption: str) -> Case | None:
    """The case, if the caption may be written in it."""
    first, *others = _WORD.findall(caption) or [""]
    large = [word for word in others if word[0].isupper()]
    fits = {
        "upper": caption.isupper(),
        "words": large == others,
        "title": large == [word for word in others if word.lower() not in SMALL],
        "sentence": True,
    }
    return case if first[:1].isupper() and fits[case] else None


def _with_beginning(style: Style, photos: Sequence[_Photo]) -> Style:
    """With the beginning of most captions by which the sentences come nearest to them."""
    own = (replace(style, before=part) for part in _parts(style, photos, 1))
    return _nearest(style, own, photos)


def _with_end(style: Style, photos: Sequence[_Photo]) -> Style:
    own = (replace(style, after=part) for part in _parts(style, photos, -1))
    return _nearest(style, own, photos)


def _nearest(style: Style, others: Iterable[Style], photos: Sequence[_Photo]) -> Style:
    """That of the others which brings the sentences nearest, of equals the first; or the style."""
    best, most = style, 0
    for other in others:
        if (nearer := _nearer(style, other, photos)) > most:
            best, most = other, nearer
    return best


def _parts(style: Style, photos: Sequence[_Photo], way: int) -> Iterator[tuple[str, ...]]:
    """What most captions begin with (way 1) or end with (-1): a sign, two signs, and so on."""
    small = [photo._replace(wanted=tuple(map(str.lower, photo.wanted))) for photo in photos]
    for length in range(1, MOST_SIGNS + 1):
        seen = partial(_part, length * way)
        lowered = _most(small, seen, _MOST_OF)
        if lowered is None or not all(map(is_word, lowered)):
            return
        written = Counter(filter(None, (seen(line) for photo in photos for line in photo.wanted)))
        like = [own for own, _ in written.most_common() if joined(own).lower() == joined(lowered)]
        own = like[0] if like and all(map(is_word, like[0])) else lowered
        both = (replace(style, before=part).spelled("o") for part in (lowered, own))
        yield lowered if len({*both}) == 1 else own


def _part(length: int, caption: str) -> tuple[str, ...] | None:
    """So many of the first signs, or below 0 of the last; None: there are no others."""
    own = signs(_END.sub("", caption))
    if len(own) <= abs(length):
        return None
    return tuple(own[:length] if length > 0 else own[length:])


def _nearer(style: Style, new: Style, photos: Sequence[_Photo], least: int = LEAST) -> int:
    """By how many words the sentences come nearer; 0: by none, or there are too few of them."""
    offs = [_off(new, photo) - _off(style, photo) for photo in photos]
    better, worse = (sum(off < 0 for off in offs), sum(off > 0 for off in offs))
    return -sum(offs) if better >= max(least, SHARE * (better + worse)) else 0


def _off(style: Style, photo: _Photo) -> int:
    """How many words are another in the model's sentence than in the nearest caption."""
    own = signs(style.text(photo.said).lower())[:_LONG]
    return min(_edits(own, signs(caption.lower())[:_LONG]) for caption in photo.wanted)


def _edits(one: Sequence[str], other: Sequence[str]) -> int:
    """Levenshtein's distance, in words."""
    costs = list(range(len(other) + 1))
    for place, word in enumerate(one, 1):
        before, costs[0] = costs[0], place
        for at, against in enumerate(other, 1):
            cost = min(costs[at] + 1, costs[at - 1] + 1, before + (word != against))
            before, costs[at] = costs[at], cost
    return costs[-1]


class _Compared(NamedTuple):
    """The model's sentence beside a caption that agrees with the most of it.

    Attributes:
        kept: words that both have in the same place.
        changed: what the model says where they differ, and what people say there.
    """

    kept: set[str]
    changed: list[tuple[list[str], list[str]]]


def _compared(style: Style, photos: Sequence[_Photo]) -> Iterator[_Compared]:
    """Of each photo whose nearest caption agrees with the sentence in this style."""
    for photo in photos:
        own = [word for piece in style.pieces(photo.said) for word in piece.words]
        theirs = [tokenise(take_off(style, caption)) for caption in photo.wanted]
        nearest = min(theirs, key=lambda words: _edits(own, words))
        matcher = difflib.SequenceMatcher(None, own, nearest, autojunk=False)
        kept, changed = [], []
        for what, i, end, j, last in matcher.get_opcodes():
            if what == "equal":
                kept += own[i:end]
            else:
                changed.append((own[i:end], nearest[j:last]))
        if len(kept) >= max(1, _AGREES * len(nearest)):
            yield _Compared(set(kept), changed)


def _left_out(style: Style, photos: Sequence[_Photo]) -> Style:
    """Without the words that people leave out where they say the same.

    A word of grammar may go with others, "is a"; any other only by itself: with "with a frisbee"
    goes something that is not there, and no way to write.
    """
    compared = list(_compared(style, photos))
    spoken = Counter(word for photo in photos for word in {*photo.said})
    lines = (take_off(style, line) for photo in photos for line in photo.wanted[:1])
    written = Counter(word for line in lines for word in {*tokenise(line)})
    gone, now = set[str](), {word for own in compared for run, _ in own.changed for word in run}
    while gone != now:
        gone, pro, contra = now, Counter[str](), Counter[str]()
        for own in compared:
            runs = [run for run, there in own.changed if not there and gone.issuperset(run)]
            alone = {w for run in runs for w in run if w in _FUNCTION or len(run) == 1}
            pro.update(alone - own.kept)
            contra.update(own.kept)
        now = {w for w in gone if pro[w] >= max(_FEW, SHARE * (pro[w] + contra[w]))}
        now = {w for w in now if written[w] <= (1 - SHARE) * spoken[w]}
    found = style
    for word in sorted(gone, key=lambda word: (-pro[word], word)):
        found = _without(found, word, photos, LEAST)
    if _FUNCTION.isdisjoint(found.without):
        return found
    unwritten = {word for word in _FUNCTION if written[word] <= len(photos) / 50}
    for word in sorted(gone & unwritten):
        found = _without(found, word, photos, _FEW)
    like = [more for word in found.without for more in _WITH_IT.get(word, ()) if more in unwritten]
    return replace(found, without=tuple(dict.fromkeys((*found.without, *like))))


def _without(style: Style, word: str, photos: Sequence[_Photo], least: int) -> Style:
    """Without a word too, if that is right for at least so many photos."""
    if word in style.without or not is_word(word):
        return style
    new = replace(style, without=(*style.without, word))
    return new if _nearer(style, new, photos, least) > 0 else style


def _replaced(style: Style, photos: Sequence[_Photo]) -> Style:
    """With the words that people write in another way: "colour", or "the" for each "a".

    Of two words that are not spelled alike nobody can tell by counting whether they mean the same.
    """
    pairs, contra = Counter[tuple[str, str]](), Counter[str]()
    for own in _compared(style, photos):
        swapped = {
            pair
            for run, there in own.changed
            if len(run) == len(there)
            for pair in zip(run, there, strict=True)
        }
        pairs.update(pair for pair in swapped if pair[0] not in own.kept)
        contra.update(own.kept | {word for word, _ in swapped})
    found = style
    for (word, other), count in sorted(pairs.items()):
        known = {*found.without, *(word for word, _ in found.instead)}
        supported = count >= max(LEAST, SHARE * contra[word]) and word not in known
        if supported and _may_stand_for(word, other, photos):
            both = ("a", "an") if word == "a" and "an" not in known else (word,)
            more = [(own, (other,)) for own in both]
            new = replace(found, instead=(*found.instead, *more))
            found = new if _nearer(found, new, photos) > 0 else found
    return found


def _may_stand_for(word: str, other: str, photos: Sequence[_Photo]) -> bool:
    """Whether one is another way to write the other; what the model itself says is not."""
    if not (is_word(word) and is_word(other)):
        return False
    if word in _FUNCTION:
        return True
    alike = difflib.SequenceMatcher(None, word, other, autojunk=False).ratio() >= _ALIKE
    return alike and word[0] == other[0] and all(other not in photo.said for photo in photos)
