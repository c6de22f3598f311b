"""Every command of the README and of docs/ can be given: it is parsed, and where it may be, run.

A command that would take long is run with --dry-run. What it needs (images, tables, models,
stores) is made small beforehand, by the names that the page gives it. The few that cannot be run so
are listed with the test that runs them: none is passed over.
"""

import io
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tyro

from naic.cli.main import VERBS, main
from naic.errors import ConfigError
from naic.runtime import ready
from naic.tasks.finetune.plan import FinetuneOptions
from naic.tasks.reproduce.preset import read_preset
from naic.train.config import read_settings
from tests.backbones.tiny import use_tiny
from tests.docs_needs import ELSEWHERE, NEEDS
from tests.test_extend import PLUGGED

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def commands(page: Path) -> list[str]:
    """The lines of the page's shell blocks."""
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def words_of(line: str) -> list[str]:
    """The words after `naic` of a line, without comment, pipe and redirection."""
    words = shlex.split(line.rpartition("| ")[2] if "| naic" in line else line, comments=True)
    ends = [words.index(sign) for sign in (">", "<", "|") if sign in words]
    return words[1 : min(ends, default=len(words))]


def plain(line: str) -> str:
    """The command without its comment, single spaces between its words."""
    return shlex.join(shlex.split(line, comments=True))


LINES = [(page, line) for page in PAGES for line in commands(page)]
OURS = [(p, line) for p, line in LINES if re.match(r"(\S+ .*\| )?(\.venv/bin/)?naic ", line)]
THEIRS = [line for page, line in LINES if (page, line) not in OURS]
# What takes a module of the same page is run by tests/test_extend.py.
WITH_PLUGINS = {page.name for page, line in OURS if " --plugin " in line}
OURS = [(page, line) for page, line in OURS if page.name not in WITH_PLUGINS]
AT_ONCE = ("shapes",)  # it has no options apart from the work: it is run, or nothing
RUN_HERE = [(page, line) for page, line in OURS if plain(line) not in ELSEWHERE]


def each_of(lines: list[tuple[Path, str]]) -> pytest.MarkDecorator:
    """Each command once, on the first page that gives it."""
    lines = list({plain(line): (page, line) for page, line in reversed(lines)}.values())[::-1]
    ids = [f"{page.stem}-{line[:60]}" for page, line in lines]
    return pytest.mark.parametrize(("page", "line"), lines, ids=ids)


class Parsed(Exception):  # noqa: N818
    """Raised in place of the work, with the options that were parsed."""


