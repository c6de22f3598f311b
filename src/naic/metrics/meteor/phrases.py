"""The table of paraphrases in a form that is looked up for many sentences at once.

All phrases of the table, and what they begin with, are numbered: first the V words, then the
phrases of two words, and so on. A phrase of n words is a phrase of n - 1 words and one more word,
so a sorted array of (place of the shorter phrase) x V + (last word) for each n finds all phrases
in all sentences with seven searches.
"""

import gzip
import io
import logging
import zipfile
from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from naic.errors import MetricError
from naic.files import cache_folder, keep_in_cache
from naic.metrics.meteor.data import NAME, REINSTALL, fingerprint

Ints = npt.NDArray[np.int64]
LAYOUT = 1  # of the file in the cache
ENTRIES_AT_ONCE = 100_000
READ_AT_ONCE = 1 << 20  # bytes


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """The phrases of one sentence.

    Attributes:
        sources: (start, words, number) of phrases that have paraphrases, by start, then length.
        targets: the numbers of phrases that are paraphrases, with their places: (start, words).
    """

    sources: list[tuple[int, int, int]]
    targets: dict[int, list[tuple[int, int]]]


class Phrases:
    """The table.

    Attributes:
        words: the number of each word.
        keys: for two words and more, the sorted keys of the phrases of so many words.
        starts: (P + 1,) where the paraphrases of each of the P phrases begin in `paraphrases`.
        paraphrases: (E,) numbers of phrases, in the order of the file for each phrase.
        is_paraphrase: (P,) whether a phrase is one.
    """

    def __init__(
        self, words: list[str], keys: list[Ints], starts: npt.NDArray[np.int32], paraphrases: Ints
    ) -> None:
        self.words = {word: number for number, word in enumerate(words)}
        self.keys = keys
        self.starts = starts
        self.paraphrases = paraphrases
        self.is_paraphrase = np.zeros(len(starts) - 1, dtype=bool)
        self.is_paraphrase[paraphrases] = True
        # (n,) the number of the first phrase of n + 1 words.
        self.firsts = np.cumsum([0, len(words), *map(len, keys)])
        self._ranked: dict[int, dict[int, list[int]]] = {}

    def find(self, sentences: Sequence[Sequence[str]]) -> list[Found]:
        """The phrases in each of the sentences."""
        lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
        get = self.words.get
        flat = [get(word, -1) for sentence in sentences for word in sentence]
        last = np.array(flat, dtype=np.int64)  # (T,) of all words
        ends = np.repeat(np.cumsum(lengths), lengths)  # (T,) where each word's sentence ends
        numbers = np.full((len(flat), len(self.keys) + 1), -1, dtype=np.int64)
        numbers[:, 0] = last
        places = np.flatnonzero(last >= 0)
        nodes = last[places]
        for more, keys in enumerate(self.keys, 1):
            inside = places + more < ends[places]
            places, nodes = places[inside], nodes[inside]
            words = last[places + more]
            wanted = nodes * len(self.words) + words
            nodes = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
            there = (keys[nodes] == wanted) & (words >= 0) if len(keys) else words < -1
            places, nodes = places[there], nodes[there]
            numbers[places, more] = nodes + self.firsts[more]
        return list(self._parted(numbers, lengths))

    def _parted(self, numbers: Ints, lengths: Ints) -> Iterator[Found]:
        """(T, n) phrases of n words at each place -> those of each sentence."""
        known = numbers >= 0
        has_more = np.diff(self.starts) > 0  # (P,)
        bounds = np.cumsum(lengths)
        parts = []
        for wanted in (has_more, self.is_paraphrase):
            at, more = np.nonzero(known & wanted[numbers])  # by place, then by length
            cuts = np.searchsorted(at, bounds)
            begins = np.repeat(bounds - lengths, np.diff(cuts, prepend=0))
            rows = zip(
                (at - begins).tolist(), (more + 1).tolist(), numbers[at, more].tolist(), strict=True
            )
            parts.append((list(rows), cuts.tolist()))
        (sources, source_cuts), (targets, target_cuts) = parts
        begin, target_begin = 0, 0
        for end, target_end in zip(source_cuts, target_cuts, strict=True):
            found: dict[int, list[tuple[int, int]]] = {}
            for start, count, number in targets[target_begin:target_end]:
                found.setdefault(number, []).append((start, count))
            yield Found(sources[begin:end], found)
            begin, target_begin = end, target_end

    def ranked(self, number: int) -> dict[int, list[int]]:
        """The paraphrases of a phrase, each with its places in the order of the file."""
        if (known := self._ranked.get(number)) is None:
            begin, end = self.starts[number : number + 2].tolist()
            known = {}
            for rank, phrase in enumerate(self.paraphrases[begin:end].tolist()):
                known.setdefault(phrase, []).append(rank)
            self._ranked[number] = known
        return known


