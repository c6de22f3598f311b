"""`naic pack`: a trained model in, one that sees and is small out."""

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from naic import __version__
from naic.config import to_toml
from naic.errors import CheckpointError, ConfigError
from naic.files import CARD, CODES, VOCABULARY, WEIGHTS, printable
from naic.importing import asks_for
from naic.tasks.options import CALIBRATION_IMAGES, PackOptions

if TYPE_CHECKING:  # torch takes a second to import: not before there is work for it
    from torch import Tensor, nn

    from naic.models.folder import LoadedModel, ModelSettings
    from naic.packing import PackRule

_DIGITS = 12
_ORDER = ("backbone", "encoder", "decoder", "words")
_BATCH = 16  # images at once
_TRAINING = ("train", "restval")  # no image of another split may have a say in the weights


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a packed model.

    Attributes:
        name: backbone, encoder, decoder, or words: the layers that stand for words.
        weights: how many numbers it has.
        bits: how many bits a weight of a matrix has; several, if not all have the same.
        bytes: what they take, their scales counted.
        error: how far they are off: the root of the summed squared errors over that of the weights.
    """

    name: str
    weights: int
    bits: tuple[int, ...]
    bytes: int
    error: float


@dataclass(frozen=True, slots=True)
class Packed:
    """A packed model.

    Attributes:
        parts: what it is made of.
        plain_bytes: what the weights take unpacked, as float32.
        bytes: of all files of its folder, to the byte.
        backbone: where the backbone comes from, in words.
    """

    parts: tuple[Part, ...]
    plain_bytes: int
    bytes: int
    backbone: str


class _Seeing(NamedTuple):
    """A model with its backbone.

    Attributes:
        weights: of both.
        settings: of the two together.
        source: where the backbone comes from, in words.
        network: the backbone; None: the model has none.
    """

    weights: "dict[str, Tensor]"
    settings: "ModelSettings"
    source: str
    network: "nn.Module | None"


def pack_model(options: PackOptions) -> Packed:
    """Give the model a backbone if it has none, pack it, and write it to `options.out`."""
    from naic.models import folder
    from naic.packing import CALIBRATED_BITS, PackRule, pack, unpack
    from naic.runtime.calibration import calibration_file
    from naic.text.style import style_file

    options.check()
    if os.path.lexists(options.out):
        raise ConfigError("--out", f"{options.out} is there already", "Choose a new name.")
    loaded = folder.load_model(options.model)
    if folder.is_packed(folder.read_weights(options.model / WEIGHTS)):
        why = "is packed already, and to pack it again would make it worse"
        raise CheckpointError(str(options.model), why, "Name the model that it was made from.")
    weights, settings, backbone, network = _with_backbone(options, loaded)
    few = None if options.calibrate is None else CALIBRATED_BITS
    rule = PackRule(options.bits, options.output_bits, options.backbone_bits or few)
    packed = pack(weights, rule, _ready(options, rule, network))
    parts = _parts(weights, packed, unpack(options.out / WEIGHTS, packed, weights))
    card = _card(options, options.model / CARD, parts, backbone)
    plain = sum(tensor.nbytes for tensor in weights.values())
    texts = (
        card,
        to_toml(settings),
        (options.model / VOCABULARY).read_text(encoding="utf-8"),
    )
    more = seen_images(options.backbone, options.model)
    more |= calibration_file(options.model) | style_file(options.model)
    size = folder.weights_bytes(packed) + sum(len(text.encode()) for text in texts)
    size += sum(map(len, more.values()))
    if not options.dry_run:
        folder.write_model(options.out, packed, settings, loaded.vocabulary, card, more)
    return Packed(parts, plain, size, backbone)


def seen_images(*folders: Path | None) -> dict[str, bytes]:
    """The images that a backbone learnt from, as a file of a model's folder, if one is known.

    Of several folders the first that has such a list counts.
    """
    from naic.data.joined import SEEN, read_seen

    for folder in folders:
        seen = None if folder is None else read_seen(folder)
        if seen is not None:
            return {SEEN: seen.as_json()}
    return {}


def _ready(
    options: PackOptions, rule: "PackRule", network: "nn.Module | None"
) -> dict[str, "Tensor"]:
    """Codes and scales that are known before packing: of a packed backbone, or by calibration."""
    from naic.backbones.inside import PREFIX, stored_backbone
    from naic.device import choose_device
    from naic.models.folder import is_packed
    from naic.models.rounding import input_products, round_matrices

    stored = {} if options.backbone is None else stored_backbone(options.backbone)
    if is_packed(stored):
        asked = {"--calibrate": options.calibrate, "--backbone-bits": options.backbone_bits}
        for name, value in asked.items():
            if value is not None:
                why = f"the backbone of {options.backbone} is packed, and is taken as it is"
                raise ConfigError(name, why, "Leave it out.")
        return {PREFIX + key: tensor for key, tensor in stored.items()}
    if options.calibrate is None:
        return {}
    if network is None:
        why = f"{options.model} has no backbone to be calibrated"
        raise ConfigError("--calibrate", why, "Leave it out.")
    network.to(choose_device(options.device))
    images = training_images(options.calibrate, options.calibration_images or CALIBRATION_IMAGES)
    return round_matrices(network, input_products(network, images), rule, PREFIX)


def training_images(folder: Path, count: int) -> "Iterator[Tensor]":
    """Batches uint8 (B, P, P, 3) of `count` training images, spread evenly over a pixel store."""
    import torch

    from naic.backbones.patches import put_together
    from naic.data.features import FeatureStore

    store = FeatureStore(folder)
    if store.index["backbone"] != "pixels":
        hint = "Make a store of pixels with `naic prepare ... --backbone pixels`."
        raise ConfigError("--calibrate", f"{folder} has features, and no pixels", hint)
    firsts = zip(store.records, store.first_views, strict=True)
    rows = [i for i, (record, first) in enumerate(firsts) if first and record.split in _TRAINING]
    if not rows:
        named = sorted({printable(record.split) for record in store.records if record.split})
        found = f"Its splits are: {', '.join(named)}" if named else "It names no split"
        hint = f"{found}. Only images of {' and '.join(_TRAINING)} are taken."
        raise ConfigError("--calibrate", f"{folder} has no images to train on", hint)
    count = min(count, len(rows))
    chosen = [rows[i * len(rows) // count] for i in range(count)]
    for start in range(0, len(chosen), _BATCH):
        cells, _ = store.batch(chosen[start : start + _BATCH])
        yield put_together(torch.from_numpy(cells))


def _with_backbone(options: PackOptions, loaded: "LoadedModel") -> _Seeing:
    """A model that sees: itself, or with the backbone that made its features."""
    from naic.backbones.inside import PREFIX
    from naic.backbones.load import (
        DEFAULT_PIXELS,
        can_be_inside,
        load_backbone,
        trainable_names,
    )
    from naic.backbones.patches import CELL, PATCH
    from naic.data.features import IMPORTED

    weights, settings = dict(loaded.model.state_dict()), loaded.settings
    name = settings.backbone
    if not loaded.spec.holds_backbone:
        if options.backbone is not None:
            why = f"a {settings.captioner} captioner has no place for a backbone"
            raise ConfigError("--backbone", why, "Leave it out.")
        return _Seeing(weights, settings, f"not inside: {name}", None)
    if loaded.spec.backbone(settings.model):
        if options.backbone is not None:
            why = f"{options.model} has a backbone of its own"
            raise ConfigError("--backbone", why, "Leave it out.")
        return _Seeing(weights, settings, "the model's own", loaded.model.get_submodule("backbone"))
    if name.split(":")[0] == IMPORTED:  # nobody has the backbone: the model reads features
        if options.backbone is not None:
            why = f"{options.model} learnt from features that were imported, not from a backbone's"
            raise ConfigError("--backbone", why, "Leave it out.")
        return _Seeing(weights, settings, f"not inside: {name}", None)
    if not can_be_inside(name):
        why = f"it learnt from features of {name or 'an unknown backbone'}, which cannot be packed"
        hint = f"Such backbones are: {', '.join(trainable_names())}."
        if settings.made_with:
            hint = f"{hint} {asks_for(settings.made_with)}"
        raise ConfigError(str(options.model), why, hint)
    pixels = settings.pixels or DEFAULT_PIXELS
    if pixels % CELL:
        why = (
            f"it learnt from images of {pixels} pixels a side, and a backbone sees cells of {CELL}"
        )
        raise ConfigError(str(options.model), why, f"Train on --pixels {DEFAULT_PIXELS}.")
    backbone = load_backbone(name, pixels=pixels, weights=options.backbone, device="cpu")
    if settings.digest and backbone.digest != settings.digest:
        raise _other_backbone(options, settings.digest, backbone.digest)
    seeing = replace(
        settings,
        features=PATCH,
        backbone="pixels",
        digest="",
        pixels=pixels,
        model=replace(settings.model, backbone=name),
    )
    source = f"the package's {name}" if options.backbone is None else f"that of {options.backbone}"
    for key, tensor in backbone.module.state_dict().items():
        if not key.startswith("classifier."):  # it names ImageNet's classes, which no caption needs
            weights[PREFIX + key] = tensor
    return _Seeing(weights, seeing, source, backbone.module)


def _other_backbone(options: PackOptions, learnt: str, given: str) -> ConfigError:
    who = "the backbone's own weights" if options.backbone is None else str(options.backbone)
    why = (
        f"{options.model} learnt from features of another backbone "
        f"(SHA-256 {learnt[:_DIGITS]}… and not {given[:_DIGITS]}…)"
    )
    hint = (
        "Name the model whose backbone made the features: what --weights of `naic prepare` named."
    )
    return ConfigError("--backbone", f"{who} will not do: {why}", hint)


def _parts(
    weights: "Mapping[str, Tensor]",
    packed: "Mapping[str, Tensor]",
    found: "Mapping[str, Tensor]",
) -> tuple[Part, ...]:
    """The parts of the model, in the order in which an image goes through them."""
    parts = []
    for part in dict.fromkeys((*_ORDER, *map(_part_of, weights))):
        own = [name for name in weights if _part_of(name) == part]
        if own:
            inside = {name: t for name, t in packed.items() if _part_of(name) == part}
            size = sum(tensor.nbytes for tensor in inside.values())
            bits = {len(tensor) for name, tensor in inside.items() if name.endswith(CODES)}
            off = sum(float((found[name].double() - weights[name]).square().sum()) for name in own)
            whole = sum(float(weights[name].double().square().sum()) for name in own)
            count = sum(weights[name].numel() for name in own)
            error = math.sqrt(off / whole) if whole else 0.0
            parts.append(Part(part, count, tuple(sorted(bits)), size, error))
    return tuple(parts)


def _part_of(name: str) -> str:
    if name.startswith(("decoder.output.", "decoder.embedding.", "decoder.transitions.")):
        return "words"
    return name.partition(".")[0]


def _card(options: PackOptions, path: Path, parts: tuple[Part, ...], backbone: str) -> str:
    """The model's own card, and how it was packed."""
    rows = [
        f"| {part.name} | {part.weights:,} | {', '.join(map(str, part.bits))} "
        f"| {part.bytes:,} | {part.error:.2%} |"
        for part in parts
    ]
    inside = any(part.name == "backbone" for part in parts)
    takes = "The model takes images" if inside else "The model reads features"
    text = (
        "The weights are kept in a few bits each and unpacked to float32 when the model is "
        f"loaded. {takes}; its backbone is {backbone}. Scores above are those "
        f"before packing, unless they say otherwise. Packed with naic {__version__}."
    )
    table = ("| part | weights | bits | bytes | off by |", "|---|---|---|---|---|", *rows)
    return extended_card(path, "Packing", options.command(), text, "", *table)


def extended_card(path: Path, title: str, command: str, *lines: str) -> str:
    """The card of a model, with what was made of it, and by which command."""
    own = f"# {path.parent.name}\n"
    if path.is_file():  # somebody may have written it by hand, and as they liked
        own = path.read_text(encoding="utf-8", errors="replace")
    said = ("", f"## {title}", "", "```sh", command, "```", "")
    return "\n".join([own.rstrip("\n"), *said, *lines]) + "\n"
