"""Files of weights: every tensor comes back, and what is damaged or foreign is refused."""

import os
import struct
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from naic.errors import CheckpointError
from naic.models.folder import Written, read_weights, write_weights
from tests.models.weights import assert_same

MIXED = {
    "scalar": torch.tensor(7, dtype=torch.int64),
    "wide": torch.arange(6, dtype=torch.float64).reshape(2, 3),
    "half/low": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
    "half/high": torch.tensor([[0.5]], dtype=torch.float16),
    "flags": torch.tensor([True, False, True]),
    "bytes": torch.tensor([255, 0, 3], dtype=torch.uint8),
    "none": torch.zeros(0, 4),
    "turned": torch.arange(6.0).reshape(2, 3).t(),
    "größe": torch.tensor(0.1),
}


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all examples of a property."""
    return tmp_path_factory.mktemp("scratch")


def test_every_kind_of_tensor_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    written = write_weights(path, MIXED)
    assert_same(read_weights(path, written), MIXED)
    assert_same(load_file(path), MIXED)  # the public reader agrees
    assert written.bytes == path.stat().st_size
    backwards = dict(reversed(MIXED.items()))
    assert write_weights(tmp_path / "again", backwards) == written  # no order but our own


def test_a_header_may_have_any_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file in 32 begins with the very byte that a pickle begins with."""
    monkeypatch.setattr(os, "fsync", lambda _: None)  # hundreds of times it takes a while
    first = set()
    for length in range(1, 258):
        weights = {"a" * length: torch.ones(2)}
        written = write_weights(tmp_path / "w", weights)
        assert_same(read_weights(tmp_path / "w", written), weights)
        first.add((tmp_path / "w").read_bytes()[0])
    assert first == set(range(0, 256, 8))


def test_no_tensors_at_all_come_back(tmp_path: Path) -> None:
    written = write_weights(tmp_path / "w", {})
    assert read_weights(tmp_path / "w", written) == {}


def test_tensors_do_not_lie_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "w"
    write_weights(path, {"a": torch.ones(1000)})
    tensors = read_weights(path)
    path.write_bytes(b"\0" * path.stat().st_size)
    tensors["a"][0] = 2
    assert tensors["a"].sum() == 1001


def test_every_cut_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w"
    written = write_weights(path, MIXED)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError):
            read_weights(path)  # by its form alone
        with pytest.raises(CheckpointError, match=f"{length} of {len(whole)} bytes"):
            read_weights(path, written)
    path.write_bytes(whole + b"\0")
    with pytest.raises(CheckpointError, match=f"has {len(whole) + 1} bytes"):
        read_weights(path, written)


def test_every_flipped_byte_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w"
    written = write_weights(path, MIXED)
    whole = bytearray(path.read_bytes())
    for place in range(len(whole)):
        whole[place] ^= 1 << place % 8
        path.write_bytes(whole)
        with pytest.raises(CheckpointError):
            read_weights(path, written)
        whole[place] ^= 1 << place % 8


@given(data=st.binary(max_size=200), header=st.booleans())
def test_any_bytes_are_tensors_or_refused(scratch: Path, data: bytes, header: bool) -> None:
    path = scratch / "w"
    path.write_bytes(struct.pack("<Q", len(data)) + data if header else data)
    try:
        assert isinstance(read_weights(path), dict)
    except CheckpointError as error:
        assert error.what == str(path)  # noqa: PT017


@given(place=st.integers(0, 10_000), value=st.integers(0, 255))
def test_a_foreign_header_is_read_or_refused(scratch: Path, place: int, value: int) -> None:
    path = scratch / "w"
    if not (scratch / "whole").exists():  # once: to sync it takes a while
        write_weights(scratch / "whole", MIXED)
    data = bytearray((scratch / "whole").read_bytes())
    data[place % len(data)] = value
    path.write_bytes(data)
    try:
        read_weights(path)
    except CheckpointError as error:
        assert error.what == str(path)  # noqa: PT017


def test_a_missing_weight_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"w: cannot be read \(No such file"):
        read_weights(tmp_path / "w", Written(0, 0))
