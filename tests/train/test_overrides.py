"""Texts from the command line: what they are depends on where they go."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naic.errors import ConfigError
from naic.models.captioners import CAPTIONERS
from naic.models.contract import CaptionerSpec
from naic.train.config import model_config, read_settings
from naic.train.overrides import kind_of, put_over
from naic.train.settings import Settings

PLAIN = 'stage = "teacher_xe"\ncaptioner = "causal"\nout = "o"\ndata = { features = "f" }\n'
LOOKS_LIKE = ["2024", "2026-11-15", "07:30:00", "1e3", "true", "[1]", "{a = 1}", "nan", "0x10"]


def put(name: str, text: str, kind: Any) -> Any:
    values: dict[str, Any] = {}
    put_over(values, name, text, kind)
    for part in name.split("."):
        values = values[part]
    return values


@pytest.mark.parametrize("text", LOOKS_LIKE)
def test_a_path_stays_the_text_it_is(text: str, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(PLAIN)
    given = [("out", text), ("start", text), ("data.vocabulary", text), ("data.features", text)]
    settings = read_settings(path, given)
    found = settings.out, settings.start, settings.data.vocabulary, settings.data.features
    assert found == (Path(text),) * 4


@given(st.text())
def test_any_text_that_is_no_quoted_string_is_a_name(text: str) -> None:
    quoted = text.lstrip(" \t").startswith(("'", '"'))
    found = put("a.b", text, str)
    assert found == text or quoted
    assert isinstance(found, str)


def test_what_is_quoted_loses_its_quotes() -> None:
    assert put("out", '"a b"', Path) == "a b"
    assert put("out", "'2024'", Path) == "2024"
    assert put("out", "it's", Path) == "it's"


@pytest.mark.parametrize(
    ("text", "value"),
    [("3", 3), ("1e-4", 1e-4), ("true", True), ("[1, 3]", [1, 3]), ('["a"]', ["a"]), ("x", "x")],
)
@pytest.mark.parametrize("kind", [int, float, bool, tuple[str, ...], tuple[int, ...], None])
def test_elsewhere_it_is_read_as_toml(text: str, value: object, kind: Any) -> None:
    found = put("run.x", text, kind)
    assert (found, type(found)) == (value, type(value))


def test_kinds() -> None:
    assert kind_of("out", Settings) is Path
    assert kind_of("start", Settings) == Path | None
    assert kind_of("run.batch", Settings) is int
    assert kind_of("data.train", Settings) == tuple[str, ...]
    for name in ("nothing", "run.nothing", "out.nothing", "nothing.out", "model.width", ""):
        assert kind_of(name, Settings) is None


def test_a_captioners_own_names_stay_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the option that chooses the captioner comes later."""

    @dataclass(frozen=True)
    class Own:
        name: str = ""
        size: int = 1

    def nobody(*_: object) -> Any:
        raise AssertionError

    monkeypatch.setitem(CAPTIONERS, "own", CaptionerSpec(Own, nobody, nobody))
    path = tmp_path / "config.toml"
    path.write_text(PLAIN)
    given = [("model.name", "2024"), ("model.size", "2024"), ("captioner", "own")]
    settings = read_settings(path, [*given, ("stage", "student_xe")])
    assert model_config(settings) == Own("2024", 2024)


def test_a_table_that_is_none() -> None:
    with pytest.raises(ConfigError, match=r"--a\.b\.c: b is no table"):
        put_over({"a": {"b": 3}}, "a.b.c", "1", int)
