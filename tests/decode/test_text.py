"""benchmarks/text.py: the way texts were found before, which finds the same; and many at once."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import text
from hypothesis import given, settings
from hypothesis import strategies as st

from naic.decode.decoding import MANY, READABLE, Decoding, _best
from naic.runtime.captioner import shipped_model
from naic.runtime.sentences import Proposals, texts, write
from naic.text.vocabulary import BAD_ENDINGS, PERIOD, Vocabulary

AGENTS = 6
FEW = Vocabulary.build(["a man and a woman with two dogs on her sofa not"], more_than=0)
SEEDS = st.integers(0, 2**32 - 1)


def proposals(seed: int, batch: int, choices: int, *, chain: bool, most: int = 0) -> Proposals:
    """Few words, so that repeats and loose ends are frequent.

    With `most` the scores are whole numbers, so that many sentences are worth the same.
    """
    random = np.random.default_rng(seed)
    ids = [PERIOD, *range(4, len(FEW))]
    rows = [random.permutation(ids)[:choices] for _ in range(batch * AGENTS)]
    words = np.array(rows, np.int64).reshape(batch, AGENTS, choices)
    log_probs = -np.sort(random.exponential(2, words.shape)).astype(np.float32)
    pairs = random.normal(0, 2, (batch, AGENTS - 1, choices, choices)).astype(np.float32)
    if most:
        log_probs, pairs = np.clip(np.round(log_probs), -most, 0), np.clip(np.round(pairs), -1, 1)
    return Proposals(words, log_probs, pairs if chain else None)


@given(SEEDS, st.integers(2, 7), st.integers(1, 3), st.booleans(), st.sampled_from([2, MANY + 1]))
@settings(max_examples=40, deadline=None)
def test_of_equals_the_same_is_taken(
    seed: int, choices: int, most: int, repeats: bool, batch: int
) -> None:
    said = proposals(seed, batch, choices, chain=True, most=most)
    assert said.pairs is not None
    wanted = text._best(*said, repeats=repeats)
    assert np.array_equal(_best(*said, repeats=repeats), wanted)


@given(SEEDS, st.integers(2, 7), st.booleans(), st.booleans(), st.sampled_from([3, MANY + 3]))
@settings(max_examples=40, deadline=None)
def test_what_is_said_is_what_was_said_before(
    seed: int, choices: int, chain: bool, readable: bool, batch: int
) -> None:
    """Texts, the words that were considered, and probabilities."""
    said = proposals(seed, batch, choices, chain=chain)
    how = READABLE if readable else Decoding(repeats=False)
    old, new = text.before(said, FEW, how), write(said, None, FEW, how)
    text.check_same(old, new, texts(said, FEW, how))


WISHES: list[dict[str, Any]] = [
    {},
    {"max_words": 3},
    {"max_chars": 9},
    {"forbid": ("man", "dogs")},
    {"forbid": ("a", "man", "and", "woman", "with", "two")},
    {"prefer": ("sofa", "woman")},
    {"neutral": True},
    {"neutral": True, "max_chars": 12, "forbid": ("dogs",)},
    {"repeats": True, "bad_endings": True},
    {"alternatives": 3},
]


@pytest.mark.parametrize("wishes", WISHES, ids=str)
@given(SEEDS, st.booleans(), st.sampled_from([1, MANY + 3]))
@settings(max_examples=12, deadline=None)
def test_a_text_alone_is_that_of_the_caption(
    wishes: dict[str, Any], seed: int, chain: bool, batch: int
) -> None:
    said, how = proposals(seed, batch, 5, chain=chain), replace(READABLE, **wishes)
    told = texts(said, FEW, how)
    assert told == [caption.text for caption in write(said, None, FEW, how)]
    one_by_one = [text.first(Proposals(*_from(said, row)), 1) for row in range(batch)]
    assert told == [texts(own, FEW, how)[0] for own in one_by_one]


def _from(said: Proposals, row: int) -> list[Any]:
    return [None if own is None else own[row:] for own in said]


def test_a_text_ends_where_it_can() -> None:
    """Against the rule as it is told, of words that are chosen here."""
    random = np.random.default_rng(0)
    words = random.integers(3, len(FEW), (200, AGENTS, 1))
    words[words == 3] = PERIOD
    wanted = []
    for ids in words[..., 0].tolist():
        said = [FEW.word(id_) for id_ in ids[: [*ids, PERIOD].index(PERIOD)]]
        while len(said) > 1 and said[-1] in BAD_ENDINGS:
            said.pop()
        wanted.append(" ".join(said))
    assert texts(Proposals(words, np.zeros(words.shape, np.float32)), FEW, READABLE) == wanted


def test_it_times_what_says_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(text, "ROUNDS", 1)
    text.main(["--made-up", "--batch", "1", "5", "--out", str(tmp_path / "a" / "text.json")])
    run = json.loads((tmp_path / "a" / "text.json").read_text())
    assert [(row["model"], row["batch"]) for row in run["rows"]] == [
        (model, batch) for model in ("with transitions", "without transitions") for batch in (1, 5)
    ]
    assert set(run["rows"][0]["microseconds"]) == {"search", "text", "captions", "before"}
    assert len(capsys.readouterr().out.splitlines()) == 4


def test_what_says_something_else_is_not_timed() -> None:
    vocabulary = Vocabulary.load(shipped_model() / "vocab.json")
    said = text.made_up(8, vocabulary)
    old, told = text.before(said, vocabulary), texts(said, vocabulary, READABLE)
    text.check_same(old, write(said, None, vocabulary, READABLE), told)
    with pytest.raises(SystemExit, match="before, and now"):
        text.check_same(old, write(said, None, vocabulary, READABLE), told[::-1])
    assert said.pairs is not None
    for pairs in (said.pairs + 1e-4 * said.pairs, -said.pairs):
        other = write(Proposals(said.words, said.log_probs, pairs), None, vocabulary, READABLE)
        with pytest.raises(SystemExit, match=r"before, (and )?now"):
            text.check_same(old, other, told)