def load_phrases(path: Path) -> Phrases:
    """The table, from the cache where it was read before.

    Raises:
        MetricError: the file is damaged.
    """
    try:
        kept = cache_folder() / "meteor" / f"phrases-{LAYOUT}-{fingerprint(path)}.npz"
        if (phrases := _read_kept(kept)) is not None:
            return phrases
        logging.getLogger("naic").info("METEOR: reading its paraphrases, once")
        arrays = _read(path)
    except (OSError, EOFError, ValueError) as error:
        raise MetricError(NAME, f"{path.name} cannot be read ({error})", REINSTALL) from error
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    keep_in_cache(kept, buffer.getvalue())
    return _from(arrays)


def _read_kept(kept: Path) -> Phrases | None:
    """What an earlier run kept; None where there is none, or it is damaged."""
    try:
        with kept.open("rb") as file, np.load(file) as arrays:
            return _from({name: arrays[name] for name in arrays.files})
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def _from(arrays: dict[str, npt.NDArray[np.generic]]) -> Phrases:
    words = arrays["words"].tobytes().decode().split("\n")
    longest = sum(name.startswith("keys") for name in arrays) + 1
    keys = [arrays[f"keys{n}"].astype(np.int64, copy=False) for n in range(2, longest + 1)]
    starts = arrays["starts"].astype(np.int32, copy=False)
    return Phrases(words, keys, starts, arrays["paraphrases"].astype(np.int64))


def _read(path: Path) -> dict[str, npt.NDArray[np.generic]]:
    """The table's file as the arrays that are kept."""
    words: defaultdict[bytes, int] = defaultdict()
    words.default_factory = words.__len__  # a new word gets the next number
    lengths, flat = array("b"), array("i")  # phrase, paraphrase, phrase, paraphrase, ...
    # The reader around it is for speed alone: a packed file's own lines come slowly.
    with gzip.open(path) as packed, io.BufferedReader(packed, READ_AT_ONCE) as file:
        while lines := list(islice(file, 3 * ENTRIES_AT_ONCE)):
            if len(lines) % 3:
                raise MetricError(NAME, f"{path.name} ends within an entry", REINSTALL)
            del lines[::3]  # weights
            own = b"".join(lines).split()
            counts = [line.count(b" ") + 1 for line in lines]
            if sum(counts) != len(own):  # spaces that part no words
                counts = [len(line.split()) for line in lines]
            lengths.extend(counts)
            flat.extend(map(words.__getitem__, own))
    if not lengths or min(lengths) < 1:
        raise MetricError(NAME, f"{path.name} has no phrases, or one without words", REINSTALL)
    keys, every = _number(
        np.frombuffer(lengths, dtype=np.int8), np.frombuffer(flat, dtype=np.int32), len(words)
    )
    phrases, paraphrases = every[::2], every[1::2]  # (E,) each
    count = len(words) + sum(map(len, keys))
    starts = np.zeros(count + 1, dtype=np.int32)
    np.cumsum(np.bincount(phrases, minlength=count), out=starts[1:])
    arrays: dict[str, npt.NDArray[np.generic]] = {f"keys{n}": own for n, own in enumerate(keys, 2)}
    arrays["words"] = np.frombuffer(b"\n".join(words), dtype=np.uint8)
    arrays["starts"] = starts
    arrays["paraphrases"] = paraphrases[np.argsort(phrases, kind="stable")].astype(np.int32)
    return arrays


def _number(
    lengths: npt.NDArray[np.int8], flat: npt.NDArray[np.int32], words: int
) -> tuple[list[Ints], Ints]:
    """The keys of each length, and (2 E,) the number of each phrase."""
    begins = np.cumsum(lengths, dtype=np.int64) - lengths
    numbers = flat[begins].astype(np.int64)
    keys = []
    first = words
    nodes = numbers.copy()
    for more in range(1, int(lengths.max())):
        longer = np.flatnonzero(lengths > more)
        wanted = nodes[longer] * words + flat[begins[longer] + more]
        own, place = np.unique(wanted, return_inverse=True)
        nodes[longer] = place
        numbers[longer] = place + first
        keys.append(own)
        first += len(own)
    return keys, numbers
