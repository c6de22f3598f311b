"""What docs/python.md says must work."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import skimage

from naic.runtime import ready as room
from naic.runtime.captioner import Caption
from naic.runtime.ready import PRECISIONS, RUNTIMES
from tests.runtime.small import NETWORK, make_model

PAGE = (Path(__file__).parents[2] / "docs" / "python.md").read_text(encoding="utf-8")
PHOTO = Path(skimage.__file__).parent / "data" / "rocket.jpg"


def test_its_examples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a small model: the words of the shipped one change when it is trained again."""
    monkeypatch.setattr(
        room, "SHIPPED", make_model(tmp_path / "model", backbone=NETWORK, says="cat")
    )
    monkeypatch.chdir(tmp_path)
    Path("holiday").mkdir()
    shutil.copy(PHOTO, "photo.jpg")
    shutil.copy(PHOTO, "holiday/one.jpg")
    Path("holiday/torn.jpg").write_bytes(b"\xff\xd8\xff")
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 4
    for code in blocks:
        exec(code, names)
    said = names["said"]
    assert isinstance(said, Caption)
    assert said.text.split().count("cat") == 3  # every second one: no word twice in a row
    assert len(said.alternatives) == 3
    assert said.confidence == said.alternatives[0].confidence
    one, torn = capsys.readouterr().out.splitlines()
    assert one == f"holiday/one.jpg {said.text}"
    assert torn.startswith("holiday/torn.jpg holiday/torn.jpg: ")
    assert names["captioner"].pipeline("photo.jpg") == [{"generated_text": said.text}]


def test_it_names_every_runtime_and_precision() -> None:
    for name in (*RUNTIMES, *PRECISIONS):
        assert name == "auto" or f"`{name}`" in PAGE
