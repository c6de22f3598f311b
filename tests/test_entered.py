"""How much of naic a reader meets who follows one command: the files in which a function runs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from naic.tasks.beside import put_graphs
from naic.train.config import settings_toml
from tests.images.images import encode, photo
from tests.runtime.small import NETWORK, make_model
from tests.train.runs import make_home, run_settings

# By ONNX Runtime, as most will caption; by PyTorch, with the model's own layers; a training run.
MOST, MOST_BY_TORCH, MOST_OF_TRAINING = 40, 55, 55
CODE = """
import json, os, sys, threading
import naic
entered = set()
home = os.path.dirname(naic.__file__) + os.sep

def note(frame, event, _):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(home) and code.co_name != "<module>":
        entered.add(code.co_filename[len(home):])

threading.setprofile(note)
sys.setprofile(note)
from naic.cli.main import main
done = main(sys.argv[1:])
sys.setprofile(None)
print(json.dumps([done, sorted(entered), sorted(m for m in sys.modules if "naic." in m)]))
"""


@pytest.mark.parametrize(("graphs", "most"), [(True, MOST), (False, MOST_BY_TORCH)])
def test_a_caption_enters_few_files_and_no_other_backbone(
    tmp_path: Path, graphs: bool, most: int
) -> None:
    model = make_model(tmp_path / "model", backbone=NETWORK)
    if graphs:
        put_graphs(model, ("float32",))
    (tmp_path / "photo.png").write_bytes(encode(photo(), "PNG"))
    words = ["caption", "--model", "model", "photo.png", "--device", "cpu"]
    run = [sys.executable, "-c", CODE, *words]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=True)
    code, entered, modules = json.loads(done.stdout.splitlines()[-1])
    assert code == 0
    assert len(entered) <= most, entered
    assert graphs != any(name.startswith(("models/", "backbones/")) for name in entered)
    others = {"blobs", "colours", "timm_models", "weights", "vit", "extract"}
    assert not {f"naic.backbones.{name}" for name in others} & set(modules)


def test_a_run_of_cmal_enters_few_files_and_none_of_the_readers(tmp_path: Path) -> None:
    """What a run does not need is not imported: a class in it would be a file more to read."""
    make_home(tmp_path)
    settings = run_settings("cmal", epochs=0.5)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "config.toml").write_text(settings_toml(settings))
    words = ["train", "config.toml", "--run.epochs", "0.4"]
    run = [sys.executable, "-c", CODE, *words]
    done = subprocess.run(run, cwd=tmp_path / "here", capture_output=True, text=True, check=True)
    result, entered, modules = json.loads(done.stdout.splitlines()[-1])
    assert result == 0
    assert len(entered) <= MOST_OF_TRAINING, entered
    others = ("data.readers", "data.shapes", "data.pseudo", "backbones.efficientnet", "train.graph")
    assert not {f"naic.{name}" for name in others} & set(modules)
