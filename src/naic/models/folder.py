"""A model folder: all that it takes to run a captioner, and nothing in it that is code.

    model.safetensors    the weights, whole or packed into a few bits each (`packing.py`)
    config.toml          which captioner, for features of which size, and its settings
    vocab.json           the words it can say
    README.md            the model card, for people

Folders appear whole or not at all, and weights are safetensors only: the checkpoints of a training
run are written and read with what is here too.
"""

import os
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from naic.backbones.inside import current_name
from naic.config import read_toml, structure, to_toml
from naic.errors import CheckpointError, ConfigError
from naic.files import CARD, CODES, CONFIG, VOCABULARY, WEIGHTS, safetensors_header, whole_folder
from naic.importing import asks_for
from naic.models.captioners import captioner_spec
from naic.models.config import current_keys
from naic.models.contract import CaptionerSpec
from naic.text.vocabulary import Vocabulary

NAMES_SHOWN = 3
_KINDS = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}

# What torch's layers and ours draw their first weights with
_DRAWS = (
    Tensor.uniform_,
    Tensor.normal_,
    nn.init.uniform_,
    nn.init.normal_,
    nn.init.kaiming_uniform_,
)


@dataclass(frozen=True)
class ModelSettings:
    """What `config.toml` says.

    Attributes:
        captioner: its name among `CAPTIONERS`, such as "causal".
        features: F, the size of a feature vector.
        words: V, how many words the model can say.
        backbone: what the features came from, in words.
        model: the captioner's own settings: a dataclass of the type that its spec names.
        pixels: the images' size a side when the features were made; None: not known.
        digest: SHA-256 of the backbone's weights; empty: not known, or it is inside the model.
        made_with: the plug-ins that it came from, for people: nothing is imported for it.
    """

    captioner: str
    features: int
    words: int
    backbone: str
    model: Any
    pixels: int | None = None
    digest: str = ""
    made_with: tuple[str, ...] | None = None


class LoadedModel(NamedTuple):
    """A captioner out of its folder, ready to caption."""

    model: nn.Module
    spec: CaptionerSpec
    settings: ModelSettings
    vocabulary: Vocabulary


class Written(NamedTuple):
    """What a file must look like when it is read again."""

    bytes: int
    crc32: int


def write_model(
    folder: Path,
    weights: Mapping[str, Tensor],
    settings: ModelSettings,
    vocabulary: Vocabulary,
    card: str,
    more: Mapping[str, bytes] = MappingProxyType({}),
) -> None:
    """Make the model folder `folder`, whole or not at all; there must be none of that name.

    `more` are further files by their names.
    """
    with whole_folder(folder) as temporary:
        write_weights(temporary / WEIGHTS, weights)
        write_synced(temporary / CONFIG, [to_toml(settings).encode()])
        write_synced(temporary / CARD, [card.encode()])
        for name, content in more.items():
            write_synced(temporary / name, [content])
        vocabulary.save(temporary / VOCABULARY)


def load_model(folder: Path, device: torch.device | str = "cpu") -> LoadedModel:
    """Read a model folder; every weight must be there, of the right shape, and no other.

    Raises:
        CheckpointError: the folder is missing, damaged, or of a model that is not known here.
        VocabularyError: its vocabulary is damaged.
    """
    for name in (WEIGHTS, CONFIG, VOCABULARY):
        if not (folder / name).is_file():
            why = f"is no model folder: it has no {name}"
            raise CheckpointError(str(folder), why, "Name a folder such as RUN/best.")
    settings, spec = _read_settings(folder / CONFIG)
    vocabulary = Vocabulary.load(folder / VOCABULARY)
    if len(vocabulary) != settings.words:
        why = f"has {len(vocabulary)} words, and {CONFIG} tells of {settings.words}"
        raise CheckpointError(str(folder / VOCABULARY), why, "Use the files of one model.")
    expected = _shapes(folder / CONFIG, settings, spec)
    weights = read_weights(folder / WEIGHTS)
    if is_packed(weights):
        from naic.packing import unpack

        weights = unpack(folder / WEIGHTS, weights, expected)
    check_fit(folder / WEIGHTS, weights, expected)
    with _Unfilled():
        model = spec.build(settings.model, settings.features, settings.words)
    model.load_state_dict(weights)
    return LoadedModel(model.to(device).eval(), spec, settings, vocabulary)


def is_packed(tensors: Iterable[str]) -> bool:
    """Whether a file with tensors of these names is a packed one."""
    return any(name.endswith(CODES) for name in tensors)


class _Unfilled(TorchFunctionMode):
    """Where a model is built without drawing its first weights: all are put into it afterwards.

    Drawing them took longer than reading, and went on with the caller's random numbers.
    """

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        named = kwargs or {}
        if func in _DRAWS:
            return args[0] if args else named["tensor"]
        return func(*args, **named)


