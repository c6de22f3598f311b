"""`tokenise`: what the public COCO evaluation makes of a caption, without Java.

The rules are loaded for the first caption that needs them: most captions are plain words, and a
model that only speaks needs none.
"""

import re
from collections.abc import Iterable
from string import ascii_lowercase

from naic.errors import ConfigError

# "cannot" is two tokens: the first half looks ahead at the second.
SPLITS = {"can": "not", "gon": "na", "got": "ta", "lem": "me", "gim": "me", "wan": "na"}
# Abbreviations which keep their period so firmly that "inc.x" is "inc." and "x"
FIRM = """
    al co ct ga jr ky md mo rd rt sq sr va vt ala apr aug bhd cos dak dec esq est etc ext feb fla
    fri inc ind jan jul jun kan ltd mar mon neb nev nov oct plc sep seq sys tel thu tue wed wis
    wyo ariz assn bldg blvd bros colo conn corp intl kans mich minn mont okla penn sept tenn tues
    univ wisc bancorp calif thurs"""
# ... and the others: "mr.x" stays together.
TITLES = """
    cf dr ft lt mr ms mt ph st vs wm adj adm adv ave cie col cpl det drs ens gen gov hon jos maj
    mme mrs pfc pvt rep rev sen sfc sgt spc ste alex asst atty brig capt cmdr dept elec govs insp
    invt mlle msgr natl pres prof reps sens supt assoc attys comdr lieut messrs profs supts
    treas"""
STATES = "az la pa ark del ill ore tex mass miss wash"  # with a capital only: "Ill."
_HOUSES = "mfg mtg pte pty ptes ptys ppte ppty pptes pptys"
# Words that may end in a period of their own at the end of a sentence
KEEP_PERIOD = frozenset(" ".join((FIRM, TITLES, STATES, _HOUSES, *ascii_lowercase)).split())
# The evaluation's list of punctuation. It names the brackets in capitals, but the tokens are
# lower-case by then, so "-lrb-" stays: a quirk that every published figure contains.
_PUNCTUATION = frozenset(["''", "'", "``", "`", ".", "?", "!", ",", ":", "-", "--", "...", ";", ""])
_SPLIT_WORDS = frozenset(first + second for first, second in SPLITS.items())
_PLAIN = re.compile(r"[A-Za-z ,\n]*\.?[ \n]*")
_EASY = re.compile(r"[A-Za-z]+(?=,? |\. *\n)")
_BEYOND_UTF16 = re.compile("[\U00010000-\U0010ffff]")  # Java sees two halves, and drops both


def tokenise(caption: str) -> list[str]:
    """Cut a caption into lower-case words, exactly as the public evaluation does.

    Almost all captions are plain words with a period at the end, so those take a short way; the
    rest goes through the rules. Nothing a str can contain raises.
    """
    if _PLAIN.fullmatch(caption):
        words = caption.lower().replace(",", " ").replace(".", " ").split()
        if _SPLIT_WORDS.isdisjoint(words) and not (
            words and words[-1] in KEEP_PERIOD and "." in caption
        ):
            return words
    return _lex(caption)


def single_words(what: str, listed: str | Iterable[str]) -> tuple[str, ...]:
    """The words of a list, or of a text that has them between commas or spaces, as tokens.

    Raises:
        ConfigError: one is no word, or several: what is wished of `what` would not come true.
    """
    pieces = re.split(r"[,\s]+", listed) if isinstance(listed, str) else listed
    found = []
    for piece in filter(None, pieces):
        tokens = tokenise(piece)
        if len(tokens) != 1:
            split = f"{len(tokens)} words, {' and '.join(tokens)}" if tokens else "no word"
            raise ConfigError(what, f"{piece!r} is {split}", "Name single words: dog, cat.")
        found += tokens
    return tuple(dict.fromkeys(found))


def _lex(caption: str) -> list[str]:
    """The long way: longest match over the rules, from left to right."""
    text = caption.replace("\n", " ") + "\n\n"  # two signs, for rules that look ahead
    if not text.isascii():
        text = _BEYOND_UTF16.sub("\x7f", text)
    tokens = []
    place = 0
    while place < len(text):
        if text[place].isspace():
            place += 1
            continue
        easy = _EASY.match(text, place)
        if easy and not _is_hard(word := easy[0].lower(), text[easy.end()]):
            tokens.append(word)
            place = easy.end()
            continue
        raw = _longest(text, place)
        place += len(raw) or 1
        token = _normalise(raw)
        if token not in _PUNCTUATION:
            tokens.append(token)
    return tokens


def _is_hard(word: str, following: str) -> bool:
    """Whether the rules must look at a word of letters alone."""
    return word in _SPLIT_WORDS or (following == "." and word in KEEP_PERIOD)


def _longest(text: str, place: int) -> str:
    """The token at `place`, as it is written there; empty where no rule knows the sign."""
    from naic.text.rules import SIGN_LEXER, STARTS_WORD, WORD_LEXER

    furthest, token = place, ""
    for rule in WORD_LEXER if STARTS_WORD.match(text, place) else SIGN_LEXER:
        match = rule.match(text, place)
        if match and match.end() > furthest:
            furthest = match.end()
            token = match[match.lastgroup or 0]
    return token


def _normalise(token: str) -> str:
    """The token as the evaluation writes it; what it drops becomes a sign of its list."""
    from naic.text.rules import REPLACED, STRAIGHT, STRAIGHTENED

    lowered = token.lower()
    if lowered in REPLACED:
        return REPLACED[lowered]
    if STRAIGHTENED.fullmatch(token):
        return lowered.replace("&apos;", "'").translate(STRAIGHT)
    if not token.strip(". \u00a0") or token in ("---", "----"):  # five dashes are kept
        return ""
    if not (token.endswith(">") or "/" in token or "@" in token):  # no tag and no address
        lowered = lowered.replace("(", "-lrb-").replace(")", "-rrb-").replace("&amp;", "&")
    # A space inside a token ("1 1/2") is made unbreakable, so that joining by spaces keeps it.
    return lowered.replace("\u00ad", "").replace(" ", "\u00a0")


def one_of(words: str) -> str:
    """An alternation in either case, longest first so that no word hides a longer one."""
    return f"(?ai:{'|'.join(sorted(words.split(), key=len, reverse=True))})"
