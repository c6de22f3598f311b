r"""The rules by which caption text is cut into tokens, as regular expressions.

The public evaluation of captions uses a Java tokeniser of the Penn Treebank kind. Its behaviour
was measured from outside, by feeding it millions of strings, and is written down here.

At a place in the text every rule of the right list is tried. The one that reads furthest wins,
and what it looks ahead at counts as read; of equals, the first wins. The token is the group `t`
where a rule has one (the rest of the match is what it looked ahead at), else the whole match.
Repeats that might run to the end of a very long text without spaces are bounded, so that no
text takes quadratic time.
"""

import re

from naic.text.tokeniser import FIRM, SPLITS, STATES, TITLES, one_of

# What a token that is a single sign or an entity becomes; "" is dropped.
REPLACED = {
    **dict.fromkeys('"\u0096\u0097\u2013\u2014\u2015\u2026', ""),
    **dict.fromkeys(("&quot;", "&apos;", "&nbsp;", "&mdash;", "&ndash;"), ""),
    **dict.fromkeys("\u0080\u00a4\u20a0\u20ac", "$"),
    **{"\u00a2": "cents", "\u00a3": "#", "&amp;": "&", "&lt;": "<", "&gt;": ">"},
    **{"\u00bc": "1/4", "\u00bd": "1/2", "\u00be": "3/4", "\u2153": "1/3", "\u2154": "2/3"},
    **{"(": "-lrb-", ")": "-rrb-", "[": "-lsb-", "]": "-rsb-", "{": "-lcb-", "}": "-rcb-"},
}
STRAIGHT = str.maketrans(
    {
        **dict.fromkeys("\u0091\u2018\u201b\u2039", "`"),
        **dict.fromkeys("\u0092\u2019\u203a", "'"),
        **dict.fromkeys("\u0093\u201c\u00ab", "``"),
        **dict.fromkeys("\u0094\u201d\u00bb", "''"),
    }
)

_NUMBERED = "ca no nos op pp art fig figs prop"  # before a number only: "no. 5"
# Before these a period that follows a single letter ends the sentence: "Plan B. The man"
_OPENERS = """
    a about according after an as at but earlier he her here however if in it last many more now
    once one other our she since so some such that the their then there these they this we what
    when while yet you mr\\. ms\\."""
_EXTENSIONS = """
    bat bmp c cgi class cpp dll doc docx exe gif gz h htm html jar java jpeg jpg mov mp3 pdf php pl
    png ppt ps py sql tar txt wav x xml zip"""

