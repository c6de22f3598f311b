"""Plain data comes out of a pickle as unpickling would give it; nothing else comes out at all."""

import array
import collections
import contextlib
import datetime
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from naic.data.regions.plainpickle import plain_value
from naic.errors import DataError

SIMPLE = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
PLAIN = st.recursive(
    SIMPLE,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner, inner, inner)
        | st.dictionaries(st.text(max_size=4) | st.integers(), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(PLAIN, st.integers(0, pickle.HIGHEST_PROTOCOL))
def test_plain_data_is_read(value: Any, protocol: int) -> None:
    assert plain_value(pickle.dumps(value, protocol), "here") == value


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_bytes_and_shared_parts_are_read(protocol: int) -> None:
    shared = [b"\x00" * 300, "text"]
    value = {"a": shared, "b": shared, "c": (), "d": {}, "e": 2**80}
    found = plain_value(pickle.dumps(value, protocol), "here")
    assert found == value
    assert found["a"] is found["b"]


@pytest.mark.parametrize("protocol", range(5))
def test_arrays_and_ordered_dictionaries_are_read(protocol: int) -> None:
    """As ViLBERT's later databases have them, and rows that csv read in Python 3.6."""
    arrays: dict[str, Any] = {
        "features": np.arange(6, dtype="<f4").reshape(2, 3),
        "columns": np.arange(6.0).reshape(2, 3).T,
        "big": np.arange(3, dtype=">i2"),
        "none": np.empty((0, 4), np.float16),
        "mask": np.array([True, False]),
    }
    again = {f"{name} again": own for name, own in arrays.items()}
    value: dict[str, Any] = collections.OrderedDict(
        {**arrays, **again, "number": np.float32(1.5), "text": b"x"}
    )
    found = plain_value(pickle.dumps(value, protocol), "here")
    assert list(found) == list(value)
    for name, own in value.items():
        assert np.array_equal(found[name], own)
        assert np.asarray(found[name]).dtype == np.asarray(own).dtype or name in ("number", "text")


@pytest.mark.parametrize("value", [np.array([print]), np.array(["x"]), np.array([(1,)], "i4,")])
def test_arrays_of_other_things_are_refused(value: Any) -> None:
    with pytest.raises(DataError, match=r"not of numbers|plain data"):
        plain_value(pickle.dumps(value, 4), "here")


@pytest.mark.parametrize(
    "value",
    [
        np.ones, datetime.date(2020, 1, 1), {1, 2}, bytearray(b"x"), print,
        collections.Counter("x"), array.array("d", [1.0]), Exception("x"),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_all_else_is_refused(value: Any, protocol: int) -> None:
    with pytest.raises(DataError, match="holds more than plain data"):
        plain_value(pickle.dumps({"features": value}, protocol), "here")


@given(st.binary(max_size=60), st.integers(0, 40))
def test_damage_is_an_error_of_ours(noise: bytes, at: int) -> None:
    whole = pickle.dumps({"features": b"abc", "n": [1, 2, 3]})
    for data in (noise, whole[:at], whole[:at] + noise + whole[at:]):
        with contextlib.suppress(DataError):
            plain_value(data, "here")
