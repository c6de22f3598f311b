"""What docs/serve-*.md tell to do: their commands are run, and their addresses are there."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from openai import OpenAI

from naic.errors import ImageError
from naic.runtime.sentences import Caption
from naic.serve.contracts import ollama, openai, photoprism
from naic.serve.service import PLAIN, Asked, Refused, Upload
from tests.serve.fake import FakeService, sentence, serving

DOCS = Path(__file__).parents[3] / "docs"
PAGES = ("serve-shell.md", "serve-open-webui.md", "serve-photoprism.md")
ADDRESS = "http://127.0.0.1:8000"
PHOTO = b"\xff\xd8 a photo \x00" * 20_000  # its base64 is too long for an argument


def blocks(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def routes() -> set[str]:
    contracts = (openai, ollama, photoprism)
    return {route.path for each in contracts for route in each.router(FakeService()).routes}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving(FakeService()) as address:
        yield address


def run(command: str, address: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    assert ADDRESS in command
    words = ["bash", "-uo", "pipefail", "-c", command.replace(ADDRESS, address)]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=30)


COMMANDS = blocks("serve-shell.md", "bash")
OURS = [command for command in COMMANDS if "/v1/caption" in command]
needs_curl = pytest.mark.skipif(
    not (shutil.which("curl") and shutil.which("jq")), reason="curl or jq is not installed"
)


@needs_curl
@pytest.mark.parametrize("command", [c for c in COMMANDS if c not in OURS])
def test_a_command_gives_the_caption(command: str, address: str, tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(PHOTO)
    ran = run(command, address, tmp_path)
    assert (ran.returncode, ran.stdout.strip(), ran.stderr) == (0, sentence(PHOTO), "")


class Busy(FakeService):
    """Refuses the first request."""

    async def caption(
        self, photos: Sequence[Upload], asked: Asked = PLAIN
    ) -> list[Caption | ImageError]:
        self.refusal, refusal = None, self.refusal
        if refusal is not None:
            raise refusal
        return await super().caption(photos, asked)


@needs_curl
def test_the_commands_for_naics_own_interface(tmp_path: Path) -> None:
    one, several, others, folder, as_json = OURS
    (tmp_path / "photo.jpg").write_bytes(PHOTO)
    (tmp_path / "notes.txt").write_bytes(b"notes")
    service = FakeService(bad=[b"notes"])
    with serving(service) as address:
        assert run(one, address, tmp_path).stdout == f"{sentence(PHOTO)}\n"
        said = run(several, address, tmp_path).stdout
        assert said == f"photo.jpg: {sentence(PHOTO)}\nnotes.txt: it is not an image\n"
        said = run(others, address, tmp_path).stdout
        assert [line.partition("  ")[2] for line in said.splitlines()] == [
            sentence(PHOTO, other) for other in range(3)
        ]
        assert run(as_json, address, tmp_path).stdout == f"{sentence(PHOTO)}\n"
    full = Refused(429, "the queue", "it is full", "Try again later.", 1)
    busy = Busy(bad=[b"notes"], refusal=full)
    photos = {"a.jpg": b"1", 'odd "name", b;c.jpg': b"2", "bad.jpg": b"notes"}
    (tmp_path / "holiday").mkdir()
    for name, content in photos.items():
        (tmp_path / "holiday" / name).write_bytes(content)
    with serving(busy) as address:
        ran = run(folder, address, tmp_path)
    texts = {path.name: path.read_text() for path in (tmp_path / "holiday").glob("*.txt")}
    assert texts == {
        "a.txt": f"{sentence(b'1')}\n",
        'odd "name", b;c.txt': f"{sentence(b'2')}\n",
    }
    assert "holiday/bad.jpg: " in ran.stderr
    assert "it is not an image" in ran.stderr


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
    assert named <= routes() | {"/v1", "/v1/caption"}


def test_the_table_of_paths_is_complete() -> None:
    text = (DOCS / "serve-open-webui.md").read_text(encoding="utf-8")
    named = {path.replace("/naic", "/{name:path}") for path in re.findall(r"`(/\w+/[^`]+)`", text)}
    assert named == {path for path in routes() if "vision" not in path}
