"""Servers of small models that nobody trained, as `naic serve` starts them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from naic.serve.options import ServeOptions
from naic.serve.run import Running, load

SLOW = 60.0  # seconds: torch is imported, and models are loaded
CAPTIONS = [
    ["a black cat sits on the red sofa", "the cat looks at two dogs"],
    ["two small dogs on a sofa", "the dogs sit on a red sofa", "two dogs"],
    ["a red cat and a black dog", "a cat looks at the sofa"],
    ["the small cat sits", "a small black cat sits and looks"],
]


def make_home(folder: Path) -> Path:
    """A model with transitions, its teacher, a causal model, and a store of captions."""
    # Not at the top: servers are tried where there is no torch, too.
    from naic.backbones.inside import backbone_digest, backbone_tensors
    from naic.models.folder import load_model
    from tests.data.stores import make_store
    from tests.runtime.small import NETWORK, make_model

    make_model(folder / "model", backbone=NETWORK, transitions=4)
    own = backbone_digest(backbone_tensors(load_model(folder / "model").model.state_dict()))
    make_model(folder / "teacher", "causal", seed=5, digest=own)
    make_model(folder / "causal", "causal", seed=6, backbone=NETWORK)
    make_store(folder / "store", CAPTIONS, splits=["train", "train", "train", "val"])
    return folder


@contextmanager
def served(**options: Any) -> Iterator[httpx.Client]:
    """A client of a server that is ended afterwards.

    Raises:
        NaicError: what ended the server while it started.
    """
    chosen = ServeOptions(**{"port": 0, "device": "cpu", **options})
    chosen.check_values()
    told, ready, failed = list[str](), threading.Event(), list[BaseException]()

    def tell(text: str) -> None:
        told.append(text)
        ready.set()

    running = Running(chosen, tell, lambda own: load(own, lambda problem: None))

    def run() -> None:
        try:
            running()
        except BaseException as error:
            failed.append(error)
            ready.set()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert ready.wait(SLOW)
        if failed:
            raise failed[0]
        with httpx.Client(base_url=told[0].split()[0], timeout=SLOW) as client:
            yield client
    finally:
        running.stop()
        thread.join(SLOW)
        assert not thread.is_alive()
