"""Small photos with metadata, drawn and written by us, and what ExifTool says of them."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

EXIFTOOL = shutil.which("exiftool")
needs_exiftool = pytest.mark.skipif(EXIFTOOL is None, reason="ExifTool is not installed")
SUFFIXES = (".jpg", ".png", ".tif", ".webp")
# What changes whenever a file is written, and what says where ExifTool found something in it.
_NOT_FIELDS = ("SourceFile", "ExifTool:", "System:")


def draw(path: Path, seed: int = 0) -> Path:
    """A photo of noise."""
    noise = np.random.default_rng(seed).integers(0, 256, (24, 32, 3), dtype=np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(noise).save(path)
    return path


def pixels(path: Path) -> bytes:
    with Image.open(path) as image:
        return image.convert("RGB").tobytes()


def exiftool(*words: str | Path) -> str:
    assert EXIFTOOL is not None
    command = [EXIFTOOL, *(str(w.absolute() if isinstance(w, Path) else w) for w in words)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def tell(path: Path, *words: str) -> None:
    """Write fields with ExifTool, as another program."""
    exiftool("-q", "-overwrite_original", *words, path)


def tags(path: Path) -> dict[str, Any]:
    """All fields of a file, with the group that each stands in."""
    return all_tags([path])[path]


def all_tags(paths: Sequence[Path]) -> dict[Path, dict[str, Any]]:
    """Those of several files: to start ExifTool takes far longer than to read one."""
    rows = json.loads(exiftool("-j", "-a", "-G1", "-b", *paths))
    return {
        path: {name: value for name, value in row.items() if not name.startswith(_NOT_FIELDS)}
        for path, row in zip(paths, rows, strict=True)
    }
