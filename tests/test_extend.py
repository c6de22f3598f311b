"""The examples of docs/add-*.md, put where the pages say, go through the commands."""

import importlib
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from naic.cli.main import main
from naic.data.features import StoredRecord
from naic.train.config import settings_toml
from tests.docs_needs import write_modules
from tests.plugging import unplugged
from tests.tasks.teachers import make_teacher
from tests.train.runs import make_learnable_store, make_settings

DOCS = Path(__file__).parent.parent / "docs"
MODULES = {"my_length": "near", "my_words": "wording", "my_style": "style"}  # of add-reward.md
PLUGGED = ("add-backbone.md", "add-captioner.md")


def blocks(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def asked(module: str, function: str, *texts: str) -> list[float]:
    """What a function of the page says of sentences; people called the image "A red car."."""
    image = StoredRecord("0", "", "train", ("A red car.",), None)
    given = vars(importlib.import_module(module))[function](list(texts), [image] * len(texts))
    return [float(value) for value in given]


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The files that the page prints, in the current folder, beside what its config needs."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.syspath_prepend(tmp_path)
    for module in MODULES:
        sys.modules.pop(module, None)
    monkeypatch.chdir(tmp_path)
    write_modules(DOCS / "add-reward.md")
    Path("configs/shapes").mkdir(parents=True)
    make_teacher(Path("student"), make_learnable_store(Path("store")), captioner="parallel")
    run = {"epochs": 0.6, "validate_every": 9.0, "save_every": 9.0}
    settings = make_settings(Path("store"), Path("run"), "cmal", start="student", run=run)
    plain = replace(settings, cmal=replace(settings.cmal, cider=0.0))
    Path("configs/shapes/cmal.toml").write_text(settings_toml(plain))
    yield
    for module in MODULES:
        sys.modules.pop(module, None)


def test_the_rewards_go_through_the_command(page: None) -> None:
    """The table of the page is put into the file; the options of its commands are as good."""
    config = Path("configs/shapes/cmal.toml")
    (table,) = blocks("add-reward.md", "toml")
    empty = "[cmal.reward]\n"
    assert config.read_text().endswith(empty)
    config.write_text(config.read_text().removesuffix(empty) + table)
    assert main(["train", str(config)]) == 0
    (row,) = json.loads(Path("run/report.json").read_text())["scores"]
    assert {f"reward_{module}:{name}" for module, name in MODULES.items()} <= row.keys()
    (commands,) = blocks("add-reward.md", "sh")
    for line in commands.splitlines():
        assert main([*shlex.split(line)[1:], "--out", "other"]) == 0
    assert '[cmal.reward]\n"my_length:near" = 0.5\n' in Path("other/config.toml").read_text()


def test_what_the_rewards_are_worth(page: None) -> None:
    nine = "a b c d e f g h i"
    assert asked("my_length", "near", nine, f"{nine} j k l", "") == pytest.approx([1, 2 / 3, 0])
    said = ["a red red car", "a blue car", "perhaps a red car", "something", ""]
    assert asked("my_words", "wording", *said) == [1, 0, 0, -1, 0]
    like, unlike, nothing = asked("my_style", "style", "one bird sits in deep snow", "snow one", "")
    assert like > unlike >= nothing


def test_a_reward_from_python(page: None, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = (own for own in blocks("add-reward.md", "python") if not own.startswith('"""'))
    exec(code, {"__name__": "page"})
    assert "'reward_short': 0." in capsys.readouterr().out
    assert "[cmal.reward]\nshort = 0.5\n" in Path("runs/short/config.toml").read_text()


def write_files(page: str) -> None:
    """The module and the settings of a page, under the names that it gives them."""
    text = (DOCS / page).read_text(encoding="utf-8")
    (name,) = re.findall(r"The file `(\w+\.py)`:\n\n```python", text)
    (code,) = blocks(page, "python")
    Path(name).write_text(code)
    for settings in blocks(page, "toml"):
        assert "`run.toml`:\n\n```toml" in text
        Path("run.toml").write_text(settings)


@pytest.mark.parametrize("page", PLUGGED)
def test_a_plug_in_goes_through_the_commands_of_its_page(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(page)
    (commands,) = blocks(page, "sh")
    said = ""
    for line in commands.splitlines():
        with unplugged():  # each is a process of its own to a reader
            assert main(shlex.split(line, comments=True)[1:]) == 0, capsys.readouterr().err
        said = capsys.readouterr().out
    if page == "add-backbone.md":
        assert "means" in said  # of `naic show`
        return
    assert said.count(".png: ") == 3  # of `naic caption`
    assert 'made_with = [\n    "mean_captioner",\n]' in Path("run/best/config.toml").read_text()
    distil = ["distil", "run/best", "--features", "store", "--out", "pseudo"]
    with unplugged():
        assert main([*distil, "--plugin", "mean_captioner"]) == 2
        assert "cannot search for sentences" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("page", PLUGGED)
def test_so_it_does_in_a_shell(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the script, which does not look in the current folder by itself."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    write_files(page)
    subprocess.run(["bash", "-ec", *blocks(page, "sh")], check=True)
