"""Texts from the command line: what they are depends on where they go."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naic.config import value_of
from naic.models.captioners import CAPTIONERS
from naic.models.contract import CaptionerSpec
from naic.train.config import model_config, read_settings, setting_kinds
from naic.train.settings import Settings

PLAIN = 'stage = "teacher_xe"\ncaptioner = "causal"\nout = "o"\ndata = { features = "f" }\n'
LOOKS_LIKE = ["2024", "2026-11-15", "07:30:00", "1e3", "true", "[1]", "{a = 1}", "nan", "0x10"]


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
    found = value_of(text, str, "--a.b")
    assert found == text or quoted
    assert isinstance(found, str)


def test_what_is_quoted_loses_its_quotes() -> None:
    assert value_of('"a b"', Path, "--out") == "a b"
    assert value_of("'2024'", Path, "--out") == "2024"
    assert value_of("it's", Path, "--out") == "it's"


def test_kinds() -> None:
    kinds = setting_kinds(Settings)
    assert kinds["out"] is Path
    assert kinds["start"] == Path | None
    assert kinds["run.batch"] is int
    assert kinds["data.train"] == tuple[str, ...]
    assert not {"run", "run.nothing", "model.width"} & kinds.keys()


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
