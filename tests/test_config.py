import math
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naic.config import read_toml, structure, to_toml
from naic.errors import ConfigError


@dataclass(frozen=True)
class Inner:
    rate: float = 0.1


@dataclass(frozen=True)
class Outer:
    inner: Inner = Inner()
    path: Path | None = None
    names: tuple[str, ...] = ()
    flag: bool = False
    count: int = 0


def test_values_arrive_typed() -> None:
    values = {"inner": {"rate": 1}, "path": "a/b", "names": ["x", "y"]}
    assert structure(values, Outer, "c.toml") == Outer(Inner(1.0), Path("a/b"), ("x", "y"))


def test_a_misspelt_key_is_refused_with_its_path() -> None:
    with pytest.raises(ConfigError, match=r"rat.*c\.toml\.inner"):
        structure({"inner": {"rat": 1}}, Outer, "c.toml")


def test_a_wrong_type_is_refused_with_its_path() -> None:
    with pytest.raises(ConfigError, match=r"float.*c\.toml\.inner\.rate"):
        structure({"inner": {"rate": "fast"}}, Outer, "c.toml")


@pytest.mark.parametrize("values", [{"names": "train"}, {"flag": "false"}, {"count": 16.7}])
def test_nothing_is_converted_in_silence(values: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"c\.toml"):
        structure(values, Outer, "c.toml")


def test_broken_toml_names_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text("a = 1\nb = = 2\n")
    with pytest.raises(ConfigError, match=r"c\.toml: is no valid TOML .*line 2"):
        read_toml(path)
    with pytest.raises(ConfigError, match="No such file"):
        read_toml(tmp_path / "none.toml")


@dataclass(frozen=True)
class Deep:
    outer: Outer = Outer()
    text: str = ""
    rates: tuple[float, ...] = ()
    more: dict[str, Any] = field(default_factory=dict)


_PLAIN = st.text() | st.integers() | st.booleans() | st.floats(allow_nan=False)
_OUTERS = st.builds(
    Outer,
    inner=st.builds(Inner, rate=st.floats(allow_nan=False)),
    path=st.none() | st.text().map(Path),
    names=st.lists(st.text(), max_size=3).map(tuple),
    flag=st.booleans(),
    count=st.integers(),
)
_TABLES = st.dictionaries(
    st.text(),
    _PLAIN | st.lists(_PLAIN, max_size=2) | st.dictionaries(st.text(), _PLAIN, max_size=2),
    max_size=3,
)


@given(
    st.builds(
        Deep,
        outer=_OUTERS,
        text=st.text(),
        rates=st.lists(st.floats(allow_nan=False), max_size=3).map(tuple),
        more=_TABLES,
    )
)
def test_settings_survive_toml(settings: Deep) -> None:
    assert structure(tomllib.loads(to_toml(settings)), Deep, "c.toml") == settings


def test_settings_are_written_for_people_to_read() -> None:
    settings = Deep(Outer(Inner(1e-5), Path("a/b"), ("x",)), 'say "a\\b"\x7f\n', (1.0,), {"k": 2})
    assert to_toml(settings) == (
        'text = "say \\"a\\\\b\\"\\u007f\\n"\n'
        "rates = [1.0]\n"
        "\n[outer]\n"
        'path = "a/b"\n'
        'names = ["x"]\n'
        "flag = false\n"
        "count = 0\n"
        "\n[outer.inner]\n"
        "rate = 1e-05\n"
        "\n[more]\n"
        "k = 2\n"
    )
    assert math.isnan(tomllib.loads(to_toml(Inner(math.nan)))["rate"])


def test_what_toml_cannot_say_is_refused() -> None:
    with pytest.raises(TypeError, match="has no form in TOML"):
        to_toml(Deep(more={"k": [object()]}))
