"""A module of the user's: found, or told why not; and never for the sake of a stranger's file."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naic.errors import ConfigError
from naic.importing import asks_for, is_module_name, load_module
from tests.plugging import unplugged


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that Python does not look in, as it does not for the script `naic`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place not in ("", ".")])
    with unplugged():
        yield tmp_path


def refused(name: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load_module(name, "run.toml: plugins")
    assert caught.value.what == "run.toml: plugins"
    return caught.value


def test_the_current_folder_comes_last(here: Path) -> None:
    (here / "json.py").write_text("raise RuntimeError")  # stands in for nothing
    Path("lies_here.py").write_text("import json\nVALUE = json.loads('3')\n")
    Path("package_here").mkdir()
    Path("package_here/inside.py").write_text("import lies_here\nVALUE = lies_here.VALUE + 1\n")
    before = [*sys.path]
    assert load_module("json", "--plugin").loads("1") == 1
    assert sys.path == before  # what is installed is found without it
    assert load_module("package_here.inside", "--plugin").VALUE == 4
    assert sys.path == [*before, str(here)]


@pytest.mark.parametrize("name", ["no_such_module", "json.nothing", "no_such.module.inside"])
def test_what_is_not_there(name: str) -> None:
    assert f"there is no module {name} in {Path.cwd()}, and none is installed" == refused(name).why


@pytest.mark.parametrize(
    ("code", "why", "hint"),
    [
        ("def f(:", "(SyntaxError: ", "Mend it: python -c"),
        ("raise ValueError('a reason\\nand more')", "(ValueError: a reason)", "Mend it: python -c"),
        ("assert False", "(AssertionError: no reason given)", "Mend it: python -c"),
        ("import sys; sys.exit(3)", "(SystemExit: 3)", "Mend it: python -c"),
        ("import no_such_package.x", "(ModuleNotFoundError: No module named 'no_s", "Install what"),
    ],
)
def test_what_fails_is_named_with_its_reason(code: str, why: str, hint: str) -> None:
    Path("fails.py").write_text(code)
    error = refused("fails")
    assert error.why.startswith(f"fails cannot be imported {why}")
    assert hint in error.hint
    assert error.__cause__ is not None
    assert "fails" not in sys.modules


@pytest.mark.parametrize("name", ["run.evil", "run.best.evil", "run.best", "evil", "deeper.evil"])
def test_code_in_a_folder_of_a_model_is_not_run(
    name: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever one stands; but for what is installed, the place of a module is told by its name."""
    folder = here / "run" / "best" / "deeper"
    folder.mkdir(parents=True)
    for own in ("config.toml", "vocab.json", "evil.py", "__init__.py"):
        for path in (here / "run", here / "run" / "best", folder):
            (path / own).write_text("raise RuntimeError" if own.endswith("py") else "")
    if not name.startswith("run"):
        monkeypatch.chdir(here / "run" / "best")
    assert "lies in a folder of a run or a model, whose code is not run" in refused(name).why


def test_code_in_other_folders_may_be_forbidden(here: Path) -> None:
    (here / "out" / "deeper").mkdir(parents=True)
    (here / "out" / "deeper" / "evil.py").touch()
    with pytest.raises(ConfigError, match="deeper lies in a folder of a run or a model"):
        load_module("out.deeper.evil", "--plugin", never_in=[Path("out")])
    load_module("out.deeper.evil", "--plugin", never_in=[Path("other")])


def test_python_can_be_told_to_leave_the_current_folder_out(here: Path) -> None:
    (here / "lies_here.py").touch()
    code = "from naic.importing import load_module; load_module('lies_here', '--plugin')"
    words = [sys.executable, "-P", "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert "no module lies_here is installed, and Python was told to" in done.stderr


ODD = ["", ".", "a.", ".a", "a..b", "a b", "a-b", "./a.py", "a/b", "a\nb", "1a", "é", "a" * 101]


@pytest.mark.parametrize("name", ODD)
def test_what_is_no_name_is_not_tried(name: str) -> None:
    assert not is_module_name(name)
    assert refused(name).why.endswith("is no name of a module")


@given(st.text())
def test_a_name_has_letters_digits_and_dots_alone(text: str) -> None:
    if is_module_name(text):
        assert text.replace(".", "").replace("_", "a").isalnum()
        assert text.isascii()


def test_what_a_file_asks_for_is_told() -> None:
    assert asks_for(None) == asks_for(()) != ""
    said = asks_for(("mine", "other.one"))
    assert "--plugin mine --plugin other.one " in said
    assert 'naic.plugins.use("other.one")' in said


@pytest.mark.parametrize("name", ["x; rm -rf ~", "a\nnaic: all is well", "\x1b[2J", "$(id)", "é"])
def test_what_a_stranger_wrote_is_quoted_and_not_advised(name: str) -> None:
    for names in ((name,), ("mine", name)):
        said = asks_for(names)
        assert ascii(name) in said
        assert said.isascii()
        assert said.isprintable()
        assert "--plugin" not in said
    assert len(asks_for(("(" * 10_000,))) < 200
    assert len(asks_for(("a" * 100,) * 10_000)) < 1000
