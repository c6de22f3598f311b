"""The scripts complete what the verbs take; each is tried in its shell, where that is installed."""

import dataclasses
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from tyro.conf import FlagCreatePairsOff, Positional, arg

from naic.cli.completion import Option, Verb, bash, describe, fish, read_field, zsh
from naic.cli.main import VERBS, main
from naic.models.config import TransformerConfig
from naic.tasks.caption.options import CaptionOptions
from naic.tasks.evaluate.options import EvaluateOptions
from naic.tasks.finetune.plan import FinetuneOptions
from naic.tasks.options import DistilOptions, PackOptions, PrepareOptions
from naic.tasks.reproduce.run_file import ReproduceOptions
from naic.tasks.watch.options import WatchOptions
from naic.train.config import setting_kinds
from naic.train.settings import Settings

# Stands in for a TAB at the end of a line, as bash itself would call the function.
PRESS_TAB = """
source naic.bash
COMP_WORDS=({words})
COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
_naic
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the script and some names to complete."""
    place = tmp_path_factory.mktemp("completion")
    (place / "naic.bash").write_text(bash([describe(verb) for verb in VERBS]))
    for name in ("photo one.jpg", "photo*.jpg", "-odd.jpg"):
        (place / name).touch()
    for name in ("holiday", "holiday/models"):
        (place / name).mkdir()
    for name in ("small.onnx", "holiday/model.onnx", "holiday/notes.txt"):
        (place / name).touch()
    return place


