"""How long one image takes: from its features to words, eager, alone on the device, warm.

As in `naic benchmark`, a model that writes word by word writes a fixed number of words, and says no
period before: else its time would be that of 16 words on a GPU, which does not stop to look whether
the sentence has ended, and of as many as it says on a CPU.
"""

import platform
import statistics
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naic.data.batches import count_regions, read_features
from naic.data.features import FeatureStore
from naic.tasks.options import WORDS

if TYPE_CHECKING:  # torch takes a second to import: not before there is work for it
    from torch import nn

    from naic.models.folder import LoadedModel

IMAGES, WARM_UP = 60, 10


def measure_latency(
    models: dict[str, tuple[Path, int]], store: FeatureStore, rows: Sequence[int], device: str
) -> dict[str, Any]:
    """The median milliseconds of each model, by its name.

    All models take their turn at every image: whatever else the machine does in the meantime
    slows them alike. The causal ones write `WORDS` words, with a key-value cache.

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
    timed = {name: _fixed_length(own) for name, own in loaded.items()}
    times: dict[str, list[float]] = {name: [] for name in models}
    for turn in range(WARM_UP + IMAGES):
        row = rows[turn % len(rows)]
        array, _ = read_features(store, [row], int(count_regions(store, [row])[0]))
        features = torch.from_numpy(array).to(chosen)
        for name, (_, beam) in models.items():
            caption = partial(loaded[name].spec.caption, timed[name], features, None)
            with torch.no_grad():
                taken = milliseconds(partial(caption, Decoding(beam)), chosen)
            if turn >= WARM_UP:
                times[name].append(taken)
    return {
        "milliseconds": {name: statistics.median(own) for name, own in times.items()},
        "words": WORDS,
        "images": IMAGES,
        "device": device_name(chosen),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def _fixed_length(loaded: "LoadedModel") -> "nn.Module":
    """The model; one that writes word by word made to write `WORDS` words, whatever it says."""
    from naic.models.transformer import TransformerCaptioner
    from naic.tasks.benchmark.timing import never_end

    model, settings = loaded.model, loaded.settings
    if loaded.spec.one_pass or not isinstance(model, TransformerCaptioner):
        return model
    config = replace(settings.model, length=WORDS)
    made = TransformerCaptioner(config, settings.features, settings.words, causal=True)
    made.load_state_dict(model.state_dict())
    never_end(made)
    return made.to(next(model.parameters()).device).eval()
