"""Programs that run where torch, and what comes with it, is not installed."""

import subprocess
import sys

# No package of these names is found, as if there were none; a None in sys.modules would not do:
# other packages ask whether torch is in there.
_HIDE = """
import sys
from importlib.machinery import PathFinder

real = PathFinder.find_spec

def find(name, *more):
    hidden = name.partition(".")[0] in {"torch", "onnx", "accelerate", "numba", "timm"}
    return None if hidden else real(name, *more)

PathFinder.find_spec = find
"""


def run_without_torch(code: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python code with these words as its arguments."""
    command = [sys.executable, "-c", _HIDE + code, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)
