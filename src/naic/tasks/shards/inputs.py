"""Which shards a command means: files, folders, patterns with `*` and with `{000..999}`."""

import glob
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from naic.errors import ConfigError
from naic.files import printable, what_is
from naic.storage import is_remote, list_under, local, name_of
from naic.tasks.shards.rows import KINDS

_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d{1,9})\.\.(\d{1,9})")
_MAGIC = re.compile(r"[*?\[]")
_SHARE = re.compile(r"([0-9]{1,7})/([0-9]{1,7})")
_KNOWN = f"Shards end in {', '.join(KINDS)}."
MOST = 10_000_000  # shards of a pattern: what is more is a slip


@dataclass(frozen=True, slots=True)
class Shard:
    """The unit of work.

    Attributes:
        source: where it is: an absolute path, or a URL.
        name: what its output is called, without a suffix.
    """

    source: str
    name: str


def find_shards(inputs: Sequence[str], out: str) -> list[Shard]:
    """The shards that the words of a command stand for, in order.

    Folders and patterns are listed once, in order of their names; what is in a shard is not looked
    at, since there may be a hundred thousand. An output is called as its shard is, so that of
    `b/0001.tar` and `a/0001.tar` only one can be in a run.

    Raises:
        ConfigError: there are none, or two of one name.
        StorageError: a folder or a prefix cannot be listed.
    """
    words = [one for word in inputs for one in ([word] if _is_there(word) else braces(word))]
    own = f"{absolute(out)}/"  # outputs in a folder of shards are none
    sources = [one for word in words for one in _listed(word) if not one.startswith(own)]
    if not sources:
        hint = "Name .tar, .parquet or .txt files: naic shards caption 'in/*.tar' --out DIR"
        raise ConfigError("SHARD", "no shard was named", hint)
    seen: dict[str, Shard] = {}
    for shard in map(named, sources):
        other = seen.setdefault(shard.name, shard)
        if other is not shard:
            why = f"its output would have the name of that of {printable(other.source)}"
            why = "it is named twice" if other == shard else why
            hint = "Outputs are called as their shards: give each its own, or run two commands."
            raise ConfigError(printable(shard.source), why, hint)
    return list(seen.values())


def _is_there(word: str) -> bool:
    """Whether this is the name of something on this machine, braces and all."""
    return "{" in word and not is_remote(word) and what_is(local(word)) != "missing"


def named(source: str) -> Shard:
    """The shard at this place."""
    return Shard(source, name_of(source).rpartition(".")[0])


def absolute(where: str) -> str:
    """The same on every machine that has these folders, whatever its current one."""
    return where.rstrip("/") if is_remote(where) else str(local(where).absolute())


def share(part: str | None, shards: Sequence[Shard]) -> Sequence[Shard]:
    """Those of `--shard i/n`: every n-th from the i-th on, so that the shares are alike.

    Raises:
        ConfigError: it is not written like that.
    """
    if part is None:
        return shards
    found = _SHARE.fullmatch(part)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        why = f"{part!r} is no share"
        hint = "Write 1/8 for the first of eight; the last is 8/8."
        raise ConfigError("--shard", why, hint)
    return shards[int(found[1]) - 1 :: int(found[2])]


def braces(word: str) -> Iterator[str]:
    """All that a word with braces stands for, as in a shell: `{000..999}`, `{a,b}`.

    Raises:
        ConfigError: a range is upside down or endless.
    """
    found = _BRACES.search(word)
    if found is None:
        yield word
        return
    before, after = word[: found.start()], word[found.end() :]
    for choice in _choices(found[1], word):
        yield from braces(f"{before}{choice}{after}")


def _choices(inside: str, word: str) -> Iterator[str]:
    ends = _RANGE.fullmatch(inside)
    if ends is None:
        if "," not in inside:
            why = f"{{{inside}}} is neither a range nor a choice"
            raise ConfigError(printable(word), why, "Write {000..999} or {train,val}.")
        yield from inside.split(",")
        return
    first, last = int(ends[1]), int(ends[2])
    if not 0 <= last - first < MOST:
        why = f"{{{inside}}} is no range from a number to a larger one"
        raise ConfigError(printable(word), why, "Write {000..999}.")
    width = len(ends[1]) if ends[1].startswith("0") else 0  # 0 alone is as wide as it is
    yield from (f"{number:0{width}d}" for number in range(first, last + 1))


def _listed(word: str) -> list[str]:
    """The shards of a file's name, a folder or a pattern."""
    if is_remote(word):
        return _listed_remote(word)
    path = local(word).absolute()
    if _MAGIC.search(str(local(word))) and what_is(path) == "missing":
        here = glob.escape(str(Path.cwd()))  # its own name is no pattern
        pattern = os.path.join(here, local(word))  # noqa: PTH118 - an absolute one stays as it is
        found = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207 - `**`, and any root
        kept = [one for one in found if one.endswith(KINDS)]
        if not kept:
            why = "nothing fits the pattern" if not found else "nothing that fits is a shard"
            raise ConfigError(printable(word), why, _KNOWN)
        return kept
    if what_is(path) == "folder":
        return _of_folder(str(path), word)
    # Whether it is there is seen when its turn comes: of a hundred thousand, one after another.
    return [_named(str(path), word)]


def _listed_remote(word: str) -> list[str]:
    if (magic := _MAGIC.search(word)) and not word.startswith(("http://", "https://")):
        base = word[: magic.start()].rpartition("/")[0]
        kept = [one for one in list_under(base, KINDS) if _fits(one, word)]
        if not kept:
            raise ConfigError(printable(word), "nothing fits the pattern", _KNOWN)
        return kept
    if name_of(word).endswith(KINDS):
        return [word]
    return _of_folder(word, word)


def _fits(name: str, pattern: str) -> bool:
    """As in a shell: `*` stops at a slash, `**` does not."""
    deep = "**" in pattern or name.count("/") == pattern.count("/")
    return deep and fnmatchcase(name, pattern)


def _of_folder(folder: str, word: str) -> list[str]:
    found = list_under(folder, KINDS)
    if not found:
        raise ConfigError(printable(word), "there is no shard in it", _KNOWN)
    return found


def _named(path: str, word: str) -> str:
    if not path.endswith(KINDS):
        raise ConfigError(printable(word), "by its name it is no shard", _KNOWN)
    return path