# Marks that are read as part of a word although Python does not call them letters, and letters
# (many are younger than Java's tables) and numerals that Java drops: measured sign by sign.
_MARKS = (
    "\u02c2-\u02c5\u02d2-\u02df\u02e5-\u02eb\u02ed\u02ef-\u036f\u0375\u0378\u0379\u0384\u0385"
    "\u03f6\u0483-\u0487\u055a-\u055f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"
    "\u0615-\u061a\u064b-\u065e\u0670\u06d6-\u06e4\u06e7-\u06ed\u06fd\u06fe\u070f\u0711"
    "\u0730-\u074c\u07a6-\u07b0\u07eb-\u07f3\u0900-\u0903\u093c\u093e-\u094e\u0951-\u0955"
    "\u0962\u0963\u0981-\u0983\u09bc\u09be-\u09c4\u09c7\u09c8\u09cb-\u09cd\u09d7\u09e2\u09e3"
    "\u0a01-\u0a03\u0a3c\u0a3e-\u0a4f\u0a81-\u0a83\u0abc\u0abe-\u0acf\u0b82\u0bbe-\u0bc2"
    "\u0bc6-\u0bc8\u0bca-\u0bcd\u0c01-\u0c03\u0c3e-\u0c56\u0d3e-\u0d44\u0d46-\u0d48\u0e31"
    "\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ecd\u1885\u1886"
)
_UNKNOWN = (
    "\u037f\u0528-\u052f\u0560\u0588\u05ef\u0860-\u086a\u0870-\u0887\u0889-\u088e\u08a1"
    "\u08ad-\u08c9\u0978\u0980\u09f4-\u09f9\u09fc\u0af9\u0b72-\u0b77\u0bf0-\u0bf2\u0c34\u0c5a"
    "\u0c5d\u0c78-\u0c7e\u0c80\u0cdd\u0d04\u0d54-\u0d56\u0d58-\u0d5f\u0d70-\u0d78\u0e86\u0e89"
    "\u0e8c\u0e8e-\u0e93\u0e98\u0ea0\u0ea8\u0ea9\u0eac\u0f2a-\u0f33\u1369-\u137c\u13f5"
    "\u13f8-\u13fd\u16ee-\u16f8\u170d\u171f\u17f0-\u17f9\u1878\u191d\u191e\u19b0-\u19c0"
    "\u19c8\u19c9\u19da\u1b4c\u1c80-\u1c88\u1c90-\u1cba\u1cbd-\u1cbf\u1cf2\u1cf3\u1cfa"
    "\u2150-\u2152\u215f-\u2182\u2185-\u2189\u2c2f\u2c5f\u2cfd\u3007\u3021-\u3029\u3038-\u303a"
    "\u312e\u312f\u3192-\u3195\u31bb-\u31bf\u3220-\u3229\u3248-\u324f\u3251-\u325f\u3280-\u3289"
    "\u32b1-\u32bf\u4db6-\u4dbf\u9fcd-\u9fff\ua698-\ua69d\ua6e6-\ua6ef\ua78f\ua794-\ua79f"
    "\ua7ab-\ua7ca\ua7d0\ua7d1\ua7d3\ua7d5-\ua7d9\ua7f2-\ua7f7\ua830-\ua835\ua8fd\ua8fe"
    "\ua9e0-\ua9e4\ua9e6-\ua9ef\ua9fa-\ua9fe\uaa7e\uaa7f\uab30-\uab5a\uab5c-\uab69\uab70-\uabbf"
)
# Signs beyond ASCII that are tokens. What no rule takes (an emoji) is left out, as Java does.
_SIGNS = (
    "\u0080\u0091-\u0094\u0096\u0097\u00a1-\u00a9\u00ab\u00ac\u00ae-\u00b4\u00b6-\u00b9"
    "\u00bb-\u00bf\u00d7\u00f7\u037e\u0387\u0589\u05be\u05c0\u05c3\u05c6\u05f3\u05f4"
    "\u0600-\u0603\u0606-\u060c\u0614\u061b\u061e\u061f\u066a\u066d\u06d4\u0700-\u070d"
    "\u07f6-\u07f8\u0964\u0965\u0e3f\u0e4f\u1fbd\u2013-\u2023\u2026\u2030-\u203b\u203e-\u2042"
    "\u2044\u2070\u2074-\u207e\u2080-\u208e\u20a0\u20a4\u20ac\u2100\u2101\u2103-\u2106\u2108"
    "\u2109\u2114\u2116-\u2118\u211e-\u2123\u2125\u2127\u2129\u212e\u213a\u213b\u2140-\u2144"
    "\u214a-\u214d\u214f\u2153-\u215e\u2190-\u2bff\u3001\u3002\u3012\u30fb\uff01-\uff0f"
    "\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65\uffe0\uffe1\uffe5\uffe6"
)


