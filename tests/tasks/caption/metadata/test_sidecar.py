import base64
import dataclasses
import hashlib
import json
import re
import time
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naic.errors import DataError
from naic.tasks.caption.metadata import sidecar, xmp
from naic.tasks.caption.metadata.mark import ALT_TEXT, DESCRIPTION, NAMESPACE, Mark
from naic.tasks.caption.metadata.sidecar import PLACES, held, with_caption, without_caption
from tests.tasks.caption.metadata.packets import ALL, DARKTABLE, DIGIKAM, EMPTY, LIGHTROOM

MARK = Mark('a "cat" & <dog>', "naic 1", "model", "2026-01-02T03:04:05Z", "0.42", "abc", {})
EACH = pytest.mark.parametrize("data", ALL.values(), ids=ALL)


def put(data: bytes | None, *places: str, text: str = MARK.text) -> bytes:
    return with_caption(data, dataclasses.replace(MARK, text=text), places or PLACES, "x")


def test_a_new_file_says_it_in_both_fields_and_vanishes() -> None:
    made = put(None)
    there = held(made, "x")
    assert there.texts == dict.fromkeys(PLACES, MARK.text)
    assert there.mark is not None
    assert dataclasses.replace(there.mark, before={}) == MARK
    assert without_caption(made, "x") is None


@EACH
@pytest.mark.parametrize("places", [(ALT_TEXT,), (DESCRIPTION,), PLACES])
def test_what_was_added_to_is_restored_byte_for_byte(data: bytes, places: tuple[str, ...]) -> None:
    written = put(data, *places)
    assert all(held(written, "x").texts[place] == MARK.text for place in places)
    assert without_caption(written, "x") == data
    again = put(written, *PLACES, text="another")
    assert held(again, "x").texts == dict.fromkeys(PLACES, "another")
    assert without_caption(again, "x") == data


@EACH
def test_all_else_stays(data: bytes) -> None:
    """Of what is added to, every byte is still there; in what is replaced, all other fields are."""
    if not held(data, "x").texts[ALT_TEXT]:
        start, end = re.split(rb"(?=\s*</r?d?f?:RDF>)", data, maxsplit=1)
        written = put(data, ALT_TEXT)
        assert written.startswith(start)
        assert written.endswith(end)
    before, after = xmp.scan(data, "x"), xmp.scan(put(data), "x")
    ours = (" description", " AltTextAccessibility")
    others = [own for own in before.properties() if not own.name.endswith(ours)]
    for own in others:
        assert after.texts(own.name) == own.texts
    assert len(others) > 0


def test_other_languages_stay() -> None:
    name = "http://purl.org/dc/elements/1.1/ description"
    assert xmp.scan(LIGHTROOM, "x").texts(name) == {
        "x-default": "Ours & theirs",
        "de-DE": "Unseres",
    }
    assert xmp.scan(put(LIGHTROOM), "x").texts(name) == {"x-default": MARK.text, "de-DE": "Unseres"}


def test_how_programs_write_a_description_is_understood() -> None:
    assert held(LIGHTROOM, "x").texts == {DESCRIPTION: "Ours & theirs", ALT_TEXT: None}
    assert held(DARKTABLE, "x").texts == {DESCRIPTION: None, ALT_TEXT: None}
    assert held(DIGIKAM, "x").texts == {DESCRIPTION: "Plain <text>", ALT_TEXT: "alt of mine"}
    assert without_caption(put(EMPTY), "x") == EMPTY


@EACH
def test_when_another_program_changed_the_file_only_ours_is_taken_out(data: bytes) -> None:
    written = put(data)
    changed = written.replace(b"<rdf:li>", b"<rdf:li >").replace(b"<r:li>", b"<r:li >")
    changed = changed.replace(b'raw_params="0"', b'raw_params="1"')
    assert changed != written
    left = without_caption(changed, "x")
    assert left is not None
    assert NAMESPACE.encode() not in left
    texts = held(data, "x").texts
    assert held(left, "x").texts == texts  # what had been there before is there again
    names = {own.name for own in xmp.scan(data, "x").properties()}
    assert {own.name for own in xmp.scan(left, "x").properties()} == names


