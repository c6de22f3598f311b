import json
import math
import os
import sys
from pathlib import Path

import pytest

from naic.cli.main import main
from naic.runtime import captioner
from tests.images.pictures import encode, photo
from tests.runtime.small import LENGTH, NETWORK, WORDS, make_model

SURE = math.exp(2) / (math.exp(2) + len(WORDS) - 4)  # what `says` gives to its word
CATS = " ".join(["cat"] * LENGTH)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model") / "cat", eyes=NETWORK, says="cat")


@pytest.fixture
def home(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a picture; the model inside naic says cat, and nothing else."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(captioner, "SHIPPED", model)
    Path("a.png").write_bytes(encode(photo(), "PNG"))
    return tmp_path


def test_a_line_for_each_picture(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("more").mkdir()
    for name in ("c.jpg", "b.jpg"):
        Path("more", name).write_bytes(encode(photo(), "JPEG"))
    assert main(["caption", "a.png", "more"]) == 0
    said = capsys.readouterr()
    assert said.out == f"a.png: {CATS}\nmore/b.jpg: {CATS}\nmore/c.jpg: {CATS}\n"
    assert said.err == ""


def test_another_model(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_model(home / "dogs", "causal", eyes=NETWORK, says="dogs")
    assert main(["caption", "--model", "dogs", "a.png", "--device", "cpu"]) == 0
    assert capsys.readouterr().out == f"a.png: {' '.join(['dogs'] * LENGTH)}\n"


def test_each_word_with_its_confidence(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["caption", "--confidence", "a.png"]) == 0
    words = " ".join([f"cat ({100 * SURE:.0f}%)"] * LENGTH)
    assert capsys.readouterr().out == f"a.png: {words}\n"


def test_json(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["caption", "--json", "a.png", "a.png"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line) for line in lines] == [{"path": "a.png", "caption": CATS}] * 2
    assert main(["caption", "--json", "--confidence", "a.png"]) == 0
    word = {"word": "cat", "confidence": round(SURE, 4)}
    assert json.loads(capsys.readouterr().out) == {
        "path": "a.png",
        "caption": CATS,
        "words": [word] * LENGTH,
    }


def test_bad_pictures_are_named_and_the_others_captioned(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("torn.png").write_bytes(Path("a.png").read_bytes()[:200])
    assert main(["caption", "torn.png", "a.png", "none.jpg"]) == 3
    said = capsys.readouterr()
    assert said.out == f"a.png: {CATS}\n"
    assert said.err == (
        "naic caption: torn.png: the PNG file is cut short. Copy or download it again.\n"
        "naic caption: none.jpg: there is no such file. Check the path.\n"
    )
    assert main(["caption", "none.jpg"]) == 1  # nothing was done
    assert capsys.readouterr().out == ""


def test_no_picture_at_all_is_bad_usage(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["caption"]) == 2
    assert capsys.readouterr().err == (
        "naic caption: PATH: no picture was named. "
        "Name pictures, or folders of them: naic caption photo.jpg\n"
    )
    Path("empty").mkdir()
    assert main(["caption", "empty"]) == 2
    assert "naic caption: empty: there is no picture in it." in capsys.readouterr().err


def test_without_a_model_inside_naic_asks_for_one(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(captioner, "SHIPPED", home / "nowhere")
    assert main(["caption", "a.png"]) == 1
    assert "this copy of naic has no model inside. Name a model" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "darwin", reason="its file names are UTF-8")
def test_odd_names_are_printed_and_kept(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = os.fsdecode(b"caf\xe9\n.png")
    Path("a.png").rename(name)
    assert main(["caption", name]) == 0
    assert capsys.readouterr().out == f"caf\\udce9\\n.png: {CATS}\n"
    assert main(["caption", "--json", name]) == 0
    assert json.loads(capsys.readouterr().out)["path"] == name