_L = rf"(?:[^\W\d_{_SIGNS}{_UNKNOWN}]|&(?ai:[aeiou](?:acute|grave|uml));)"  # a letter
_LD = rf"(?:{_L}|\d)"
# In a word, not in a compound, there may also be marks and the soft hyphen.
_WORD = rf"(?:(?:{_L}|[{_MARKS}\u00ad])(?:{_LD}|[{_MARKS}\u00ad])*)"
_DOTTED = rf"(?:{_WORD}(?:[.!?]{_WORD})*)"  # a space was forgotten: "the end.then"
_CURLED = "(?:[\u0092\u2019]|&apos;)"
_APOS = "(?:['\u0092\u2019]|&apos;)"
_QUOTE = "(?:[`'\u0091\u0092\u2018\u2019\u201b]|&apos;)"
_CURLY = "`\u0091-\u0094\u2018-\u201f\u2039\u203a\u00ab\u00bb"
_CLITIC = "(?ai:[msd]|re|ve|ll)"
_NUMBER = r"(?:\d*(?:[.:,\u00ad\u066b\u066c]\d+)+|\d+)"
_ACRONYM = r"(?:[A-Za-z](?:\.[A-Za-z])+\.)"
# A part of a compound, perhaps with an elided article before it: "d'art", "o'clock"
_PART = rf"(?:[dDlLoO]{_QUOTE}{_LD})?{_LD}+"
_THING = rf"(?:[A-Z]+(?:(?:&(?ai:amp;)?|\+)[A-Z]+)+|{_PART}(?:[-_\u058a\u2010\u2011]{_PART})*)"
_HYPHENED = rf"(?:[A-Za-z0-9][A-Za-z0-9.,]{{0,250}}(?:-(?:{_ACRONYM}|[A-Za-z0-9]+))+)"
_GAP = "[- \u00a0]"  # inside a telephone number
_NOT = r"\s\"<>|()"  # what no address contains
_PATH = rf"(?:/[^{_NOT}]+[^{_NOT}.!?,{{}}-])"
_HOST = (
    rf"(?:(?ai:www)\.(?:[^{_NOT}.!?,]{{1,60}}\.){{1,9}}[A-Za-z]{{2,4}}"
    rf"|(?:[^{_NOT}A-Z0-9.,:;=?@/\\^_$!'`{{}}\[\]-]{{1,60}}\.){{1,9}}(?ai:com|net|org|edu)){_PATH}?"
)
_EMAIL = (
    rf"[A-Za-z0-9][^{_NOT}{{}}]{{0,250}}@"
    rf"(?:[^{_NOT}.{{}}]{{1,60}}\.){{0,9}}[^{_NOT}.{{}}]{{1,60}}>?"
)
_NAME = r"[A-Za-z][\w:.-]{0,250}"  # of a tag or an attribute
_VALUE = rf"(?:'[^'\r\n]{{0,250}}'|\"[^\"\r\n]{{0,250}}\"|{_NAME})"
_EYE = "[-^x=~<>']"