def test_after_another_program_put_ours_among_its_own() -> None:
    """As Lightroom does: one description, our marks as attributes or as elements."""
    made = put(None).decode()
    block = re.search(
        r'xmlns:naic.*?(naic:Text="[^"]*").*?(naic:Before="[^"]*")>(.*)</rdf:Desc', made, re.S
    )
    assert block is not None
    text, before, fields = block.groups()
    merged = (
        '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description '
        'rdf:about="" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:Iptc4xmpCore='
        '"http://iptc.org/std/Iptc4xmpCore/1.0/xmlns/" xmlns:xmp="http://ns.adobe.com/xap/1.0/" '
        f'xmlns:naic="{NAMESPACE}" xmp:Rating="3" {text} {before}>'
        f"<naic:Model>m</naic:Model>{fields}</rdf:Description></rdf:RDF>"
    ).encode()
    left = without_caption(merged, "x")
    assert left is not None
    (rating,) = xmp.scan(left, "x").properties()
    assert rating.texts == {"x-default": "3"}
    assert b"naic" not in left


def test_what_a_person_edited_since_is_theirs() -> None:
    sign = MARK.text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    edited = put(None).decode().replace(f">{sign}</rdf:li>", ">my cat</rdf:li>", 1).encode()
    there = held(edited, "x")
    assert there.texts == {DESCRIPTION: "my cat", ALT_TEXT: MARK.text}
    assert there.open(PLACES, "skip") == [ALT_TEXT]
    left = without_caption(edited, "x")
    assert left is not None
    assert held(left, "x").texts == {DESCRIPTION: "my cat", ALT_TEXT: None}
    again = with_caption(edited, MARK, [ALT_TEXT], "x")
    assert held(again, "x").texts == {DESCRIPTION: "my cat", ALT_TEXT: MARK.text}


@EACH
def test_what_a_person_edited_among_what_naic_wrote_stays(data: bytes) -> None:
    """To put back what the file was would lose the person's words."""
    sign = MARK.text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    written = put(data, ALT_TEXT)
    edited = written.decode().replace(f">{sign}</", ">my dog Rex</").encode()
    assert edited != written
    left = without_caption(edited, "x")
    assert left is not None
    assert held(left, "x").texts == {**held(data, "x").texts, ALT_TEXT: "my dog Rex"}
    assert NAMESPACE.encode() not in left
    again = with_caption(edited, MARK, [DESCRIPTION], "x")
    assert held(again, "x").texts == {DESCRIPTION: MARK.text, ALT_TEXT: "my dog Rex"}


def test_what_a_person_added_between_is_kept() -> None:
    """Of a file whose description naic replaced, also what stands behind that."""
    written = put(LIGHTROOM)
    mine = (
        b'<rdf:Description rdf:about="" xmlns:xmp="http://ns.adobe.com/xap/1.0/" xmp:Label="Red"/>'
    )
    end = written.index(b"</rdf:RDF>")
    edited = written[:end] + mine + written[end:]
    left = without_caption(edited, "x")
    assert left is not None
    assert mine in left
    assert held(left, "x").texts == held(LIGHTROOM, "x").texts


def test_our_text_in_another_language_is_taken_out() -> None:
    """As of a program that knows no text without a language."""
    written = put(None).replace(b'"x-default"', b'"en-US"')
    assert held(written, "x").own(DESCRIPTION)
    assert without_caption(written, "x") is None


def test_a_file_naic_made_stays_if_another_program_added_to_it() -> None:
    for added in (b"<!-- mine -->", b"<?mine?>"):
        changed = put(None).replace(b"</x:xmpmeta>", added + b"</x:xmpmeta>")
        left = without_caption(changed, "x")
        assert left is not None
        assert added in left
        assert not held(left, "x").texts[ALT_TEXT]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no well-formed XML"),
        (b"plain", "no well-formed XML"),
        (LIGHTROOM[:-20], "no well-formed XML"),
        (b"<a/>", "there is no rdf:RDF in it"),
        (LIGHTROOM.decode().encode("utf-16"), "not UTF-8"),
        (b'<?xml version="1.0" encoding="ISO-8859-1"?>' + EMPTY, "in ISO-8859-1, not in UTF-8"),
        (b'<!DOCTYPE a [<!ENTITY b "bb">]>' + EMPTY, "it has a document type"),
        (b'<!DOCTYPE a SYSTEM "file:///etc/passwd">' + EMPTY, "it has a document type"),
        (EMPTY + b" " * xmp.MOST_BYTES, "larger than 32 MiB"),
    ],
)
def test_what_is_no_xmp_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(DataError, match=why):
        held(data, "photo.xmp")
    with pytest.raises(DataError, match=r"photo\.xmp"):
        with_caption(data, MARK, PLACES, "photo.xmp")


