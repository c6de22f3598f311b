"""Small tables for METEOR, made up here, in the form of the program's own data files."""

import gzip
import zipfile
from pathlib import Path

from naic.metrics.meteor.data import Files

FUNCTION_WORDS = "a an the of on in at to and with is are it 's . , it one two by from"
PREFIXES = "# people\nMr\nDr\nSt\n\n# before numbers\nNo #NUMERIC_ONLY#\npp #NUMERIC_ONLY#\n"
# A word, and the irregular forms of it.
FORMS = """
child : children
man : men
sit : sat sitting
ride : rode riding
run : ran running
hold : held
woman : women
dwell : sat
"""
# Words that share a number share a meaning.
MEANINGS = """
dog 1 2
hound 2
puppy 1 3
cat 4
kitten 4 3
couch 5
sofa 5 6
seat 6
street 7
road 7 8
man 9 10
person 10
people 10 11
child 12
kid 12 13
boy 13 9
photo 14
picture 14 15
image 15
bike 16
bicycle 16
big 17
large 17 18
small 19
little 19
sit 20
dwell 20 21
stand 21
ride 22
drive 22
plane 23
airplane 23
a 24
one 24
run 25 26
hurry 26
"""
# The order counts: it decides which of several paraphrases is tried first.
PARAPHRASES = """
next to : near
next to : beside
next to : by
near : next to
beside : next to
a lot of : many
a lot of : lots of
many : a lot of
many : several
lots of : a lot of
in front of : before
in front of : near
on top of : on
on : on top of
on : upon
on : over
a group of people : people
a group of people : a crowd
a group of people : a group of
people : a group of people
getting ready to : about to
getting ready to : preparing to
man : person
man : a person
person : man
person : the man
is : are
a : the
the : a
a : one
a : one
of : of the
to the : to
is sitting on the top of a : on top of the
riding : on
young : little
a couple of : two
two : a couple of
a close up of : a picture of
picture of : photo of
"""


def write_tables(folder: Path, paraphrases: str = PARAPHRASES) -> Files:
    """The tables as the package carries them, and once more as the program takes its options."""
    folder.mkdir(parents=True, exist_ok=True)
    forms = "".join(f"{line.replace(' : ', chr(10))}\n" for line in _lines(FORMS))
    meanings = "".join(f"{line.replace(' ', chr(10), 1)}\n" for line in _lines(MEANINGS))
    functions = FUNCTION_WORDS.replace(" ", "\n") + "\n"
    files = Files(folder / "meteor-1.5.jar", folder / "paraphrase-en.gz")
    (folder / "english.exceptions").write_text(forms)
    (folder / "english.synsets").write_text(meanings)
    (folder / "function.words").write_text(functions)
    with zipfile.ZipFile(files.jar, "w") as jar:
        jar.writestr("function/english.words", functions)
        jar.writestr("nonbreaking/english.prefixes", PREFIXES)
        jar.writestr("synonym/english.exceptions", forms)
        jar.writestr("synonym/english.synsets", meanings)
    entries = "".join(f"0.5\n{line.replace(' : ', chr(10))}\n" for line in _lines(paraphrases))
    files.paraphrases.write_bytes(gzip.compress(entries.encode(), mtime=0))
    return files


def options_of_program(folder: Path) -> list[str]:
    """How the program is told to take these tables instead of its own."""
    return [
        *("-s", str(folder / "function.words"), "-d", str(folder)),
        *("-a", str(folder / "paraphrase-en.gz")),
    ]


def _lines(text: str) -> list[str]:
    return text.strip().split("\n")
