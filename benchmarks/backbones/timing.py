r"""How fast each backbone is on a GPU: one image as a recorded graph, and many at once.

python benchmarks/backbones/timing.py --out timing.json \
    efficientnet-lite2 dinov2-vits14 clip-vit-b16 clip-vit-b16+dinov2-vits14

In half precision, from uint8 pixels on the device to features there. One image: the median of
many replays of a CUDA graph, each timed by events of its own. Many: eager, batches of 256, the
median of some rounds.
"""

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import torch

from naic.backbones.load import Backbone, load_backbone

REPLAYS, ROUNDS, BATCH, PIXELS = 300, 12, 256, 256


def event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def one_image(backbone: Backbone) -> dict[str, float]:
    """Milliseconds of a graph's replay."""
    generator = torch.Generator(backbone.device).manual_seed(1)
    pixels = torch.randint(
        0,
        256,
        (1, PIXELS, PIXELS, 3),
        dtype=torch.uint8,
        device=backbone.device,
        generator=generator,
    )
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), torch.inference_mode():
        for _ in range(5):
            expected = backbone.module(pixels)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.inference_mode(), torch.cuda.graph(graph):
        features = backbone.module(pixels)
    times = []
    for _ in range(REPLAYS):
        start, end = (event() for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    difference = (features.float() - expected.float()).abs().max().item()
    fast, _, slow = statistics.quantiles(times, n=4)
    return {
        "milliseconds": statistics.median(times),
        "quartile_low": fast,
        "quartile_high": slow,
        "difference_to_eager": difference,
    }


def many_images(backbone: Backbone) -> float:
    """Images a second in batches."""
    pixels = torch.randint(
        0, 256, (BATCH, PIXELS, PIXELS, 3), dtype=torch.uint8, device=backbone.device
    )
    rates: list[float] = []
    for _ in range(ROUNDS + 2):
        start, end = (event() for _ in range(2))
        start.record()
        backbone(pixels)
        end.record()
        end.synchronize()
        rates.append(BATCH / start.elapsed_time(end) * 1000)
    return statistics.median(rates[2:])


def measure(name: str) -> dict[str, Any]:
    backbone = load_backbone(name, device="cuda")
    parameters = sum(p.numel() for n, p in backbone.module.named_parameters() if "classif" not in n)
    exact = backbone(torch.full((1, PIXELS, PIXELS, 3), 90, dtype=torch.uint8)).float()
    backbone.module.half()
    rounded = backbone(torch.full((1, PIXELS, PIXELS, 3), 90, dtype=torch.uint8)).float()
    alike = torch.nn.functional.cosine_similarity(exact, rounded, dim=2)
    return {
        "backbone": name,
        "parameters": parameters,
        "regions": backbone.regions,
        "dim": backbone.dim,
        "half_cosine": alike.min().item(),
        "one_image": one_image(backbone),
        "batch": BATCH,
        "images_per_second": many_images(backbone),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    rows = [measure(name) for name in options.names]
    found = {
        "command": "python benchmarks/backbones/timing.py " + " ".join(options.names),
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "precision": "float16",
        "pixels": PIXELS,
        "replays": REPLAYS,
        "rows": rows,
    }
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for row in rows:
        print(row, flush=True)


if __name__ == "__main__":
    main()