_WORD_RULES = (
    # One word that is two tokens: "cannot", "don't", "dog's"
    rf"(?ai:(?P<t>{'|'.join(map('{0[0]}(?={0[1]})'.format, SPLITS.items()))})(?:not|na|ta|me))",
    rf"(?P<t>[A-Za-z]*[A-MO-Za-mo-z])[nN]{_QUOTE}[tT]",
    rf"(?P<t>{_DOTTED}|\d+){_APOS}{_CLITIC}",
    # An apostrophe that belongs to the word
    rf"(?ai:[dlj]|ol|dunkin|somethin){_APOS}",
    rf"(?P<t>[yY]{_APOS}){_L}",
    rf"[nN]{_QUOTE}[tT]",
    rf"(?ai:cont{_APOS}d\.?|c{_APOS}(?:mon|est)|nor{_APOS}easter|e{_APOS}er|s{_APOS}mores"
    rf"|ev{_APOS}ry|li{_APOS}l|nat{_APOS}l|cap{_APOS}n|o{_QUOTE}o)",
    rf"[A-HJ-XZn]{_QUOTE}{_L}{_L}+",
    rf"{_L}+[aeiouyAEIOUY]{_QUOTE}[aeiouA-Z]{_L}*",
    # Words; abbreviations and acronyms with their period
    _DOTTED,
    rf"(?P<t>(?:{one_of(FIRM)}|(?=[A-Z]){one_of(STATES)}|(?ai:p?pt)[ey][sS]?)\.)(?s:..)",
    rf"(?P<t>[A-Za-z])\.\s+(?=[A-Z]){one_of(_OPENERS)}\s",
    rf"(?:(?ai:ph\.d)|{one_of(TITLES)}|[Mm][ft][gG])\.",
    rf"(?P<t>{one_of(_NUMBERED)}\.)[ \u00a0]?\d",
    rf"{_ACRONYM}|[A-Za-z]\.",
    rf"(?P<t>(?:{_HYPHENED}|{_THING})\.)[,;:]",  # "it.," gives "it.": odd, but so it is
    rf"(?P<t>{_DOTTED}\.)[,;:]",
    # Addresses and file names
    rf"(?ai:https?)://[^{_NOT}{{}}]+[^{_NOT}.!?,{{}}-]",
    _HOST,
    rf"(?P<t>[A-Za-z0-9]+(?:\.[A-Za-z0-9]+)*\.{one_of(_EXTENSIONS)})[\s.!?,]",
    _EMAIL,
    # Dates, fractions, telephone numbers, numbers
    r"\d{1,2}[-/]\d{1,2}[-/]\d{2,4}",
    rf"(?:\d{{1,4}}{_GAP})?\d{{1,4}}(?:\\?/|\u2044)\d{{1,4}}",
    rf"(?:\d{{2,4}}{_GAP})?\d{{2,4}}{_GAP}\d{{3,4}}{_GAP}?\d{{3,5}}",
    r"(?:\d{2,4}\.)?\d{2,4}\.\d{3,4}\.\d{3,5}",
    _NUMBER,
    # Compounds: "well-known", "and/or", "AT&T", "US$", "C++"
    _HYPHENED,
    _THING,
    r"[A-Za-z0-9]+(?:-[A-Za-z]+){0,2}(?:\\?/[A-Za-z0-9]+(?:-[A-Za-z]+){0,2}){1,2}",
    r"[A-Z]+\$",
    r"(?ai:c\+\+|[cf]#)",
    rf"x_{_EYE}",
)
_SIGN_RULES = (
    # Tags
    rf"<(?:[!?][A-Za-z-][^>\r\n]{{0,250}}"
    rf"|/?{_NAME}(?:\s+{_NAME}(?:\s*=\s*{_VALUE})?){{0,20}}\s*/?)>|<{_EMAIL}",
    # Apostrophes: "'tis", a clitic, "'em", "'99", an opening quote
    r"(?P<t>'[tT])(?ai:is|was)",
    rf"(?P<t>'{_CLITIC})[^A-Za-z]|{_CURLED}{_CLITIC}",
    rf"{_APOS}(?ai:n{_APOS}?|em|till?|cause|[2-9]0s)",
    rf"(?P<t>{_APOS}[0-9]{{2}})\s",
    r"(?P<t>')[A-Za-z]\S",
    # Numbers and telephone numbers
    rf"[-+]?{_NUMBER}",
    rf"(?:\(\d{{2,3}}\)[ \u00a0]?|\+\+?(?:\d{{2,4}}{_GAP})?\d{{2,4}}{_GAP})"
    rf"\d{{3,4}}{_GAP}?\d{{3,5}}|\+\+?\d{{2,4}}\.\d{{2,4}}\.\d{{3,4}}\.\d{{3,5}}",
    "[\u207a\u207b\u208a\u208b]?(?:[\u00b2\u00b3\u00b9\u2070\u2074-\u2079]+|[\u2080-\u2089]+)",
    # Faces
    r"(?P<t>[<>]?[:;=]['o*-]?[()DPdpO{@|\[\]\\])[^A-Za-z0-9]",
    rf"{_EYE}_{_EYE}|\({_EYE}[_.-]?{_EYE}\)",
    # Handles, runs of one sign, then any sign by itself
    _HOST,
    rf"#{_L}+|@[A-Za-z_][A-Za-z0-9_]*",
    rf"[?!]+|\#+|@+|\\?\*+|_+|<<|>>|--+|''|[{_CURLY}]{{1,2}}",
    r"\.{3,5}|\.(?:[ \u00a0]\.){2,}",
    r"(?ai:-[lr][rsc]b-)|&(?ai:amp|lt|gt|quot|apos|nbsp|[mn]dash);|&\#\d+;",
    rf"[!-/:-@\[-`{{-~{_SIGNS}]",
)

STARTS_WORD = re.compile(rf"{_LD}|[{_MARKS}\u00ad]")
WORD_LEXER = tuple(map(re.compile, _WORD_RULES))
SIGN_LEXER = tuple(map(re.compile, _SIGN_RULES))
# Curly quotes become straight in these, and nowhere else: "don’t" but not "d’art".
STRAIGHTENED = re.compile(rf"{_APOS}{_CLITIC}|[nN]{_QUOTE}[tT]|[{_CURLY}]+")
