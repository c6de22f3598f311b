"""METEOR's own data files, read where the package pycocoevalcap has put them.

They are under other terms than this project (LGPL, WordNet's, the paraphrases' own), so none is
copied into it. The small tables lie within the program's jar and are read each time. The 5.3
million paraphrases take some 20 seconds to read, so what was read is kept in the user's cache.
"""

import io
import re
import struct
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from naic.errors import MetricError, MissingExtraError
from naic.metrics import java

NAME = "METEOR"
JAR = "meteor-1.5.jar"
PARAPHRASES = "paraphrase-en.gz"
REINSTALL = "Install it anew: pip install --force-reinstall pycocoevalcap==1.2"
# Where Java's tokeniser cuts. Python's `split()` would also cut at a no-break space.
SPACES = re.compile("[ \t\n\r\f]+")
NUMERIC_ONLY = "#NUMERIC_ONLY#"
# Plural, verb and adjective endings and what they stand for, in the order of the program.
ENDINGS = (
    *(("s", ""), ("ses", "s"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh")),
    *(("men", "man"), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", "")),
    *(("ing", "e"), ("ing", ""), ("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
)


@dataclass(frozen=True, slots=True)
class Files:
    """Where the data files are."""

    jar: Path
    paraphrases: Path


@dataclass(frozen=True, slots=True)
class Lexicon:
    """The small tables.

    Attributes:
        function_words: words of little meaning, whose matches weigh less.
        prefixes: words that keep a full stop behind them: True where only before a number.
        bases: irregular forms and what they are forms of.
        synsets: words and the numbers of their meanings in WordNet, as they stand in the file.
    """

    function_words: frozenset[str]
    prefixes: dict[str, bool]
    bases: dict[str, list[str]]
    synsets: dict[str, str]

    def meanings(self, word: str) -> frozenset[int]:
        """The WordNet meanings of a word and of what it is a form of."""
        own = self._synsets(word)
        if (bases := self.bases.get(word)) is not None:
            return own.union(*(self._synsets(base) for base in bases))
        return own | self._synsets(self._base(word))

    def _synsets(self, word: str) -> frozenset[int]:
        return frozenset(map(int, words_of(self.synsets.get(word, ""))))

    def _base(self, word: str) -> str:
        """The word without the first ending that leaves a word of WordNet."""
        if word.endswith("ss") or len(word) <= 2:
            return word
        for ending, instead in ENDINGS:
            if word.endswith(ending):
                base = word.removesuffix(ending) + instead
                if base in self.synsets:
                    return base
        return ""


def words_of(line: str) -> list[str]:
    """The words of a line, cut as Java's tokeniser cuts."""
    return [word for word in SPACES.split(line) if word]


def utf16(text: str) -> str:
    """The text with a letter for each unit of UTF-16, which is what Java takes for a letter."""
    if text.isascii() or max(text) <= "\uffff":
        return text
    units = text.encode("utf-16-be", "surrogatepass")
    return "".join(map(chr, struct.unpack(f">{len(units) // 2}H", units)))


def find_files() -> Files:
    """The installed data files.

    Raises:
        MissingExtraError: the package that carries them is not installed.
    """
    folder = java.package_folder("pycocoevalcap")
    if folder is not None:
        jar = folder / "meteor" / JAR
        paraphrases = folder / "meteor" / "data" / PARAPHRASES
        if jar.is_file() and paraphrases.is_file():
            return Files(jar, paraphrases)
    why = "its data files come in the package pycocoevalcap, which is not installed"
    raise MissingExtraError(NAME, why, "Run: pip install 'naic[metrics]'")


def read_lexicon(jar: Path) -> Lexicon:
    """The small tables within the jar."""
    try:
        with zipfile.ZipFile(jar) as archive:
            functions = _lines(archive, "function/english.words")
            prefixes = _lines(archive, "nonbreaking/english.prefixes")
            exceptions = _lines(archive, "synonym/english.exceptions")
            synsets = _lines(archive, "synonym/english.synsets")
    except (OSError, KeyError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        why = f"{jar.name} cannot be read ({error})"
        raise MetricError(NAME, why, REINSTALL) from error
    bases: dict[str, list[str]] = {}
    for base, forms in zip(exceptions[::2], exceptions[1::2], strict=False):
        for form in words_of(forms):
            bases.setdefault(form, []).append(base)
    return Lexicon(
        function_words=frozenset(functions),
        prefixes=_prefixes(prefixes),
        bases=bases,
        synsets=dict(zip(synsets[::2], synsets[1::2], strict=False)),
    )


def _lines(archive: zipfile.ZipFile, name: str) -> list[str]:
    """The lines of a file, cut at line ends alone: `splitlines` knows further signs."""
    with io.TextIOWrapper(archive.open(name), encoding="utf-8") as file:
        return file.read().removesuffix("\n").split("\n")


def _prefixes(lines: list[str]) -> dict[str, bool]:
    found: dict[str, bool] = {}
    for line in lines:
        words = words_of(line)
        if words and not words[0].startswith("#"):
            found[words[0]] = words[1:2] == [NUMERIC_ONLY]
    return found


def fingerprint(path: Path) -> str:
    """What the packed file says of its content, which is read without unpacking it."""
    with path.open("rb") as file:
        file.seek(-8, io.SEEK_END)
        checksum, size = struct.unpack("<II", file.read())
    return f"{checksum:08x}-{size:08x}"