@pytest.mark.parametrize(
    "before", ["", "[1]", '{"file": "1 2 3"}', '{"file": "-5 x y z"}', "[" * 9999]
)
def test_a_mark_that_somebody_damaged_does_no_harm(before: str) -> None:
    made = re.sub(
        rb'naic:Before="[^"]*"', f"naic:Before={xmp.quoted(before)}".encode(), put(LIGHTROOM)
    )
    left = without_caption(made, "x")
    assert left is not None
    assert NAMESPACE.encode() not in left
    assert b'crs:Version="16.1"' in left


def nested(data: bytes, levels: int) -> bytes:
    """A file whose marks each say that the file was the one with the marks within."""
    start = re.search(rb"<rdf:RDF[^>]*>", data)
    assert start is not None
    at, nothing = start.end(), base64.b64encode(zlib.compress(b"")).decode()
    for _ in range(levels):
        digest = hashlib.sha256(data).hexdigest()
        before = json.dumps({"file": f"{at} {len(data) - at} {digest} {nothing}"})
        mark = (
            f'<rdf:Description xmlns:naic="{NAMESPACE}" naic:Text="" '
            f"naic:Before={xmp.quoted(before)}/>"
        )
        data = data[:at] + mark.encode() + data[at:]
    return data


@pytest.mark.parametrize("levels", [1, 400])
def test_marks_within_marks_are_taken_out_at_once(levels: int) -> None:
    """Of each the file would be restored otherwise, until there is no stack left."""
    crafted = nested(LIGHTROOM, levels)
    assert without_caption(crafted, "x") == LIGHTROOM
    assert without_caption(put(crafted), "x") == LIGHTROOM


def test_no_mark_is_brought_back() -> None:
    """Not even one in a file to which naic's own mark would be added just so."""
    said = f'xmlns:naic="{NAMESPACE}" naic:Text={xmp.quoted(MARK.text)}'.encode()
    inner = LIGHTROOM.replace(b'xmp:Rating="4"', b'xmp:Rating="4" ' + said)
    packet = xmp.scan(inner, "x")
    outer = sidecar._marked(inner, packet, MARK, [ALT_TEXT], made=False)
    left = without_caption(outer, "x")
    assert left is not None
    assert NAMESPACE.encode() not in left


def test_a_small_file_does_not_become_a_huge_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that was cut would: naic says itself how to restore it, in a few bytes."""
    monkeypatch.setattr(sidecar, "_MOST_MORE", 1000, raising=False)
    end = b"</dc:description>"
    huge = LIGHTROOM.replace(end, end + b"<dc:description/>" * 2000)
    small = put(huge)
    assert len(small) < 10_000
    left = without_caption(small, "x")
    assert left is not None
    assert len(left) < len(small)
    assert NAMESPACE.encode() not in left


def test_long_texts_take_no_longer_than_their_length_says() -> None:
    """Each took a copy of all before it, which for these was a minute; processor time is told."""
    text = "\n" * 3_900_000
    begun = time.thread_time()
    there = held(put(None, text=f"a{text}b"), "x")
    assert there.texts == dict.fromkeys(PLACES, f"a{text}b")
    assert time.thread_time() - begun < 10


def test_many_languages_take_no_longer_than_their_number_says() -> None:
    name = "http://purl.org/dc/elements/1.1/ description"
    many = "".join(f'<dc:description xml:lang="l{n}">{n}</dc:description>' for n in range(33_000))
    data = (
        f'<rdf:RDF xmlns:rdf="{xmp.RDF}" xmlns:dc="http://purl.org/dc/elements/1.1/">'
        f"<rdf:Description>{many}</rdf:Description></rdf:RDF>"
    ).encode()
    packet = xmp.scan(data, "x")
    begun = time.thread_time()
    assert packet.texts(name) == {f"l{n}": str(n) for n in range(33_000)}
    assert time.thread_time() - begun < 5


words = st.text(
    st.characters(
        codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="\ufffe\uffff"
    ),
    min_size=1,
).filter(str.strip)


@given(
    st.sampled_from(list(ALL.values())), words, words, st.sets(st.sampled_from(PLACES), min_size=1)
)
def test_any_words_come_and_go(data: bytes, text: str, other: str, places: set[str]) -> None:
    written = put(data, *places, text=text)
    assert all(held(written, "x").texts[place] == text for place in places)
    again = put(written, *places, text=other)
    assert without_caption(again, "x") == data
