"""How long one image takes: from its features to words, eager, alone on the device, warm."""

import platform
import statistics
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from naic.data.batches import count_regions, read_features
from naic.data.features import FeatureStore

IMAGES, WARM_UP = 60, 10


def measure_latency(
    models: dict[str, tuple[Path, int]], store: FeatureStore, rows: Sequence[int], device: str
) -> dict[str, Any]:
    """The median milliseconds of each model, by its name.

    All models take their turn at every image: whatever else the machine does in the meantime
    slows them alike. The causal ones decode with a key-value cache.

    Args:
        models: model folders with the beam to caption by.
        store: the features.
        rows: the images to take them from; after the last comes the first again.
        device: auto, cpu or cuda.
    """
    import torch

    from naic.backbones.load import choose_device
    from naic.decode.decoding import Decoding
    from naic.models.folder import load_model
    from naic.tasks.benchmark.timing import device_name, milliseconds

    chosen = choose_device(device)
    loaded = {name: load_model(folder, device=chosen) for name, (folder, _) in models.items()}
    times: dict[str, list[float]] = {name: [] for name in models}
    for turn in range(WARM_UP + IMAGES):
        row = rows[turn % len(rows)]
        array, _ = read_features(store, [row], int(count_regions(store, [row])[0]))
        features = torch.from_numpy(array).to(chosen)
        for name, (_, beam) in models.items():
            own = loaded[name]
            with torch.no_grad():
                taken = milliseconds(
                    partial(own.spec.caption, own.model, features, None, Decoding(beam)), chosen
                )
            if turn >= WARM_UP:
                times[name].append(taken)
    return {
        "milliseconds": {name: statistics.median(own) for name, own in times.items()},
        "images": IMAGES,
        "device": device_name(chosen),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
