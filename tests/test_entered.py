"""How much of naic a reader meets who follows one caption: the files in which a function runs."""

import json
import subprocess
import sys
from pathlib import Path

from tests.images.images import encode, photo
from tests.runtime.small import NETWORK, make_model

MOST = 45
CODE = """
import json, sys, threading
entered = set()

def note(frame, event, _):
    code = frame.f_code
    if event == "call" and "/naic/" in code.co_filename and code.co_name != "<module>":
        entered.add(code.co_filename.rpartition("/naic/")[2])

threading.setprofile(note)
sys.setprofile(note)
from naic.cli.main import main
done = main(["caption", "--model", "model", "photo.png", "--device", "cpu"])
sys.setprofile(None)
print(json.dumps([done, sorted(entered), sorted(m for m in sys.modules if "naic." in m)]))
"""


def test_a_caption_enters_few_files_and_no_other_backbone(tmp_path: Path) -> None:
    make_model(tmp_path / "model", backbone=NETWORK)
    (tmp_path / "photo.png").write_bytes(encode(photo(), "PNG"))
    run = [sys.executable, "-c", CODE]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=True)
    code, entered, modules = json.loads(done.stdout.splitlines()[-1])
    assert code == 0
    assert len(entered) <= MOST, entered
    others = {"blobs", "colours", "timm_models", "weights", "vit", "extract"}
    assert not {f"naic.backbones.{name}" for name in others} & set(modules)
