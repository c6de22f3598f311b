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


@pytest.mark.parametrize(
    "value",
    [
        np.ones(2), np.float32(1), datetime.date(2020, 1, 1), {1, 2}, bytearray(b"x"), print,
        collections.OrderedDict(), array.array("d", [1.0]), Exception("x"),
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