def read_weights(path: Path, written: Written | None = None) -> dict[str, Tensor]:
    """The tensors of a safetensors file; with `written`, only if its bytes are those written.

    The file is read once, so that what was checked is what is used, and the tensors do not lie in
    the file, which may be removed while they are in use.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise damaged(path, f"cannot be read ({error.strerror})") from error
    # A zip, as torch.save makes it, or a bare pickle: named as such, since "invalid header" would
    # help nobody. A safetensors file may begin with the same byte: that of its header's length.
    foreign = data[:4] == b"PK\x03\x04" or data[:1] == b"\x80"
    if foreign and data[4:9] != b"\0\0\0\0{":
        why = "is a pickled file, and naic reads safetensors only; nothing in it was run"
        raise CheckpointError(str(path), why, "Convert it to safetensors where you trust it.")
    if written is not None:
        if len(data) < written.bytes:
            raise damaged(path, f"is cut off: {len(data)} of {written.bytes} bytes are there")
        if len(data) > written.bytes:
            raise damaged(path, f"has {len(data)} bytes, and {written.bytes} were written")
        if zlib.crc32(data) != written.crc32:
            raise damaged(path, "is damaged: its checksum is not the one it was written with")
    try:
        tensors = load(data)
    except (SafetensorError, KeyError, ValueError, RuntimeError, AssertionError) as error:
        raise damaged(path, f"is no whole safetensors file ({error})") from error
    # Sorted: the library's order is a matter of chance.
    return dict(sorted((current_name(name), tensor) for name, tensor in tensors.items()))


def write_weights(path: Path, weights: Mapping[str, Tensor]) -> Written:
    """Write tensors as safetensors, in an order that depends on nothing but names and types.

    They go out one by one, so that of weights on a device no more than one is on the host.
    """
    names, opening = _header(weights)
    tensors = (weights[name].detach().cpu().contiguous() for name in names)
    numbers = (tensor.reshape(-1).view(torch.uint8).numpy().data for tensor in tensors)
    return write_synced(path, chain([opening], numbers))


def weights_bytes(weights: Mapping[str, Tensor]) -> int:
    """How large the file is that `write_weights` would make."""
    return len(_header(weights)[1]) + sum(tensor.nbytes for tensor in weights.values())


def _header(weights: Mapping[str, Tensor]) -> tuple[list[str], bytes]:
    """The order of the tensors, and what the file begins with."""
    # The widest numbers first: each tensor then starts at a multiple of the size of its numbers.
    names = sorted(weights, key=lambda name: (-weights[name].element_size(), name))
    tensors = [(n, _KINDS[weights[n].dtype], weights[n].shape, weights[n].nbytes) for n in names]
    return names, safetensors_header(tensors, {"format": "pt"}, (",", ":"))


def write_synced(path: Path, chunks: Iterable[bytes | memoryview]) -> Written:
    """Write a file through to the disk, and say what was written; not atomic by itself."""
    size = crc = 0
    with path.open("wb") as file:
        for chunk in chunks:
            file.write(chunk)
            size += len(chunk)
            crc = zlib.crc32(chunk, crc)
        file.flush()
        os.fsync(file.fileno())
    return Written(size, crc)


def _read_settings(path: Path) -> tuple[ModelSettings, CaptionerSpec]:
    """The settings in `path`, checked to the last key, and the captioner that they name."""
    try:
        settings = structure(read_toml(path), ModelSettings, str(path))
        spec = captioner_spec(settings.captioner, str(path), settings.made_with)
        if not isinstance(settings.model, dict):
            raise CheckpointError(str(path), "model is no table", "Use the file as it was saved.")
        model = structure(current_keys(settings.model), spec.config, str(path), "model")
    except ConfigError as error:
        raise CheckpointError(error.what, error.why, error.hint) from error
    if settings.made_with and (inside := spec.backbone(model)):
        from naic.backbones.load import can_be_inside

        if not can_be_inside(inside):
            why = f"there is no backbone {inside!r}"
            raise CheckpointError(str(path), why, asks_for(settings.made_with))
    return replace(settings, model=model), spec


def _shapes(path: Path, settings: ModelSettings, spec: CaptionerSpec) -> Mapping[str, Tensor]:
    """Tensors like those of the model, but without memory.

    A stranger's settings may ask for more of it than there is; weights that fit are on the disk.
    """
    try:
        with torch.device("meta"):
            return spec.build(settings.model, settings.features, settings.words).state_dict()
    except (RuntimeError, ValueError, OverflowError, ConfigError) as error:
        why = f"no model can be made by these settings ({str(error).splitlines()[0]})"
        raise CheckpointError(str(path), why, "Use the file as it was saved.") from error


def check_fit(
    path: Path,
    weights: Mapping[str, Tensor],
    expected: Mapping[str, Tensor],
    hint: str = f"Use the {CONFIG} and {WEIGHTS} of one model.",
) -> None:
    """Refuse the weights of another model, and name a few of those that do not fit."""
    missing = [name for name in expected if name not in weights]
    unknown = [name for name in weights if name not in expected]
    other = [
        f"{name} is {tuple(weights[name].shape)}, not {tuple(expected[name].shape)}"
        for name in expected
        if name in weights and weights[name].shape != expected[name].shape
    ]
    parts = (("missing", missing), ("not known", unknown), ("of another shape", other))
    why = "; ".join(f"{len(names)} {what} ({_few(names)})" for what, names in parts if names)
    if why:
        raise CheckpointError(str(path), f"holds the weights of another model: {why}", hint)


def _few(names: list[str]) -> str:
    return ", ".join(names[:NAMES_SHOWN]) + (", …" if len(names) > NAMES_SHOWN else "")


def damaged(path: Path, why: str) -> CheckpointError:
    """The error for a file or folder that is not as it was written."""
    return CheckpointError(str(path), why, "Use a whole copy of it.")
