r"""How small each backbone gets when its weights are packed, and how far its features move.

python benchmarks/backbones/packed.py --out docs/results/backbones/packed.json \
    efficientnet-lite2 dinov2-vits14 clip-vit-b16 clip-vit-b16+dinov2-vits14

Packed as `naic pack` does it, with several numbers of bits: a vision transformer in groups of 64
weights, an EfficientNet a channel at a time. The features of scikit-image's sample photos by the
packed weights are compared with those by the exact ones, cell by cell. What it costs in CIDEr
is another question: this tells which bits are worth asking it for.

python benchmarks/backbones/packed.py --out docs/results/backbones/packed-captions.json \
    --store PIXELS --teacher MODEL --images 250 --calibrate 64 --device cuda

This asks it. PIXELS is a store of `naic prepare --backbone pixels` with images of train and val;
the backbone is the one that MODEL learnt from (or has inside). Each way of packing is used for its
features of images of val, and MODEL captions these, greedily. Calibrated ones are rounded as
`naic pack --calibrate` does it, by training images.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import skimage
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn

from naic.backbones.inside import PREFIX, without_backbone
from naic.backbones.load import load_backbone
from naic.backbones.patches import put_together
from naic.data.features import FeatureStore
from naic.decode.decoding import Decoding
from naic.device import choose_device
from naic.metrics.cider import cider
from naic.models.captioners import take_weights
from naic.models.folder import LoadedModel, load_model
from naic.models.rounding import input_products, round_matrices
from naic.packing import PackRule, pack, unpack
from naic.tasks.pack import training_images
from naic.text.tokeniser import tokenise

PHOTOS = ("chelsea.png", "coffee.png", "motorcycle_left.png", "astronaut.png", "rocket.jpg")
PIXELS = 256
BITS = (4, 5, 6, 8, 10)
WAYS = ((4, 64, True), (4, 64, False), (5, 64, False), (4, 32, True), (3, 64, True), (5, 64, True))
BATCH = 25


def photos() -> Tensor:
    folder = Path(skimage.__file__).parent / "data"
    opened = [Image.open(folder / name).convert("RGB").resize((PIXELS, PIXELS)) for name in PHOTOS]
    return torch.from_numpy(np.stack([np.array(image) for image in opened]))


def measure(name: str) -> dict[str, Any]:
    backbone = load_backbone(name, device="cpu")
    exact = backbone(photos())  # (5, R, F)
    plain = {k: v for k, v in backbone.module.state_dict().items() if "classifier" not in k}
    weights = {PREFIX + key: value.clone() for key, value in plain.items()}
    rows = []
    for bits in BITS:
        packed = pack(weights, PackRule(backbone_bits=bits))
        restored = unpack(Path(name), packed, weights)
        own = {key: restored[PREFIX + key].float() for key in plain}
        backbone.module.load_state_dict(own, strict=False)
        alike = F.cosine_similarity(backbone(photos()), exact, dim=2)
        size = sum(tensor.nbytes for tensor in packed.values())
        rows.append({"bits": bits, "bytes": size, "cosine": alike.mean().item()})
        print(name, rows[-1], flush=True)
    count = sum(value.numel() for value in plain.values())
    return {"backbone": name, "weights": count, "float32_bytes": 4 * count, "packed": rows}


class Captions:
    """Images of val, and what a model says of them, seen through this or that backbone."""

    def __init__(self, store: FeatureStore, teacher: LoadedModel, images: int | None) -> None:
        rows = [row for row, record in enumerate(store.records) if record.split == "val"]
        self.store, self.rows, self.teacher = store, rows[:images], teacher
        records = [store.records[row] for row in self.rows]
        self.references = [[" ".join(tokenise(text)) for text in r.captions] for r in records]
        self.exact: Tensor | None = None
        self.said: list[str] = []

    @torch.inference_mode()
    def measure(self, backbone: nn.Module, device: torch.device) -> dict[str, float]:
        """How far features move from those of the first call, and what it does to captions."""
        found, ids = [], []
        for start in range(0, len(self.rows), BATCH):
            cells, _ = self.store.batch(self.rows[start : start + BATCH])
            features = backbone(put_together(torch.from_numpy(cells)).to(device))  # (b, R, F)
            words = self.teacher.spec.caption(self.teacher.model, features, None, Decoding())
            found.append(features.cpu())
            ids += words.tolist()
        features, vocabulary = torch.cat(found), self.teacher.vocabulary
        said = [vocabulary.decode(Decoding().sentence(row, vocabulary)) for row in ids]
        if self.exact is None:
            self.exact, self.said = features, said
        alike = F.cosine_similarity(features, self.exact, dim=2)
        tokens = [" ".join(tokenise(caption)) for caption in said]
        same = sum(one == other for one, other in zip(said, self.said, strict=True))
        return {
            "cosine": alike.mean().item(),
            "off": ((features - self.exact).norm() / self.exact.norm()).item(),
            "same_captions": same / len(said),
            "cider": 100 * cider(tokens, self.references).value,
        }


def blind(teacher: LoadedModel, device: torch.device) -> LoadedModel:
    """The model without its backbone, if it has one: it takes the features of any."""
    own = teacher.settings
    if not own.model.backbone:
        return teacher
    width = teacher.model.state_dict()["encoder.project.weight"].shape[1]
    model = teacher.spec.build(replace(own.model, backbone=""), width, own.words)
    take_weights(model, without_backbone(teacher.model.state_dict()))
    return teacher._replace(model=model.to(device).eval())


def caption(options: argparse.Namespace) -> None:
    """The file is written after each way of packing: what is cut off keeps what it has."""
    device = choose_device(options.device)
    teacher = load_model(options.teacher, device)
    inside = teacher.settings.model.backbone
    own = options.teacher if inside else None
    name = inside or teacher.settings.backbone
    network = load_backbone(name, weights=own, device=options.device).module
    captions = Captions(FeatureStore(options.store), blind(teacher, device), options.images)
    weights = {PREFIX + key: value.clone().cpu() for key, value in network.state_dict().items()}
    rows: list[dict[str, Any]] = [{"bits": 32, **captions.measure(network, device)}]
    began = time.monotonic()
    products = input_products(network, training_images(options.store, options.calibrate))
    command = f"--images {len(captions.rows)} --calibrate {options.calibrate}"
    found = {
        "command": f"python benchmarks/backbones/packed.py {command} --device {device.type}",
        "teacher": options.teacher.name,
        "backbone": name,
        "images": len(captions.rows),
        "calibration_images": options.calibrate,
        "calibration_seconds": time.monotonic() - began,
        "rows": rows,
    }
    for bits, group, calibrated in WAYS:
        rule, began = PackRule(backbone_bits=bits, group=group), time.monotonic()
        network.load_state_dict({key.removeprefix(PREFIX): w for key, w in weights.items()})
        ready = round_matrices(network, products, rule, PREFIX) if calibrated else {}
        packed = pack(weights, rule, ready)
        took = time.monotonic() - began
        restored = unpack(options.out, packed, weights)
        network.load_state_dict({key.removeprefix(PREFIX): w for key, w in restored.items()})
        way = {"bits": bits, "group": group, "calibrated": calibrated, "seconds": took}
        size = sum(tensor.nbytes for tensor in packed.values())
        rows.append({**way, "bytes": size, **captions.measure(network, device)})
        print(rows[-1], flush=True)
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--store", type=Path, help="pixels of train and val")
    parser.add_argument("--teacher", type=Path)
    parser.add_argument("--images", type=int, help="of val; all if left out")
    parser.add_argument("--calibrate", type=int, default=128, help="images of train")
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    if options.store is not None:
        caption(options)
        return
    found = {
        "command": "python benchmarks/backbones/packed.py " + " ".join(options.names),
        "photos": len(PHOTOS),
        "rows": [measure(name) for name in options.names],
    }
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
