"""A style: what it makes of sentences, and what a file of it may hold."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naic.errors import CheckpointError, DataError
from naic.text.neutral import neutral
from naic.text.style import (
    CASES,
    STYLE,
    Style,
    joined,
    parse_style,
    read_style,
    signs,
    style_file,
)
from naic.text.tokeniser import tokenise

SENTENCE = tokenise("a dog is sitting on the couch")
PLAIN = st.lists(st.sampled_from(["a", "dog", "the", "cat", "on", "is", "sofa"]), max_size=6)
MANY = Style(("Photo", ":"), (",", "indoors"), ("a", "the"), (("couch", ("old", "sofa")),))


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        (Style(), "a dog is sitting on the couch"),
        (Style(before=("photo", "of")), "photo of a dog is sitting on the couch"),
        (Style(before=("TOK", ",")), "TOK, a dog is sitting on the couch"),
        (Style(after=(",", "stock", "photo")), "a dog is sitting on the couch, stock photo"),
        (Style(without=("a", "the", "is")), "dog sitting on couch"),
        (Style(instead=(("couch", ("old", "sofa")),)), "a dog is sitting on the old sofa"),
        (Style(instead=(("dog", ("animal",)),)), "an animal is sitting on the couch"),
        (Style(case="upper"), "A DOG IS SITTING ON THE COUCH"),
        (Style(case="sentence", end="."), "A dog is sitting on the couch."),
        (Style(case="title"), "A Dog Is Sitting on the Couch"),
        (Style(case="words", end="!"), "A Dog Is Sitting On The Couch!"),
        (MANY, "Photo: dog is sitting on old sofa, indoors"),
    ],
)
def test_a_sentence_in_a_style(style: Style, expected: str) -> None:
    assert style.text(SENTENCE) == expected
    assert parse_style(style.as_json(), "here") == style


def test_the_article_goes_with_the_word_that_comes_to_it() -> None:
    big = Style(without=("big",))
    assert big.text(tokenise("a big orange cat and a big dog")) == "an orange cat and a dog"
    assert big.text(tokenise("an egg and a hour")) == "an egg and a hour"  # nothing was done there


def test_a_large_letter_comes_after_signs_and_numbers_stay() -> None:
    assert Style(before=("(draft)",), case="sentence").text(["a", "dog"]) == "(Draft) a dog"
    assert Style(case="sentence").text(["3", "dogs"]) == "3 dogs"


def test_what_is_left_out_and_put_around_stands_for_no_word() -> None:
    pieces = MANY.pieces(SENTENCE)
    assert [(piece.words, piece.begin, piece.end) for piece in pieces] == [
        (("dog",), 1, 2),
        (("is",), 2, 3),
        (("sitting",), 3, 4),
        (("on",), 4, 5),
        (("old", "sofa"), 6, 7),
    ]


def test_it_comes_after_neutral_words() -> None:
    words = tokenise("a man and a woman on a couch")
    pieces = Style(without=("a", "two")).pieces(words, neutral(words))
    assert [piece.words for piece in pieces] == [("people",), ("on",), ("couch",)]
    assert (pieces[0].begin, pieces[0].end) == (0, 5)


def test_what_the_model_says_by_itself_is_not_said_twice() -> None:
    style = Style(("Photo", "of"), (",", "indoors"))
    assert style.text(tokenise("photo of a dog indoors")) == "Photo of a dog, indoors"
    assert style.text(["photo", "of"]) == ""


@given(words=PLAIN, case=st.sampled_from(CASES), end=st.sampled_from(["", ".", "!"]))
def test_to_put_it_on_again_changes_nothing(words: list[str], case: str, end: str) -> None:
    style = Style(("photo", "of"), ("at", "home"), ("is", "the"), (), case, end)  # type: ignore[arg-type]
    once = style.text(words)
    assert style.text(tokenise(once)) == once
    assert bool(once) == bool({*words} - {"is", "the"})


@given(st.text(max_size=30))
def test_signs_are_a_text_again(text: str) -> None:
    assert signs(joined(signs(text))) == signs(text)
    assert joined(signs(text)).replace(" ", "") == "".join(text.split())


@pytest.mark.parametrize(
    "settings",
    [
        {"before": ("photo of",)},
        {"before": ("",)},
        {"before": ("\x1b[31m",)},
        {"after": ("\u202e",)},
        {"without": ("a" * 51,)},
        {"before": ("so",) * 31},
        {"without": tuple(f"w{number}" for number in range(501))},
        {"without": ("a", "a")},
        {"without": ("a",), "instead": (("a", ("the",)),)},
        {"instead": (("a", ()),)},
        {"instead": (("a", ("so",) * 6),)},
        {"case": "camel"},
        {"end": "...."},
        {"end": "\n"},
        {"end": "x"},
    ],
)
def test_what_would_do_harm_is_no_style(settings: dict[str, object]) -> None:
    with pytest.raises(DataError, match=r"style\.json"):
        Style(**settings)  # type: ignore[arg-type]


GOOD = json.loads(MANY.as_json())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        json.dumps(GOOD | {"format": "naic-style-2"}),
        json.dumps(GOOD | {"more": 1}),
        json.dumps({key: value for key, value in GOOD.items() if key != "case"}),
        json.dumps(GOOD | {"before": "photo"}),
        json.dumps(GOOD | {"without": [1]}),
        json.dumps(GOOD | {"without": None}),
        json.dumps(GOOD | {"instead": [["a", "b"]]}),
        json.dumps(GOOD | {"instead": {"a": "b"}}),
        json.dumps(GOOD | {"case": ["lower"]}),
        json.dumps(GOOD | {"end": 1}),
        json.dumps(GOOD | {"end": ".\u0000"}),
        MANY.as_json() + " " * 200_000,
        "[" * 10_000,
    ],
)
def test_a_damaged_file_is_named_with_what_to_do(tmp_path: Path, text: str) -> None:
    (tmp_path / STYLE).write_text(text)
    with pytest.raises(CheckpointError, match=r"style\.json: .*remove it") as caught:
        read_style(tmp_path)
    assert caught.value.what == str(tmp_path / STYLE)
    with pytest.raises(CheckpointError, match=r"^here: "):
        parse_style(text, "here")


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert read_style(tmp_path) is None
    assert style_file(tmp_path) == {}
    (tmp_path / STYLE).write_text(MANY.as_json())
    assert read_style(tmp_path) == MANY
    (tmp_path / STYLE).write_bytes(style_file(tmp_path)[STYLE])
    assert read_style(tmp_path) == MANY
    (tmp_path / STYLE).write_bytes(b"\xff")
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_style(tmp_path)


def test_it_is_told_in_a_line() -> None:
    assert Style().describe() == "as the model writes"
    said = '"Photo:" first, without a, the, old sofa for couch, ", indoors" last'
    assert MANY.describe() == said
    loud = Style(case="upper", end="!")
    assert loud.describe() == 'ALL CAPITALS, "!" last'


def test_it_says_which_words_it_brings() -> None:
    assert MANY.puts_in == {"photo", "indoors", "old", "sofa"}
