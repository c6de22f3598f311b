"""A scene graph of a caption by a few rules: its objects, their attributes, how they are related.

No parser and no list of nouns: closed-class words cut a caption in pieces, and a piece of content
words is a noun phrase, of which the last word is the object and those before are its attributes.
What stands between two objects relates them: prepositions, participles and a few verbs.

    a [small] dog <is sitting on> the [red] couch   small(dog), red(couch), on(dog, couch), sitting…

Captions are ids on the device already while a network learns, so the rules are operations on whole
tensors: nothing waits for the host, and shapes do not depend on what is said.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from naic.models.eta import FUNCTION
from naic.text.vocabulary import PAD, SPECIAL, Vocabulary

BREAK, RELATION, CONTENT, PARTICIPLE = range(4)  # what a word can be, by its spelling alone
# fmt: off
RELATING = frozenset((
    "above", "across", "against", "along", "around", "at", "behind", "below", "beneath", "beside",
    "between", "by", "containing", "down", "during", "for", "from", "front", "has", "have", "in",
    "inside", "into", "left", "near", "next", "of", "off", "on", "onto", "out", "outside", "over",
    "right", "through", "to", "top", "towards", "under", "up", "with", "within",
    "carries", "eats", "flies", "hangs", "holds", "jumps", "leans", "lies", "looks", "plays",
    "rests", "rides", "runs", "shows", "sits", "stands", "swings", "throws", "uses", "walks",
    "watches", "wears",
))
BREAKING = (FUNCTION - RELATING) | {
    "am", "how", "i", "if", "just", "my", "no", "one", "our", "so", "than", "then", "three", "two",
    "we", "when", "where", "you", "your",
}
# They look like participles and name things or looks.
NO_PARTICIPLES = frozenset((
    "bed", "building", "ceiling", "clothing", "evening", "fried", "hundred", "king", "morning",
    "opening", "painting", "railing", "red", "ring", "seed", "shed", "sled", "speed", "spring",
    "string", "thing", "weed", "wing",
))
# fmt: on


class Scene(NamedTuple):
    """What captions say, word by word, (B, T) ids for the T words of an image's captions.

    PAD stands where a word is none of the kind.

    Attributes:
        objects: words that are objects.
        attributes: words that are attributes.
        bearers: at an attribute the object that has it.
        relations: words that relate two objects.
        subjects: at a relation the object before it.
        targets: at a relation the object after it.
    """

    objects: Tensor
    attributes: Tensor
    bearers: Tensor
    relations: Tensor
    subjects: Tensor
    targets: Tensor


def kind_of(word: str) -> int:
    """What a word can be; `<bos>` and other special ones are breaks."""
    if word in SPECIAL or word in BREAKING:
        return BREAK
    if word in RELATING:
        return RELATION
    if len(word) > 4 and word.endswith(("ing", "ed")) and word not in NO_PARTICIPLES:
        return PARTICIPLE
    return CONTENT


def kinds(vocabulary: Vocabulary) -> list[int]:
    """The kind of each word."""
    return [kind_of(word) for word in vocabulary.words]


def most_frequent(vocabulary: Vocabulary, wanted: tuple[int, ...], count: int) -> list[int]:
    """The most frequent words of these kinds; where there are too few, the same again."""
    ids = range(len(SPECIAL), len(vocabulary))
    found = [i for i in ids if kind_of(vocabulary.word(i)) in wanted] or list(ids)
    return [found[place % len(found)] for place in range(count)] if found else []


def parse(words: Tensor, kind: Tensor) -> Scene:
    """The scenes of images' captions (B, C, N), by the kind (V,) of each word."""
    kinds = kind[words]  # (B, C, N)
    edge = torch.full_like(kinds[..., :1], BREAK)
    before = torch.cat((edge, kinds[..., :-1]), -1)
    after = torch.cat((kinds[..., 1:], edge), -1)
    participle, content = kinds == PARTICIPLE, kinds == CONTENT
    # "a smiling man", but "a man smiling" and "a man is riding a horse"
    looks = participle & (before == BREAK) & (after == CONTENT)
    attribute = looks | (content & (after == CONTENT))
    object_ = content & (after != CONTENT)
    relation = (kinds == RELATION) | (participle & ~looks)
    last, following = _neighbours(words, object_)
    linked = relation & (last != PAD) & (following != PAD)
    parts = (
        words.where(object_, PAD),
        words.where(attribute, PAD),
        following.where(attribute, PAD),
        words.where(linked, PAD),
        last.where(linked, PAD),
        following.where(linked, PAD),
    )
    return Scene(*(part.flatten(1) for part in parts))


def _neighbours(words: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """At each place of (B, C, N) the last chosen word up to it, and the first from it on."""
    length = words.shape[-1]
    places = torch.arange(length, device=words.device).expand_as(words)
    last = places.where(chosen, -1).cummax(-1).values
    next_ = places.where(chosen, length).flip(-1).cummin(-1).values.flip(-1)
    before = words.gather(-1, last.clamp(min=0)).where(last >= 0, PAD)
    after = words.gather(-1, next_.clamp(max=length - 1)).where(next_ < length, PAD)
    return before, after
