import errno
import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tyro

from naic.data.records import Problem
from naic.errors import CheckpointError, ConfigError
from naic.runtime import captioner
from naic.tasks.caption import Captioned, CaptionOptions, caption, find_pictures
from tests.images.pictures import encode, photo
from tests.runtime.small import LENGTH, NETWORK, make_model

GUIDE = (Path(__file__).parents[2] / "docs" / "caption.md").read_text(encoding="utf-8")


@pytest.fixture
def photos(tmp_path: Path) -> Callable[..., Path]:
    """Makes a folder of pictures by their names; files of other kinds are empty."""

    def make(*names: str) -> Path:
        for name in names:
            path = tmp_path / "photos" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(encode(photo(), "PNG") if path.suffix.lower() == ".png" else b"")
        return tmp_path / "photos"

    return make


def test_a_folder_stands_for_all_pictures_in_it(photos: Callable[..., Path]) -> None:
    folder = photos("b/c.png", "b-a.PNG", "a.heic", "a.txt", ".hidden.png", ".git/x.png", "z.png")
    found, problems = find_pictures([folder / "z.png", folder, folder / "missing.jpg"])
    names = ["z.png", "a.heic", "b/c.png", "b-a.PNG", "z.png", "missing.jpg"]
    assert found == [folder / name for name in names]
    assert problems == []


def test_a_folder_without_pictures_is_a_problem(photos: Callable[..., Path]) -> None:
    folder = photos("notes/a.txt", "a.png")
    found, problems = find_pictures([folder / "notes", folder / "a.png"])
    assert found == [folder / "a.png"]
    assert [(p.where, p.why) for p in problems] == [
        (str(folder / "notes"), "there is no picture in it")
    ]
    assert ".jpg, " in problems[0].hint


def test_a_folder_that_cannot_be_listed_is_a_problem(
    photos: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = photos("shut/a.png", "b.png")
    scan = os.scandir

    def refuse(path: str) -> Any:
        if Path(path).name == "shut":  # not by its permissions, which root may pass over
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    found, problems = find_pictures([folder])
    assert found == [folder / "b.png"]
    why = "the folder cannot be listed (Permission denied)"
    assert problems == [Problem(str(folder / "shut"), why, "Check its permissions.")]


def test_captions_and_problems_come_in_order(photos: Callable[..., Path], tmp_path: Path) -> None:
    folder = photos("a.png", "b.jpg", "c.png", "notes/a.txt")
    model = make_model(tmp_path / "model", eyes=NETWORK, says="cat")
    options = CaptionOptions((folder, folder / "notes"), model, device="cpu", batch=2)
    outcomes = list(caption(options))
    where = [o.where if isinstance(o, Problem) else str(o.path) for o in outcomes]
    assert where == [str(folder / name) for name in ("notes", "a.png", "b.jpg", "c.png")]
    assert [type(o) for o in outcomes] == [Problem, Captioned, Problem, Captioned]
    assert isinstance(outcomes[2], Problem)
    assert (outcomes[2].why, outcomes[2].hint) == ("it is empty", "Copy or download it again.")


def test_what_cannot_be_is_refused_before_the_model_is_read(photos: Callable[..., Path]) -> None:
    folder = photos("notes/a.txt", "a.png")
    nowhere = folder / "no-model"
    for options, why in (
        (CaptionOptions((), nowhere), "no picture was named"),
        (CaptionOptions((folder / "notes",), nowhere), "there is no picture in it"),
        (CaptionOptions((folder,), nowhere, batch=0), "0 is below 1"),
    ):
        with pytest.raises(ConfigError, match=why):
            caption(options)
    with pytest.raises(CheckpointError, match="is no model folder"):
        caption(CaptionOptions((folder,), nowhere))


def test_the_commands_of_the_guide_can_be_given() -> None:
    blocks = re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    commands = [shlex.split(line, comments=True) for line in lines if line.startswith("naic ")]
    assert len(commands) >= 4
    for words in commands:
        assert words[1] == "caption"
        tyro.cli(CaptionOptions, args=words[2:]).check()


def test_the_example_of_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(captioner, "SHIPPED", make_model(Path("m"), eyes=NETWORK, says="cat"))
    Path("photo.jpg").write_bytes(encode(photo(), "JPEG"))
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["said"].text == " ".join(["cat"] * LENGTH)


def test_the_guide_shows_every_option() -> None:
    rows = re.findall(r"^\| .* \| `(--[^`]+)`", GUIDE, re.MULTILINE)
    plain = CaptionOptions((Path("a.jpg"),))
    changed = [tyro.cli(CaptionOptions, args=["a.jpg", *shlex.split(row)]) for row in rows]
    assert all(options != plain for options in changed)
    named = {row.split()[0] for row in rows}
    assert named == {"--model", "--json", "--confidence", "--device", "--batch"}
