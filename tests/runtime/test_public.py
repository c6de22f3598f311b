"""What `import naic` gives to a program; a new name here is a promise."""

import subprocess
import sys
from typing import get_type_hints

import pytest

import naic
from naic.runtime.captioner import Captioner


def test_the_names_of_the_package() -> None:
    assert naic.__all__ == ["Captioner", "__version__"]
    assert naic.Captioner is Captioner
    assert set(naic.__all__) <= set(dir(naic))
    with pytest.raises(AttributeError, match="'naic' has no attribute 'captioner_of'"):
        naic.captioner_of  # type: ignore[attr-defined]  # noqa: B018


def test_what_a_captioner_can_do() -> None:
    public = {name for name in vars(Captioner) if not name.startswith("_")}
    assert public == {"caption", "each", "explain", "pipeline", "say", "texts"}
    named = get_type_hints(Captioner.__init__)
    assert list(named) == [
        "model",
        "device",
        "runtime",
        "precision",
        "rescore",
        "plugins",
        "return",
    ]


def test_neither_torch_nor_onnx_runtime_comes_in_before_there_is_a_model() -> None:
    code = """
import sys
from naic import Captioner
heavy = {"torch", "sympy", "onnxruntime", "huggingface_hub", "tyro"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
