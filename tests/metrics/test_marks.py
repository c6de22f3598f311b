"""What is marked in a caption is what a table counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naic.metrics.marks import EMPTY, ENDING, REPEAT, marks, pieces
from naic.metrics.score import habits
from naic.text import tokenise

WORDS = ["a", "dog", "Dog,", "dog.", "dog-dog", "with", "With.", ",", "can't", "cannot", "<b>", "&"]


@pytest.mark.parametrize(
    ("caption", "found", "marked"),
    [
        ("a dog", [], []),
        ("a girl girl riding", [REPEAT], [("girl", REPEAT)]),
        ("A a, dog.", [REPEAT], [("a,", REPEAT)]),
        ("a dog , dog", [REPEAT], [("dog", REPEAT)]),  # a comma is no word
        ("a dog with a .", [ENDING], [("a", ENDING)]),
        ("A dog with With!", [REPEAT, ENDING], [("With!", f"{REPEAT} {ENDING}")]),
        ("", [EMPTY], []),
        (" . ", [EMPTY], []),
    ],
)
def test_marks(caption: str, found: list[str], marked: list[tuple[str, str]]) -> None:
    assert marks(caption) == found
    assert [piece for piece in pieces(caption) if piece[1]] == marked


@given(st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join) | st.text(max_size=20))
def test_pieces_join_to_the_caption_and_marks_are_those_of_the_table(caption: str) -> None:
    parts = pieces(caption)
    assert "".join(text for text, _ in parts) == caption
    assert all(text for text, _ in parts)
    counted = habits([" ".join(tokenise(caption))])
    found = marks(caption)
    assert counted.repeats == (REPEAT in found)
    assert counted.bad_endings == (ENDING in found)
    assert counted.empty == (EMPTY in found)


def test_neighbours_without_a_mark_are_one_piece() -> None:
    assert pieces("two  red cats cats\n") == [("two  red cats ", ""), ("cats", REPEAT), ("\n", "")]
