"""Any dataset written in any format is read back as the same records."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naic.data.readers.checking import mended
from naic.images.sources import FileImage
from tests.data.readers.helpers import WRITERS, Item, as_items, make_images, read_all

# Names on disk: lower case, since some file systems do not tell cases apart.
NAMES = st.from_regex(r"[a-z0-9é_][a-z0-9é_-]{0,11}", fullmatch=True)
# What programs do to text is named in a table: control characters, lost and garbled letters.
LETTERS = st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffd")
ALL_LETTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\n\r")


def lines(letters: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return (
        st.text(letters, min_size=1)
        .map(str.strip)
        .filter(lambda text: any(character.isalnum() for character in text) and not mended(text))
    )


def texts(line: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    quoted = st.just('"quoted", with\r\ncomma')
    return st.one_of(line, st.tuples(line, line).map("\n".join), quoted)


LINES = lines(LETTERS)
TEXTS, ALL_TEXTS = texts(LINES), texts(lines(ALL_LETTERS))


def datasets(captions: st.SearchStrategy[str], least: int) -> st.SearchStrategy[list[Item]]:
    items = st.builds(
        Item,
        name=NAMES,
        captions=st.lists(captions, min_size=least, max_size=4).map(tuple),
        split=st.sampled_from(["train", "val", "test"]),
    )
    return st.lists(items, min_size=1, max_size=6, unique_by=lambda item: item.name)


def check(kind: str, items: list[Item]) -> None:
    reader, write = WRITERS[kind]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        make_images(folder, items)
        reading = read_all(reader, write(folder, items))
        expected = items
        if kind == "coco":  # one file, one split
            expected = [item._replace(split="val") for item in items]
        if kind == "folder":  # sorted, and no way to name a split
            unsplit = [item._replace(split="") for item in items]
            expected = sorted(unsplit, key=lambda item: f"{item.name}.jpg")
        assert as_items(reading) == expected
        files = [FileImage(folder / f"{item.name}.jpg") for item in expected]
        assert [record.image for record in reading.records] == files
        assert reading.captions == sum(len(item.captions) for item in items)
        assert reading.unlabelled == sum(not item.captions for item in items)


@pytest.mark.parametrize("kind", ["karpathy", "coco", "jsonl"])
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_formats_that_can_say_everything(kind: str, data: st.DataObject) -> None:
    check(kind, data.draw(datasets(TEXTS if kind == "jsonl" else ALL_TEXTS, 0)))


@pytest.mark.parametrize("kind", ["csv", "tsv"])
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_tables_hold_any_text_but_need_a_caption_for_each_row(
    kind: str, data: st.DataObject
) -> None:
    check(kind, data.draw(datasets(TEXTS, 1)))


@given(items=datasets(LINES, 1))
@settings(max_examples=40, deadline=None)
def test_flickr8k_holds_a_line_for_each_caption(items: list[Item]) -> None:
    check("flickr8k", items)


@given(items=datasets(LINES, 0))
@settings(max_examples=40, deadline=None)
def test_a_folder_holds_labelled_and_unlabelled_images(items: list[Item]) -> None:
    check("folder", items)