def parse(words: list[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the verb makes of the words."""
    real: Callable[..., Any] = tyro.cli

    def stop(*arguments: Any, **options: Any) -> Any:
        raise Parsed(real(*arguments, **options))

    with monkeypatch.context() as patch:
        patch.setattr(tyro, "cli", stop)
        with pytest.raises(Parsed) as caught:
            main(words)
    return caught.value.args[0]


@each_of(OURS)
def test_it_can_be_given(page: Path, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    words = words_of(line)
    assert words[0] in VERBS
    if words[0] == "train":
        from naic.cli.train import _parse

        request = _parse(words[1:])
        assert read_settings(ROOT / request.config, request.overrides).out
        return
    if words[0] in AT_ONCE:
        return
    options = parse(words, monkeypatch)
    check = getattr(options, "check_values", getattr(options, "check", None))
    if check is not None:
        check()
    if words[0] == "reproduce" and options.study is None:
        assert read_preset(options.preset, quick=options.quick).settings.report


@each_of(RUN_HERE)
def test_it_can_be_run(
    page: Path,
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = words_of(line)
    monkeypatch.setattr(sys, "path", [*sys.path])  # rewards are looked for in the current folder
    monkeypatch.chdir(ROOT)
    options = None if words[0] in ("train", *AT_ONCE) else parse(words, monkeypatch)
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "configs", "configs")
    use_tiny(monkeypatch)  # CLIP and DINOv2 are large, and their weights are not installed
    small = NEEDS[words[0]](words, options)
    monkeypatch.setattr(ready, "SHIPPED", Path("shipped"))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"photo.jpg\0")))
    assert main([_glob(word) for word in small]) == 0, capsys.readouterr().err


def _glob(word: str) -> str:
    """The one file that a pattern stands for: here no shell is there to say it."""
    found = sorted(Path().glob(word)) if "*" in word else []
    return str(found[0]) if found else word


def test_all_pages_are_looked_at() -> None:
    assert {*PLUGGED} == WITH_PLUGINS
    assert len(OURS) >= 60
    named = {words_of(line)[0] for _, line in OURS}
    assert named == {*VERBS} == {*NEEDS}


@pytest.mark.parametrize("line", ELSEWHERE)
def test_what_another_test_runs_is_still_given_and_cannot_be_run_here(
    line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert line in {plain(own) for _, own in OURS}
    file, _, name = ELSEWHERE[line].test.partition("::")
    assert f"\ndef {name}(" in (ROOT / file).read_text(encoding="utf-8")
    with pytest.raises(ConfigError):
        parse([*words_of(line), "--dry-run"], monkeypatch).check()


@pytest.mark.parametrize("line", THEIRS)
def test_other_commands_name_what_is_there(line: str) -> None:
    words = shlex.split(line, comments=True)
    match words[0]:
        case "make":
            targets = set(re.findall(r"^([\w-]+):", MAKEFILE, re.MULTILINE))
            assert {word for word in words[1:] if "=" not in word} <= targets
        case "pip" | ".venv/bin/pip":
            _check_pip(words)
        case "docker":
            _check_docker(words)
        case "python":
            assert (ROOT / words[1]).is_file()
        case "apt":
            assert words[1] == "install"
        case _:
            pytest.fail(f"nothing here knows how to check: {line}")


def _check_pip(words: list[str]) -> None:
    """What it names is there; naic itself comes from the clone, as no index has it."""
    assert words[1] in ("install", "wheel", "download")
    for word in words:
        extras = re.fullmatch(r"\.\[(.+)\]", word)
        if extras:
            assert {*extras[1].split(",")} <= {*PROJECT["optional-dependencies"]}
        if word.endswith(".txt"):
            assert (ROOT / word).is_file()
        if word.startswith("dist/"):
            assert "--wheel --outdir dist ." in MAKEFILE
        if re.match(r"naic\b", word):
            assert {"--no-index", "--find-links"} <= {*words}


def _check_docker(words: list[str]) -> None:
    known = set(re.findall(r"^ARG (\w+)", DOCKERFILE, re.MULTILINE))
    for i, word in enumerate(words):
        if word == "--build-arg":
            name, _, value = words[i + 1].partition("=")
            assert name in known
            if name == "EXTRAS":
                assert {*value.split(",")} <= {*PROJECT["optional-dependencies"]}
    if words[1] == "run":
        verb = next(i for i, word in enumerate(words) if word.startswith("naic:")) + 1
        assert words[verb] in VERBS


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if not link.startswith("http"):
                assert (page.parent / link).exists(), f"{page.name}: {link}"


PRIVATE = (
    r"\b(eyes|hearers|by heart|of chance|looks at test|log of looks|materials|machinery"
    r"|workshop|crew|rivals)\b"
)
NAMED_ONCE = ("Older settings call it `eyes`",)  # what an old option was called may be said


def test_words_that_only_this_project_would_understand_are_not_used() -> None:
    texts = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "configs").rglob("*.toml")]
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *texts):
        text = path.read_text(encoding="utf-8")
        for sentence in NAMED_ONCE:
            text = text.replace(sentence, "")
        assert re.findall(PRIVATE, text, re.IGNORECASE) == [], path


def test_the_options_of_the_finetuning_guide_exist() -> None:
    """The rows of its table, each added to the plain command."""
    rows = re.findall(
        r"^\| .* \| `(--[^`]+)` \|$", (ROOT / "docs/finetune.md").read_text(), re.MULTILINE
    )
    assert len(rows) >= 6
    plain = FinetuneOptions("captions.csv", Path("out"))
    for row in rows:
        words = ["captions.csv", "--out", "out", *shlex.split(row)]
        chosen = tyro.cli(FinetuneOptions, args=words)
        assert chosen != plain
        chosen.check()


# The Dockerfile cannot be built by a test; what can be read in it is read.


def test_the_dockerfile_copies_what_is_there() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    for sources in re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE):
        for name in sources.split():
            assert (ROOT / name).exists()
            assert f"!{name}" in ignored, f"{name} does not get to the builder"


def test_all_that_the_wheel_is_made_of_is_copied() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    copied = " ".join(re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE)).split()
    wheel = build["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = [*wheel["force-include"], *wheel["packages"], PROJECT["readme"]]
    for path in (*needed, *PROJECT["license-files"], "pyproject.toml"):
        assert path.split("/")[0] in copied


def test_the_dockerfile_keeps_to_the_project() -> None:
    defaults = dict(re.findall(r"^ARG (\w+)=(.*)$", DOCKERFILE, re.MULTILINE))
    assert {*filter(None, defaults["EXTRAS"].split(","))} <= {*PROJECT["optional-dependencies"]}
    assert f"torch=={defaults['TORCH']}" in (ROOT / "constraints.txt").read_text()
    assert defaults["PYTHON"] in ("3.11", "3.12")
    stages = DOCKERFILE.split("\nFROM ")
    assert "\nUSER naic\n" in stages[-1]
    assert stages[-1].index("USER naic") < stages[-1].index('ENTRYPOINT ["naic"]')
    assert "useradd" in stages[-1]