def complete(folder: Path, *words: str) -> list[str]:
    """What TAB offers after `naic WORDS`, the last of which is being typed."""
    script = PRESS_TAB.format(words=" ".join(shlex.quote(word) for word in ("naic", *words)))
    done = subprocess.run(
        ["bash", "--norc", "-c", script], cwd=folder, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_bash_takes_the_script(folder: Path) -> None:
    done = subprocess.run(
        ["bash", "--norc", "-c", "source naic.bash; complete -p naic"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "complete -F _naic naic\n"


def test_verbs(folder: Path) -> None:
    assert complete(folder, "") == [*VERBS, "--help", "--version"]
    assert complete(folder, "cap") == ["caption"]
    assert complete(folder, "zzz") == [""]


def test_options(folder: Path) -> None:
    assert complete(folder, "prepare", "table", "x.csv", "--per") == ["--per-shard"]
    assert complete(folder, "train", "--r")[:2] == ["--resume", "--run.epochs"]
    assert complete(folder, "doctor", "--j") == ["--json"]


def test_choices(folder: Path) -> None:
    assert complete(folder, "prepare", "f") == ["flickr8k", "folder"]
    assert complete(folder, "completion", "") == ["bash", "zsh", "fish"]
    assert complete(folder, "train", "a.toml", "--resume", "") == ["auto"]
    assert complete(folder, "finetune", "--reader", "ta") == ["table"]
    assert complete(folder, "evaluate", "--metrics", "CID") == ["CIDEr"]
    assert complete(folder, "caption", "--device", "c") == ["cpu", "cuda"]
    assert complete(folder, "caption", "--device", "=", "c") == ["cpu", "cuda"]
    assert complete(folder, "caption", "--device", "=") == ["auto", "cpu", "cuda"]


def test_file_names(folder: Path) -> None:
    """Spaces stay inside a name, and a star in one is no pattern."""
    assert sorted(complete(folder, "caption", "ph")) == ["photo one.jpg", "photo*.jpg"]
    assert complete(folder, "watch", "ho") == ["holiday"]
    assert complete(folder, "prepare", "--config", "na") == ["naic.bash"]
    assert complete(folder, "prepare", "table", "na") == ["naic.bash"]


def test_folders_where_a_folder_goes(folder: Path) -> None:
    assert complete(folder, "finetune", "x.csv", "--out", "") == ["holiday"]
    assert complete(folder, "watch", "--out", "") == ["holiday"]
    assert complete(folder, "pack", "--backbone", "") == ["holiday"]


def test_folders_and_graphs_where_a_model_goes(folder: Path) -> None:
    assert complete(folder, "caption", "--model", "") == ["holiday", "small.onnx"]
    inside = ["holiday/models", "holiday/model.onnx"]
    assert complete(folder, "caption", "--model", "holiday/") == inside


def test_nothing_where_only_the_user_knows(folder: Path) -> None:
    assert complete(folder, "prepare", "--batch", "") == [""]


def test_a_tab_starts_no_python(folder: Path) -> None:
    """With an empty PATH there is nothing that could be started."""
    script = PRESS_TAB.format(words="naic evaluate --sp")
    done = subprocess.run(
        [shutil.which("bash") or "bash", "--norc", "-c", script],
        cwd=folder,
        env={"PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "--split\n"
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("verb", "options"),
    [
        ("caption", CaptionOptions),
        ("watch", WatchOptions),
        ("prepare", PrepareOptions),
        ("distil", DistilOptions),
        ("evaluate", EvaluateOptions),
        ("finetune", FinetuneOptions),
        ("pack", PackOptions),
        ("reproduce", ReproduceOptions),
    ],
)
def test_no_option_of_a_verb_is_forgotten(verb: str, options: type) -> None:
    positional = {"paths", "reader", "source", "model", "results", "captions", "folder"}
    known = {name for option in describe(verb).options for name in option.names}
    for field in dataclasses.fields(options):
        name = f"--{field.name.replace('_', '-')}"
        assert name in known or field.name in positional, name


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_its_options(verb: str) -> None:
    described = describe(verb)
    assert described.options
    for option in described.options:
        assert all(re.fullmatch(r"--?[a-z][a-z0-9.-]*", name) for name in option.names), option


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (bool, Option(("--x-y", "--no-x-y"), "flag")),
        (Annotated[bool, FlagCreatePairsOff], Option(("--x-y",), "flag")),
        (Annotated[Path, arg(metavar="DIR")], Option(("--x-y",), "folders")),
        (Annotated[Path | None, arg(metavar="MODEL")], Option(("--x-y",), "models")),
        (Annotated[tuple[Path, ...], arg(metavar="PATH ...")], Option(("--x-y",), "files")),
        (Annotated[str | None, arg(metavar="STORE")], Option(("--x-y",), "folders")),
        (Path | None, Option(("--x-y",), "files")),
        (int, Option(("--x-y",), "text")),
        (float | None, Option(("--x-y",), "text")),
        (Literal["coco", "table"] | None, Option(("--x-y",), "words", ("coco", "table"))),
        (tuple[Literal["a", "b"], ...], Option(("--x-y",), "words", ("a", "b"))),
        (Annotated[str | None, arg(metavar="{auto}")], Option(("--x-y",), "words", ("auto",))),
        (Annotated[Literal["a", "b"], Positional], ("a", "b")),
        (Annotated[str, Positional], ()),
    ],
)
def test_types_of_options(kind: Any, found: Option | tuple[str, ...]) -> None:
    assert read_field("x_y", kind) == found


def test_every_setting_of_a_run_is_completed(folder: Path) -> None:
    names = {name for option in describe("train").options for name in option.names}
    for name in (*setting_kinds(Settings), *setting_kinds(TransformerConfig, "model.")):
        assert name == "model" or f"--{name.replace('_', '-')}" in names
    assert complete(folder, "train", "c.toml", "--cmal.ba") == ["--cmal.baseline"]
    assert complete(folder, "train", "c.toml", "--cmal.baseline", "l") == ["loo"]
    assert complete(folder, "train", "c.toml", "--data.features", "") == ["holiday"]


@pytest.mark.parametrize("maker", [zsh, fish])
def test_other_shells_have_all_verbs_and_options(maker: Callable[[list[Verb]], str]) -> None:
    script = maker([describe(verb) for verb in VERBS])
    for verb in VERBS:
        assert verb in script
    assert "--no-dry-run" in script or "-l no-dry-run" in script


# What each shell offers after `naic ...`; bash, which is everywhere, is tried above.
OFFERED = [
    ("cap", {"caption"}),
    ("caption --dev", {"--device"}),
    ("caption --device c", {"cpu", "cuda"}),
    ("caption --device=c", {"cpu", "cuda"}),
    ("prepare f", {"flickr8k", "folder"}),
    ("finetune x.csv --out ho", {"holiday/"}),
    ("caption --model ", {"holiday/", "small.onnx"}),
    ("caption --model holiday/m", {"holiday/models/", "holiday/model.onnx"}),
]


@pytest.mark.skipif(not shutil.which("fish"), reason="fish is not installed")
def test_in_fish(folder: Path) -> None:
    (folder / "naic.fish").write_text(fish([describe(verb) for verb in VERBS]))
    for line, offered in OFFERED:
        assert in_fish(folder, line) == offered, line


def in_fish(folder: Path, line: str) -> set[str]:
    code = f"source naic.fish; complete -C {shlex.quote(f'naic {line}')}"
    done = subprocess.run(
        ["fish", "--no-config", "-c", code], cwd=folder, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    found = {
        offer.partition("\t")[0].removeprefix("--device=") for offer in done.stdout.split("\n")
    }
    return found - {""}


# Stands in for a TAB, as zsh itself would call the function, with what is zsh's own kept short.
PRESS_TAB_IN_ZSH = """
offer() {{ for word in "$@"; do [[ $word == $PREFIX* ]] && print -r -- $word; done }}
compadd() {{ shift; offer "$@" }}
compset() {{ PREFIX=${{PREFIX#*=}} }}
compdef() {{ }}
_describe() {{ offer ${{${{(P)2}}%%:*}} }}
_path_files() {{
    if [[ $1 == -g ]]; then offer ${{~PREFIX}}${{~2}}(N); else offer $PREFIX*(N/M); fi
}}
_files() {{ _path_files "$@" }}
source ./naic.zsh
words=({words})
CURRENT=$#words
PREFIX=$words[CURRENT]
_naic
"""


@pytest.mark.skipif(not shutil.which("zsh"), reason="zsh is not installed")
def test_in_zsh(folder: Path) -> None:
    (folder / "naic.zsh").write_text(zsh([describe(verb) for verb in VERBS]))
    for line, offered in OFFERED:
        assert in_zsh(folder, line) == offered, line


def in_zsh(folder: Path, line: str) -> set[str]:
    words = " ".join(shlex.quote(word) for word in ("naic", *line.split(" ")))
    done = subprocess.run(
        ["zsh", "-f", "-c", PRESS_TAB_IN_ZSH.format(words=words)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return set(done.stdout.splitlines())


def test_the_command_prints_the_script(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    assert main(["completion", "bash"]) == 0
    assert capsys.readouterr().out == (folder / "naic.bash").read_text() + "\n"


def test_it_needs_no_torch() -> None:
    code = (
        "import sys; from naic.cli.main import main; main(['completion', 'zsh'])\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
