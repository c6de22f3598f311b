"""What a store is made of, written down before the first shard: no store ever mixes two things."""

import json
from collections.abc import Collection
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from naic.errors import StoreError
from naic.files import write_atomically

PLAN = "plan.json"


def keep_plan(folder: Path, plan: dict[str, Any], holds: str) -> None:
    """Write the plan of a store, or refuse a folder whose store was planned otherwise.

    Args:
        folder: the store.
        plan: all that a resumed run must agree in.
        holds: what the store is full of, for the message.
    """
    path = folder / PLAN
    if not path.exists():
        write_atomically(path, pretty(plan))
        return
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise StoreError(str(path), f"cannot be read ({error})", "Choose a new --out.") from error
    different = [key for key in plan if not isinstance(found, dict) or found.get(key) != plan[key]]
    if different:
        raise StoreError(
            str(folder),
            f"holds {holds} made with another {', '.join(different)}",
            "Choose a new folder for --out, or use the same settings and data as before.",
        )


def refuse_strangers(folder: Path, own: Collection[str], holds: str) -> None:
    """Refuse a folder with anything in it that is not named like one of `own` (with wildcards)."""
    for path in folder.glob("*"):
        if not any(fnmatch(path.name, pattern) for pattern in own):
            raise StoreError(
                str(folder),
                f"is not empty and holds no {holds}",
                "Choose a new folder for --out.",
            )


def pretty(value: dict[str, Any]) -> bytes:
    """JSON that people may read."""
    return (json.dumps(value, indent=2) + "\n").encode()
