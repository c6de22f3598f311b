"""Java, and the packages that carry the reference programs: found, asked for its version, run."""

import importlib.util
import os
import re
import shutil
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from naic.errors import MetricError, MissingExtraError
from naic.metrics.program import REPAIR_JAVA, Program

SECONDS_TO_START = 20.0  # a cold disk and a busy machine; java -version takes 0.1 s
MANY_WORDS = 100  # in a sentence; few captions by people have more than 50
# Both programs read and print numbers and text in the user's locale unless told not to: METEOR
# cannot read back its own "2.0" where the decimal sign is a comma.
SAME_EVERYWHERE = ("-Dfile.encoding=UTF-8", "-Duser.language=en", "-Duser.country=US")
INSTALL_JAVA = (
    "Install Java 8 or newer (Debian, Ubuntu: apt install default-jre-headless; "
    "macOS: brew install openjdk), and put it in PATH or set JAVA_HOME."
)


def run(
    name: str, arguments: list[str], *, heap: str, seconds: float, suspect: str, opens: str = ""
) -> Program:
    """Start a Java program; use the result in a `with`.

    Args:
        name: what to call it in messages.
        arguments: the class path, the class and its arguments.
        heap: the most memory for its objects, as Java writes it: "2G".
        seconds: when it is killed.
        suspect: the likely reason, if one is known, should its time or memory not suffice.
        opens: packages of java.base, separated by spaces, that it reaches into. Java 9 and later
            refuse that unless told; Java 8 does not know the option.
    """
    java = find_java()
    options = [f"-Xmx{heap}", "-XX:+ExitOnOutOfMemoryError", *SAME_EVERYWHERE]
    if java_version(java) >= 9:
        for package in opens.split():
            options += ["--add-opens", f"java.base/{package}=ALL-UNNAMED"]
    return Program(
        name,
        [java, *options, *arguments],
        seconds=seconds,
        more_time="Give it more time: --java-seconds, or seconds= in Python.",
        suspect=suspect,
    )


def suspect_sentence(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> str:
    """Names the longest sentence if it is much longer than captions are, else says nothing.

    One such sentence takes more time and memory than all the others together.
    """
    every = [
        (len(sentence.split()), kind, image, sentence)
        for image, (hypothesis, own) in enumerate(zip(hypotheses, references, strict=True), 1)
        for kind, sentence in (("caption", hypothesis), *(("reference", each) for each in own))
    ]
    words, kind, image, sentence = max(every, default=(0, "", 0, ""))
    if words <= MANY_WORDS:
        return ""
    return (
        f"The likely reason is a {kind} of {words:,} words, that of image {image:,} of "
        f"{len(hypotheses):,}, which begins {sentence[:40]!r}: shorten it or leave it out."
    )


def find_java() -> str:
    """The path of java: that of JAVA_HOME, else the first in PATH."""
    home = os.environ.get("JAVA_HOME")
    inside = shutil.which("java", path=Path(home) / "bin") if home else None
    found = inside or shutil.which("java")
    if found is None:
        raise MissingExtraError("Java", "is needed for METEOR and SPICE, and missing", INSTALL_JAVA)
    return found


def java_version(java: str) -> int:
    """The number that people call a Java by: 8 for "1.8.0_392", 17 for "17.0.15"."""
    version = _ask_version(java)
    if isinstance(version, MetricError):
        raise version
    return version


@cache
def _ask_version(java: str) -> int | MetricError:
    """The version, or the error of a Java that hangs: the next metric need not wait again."""
    with Program(f"{java} -version", [java, "-version"], seconds=SECONDS_TO_START) as program:
        try:
            said = program.finish()
        except MetricError as error:
            if re.search("Unable to locate a Java Runtime|No Java runtime present", error.hint):
                # macOS has a /usr/bin/java that only says there is no Java.
                why = f"is needed for METEOR and SPICE, and {java} only asks to install it"
                raise MissingExtraError("Java", why, INSTALL_JAVA) from error
            if not program.expired:
                raise
            return error
    if (number := re.search(r'version "(?:1\.)?(\d+)', said)) is None:
        raise MetricError(java, f"does not say its version, but: {said or 'nothing'}", REPAIR_JAVA)
    return int(number[1])


def package_folder(name: str) -> Path | None:
    """Where a package that carries a program is; its own code is not run."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0])
