"""What the README and the configs say must work."""

import ast
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch
import tyro

from naic.cli.main import VERBS, main
from naic.cli.prepare import _from_file
from naic.cli.train import _parse
from naic.data.readers import READER_NAMES
from naic.decode.decoding import Decoding
from naic.tasks.evaluate import EvaluateOptions
from naic.tasks.prepare import PrepareOptions
from naic.train.config import read_settings

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "docs" / "evaluate.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)
GUIDE_BLOCKS = re.findall(r"```(\w+)\n(.*?)```", GUIDE, re.DOTALL)
TRAIN_BLOCKS = re.findall(
    r"```(\w+)\n(.*?)```", (ROOT / "docs" / "train.md").read_text(encoding="utf-8"), re.DOTALL
)


@pytest.fixture
def features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which the README's examples find their `features`."""
    monkeypatch.chdir(tmp_path)
    words = "prepare shapes 8 --out features --device cpu"
    assert main(shlex.split(words)) == 0
    return tmp_path / "features"


def test_the_python_examples_run_and_say_what_they_claim(features: Path) -> None:
    claims = 0
    for code in [code for language, code in BLOCKS if language == "python"]:
        names: dict[str, object] = {}
        exec(code, names)
        for expression, claim in re.findall(r"^(\S.*?)\s+# ('.*')$", code, re.MULTILINE):
            assert eval(expression, names) == ast.literal_eval(claim)
            claims += 1
    assert claims >= 1


def test_the_commands_are_ones_that_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    commands = [
        shlex.split(line, comments=True)
        for language, code in (*BLOCKS, *GUIDE_BLOCKS, *TRAIN_BLOCKS)
        if language == "sh"
        for line in code.splitlines()
        if line.startswith("naic ")
    ]
    assert len(commands) >= 7
    for words in commands:
        assert words[1] in VERBS
        if words[1] == "train":
            request = _parse(words[2:])
            assert read_settings(ROOT / request.config, request.overrides).out
        if words[1:3] == ["prepare", "--config"]:
            assert _from_file(ROOT / words[3]).reader in READER_NAMES
        elif words[1] == "prepare":
            assert tyro.cli(PrepareOptions, args=words[2:]).reader in READER_NAMES
        if words[1] == "evaluate":
            assert tyro.cli(EvaluateOptions, args=words[2:]).references


def test_the_options_of_the_guide_exist() -> None:
    """The rows of its table, each added to the plain command."""
    rows = re.findall(r"^\| .* \| `(--[^`]+)`", GUIDE, re.MULTILINE)
    assert len(rows) >= 7
    for row in rows:
        words = ["results.json", "--references", "captions.csv", *shlex.split(row)]
        assert tyro.cli(EvaluateOptions, args=words) != EvaluateOptions(
            Path("results.json"), "captions.csv"
        )


def test_the_captioner_of_the_guide_can_be_built() -> None:
    code = next(code for language, code in TRAIN_BLOCKS if language == "python")
    names: dict[str, Any] = {}
    exec(code, names)
    family = names["captioners"]["mean"]
    model = family.build(family.config(), 3, 9)
    features = torch.zeros(2, 4, 3)
    assert model(features).shape == (2, 1, model.length, 9)
    assert family.caption(model, features, None, Decoding()).shape == (2, model.length)


def test_make_targets_named_in_the_documents_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))
    for document in ("README.md", "CONTRIBUTING.md"):
        text = (ROOT / document).read_text(encoding="utf-8")
        named = set(re.findall(r"^make ([\w-]+)", text, re.MULTILINE))
        assert named
        assert named <= targets


def test_every_reader_is_in_the_readme() -> None:
    assert {name for name in READER_NAMES if f"| `{name}` |" in README} == set(READER_NAMES)


@pytest.mark.parametrize(
    "path", sorted((ROOT / "configs" / "prepare").glob("*.toml")), ids=lambda path: path.stem
)
def test_every_config_parses(path: Path) -> None:
    assert _from_file(path).reader in READER_NAMES
