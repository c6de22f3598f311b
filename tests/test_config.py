import math
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naic.config import read_toml, structure, to_toml, value_of
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
    kind: Literal["a", "b"] = "a"


def test_values_arrive_typed() -> None:
    values = {"inner": {"rate": 1}, "path": "a/b", "names": ["x", "y"]}
    assert structure(values, Outer, "c.toml") == Outer(Inner(1.0), Path("a/b"), ("x", "y"))


def test_a_misspelt_key_is_refused_with_its_path() -> None:
    with pytest.raises(ConfigError) as caught:
        structure({"inner": {"rat": 1}}, Outer, "c.toml")
    assert str(caught.value) == (
        "c.toml: inner.rat: there is no such key. Did you mean rate? Keys there are: rate."
    )


def test_a_wrong_type_is_refused_with_its_path() -> None:
    with pytest.raises(ConfigError) as caught:
        structure({"inner": {"rate": "fast"}, "kind": "z"}, Outer, "c.toml")
    assert str(caught.value) == (
        "c.toml: inner.rate: 'fast' is not a number; kind: there is no 'z'. "
        "Give a number, such as 0.5."
    )


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"kind": "z"}, "kind: there is no 'z'. One of: a, b."),
        ({"flag": "yes"}, "flag: 'yes' is not true or false. Write true or false."),
        ({"count": 1.5}, "count: 1.5 is not a whole number. Give a whole number, such as 3."),
        ({"path": 3}, "path: 3 is not a path. Give a path as text, in quotes."),
        ({"names": "val"}, "names: 'val' is not a list. Write it as [\"val\"]."),
        ({"names": [1]}, "names: 1 is not text. Put it in quotes."),
        ({"inner": 3}, "inner: is not a table. Write [inner], and its keys below."),
    ],
)
def test_a_bad_value_is_told_in_plain_words(values: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        structure(values, Outer, "c.toml")
    assert str(caught.value) == f"c.toml: {told}"


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("3", float, 3),
        ("true", bool, True),
        ("2024", Path, "2024"),
        ('"a b"', str, "a b"),
        ("3", str, "3"),
        ("b", Literal["a", "b"], "b"),
        ("[1, 2]", tuple[int, ...], [1, 2]),
        ('["x"]', tuple[Path, ...], ["x"]),
    ],
)
def test_the_command_line_gives_text(text: str, kind: Any, value: object) -> None:
    assert value_of(text, kind, "--x") == value


@pytest.mark.parametrize(
    ("text", "kind", "told"),
    [
        ("z", Literal["a", "b"], "there is no 'z'. One of: a, b."),
        ("3", Literal["a", "b"], "there is no '3'. One of: a, b."),
        ("abc", float, "'abc' is not a number. Give a number, such as 0.5."),
        ("1.5", int, "1.5 is not a whole number. Give a whole number, such as 3."),
        ("yes", bool, "'yes' is not true or false. Write true or false."),
        ("val", tuple[str, ...], "'val' is not a list. Write --x '[\"val\"]'."),
        ("[a, b]", tuple[str, ...], "'[a, b]' is not a list. Write --x '[\"a\", \"b\"]'."),
        ("3", tuple[int, ...], "3 is not a list. Write --x '[3]'."),
    ],
)
def test_a_bad_value_on_the_command_line_names_its_option(text: str, kind: Any, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        value_of(text, kind, "--x")
    assert str(caught.value) == f"--x: {told}"


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
        "rates = [\n    1.0,\n]\n"
        "\n[outer]\n"
        'path = "a/b"\n'
        'names = [\n    "x",\n]\n'
        "flag = false\n"
        "count = 0\n"
        'kind = "a"\n'
        "\n[outer.inner]\n"
        "rate = 1e-05\n"
        "\n[more]\n"
        "k = 2\n"
    )
    assert math.isnan(tomllib.loads(to_toml(Inner(math.nan)))["rate"])


def test_files_written_before_are_read_the_same() -> None:
    """Lists once stood on one line."""
    settings = Deep(Outer(Inner(1e-5), Path("a/b"), ("x",)), rates=(1.0, 2.0), more={"k": [1, 2]})
    before = (
        'text = ""\nrates = [1.0, 2.0]\n\n[outer]\npath = "a/b"\nnames = ["x"]\nflag = false\n'
        "count = 0\n\n[outer.inner]\nrate = 1e-05\n\n[more]\nk = [1, 2]\n"
    )
    assert structure(tomllib.loads(before), Deep, "c.toml") == settings
    assert tomllib.loads(to_toml(settings)) == tomllib.loads(before) | {
        "outer": {**tomllib.loads(before)["outer"], "kind": "a"}
    }


def test_what_toml_cannot_say_is_refused() -> None:
    with pytest.raises(TypeError, match="has no form in TOML"):
        to_toml(Deep(more={"k": [object()]}))
