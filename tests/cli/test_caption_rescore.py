"""`naic caption --rescore`: from the command line to the words."""

import json
from pathlib import Path

import pytest

from naic.backbones.inside import backbone_digest, backbone_tensors
from naic.cli.main import main
from naic.models.folder import load_model
from naic.runtime import rescore
from naic.runtime.captioner import Captioner, Rescoring
from naic.tasks.caption import options
from tests.images.images import encode, photo
from tests.runtime.small import NETWORK, make_model


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: a student, its teacher, two images."""
    monkeypatch.chdir(tmp_path)
    make_model(tmp_path / "student", backbone=NETWORK)
    own = backbone_digest(backbone_tensors(load_model(tmp_path / "student").model.state_dict()))
    make_model(tmp_path / "teacher", "causal", seed=5, digest=own)
    for name in ("a.png", "b.png"):
        Path(name).write_bytes(encode(photo(50, 40 + ord(name[0])), "PNG"))
    return tmp_path


def test_a_teacher_chooses(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["caption", "a.png", "b.png", "--model", "student", "--device", "cpu"]
    words += ["--rescore", "teacher", "--rescore-choices", "6", "--rescore-weight", "0.5"]
    assert main([*words, "--out", "out.jsonl", "--alternatives", "4", "--confidence"]) == 0
    capsys.readouterr()
    said = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    how = Rescoring("teacher", 6, 0.5)
    captioner = Captioner("student", device="cpu", rescore=how)
    for one, wanted in zip(
        said, captioner.caption(["a.png", "b.png"], alternatives=4), strict=True
    ):
        assert one["caption"] == wanted.text
        assert one["confidence"] == float(f"{wanted.confidence:.4g}")
        others = [other["caption"] for other in one["alternatives"]]
        assert others == [other.text for other in wanted.alternatives]
    assert main([*words, "--out", "plain.csv", "--format", "csv"]) == 0
    capsys.readouterr()


def test_what_does_not_fit_is_told(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["caption", "a.png", "--model", "student", "--device", "cpu", "--rescore"]
    assert main([*words, "student"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("naic caption: --rescore: student says all words at once")
    assert main([*words, ""]) == 2
    assert "naic caption: --rescore: it is empty." in capsys.readouterr().err
    assert main([*words, "teacher", "--runtime", "onnx"]) == 2
    assert "--rescore: an exported graph keeps nothing" in capsys.readouterr().err


def test_the_command_allows_what_the_captioner_does() -> None:
    allowed = (options.CHOICES, options.MOST_CHOICES)
    assert allowed == (rescore.CHOICES, rescore.MOST_CHOICES)
