"""What docs/serve-*.md tell to do: their commands are run, and their addresses are there."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import OpenAI

from tests.serve.fake import CONTRACTS, FakeService, sentence, serving

DOCS = Path(__file__).parents[3] / "docs"
PAGES = ("serve-shell.md", "serve-open-webui.md", "serve-photoprism.md")
ADDRESS = "http://127.0.0.1:8000"
PHOTO = b"\xff\xd8 a photo \x00" * 20_000  # its base64 is too long for an argument


def blocks(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def routes() -> set[str]:
    routers = [contract.router(FakeService()) for contract in CONTRACTS]
    return {route.path for router in routers for route in router.routes}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving(FakeService()) as address:
        yield address


COMMANDS = blocks("serve-shell.md", "bash")


@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("jq")), reason="needs curl and jq")
@pytest.mark.parametrize("command", [c for c in COMMANDS if "/v1/caption" not in c])
def test_a_command_gives_the_caption(command: str, address: str, tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(PHOTO)
    assert ADDRESS in command
    words = ["bash", "-euo", "pipefail", "-c", command.replace(ADDRESS, address)]
    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=30)
    assert (ran.stdout.strip(), ran.stderr) == (sentence(PHOTO), "")


def test_the_client_in_python_gives_the_caption(
    address: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "photo.jpg").write_bytes(PHOTO)
    monkeypatch.chdir(tmp_path)
    (program,) = blocks("serve-open-webui.md", "python")
    kept: dict[str, object] = {}
    exec(program.replace(ADDRESS, address), kept)
    assert capsys.readouterr().out.strip() == sentence(PHOTO)
    client = kept["client"]
    assert isinstance(client, OpenAI)
    client.close()


@pytest.mark.parametrize("page", PAGES)
def test_addresses_are_there(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    named = set(re.findall(r"(?<=:8000)/[\w/]+", text))
    assert named
    assert {path for path in named if path != "/v1/caption"} <= routes() | {"/v1"}


def test_the_table_of_paths_is_complete() -> None:
    text = (DOCS / "serve-open-webui.md").read_text(encoding="utf-8")
    named = {path.replace("/naic", "/{name:path}") for path in re.findall(r"`(/\w+/[^`]+)`", text)}
    assert named == {path for path in routes() if "vision" not in path}
