"""Whether two runs came to the same: every file, byte for byte, but for what tells the time."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from naic.train.logs import TIMES


def differences(one: Path, other: Path) -> list[str]:
    """The files of two run folders that are not the same, or are in one of them only."""
    seen = content(one), content(other)
    return sorted(name for name in seen[0].keys() | seen[1].keys() if not _agree(name, *seen))


def content(run: Path) -> dict[str, Any]:
    """What a run left, by name. TensorBoard's files are left out: they are full of clocks.

    The folder of the best model is called "best": after a kill its own name may have a "-2".
    """
    models = list((run / "models").iterdir())
    assert [run / "best"] == [path for path in run.iterdir() if path.is_symlink()]
    assert models == [(run / "best").resolve()], f"besides the best model there is {models}"
    found: dict[str, Any] = {}
    for path in run.rglob("*"):
        name = path.relative_to(run).as_posix().replace(f"models/{models[0].name}", "best", 1)
        if path.is_file() and not name.startswith("tensorboard/"):
            found[name] = _READERS.get(path.name, Path.read_bytes)(path)
    return found


def _agree(name: str, one: dict[str, Any], other: dict[str, Any]) -> bool:
    return name in one and name in other and bool(one[name] == other[name])


def _read_metrics(path: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [{key: line[key] for key in line if key not in TIMES} for line in lines]


def _read_state(path: Path) -> dict[str, Any]:
    state: dict[str, Any] = json.loads(path.read_bytes())
    del state["crc32"], state["state"]["seconds"]
    return state


def _read_report(path: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(path.read_bytes())
    del report["seconds"]
    return report


_READERS: dict[str, Callable[[Path], Any]] = {
    "metrics.jsonl": _read_metrics,
    "state.json": _read_state,
    "report.json": _read_report,
}
