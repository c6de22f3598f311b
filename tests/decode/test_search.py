"""benchmarks/search.py: the way sentences were found before, which finds the same."""

import numpy as np
import pytest
from benchmarks import search
from hypothesis import given, settings
from hypothesis import strategies as st

from naic.decode.decoding import READABLE, _best
from naic.runtime.captioner import shipped_model
from naic.runtime.sentences import Proposals, write
from naic.text.vocabulary import PERIOD, Vocabulary

AGENTS, CHOICES = 6, 5


@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.booleans())
@settings(max_examples=40, deadline=None)
def test_of_equals_the_same_is_taken(seed: int, most: int, repeats: bool) -> None:
    """Whole numbers, so that many sentences are worth the same."""
    random = np.random.default_rng(seed)
    few = [PERIOD, 10, 11, 12, 13, 14, 15]
    words = np.array([[random.permutation(few)[:CHOICES] for _ in range(AGENTS)] for _ in "ab"])
    log_probs = -random.integers(0, most + 1, words.shape).astype(np.float32)
    pairs = random.integers(-most, most + 1, (2, AGENTS - 1, CHOICES, CHOICES))
    arguments = words, log_probs, pairs.astype(np.float32)
    wanted = search._best(*arguments, repeats=repeats)
    assert np.array_equal(_best(*arguments, repeats=repeats), wanted)


def test_it_times_what_says_the_same(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(search, "ROUNDS", 1)
    monkeypatch.setattr(search, "CALLS", 1)
    monkeypatch.setattr("sys.argv", ["search.py", "--batch", "1", "5"])
    search.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["batch 1", "batch 5"]
    assert all("times as fast" in line for line in lines)


def test_what_says_something_else_is_not_timed() -> None:
    vocabulary = Vocabulary.load(shipped_model() / "vocab.json")
    said = search.proposals(8, vocabulary)
    old = search.before(said, vocabulary)
    search.check_same(old, write(said, None, vocabulary, READABLE))
    assert said.pairs is not None
    for pairs in (said.pairs + 1e-4 * said.pairs, -said.pairs):
        other = write(Proposals(said.words, said.log_probs, pairs), None, vocabulary, READABLE)
        with pytest.raises(SystemExit, match="before, and now"):
            search.check_same(old, other)
