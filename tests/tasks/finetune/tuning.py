"""A captioner of drawn scenes that nobody trained, and captions to tune it with."""

import csv
from pathlib import Path
from typing import Any

import torch

from naic.backbones.load import load_backbone
from naic.data.shapes import dataset, scenes
from naic.models.captioners import CAPTIONERS
from naic.models.config import TransformerConfig
from naic.models.folder import ModelSettings, write_model
from naic.tasks.finetune.plan import FinetuneOptions
from naic.text import Vocabulary

SIZES: dict[str, Any] = {
    "width": 32,
    "heads": 2,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "hidden": 64,
    "dropout": 0.0,
}


def make_blind(
    folder: Path, words: Vocabulary, captioner: str = "parallel", transitions: int = 0
) -> Path:
    """A model folder for the patches of drawn scenes."""
    backbone = load_backbone("blobs", device="cpu")
    torch.manual_seed(0)
    config = TransformerConfig(**SIZES, transitions=transitions)
    model = CAPTIONERS[captioner].build(config, backbone.dim, len(words))
    settings = ModelSettings(
        captioner,
        backbone.dim,
        len(words),
        "blobs",
        config,
        pixels=backbone.pixels,
        digest=backbone.digest,
    )
    write_model(folder, model.state_dict(), settings, words, "")
    return folder


def sentences(scene: scenes.Scene) -> list[str]:
    """One for each thing in it: simpler than the dataset's own, and learnt in seconds."""
    return [f"There is a {thing.colour} {thing.shape}." for thing in scene.objects]


def scene_words(count: int, *, without: str = "") -> Vocabulary:
    """The words of the first scenes, but for one."""
    said = [text for i in range(count) for text in sentences(scenes.make_scene(0, i))]
    known = Vocabulary.build(said, more_than=0).words
    return Vocabulary(tuple(word for word in known if word != without))


def write_table(folder: Path, count: int, *, splits: bool = False) -> Path:
    """Drawn scenes as images, and a CSV of their captions."""
    folder.mkdir()
    table = folder / "captions.csv"
    with table.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["image", "caption", "split"])
        for i in range(count):
            scene = scenes.make_scene(0, i)
            dataset.draw(scene).save(folder / f"{i:03d}.png")
            split = ("val" if i % 6 == 0 else "train") if splits else ""
            writer.writerows([f"{i:03d}.png", text, split] for text in sentences(scene))
    return table


def damage(image: Path) -> None:
    """Spoil the pixels of a PNG: its header and its end are as they were."""
    data = image.read_bytes()
    image.write_bytes(data[:50] + bytes(len(data) - 70) + data[-20:])


def options(captions: Path | str, out: Path, model: Path, **over: Any) -> FinetuneOptions:
    chosen = {"epochs": 20, "learning_rate": 5e-3, "device": "cpu", **over}
    return FinetuneOptions(str(captions), out, model=model, **chosen)
