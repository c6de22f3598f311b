"""Made-up captions and references for METEOR: near each other, odd, long, and full of choices."""

import gzip
import random
from collections.abc import Mapping, Sequence
from itertools import pairwise

from naic.metrics.meteor.data import Files, read_lexicon

# Stems, synonyms and paraphrases of one another, and function words.
_WORDS = """
a a a the the an of of on on in in at to to and with near next by from over into for is are it its
his her their there two one some other front top back side beside behind large big small little
dog dogs hound puppy cat cats kitten run runs running ran street road couch sofa sits sitting sat
seated man men person people woman women lady child children kid kids boy girl photo photograph
image picture bike bicycle motorcycle car automobile vehicle train plane airplane aircraft boat ship
stand stands standing stood walk walks walking ride rides riding rode hold holds holding held look
looks looking eat eats eating food meal plate dish table desk chair bench tree trees grass field
meadow beach shore ocean sea water wave waves sky clouds cloudy building buildings house home room
kitchen bathroom bedroom bed lying laying lays red blue green white black yellow brown colored
colorful several many group bunch crowd couple pair of lot of lots number of close up down through
across along middle center edge corner full filled covered topped made up out playing plays player
players game baseball tennis ball bat racket frisbee catch catching caught throw throwing jump
jumping skateboard surfboard snow ski skis skiing skier mountain hill slope horse horses cow cows
sheep elephant elephants giraffe giraffes zebra zebras bird birds flying flies fly kite umbrella
phone cell laptop computer screen keyboard remote control television tv clock tower sign stop light
traffic bus truck parked driving drives drive station stopped waiting waits wait prepares preparing
getting ready about take taking takes took shot talking speaks happy smiling smile young old older
elderly toddler baby wearing wears dressed suit tie shirt hat cap glasses while as who that which
"""
_ODD = """
it's dog's dogs' t-shirt t-shirts twenty-one o'clock 'n' 12 12th 1,000 3.5 10:30 u.s. st. mr. no.
pp. e.g. p.m. a.m. ... .. . ! ? ; : ( ) " `` '' ' -- - – — & % $ # @ * / \\ + = < > [ ] { } _ ~ ^ |
|| ||| été naïve café señor Ärger Straße кошка 日本 🐕 🐕‍🦺 ½ “quoted” ‘single’ x\u00a0y
x\u2003y x\ty x\u000by Dr. Mr. No. 5 A.B.C. i.e. U.S.A. don't can't i'm we're
p0 nn aa bb dOTMULTI skies dying news herring yoyo sayyed y yy 'tis rock'n'roll
90's 5's s's 's 's' ''s sses ied ies
"""
WORDS = _WORDS.split()
# Cut at spaces and line ends alone: some have other signs within that look like spaces.
ODD = [word for line in _ODD.split("\n") for word in line.split(" ") if word]


ENDINGS = ("s", "es", "ed", "ing", "er", "ly", "'s", "ness", "ful")
Partners = Mapping[str, Sequence[str]]


def forms(words: Sequence[str]) -> dict[str, list[str]]:
    """Words and what looks like forms of them, each the other's partner."""
    found: dict[str, list[str]] = {}
    for word in words:
        for ending in ENDINGS:
            found.setdefault(word, []).append(word + ending)
            found.setdefault(word + ending, []).append(word)
    return found


def drawn(chance: random.Random, pool: Sequence[str], longest: int) -> list[str]:
    """Words and runs of words by chance, with now and then an odd one."""
    units = chance.choices(pool, k=chance.randint(1, longest))
    for _ in range(chance.choice((0, 0, 0, 1, 3))):
        units.insert(chance.randint(0, len(units)), chance.choice(ODD))
    return units


def changed(
    chance: random.Random, units: Sequence[str], pool: Sequence[str], partners: Partners
) -> list[str]:
    """Some replaced by their partners, some moved, doubled, dropped or replaced by any other."""
    rate = chance.choice((0.0, 0.3, 0.8))
    own = [
        chance.choice(partners[unit]) if unit in partners and chance.random() < rate else unit
        for unit in units
    ]
    for _ in range(chance.randint(0, 4)):
        place = chance.randrange(len(own) + 1)
        match chance.randrange(5):
            case 0:
                own.insert(place, chance.choice(pool))
            case 1:
                own[place : place + chance.randint(1, 3)] = []
            case 2:
                own[place : place + 1] = [chance.choice(pool)]
            case 3:
                own = own[place:] + own[:place]
            case _:
                own[place:place] = own[place : place + 2]
    return own


def image(
    chance: random.Random, pools: Sequence[Sequence[str]], partners: Partners
) -> tuple[str, list[str]]:
    """A caption and its references."""
    pool = chance.choice(pools)
    longest = chance.choice((3, 8, 12, 12, 20))
    units = drawn(chance, pool, longest)
    references = []
    for _ in range(chance.choice((1, 1, 2, 5))):
        near = chance.random() < 0.8
        theirs = changed(chance, units, pool, partners) if near else drawn(chance, pool, longest)
        references.append(" ".join(theirs))
    caption = " ".join(units) if chance.random() < 0.99 else ""
    if chance.random() < 0.01:
        references[0] = ""
    return caption, references


def images(
    seed: int, pairs: int, partners: dict[str, list[str]]
) -> tuple[list[str], list[list[str]]]:
    """Captions and their references, with at least so many pairs of the two.

    Args:
        seed: another one, other images.
        pairs: how many at least.
        partners: words and runs of words, and what can stand in their place.
    """
    chance = random.Random(seed)
    every = forms(WORDS) | partners
    known = sorted(partners)
    pools = (WORDS, WORDS, WORDS[:25], [*WORDS, *WORDS, *known], known, known)
    captions: list[str] = []
    references: list[list[str]] = []
    made = 0
    while made < pairs:
        caption, own = image(chance, pools, every)
        captions.append(caption)
        references.append(own)
        made += len(own)
    return captions, references


def installed_partners(files: Files, *, every: int) -> dict[str, list[str]]:
    """Paraphrases and synonyms out of the installed tables: one of so many entries."""
    found: dict[str, list[str]] = {}

    def pair(one: str, other: str) -> None:
        found.setdefault(one, []).append(other)
        found.setdefault(other, []).append(one)

    with gzip.open(files.paraphrases, "rt", encoding="utf-8") as table:
        lines = (line.rstrip("\n") for line in table)
        for number, (_, phrase, paraphrase) in enumerate(zip(lines, lines, lines, strict=True)):
            if number % every == 0:
                pair(phrase, paraphrase)
    meanings: dict[str, list[str]] = {}
    for word, numbers in read_lexicon(files.jar).synsets.items():
        for meaning in numbers.split():
            meanings.setdefault(meaning, []).append(word)
    for words in list(meanings.values())[:: max(1, every // 100)]:
        for one, other in pairwise(words):
            pair(one, other)
    return found
