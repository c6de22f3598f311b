"""How METEOR cuts a sentence into words: its option `-norm` for English.

The sentences come tokenised already; this is what the program does to them on top, such as to
part "t-shirt" and "dog's". The rules and their order are the program's, since scores depend on
both.
"""

import re
from itertools import zip_longest

from naic.metrics.meteor.data import words_of

# Latin and Cyrillic letters.
LETTERS = "A-Za-zŠŽšžŸÀ-ÖØ-öø-žЀ-ӿԀ-ԧꙀ-ꙮ꙾-ꚗᴀ-ᵿ"
KNOWN = f"0-9{LETTERS}"
SPACE = "\t\n\x0b\f\r "  # what \s is in Java
# Of such a sentence nothing is to be changed: most captions are of this kind.
PLAIN = re.compile("[A-Za-z0-9 ]*")

APART = re.compile(f"([^{KNOWN}{SPACE}.'`,\\-‘’])")
DOTS = re.compile(r"\.(\.+)")
LAST_DOT = re.compile(r"DOTMULTI\.([^.])")
RULES = (
    (re.compile("([^0-9]),([^0-9])"), r"\1 , \2"),
    (re.compile("([0-9]),([^0-9])"), r"\1 , \2"),
    (re.compile("([^0-9]),([0-9])"), r"\1 , \2"),
    (re.compile("[`‘’]"), "'"),
    (re.compile("[“”]|''"), ' " '),
    (re.compile("–"), "-"),
    (re.compile("--"), "-"),
    (re.compile(f"([{KNOWN}.])-([{KNOWN}])"), r"\1 \2"),
    (re.compile(f"([^{LETTERS}])'([^{LETTERS}])"), r"\1 ' \2"),
    (re.compile(f"([^{LETTERS}0-9])'([{LETTERS}])"), r"\1 ' \2"),
    (re.compile(f"([{LETTERS}])'([^{LETTERS}])"), r"\1 ' \2"),
    (re.compile(f"([{LETTERS}])'([{LETTERS}])"), r"\1 '\2"),
    (re.compile("([0-9])'(s)"), r"\1 '\2"),
)
WIDE_SPACES = re.compile("[ \u2000-\u200a\u202f\u205f\u3000\xa0]+")
A_LETTER = re.compile(f"[{LETTERS}]")
ENDS = "".join(map(chr, range(33)))  # what Java cuts from both ends


def clean(sentence: str) -> str:
    """A sentence without what the program would take for the end of a part or of a line."""
    # str.split() would also cut at signs that the program keeps within a word.
    return sentence.replace("\r", " ").replace("\n", " ").replace("|||", "")


def words(sentence: str, prefixes: dict[str, bool]) -> list[str]:
    """The words of a sentence, in small letters.

    Args:
        sentence: without a line end.
        prefixes: words that keep a full stop behind them (`Lexicon.prefixes`).
    """
    if PLAIN.fullmatch(sentence):
        return sentence.lower().split()
    text = APART.sub(r" \1 ", f" {sentence.strip(ENDS)} ")
    text = DOTS.sub(r" DOTMULTI\1", text)
    while "DOTMULTI." in text:
        text = LAST_DOT.sub(r"DOTDOTMULTI \1", text).replace("DOTMULTI.", "DOTDOTMULTI")
    for pattern, instead in RULES:
        text = pattern.sub(instead, text)
    text = _part_full_stops(words_of(text), prefixes)
    while "DOTDOTMULTI" in text:
        text = text.replace("DOTDOTMULTI", "DOTMULTI.")
    text = WIDE_SPACES.sub(" ", text.replace("DOTMULTI", "."))
    return words_of(text.strip(ENDS).lower())


def _part_full_stops(tokens: list[str], prefixes: dict[str, bool]) -> str:
    """A word's full stop is a word of its own at the end of a sentence, not of an abbreviation."""
    parted = []
    for token, following in zip_longest(tokens, tokens[1:], fillvalue=""):
        if len(token) < 2 or not token.endswith("."):
            parted.append(token)
            continue
        before = token[:-1]
        numeric_only = prefixes.get(before)
        if "." in before and A_LETTER.search(before):
            parted.append(token.replace(".", ""))
            continue
        keeps = numeric_only is False or "a" <= following[:1] <= "z"
        keeps = keeps or (numeric_only is True and "0" <= following[:1] <= "9")
        parted.append(token if keeps else f"{before} .")
    return " ".join(parted)
