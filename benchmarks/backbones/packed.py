r"""How small each backbone gets when its weights are packed, and how far its features move.

python benchmarks/backbones/packed.py --out docs/results/backbones/packed.json \
    efficientnet-lite2 dinov2-vits14 clip-vit-b16 clip-vit-b16+dinov2-vits14

Packed as `naic pack` does it, with several numbers of bits: a vision transformer in groups of 64
weights, an EfficientNet a channel at a time. The features of scikit-image's sample photos by the
packed weights are compared with those by the exact ones, cell by cell. What it costs in CIDEr
is another question: this tells which bits are worth asking it for.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import skimage
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from naic.backbones.load import load_backbone
from naic.models.packing import PackRule, pack, unpack

PHOTOS = ("chelsea.png", "coffee.png", "motorcycle_left.png", "astronaut.png", "rocket.jpg")
PIXELS = 256
BITS = (4, 5, 6, 8, 10)
INSIDE = "backbone."  # an EfficientNet's names inside a captioner: packed by channel


def photos() -> Tensor:
    folder = Path(skimage.__file__).parent / "data"
    opened = [Image.open(folder / name).convert("RGB").resize((PIXELS, PIXELS)) for name in PHOTOS]
    return torch.from_numpy(np.stack([np.array(image) for image in opened]))


def measure(name: str) -> dict[str, Any]:
    backbone = load_backbone(name, device="cpu")
    exact = backbone(photos())  # (5, R, F)
    plain = {k: v for k, v in backbone.module.state_dict().items() if "classifier" not in k}
    prefix = INSIDE if name.startswith("efficientnet") else ""
    weights = {prefix + key: value.clone() for key, value in plain.items()}
    rows = []
    for bits in BITS:
        packed = pack(weights, PackRule(bits=bits, backbone_bits=bits))
        restored = unpack(Path(name), packed, weights)
        own = {key: restored[prefix + key].float() for key in plain}
        backbone.module.load_state_dict(own, strict=False)
        alike = F.cosine_similarity(backbone(photos()), exact, dim=2)
        size = sum(tensor.nbytes for tensor in packed.values())
        rows.append({"bits": bits, "bytes": size, "cosine": alike.mean().item()})
        print(name, rows[-1], flush=True)
    count = sum(value.numel() for value in plain.values())
    return {"backbone": name, "weights": count, "float32_bytes": 4 * count, "packed": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    found = {
        "command": "python benchmarks/backbones/packed.py " + " ".join(options.names),
        "photos": len(PHOTOS),
        "rows": [measure(name) for name in options.names],
    }
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
