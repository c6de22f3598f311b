from dataclasses import dataclass
from pathlib import Path

import pytest

from naic.config import read_toml, structure
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
