"""How large a study's models are, how many passes a caption takes them, and how long.

All rows are timed in the same runtimes, in the same precision and in turns: from features on the
device to words on the host. What writes word by word writes a fixed number of words and says no
period before, as in `naic benchmark`: its time does not depend on what it says.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from naic.data.batches import count_regions
from naic.data.features import FeatureStore, read_features
from naic.tasks.options import WORDS
from naic.tasks.reproduce.run_file import digest
from naic.tasks.study.runner import WEIGHTS

if TYPE_CHECKING:  # torch takes a second to import: not before there is work for it
    import torch
    from torch import Tensor, nn

    from naic.runtime.engines import Whole

SPEED = "speed.json"
BATCHES = (1, 64)
SECONDS = 1.0  # that each figure is timed


class Measured(NamedTuple):
    """What is measured: a model folder, and the beam width to caption by."""

    model: Path
    beam: int


def measure_speed(
    rows: Mapping[str, Measured],
    store: FeatureStore,
    images: Sequence[int],
    device: str,
    known: Mapping[str, Any],
    say: Callable[[str], None],
) -> dict[str, Any]:
    """The figures of all rows by their names; those `known` of the same models are kept.

    Args:
        rows: what to measure.
        store: where features are taken from.
        images: rows of the store, as many as the largest batch or fewer.
        device: auto, cpu or cuda.
        known: what an earlier call gave.
        say: told of what is under way.
    """
    from naic.device import choose_device
    from naic.tasks.benchmark.rows import PRECISIONS, RUNTIMES
    from naic.tasks.benchmark.timing import machine

    chosen = choose_device(device)
    runtimes = [name for name in RUNTIMES[chosen.type] if name != "onnx"]
    precision = PRECISIONS[chosen.type]
    keys = {name: f"{digest(row.model / WEIGHTS)}, beam {row.beam}" for name, row in rows.items()}
    before = known.get("rows", {})
    if known.get("device") == chosen.type and all(
        before.get(name, {}).get("key") == key for name, key in keys.items()
    ):
        return dict(known)
    # All anew, in turns: figures of two calls could be of two states of the machine.
    say(f"timing {len(rows)} rows: {', '.join(runtimes)}, {precision}")
    features = _features(store, images, max(BATCHES)).to(chosen)
    found: dict[str, dict[str, Any]] = {
        name: {"key": keys[name], "beam": row.beam, **_counts(store, row, features[:1].cpu())}
        for name, row in rows.items()
    }
    for runtime in runtimes:
        for batch in BATCHES:
            times = _times(rows, store, features[:batch], runtime, precision)
            for name, own in times.items():
                found[name].setdefault("times", {}).setdefault(runtime, {})[str(batch)] = own
    return {
        "words": WORDS,
        "precision": precision,
        "runtimes": runtimes,
        "device": chosen.type,
        "machine": machine(chosen),
        "rows": found,
    }


def _features(store: FeatureStore, images: Sequence[int], most: int) -> "Tensor":
    """(B, R, F) of as many images; after the last comes the first again."""
    import torch

    own = [images[place % len(images)] for place in range(most)]
    regions = int(count_regions(store, own).min())
    array, _ = read_features(store, own, int(count_regions(store, own).max()))
    return torch.from_numpy(np.ascontiguousarray(array[:, :regions]))


def _counts(store: FeatureStore, row: Measured, features: "Tensor") -> dict[str, int]:
    """Numbers of the network, and passes of its decoder for a caption of `WORDS` words.

    A pass is a call of the layer that scores words. On the processor, where graphs are not.
    """
    import torch

    whole = _whole(store, row)
    passes: list[int] = []
    decoder: Any = whole.model.get_submodule("decoder")
    counter = decoder.output.register_forward_hook(lambda *_: passes.append(1))
    with torch.no_grad():
        _forward(whole, row.beam)(features.float())
    counter.remove()
    numbers = sum(own.numel() for own in whole.model.parameters())
    return {"parameters": numbers, "passes": len(passes)}


def _times(
    rows: Mapping[str, Measured],
    store: FeatureStore,
    features: "Tensor",
    runtime: str,
    precision: str,
) -> dict[str, dict[str, Any]]:
    """One batch in one runtime: milliseconds and images a second, or why there are none."""
    from naic.runtime.engines import EagerEngine, GraphEngine
    from naic.tasks.benchmark.models import Searched, Way
    from naic.tasks.benchmark.timing import take_turns

    runs: dict[str, Callable[[], object]] = {}
    kind = GraphEngine if runtime == "graph" else EagerEngine
    for name, row in rows.items():
        whole = _whole(store, row)
        if row.beam > 1:
            whole = Searched(whole, Way(causal=True, width=row.beam))
        engine = kind(whole, 0, features.device, precision)
        runs[name] = partial(engine, features)
    times = take_turns(runs, features.device, SECONDS)
    found: dict[str, dict[str, Any]] = {}
    for name, own in times.items():
        if isinstance(own, Exception):
            found[name] = {"failed": f"{type(own).__name__}: {own}"}
            continue
        found[name] = {
            "median_ms": own.median_ms,
            "p99_ms": own.p99_ms,
            "repeats": own.repeats,
            "images_per_second": 1000 * len(features) / own.median_ms,
        }
    return found


def _whole(store: FeatureStore, row: Measured) -> "Whole":
    """A captioner of features; one that writes word by word has room for `WORDS` words."""
    from naic.runtime.engines import Whole
    from naic.tasks.rescore import load_for_features

    loaded, model = load_for_features(store, row.model)
    if loaded.spec.reads_words:
        config = replace(loaded.settings.model, length=WORDS)
        if loaded.spec.backbone(config):
            config = replace(config, backbone="")
        model = _fixed(loaded.spec.build(config, store.dim, loaded.settings.words), model)
    return Whole(loaded.spec, model.eval(), None)


def _fixed(made: "nn.Module", model: "nn.Module") -> "nn.Module":
    from naic.tasks.benchmark.timing import never_end

    made.load_state_dict(model.state_dict())
    never_end(made)
    return made


def _forward(whole: "Whole", beam: int) -> "Callable[[torch.Tensor], object]":
    from naic.decode.decoding import Decoding

    return lambda features: whole.spec.caption(whole.model, features, None, Decoding(beam))
