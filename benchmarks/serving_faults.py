"""Requests that are wrong, sent to `naic serve`, and whether it is then as it was."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
from benchmarks.serving_server import ENDING, Serving
from tests.serve.documented import send_documented
from tests.serve.mutations import send_all

MIB = 2**20
FIRST = 100  # mutated uploads that warm it up, before its memory is looked at


def mutations(server: Serving, known: Path, count: int) -> dict[str, Any]:
    """Mutated uploads; how each kind was answered, and what they left behind."""
    first = min(FIRST, count // 2)
    statuses = send_all(server.address, range(first))
    before = server.resident
    statuses += send_all(server.address, range(first, count))
    kinds: dict[str, dict[str, int]] = {}
    for (kind, status), times in sorted(statuses.items()):
        kinds.setdefault(kind, {})[str(status)] = times
    grown = (server.resident - before) / MIB
    found = {"sent": count, "kinds": kinds, "grown, MiB": grown, **as_before(server, known)}
    print(json.dumps(found), flush=True)
    return found


def documented(server: Serving, known: Path, count: int) -> dict[str, Any]:
    """Requests made from the OpenAPI document; likewise."""
    routes: dict[str, dict[str, int]] = {}
    for (path, status), times in sorted(send_documented(server.address, count).items()):
        routes.setdefault(path, {})[str(status)] = times
    sent = sum(sum(statuses.values()) for statuses in routes.values())
    found = {"sent": sent, "routes": routes, **as_before(server, known)}
    print(json.dumps(found), flush=True)
    return found


def as_before(server: Serving, known: Path) -> Mapping[str, bool]:
    """Whether it captions, is well, and has nothing left to do."""
    path, caption = next(iter(json.loads(known.read_text(encoding="utf-8")).items()))
    files = {"files": Path(path).read_bytes()}
    answer = httpx.post(f"{server.address}/v1/caption", files=files, timeout=ENDING)
    by = time.monotonic() + ENDING
    while server.number("naic_requests_running") > 1 and time.monotonic() < by:  # this one itself
        time.sleep(0.1)
    idle = ("naic_images_waiting", "naic_images_running")
    return {
        "captions as before": answer.json()["results"][0]["caption"] == caption,
        "nothing is left to do": server.number("naic_requests_running") == 1
        and not any(map(server.number, idle)),
        "well": httpx.get(f"{server.address}/healthz", timeout=ENDING).status_code == 200,
    }
