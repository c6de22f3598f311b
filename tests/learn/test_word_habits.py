"""Habits counted in ids are those that `metrics.habits` counts in words."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from naic.learn.losses import bad_ending_table, bad_endings, repeats
from naic.metrics.score import habits
from naic.text import PERIOD, Vocabulary

VOCABULARY = Vocabulary.build(["a dog runs with the big ball of"], more_than=0)
ROWS = st.lists(
    st.lists(st.sampled_from([PERIOD, *range(4, len(VOCABULARY))]), min_size=5, max_size=5),
    min_size=1,
    max_size=6,
)


def test_the_table_has_the_words_that_are_there() -> None:
    table = bad_ending_table(VOCABULARY, "cpu")
    assert table.shape == (len(VOCABULARY),)
    assert {VOCABULARY.word(i) for i in table.nonzero()[:, 0].tolist()} == {
        "a",
        "of",
        "the",
        "with",
    }


@given(ROWS)
def test_they_agree_with_the_words(rows: list[list[int]]) -> None:
    """Of sentences with and without a period, empty ones, and words after the period."""
    words, table = torch.tensor(rows), bad_ending_table(VOCABULARY, "cpu")
    for i, row in enumerate(rows):
        said = row[: row.index(PERIOD)] if PERIOD in row else row
        found = habits([" ".join(VOCABULARY.word(word) for word in said)])
        assert bool(repeats(words)[i]) == bool(found.repeats)
        assert bool(bad_endings(words, table)[i]) == bool(found.bad_endings)
    assert torch.equal(repeats(words[None])[0], repeats(words))
    assert torch.equal(bad_endings(words[None], table)[0], bad_endings(words, table))


def test_the_period_again_and_again_is_no_repeat() -> None:
    assert not repeats(torch.tensor([PERIOD, PERIOD, PERIOD]))
    assert not repeats(torch.tensor([4, PERIOD, PERIOD]))
    assert repeats(torch.tensor([4, 4, PERIOD]))
    assert not repeats(torch.tensor([4, PERIOD, 5, 5]))
