"""The Snowball stemmer for English (Porter2), as METEOR 1.5 has it.

Porter's algorithm at https://snowballstem.org/algorithms/english/stemmer.html in the form of 2006:
later versions know more exceptions, and would give other scores. A word is cut from its end in
steps; what may be cut depends on two regions, which begin behind the first and the second vowel
that is followed by another letter.
"""

VOWELS = frozenset("aeiouy")
NO_SHORT_END = VOWELS | frozenset("wxY")
BEFORE_LI = frozenset("cdeghkmnrt")
DOUBLES = ("bb", "dd", "ff", "gg", "mm", "nn", "pp", "rr", "tt")
# Words whose first region begins behind these letters.
LONG_STARTS = ("arsen", "commun", "gener")

WHOLE_WORDS = {
    **{"skis": "ski", "skies": "sky", "dying": "die", "lying": "lie", "tying": "tie"},
    **{"idly": "idl", "gently": "gentl", "ugly": "ugli", "early": "earli", "only": "onli"},
    **{"singly": "singl", "sky": "sky", "news": "news", "howe": "howe", "atlas": "atlas"},
    **{"cosmos": "cosmos", "bias": "bias", "andes": "andes"},
}
# Left as they are once a plural's ending is cut.
WHOLE_STEMS = frozenset(
    ["inning", "outing", "canning", "herring", "earring", "proceed", "exceed", "succeed"]
)
# Of each table the longest ending that fits counts, so they are in that order.
STEP_2 = {
    **{"ational": "ate", "iveness": "ive", "fulness": "ful", "ousness": "ous"},
    **{"ization": "ize", "lessli": "less", "biliti": "ble", "tional": "tion"},
    **{"fulli": "ful", "ousli": "ous", "entli": "ent", "aliti": "al", "iviti": "ive"},
    **{"alism": "al", "ation": "ate", "abli": "able", "alli": "al", "izer": "ize"},
    **{"ator": "ate", "anci": "ance", "enci": "ence", "bli": "ble", "ogi": "og", "li": ""},
}
STEP_3 = {
    **{"ational": "ate", "tional": "tion", "icate": "ic", "ative": "", "alize": "al"},
    **{"iciti": "ic", "ical": "ic", "ness": "", "ful": ""},
}
STEP_4 = (
    *("ement", "ance", "ence", "able", "ible", "ment", "ate", "ive", "ize", "iti", "ism"),
    *("ion", "ous", "ant", "ent", "ic", "al", "er"),
)


def stem(word: str) -> str:
    """The stem of a word in small letters, given as UTF-16 units as Java has them."""
    if word in WHOLE_WORDS:
        return WHOLE_WORDS[word]
    if len(word) < 3:
        return word
    word = _mark_consonant_y(word.removeprefix("'"))
    first, second = _regions(word)
    word = _plural(word)
    if word not in WHOLE_STEMS:
        word = _past(word, first)
        if len(word) > 2 and word[-1] in "yY" and word[-2] not in VOWELS:
            word = word[:-1] + "i"
        word = _step_2(word, first)
        word = _step_3(word, first, second)
        word = _step_4(word, second)
        word = _last_letter(word, first, second)
    return word.replace("Y", "y")


def _mark_consonant_y(word: str) -> str:
    """Write a y that is no vowel as Y: at the start, or behind a vowel."""
    if "y" not in word:
        return word
    letters = list(word)
    if letters[0] == "y":
        letters[0] = "Y"
    for place in range(1, len(letters)):
        if letters[place] == "y" and letters[place - 1] in VOWELS:
            letters[place] = "Y"
    return "".join(letters)


def _regions(word: str) -> tuple[int, int]:
    """Where the two regions begin; the word's length where there is none."""
    end = len(word)
    start = next((len(start) for start in LONG_STARTS if word.startswith(start)), None)
    first = _behind_vowel(word, 0) if start is None else start
    return first, _behind_vowel(word, first) if first < end else end


def _behind_vowel(word: str, start: int) -> int:
    """The place behind the first letter that is no vowel and follows a vowel, from `start` on."""
    vowel = next((i for i in range(start, len(word)) if word[i] in VOWELS), len(word))
    return next((i + 1 for i in range(vowel, len(word)) if word[i] not in VOWELS), len(word))


def _has_vowel(text: str) -> bool:
    return any(letter in VOWELS for letter in text)


def _ends_short(word: str) -> bool:
    """Whether it ends in a short syllable: vowel, consonant; before these none or a consonant."""
    if len(word) == 2:
        return word[0] in VOWELS and word[1] not in VOWELS
    if len(word) < 2:
        return False
    return word[-1] not in NO_SHORT_END and word[-2] in VOWELS and word[-3] not in VOWELS


def _plural(word: str) -> str:
    """Step 0, a possessive, and step 1a."""
    for ending in ("'s'", "'s", "'"):
        if word.endswith(ending):
            word = word.removesuffix(ending)
            break
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith(("ied", "ies")):
        return word[:-2] if len(word) > 4 else word[:-1]
    if word.endswith("s") and not word.endswith(("us", "ss")) and _has_vowel(word[:-2]):
        return word[:-1]
    return word


def _past(word: str, first: int) -> str:
    """Step 1b: -ed, -ing and their adverbs."""
    for ending in ("eedly", "ingly", "edly", "eed", "ing", "ed"):
        if word.endswith(ending):
            break
    else:
        return word
    left = word.removesuffix(ending)
    if ending in ("eedly", "eed"):
        return left + "ee" if len(left) >= first else word
    if not _has_vowel(left):
        return word
    if left.endswith(("at", "bl", "iz")):
        return left + "e"
    if left.endswith(DOUBLES):
        return left[:-1]
    return left + "e" if len(left) == first and _ends_short(left) else left


def _longest(word: str, endings: "tuple[str, ...] | dict[str, str]") -> str:
    return next((ending for ending in endings if word.endswith(ending)), "")


def _step_2(word: str, first: int) -> str:
    ending = _longest(word, STEP_2)
    left = word[: len(word) - len(ending)]
    if not ending or len(left) < first:
        return word
    if ending == "li" and left[-1:] not in BEFORE_LI:
        return word
    if ending == "ogi" and not left.endswith("l"):
        return word
    return left + STEP_2[ending]


def _step_3(word: str, first: int, second: int) -> str:
    ending = _longest(word, STEP_3)
    left = word[: len(word) - len(ending)]
    if not ending or len(left) < first or (ending == "ative" and len(left) < second):
        return word
    return left + STEP_3[ending]


def _step_4(word: str, second: int) -> str:
    ending = _longest(word, STEP_4)
    left = word[: len(word) - len(ending)]
    if not ending or len(left) < second or (ending == "ion" and left[-1:] not in ("s", "t")):
        return word
    return left


def _last_letter(word: str, first: int, second: int) -> str:
    """Step 5: a final e, or one of two l."""
    left = word[:-1]
    if word.endswith("e"):
        cut = len(left) >= second or (len(left) >= first and not _ends_short(left))
        return left if cut else word
    return left if word.endswith("ll") and len(left) >= second else word
