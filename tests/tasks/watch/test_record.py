import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naic.errors import Problem, WriteError
from naic.tasks.watch.record import NAME, Signature, hold, signature_of

SEEN = Signature(1, 2, 3)


def never(problem: Problem) -> None:
    raise AssertionError(problem)


def test_what_was_noted_is_known_after_a_restart(tmp_path: Path) -> None:
    with hold(tmp_path, "", never) as record:
        assert record.empty
        record.note("a/b.jpg", SEEN)
        record.note("c.jpg", SEEN)
        record.note("c.jpg", Signature(9, 9, 9))
    for _ in range(2):
        with hold(tmp_path, "", never) as record:
            assert record.tried("a/b.jpg", SEEN)
            assert not record.tried("c.jpg", SEEN)
            assert record.tried("c.jpg", Signature(9, 9, 9))
            assert not record.tried("d.jpg", SEEN)
    head, *lines = (tmp_path / NAME).read_text().splitlines()
    assert json.loads(head)["process"] == os.getpid()
    assert len(lines) == 2


def test_what_was_in_vain_otherwise_is_tried_again(tmp_path: Path) -> None:
    with hold(tmp_path, "one way", never) as record:
        record.note("a.jpg", SEEN)
    with hold(tmp_path, "one way", never) as record:
        assert record.tried("a.jpg", SEEN)
    with hold(tmp_path, "another", never) as record:
        assert record.empty


def test_photos_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    with hold(tmp_path, "", never) as record:
        for name in ("a.jpg", "b.jpg"):
            record.note(name, SEEN)
        record.keep({"b.jpg"})
        assert not record.tried("a.jpg", SEEN)
    with hold(tmp_path, "", never) as record:
        assert not record.tried("a.jpg", SEEN)
        assert record.tried("b.jpg", SEEN)
        record.keep(set())
    assert not (tmp_path / NAME).exists()


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"\n",
        b"{",
        b'["a.jpg", 1, 2',
        b"[]",
        b"3",
        b'["a.jpg", 1]',
        b"\xff\xfe",
        b"[1, 2, 3, 4]",
        b'["a.jpg", "1", 2, 3]',
    ],
)
def test_lines_that_are_none_are_left_out(tmp_path: Path, broken: bytes) -> None:
    good = json.dumps(["b.jpg", *SEEN]).encode()
    (tmp_path / NAME).write_bytes(b"\n".join([broken, good, broken]))
    with hold(tmp_path, "", never) as record:
        assert record.tried("b.jpg", SEEN)
        assert not record.tried("a.jpg", SEEN)


def test_a_strange_thing_in_its_place(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    with pytest.raises(WriteError, match="it is no regular file"), hold(tmp_path, "", never):
        raise AssertionError


@settings(max_examples=30)
@given(names=st.dictionaries(st.text(st.characters(), min_size=1), st.integers(0, 2**63)))
def test_any_name(names: dict[str, int], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("any")
    with hold(folder, "", never) as record:
        for name, size in names.items():
            record.note(name, Signature(size, 0, 0))
    with hold(folder, "", never) as record:
        assert all(record.tried(name, Signature(size, 0, 0)) for name, size in names.items())


def test_a_signature_tells_changes(tmp_path: Path) -> None:
    path = tmp_path / "a"
    assert signature_of(str(path)) is None
    assert signature_of("\0") is None
    path.write_bytes(b"1")
    os.utime(path, ns=(5, 5))
    first = signature_of(str(path))
    assert first is not None
    assert first[:2] == (1, 5)
    os.utime(path, ns=(5, 6))
    assert signature_of(str(path)) != first
