"""A model folder, loaded and run by torch. Which of the ways is taken, `ready.py` says."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import nn

from naic.backbones.load import DEFAULT_PIXELS, backbone_spec, load_backbone
from naic.backbones.patches import CELL
from naic.device import choose_device, keep_freed_memory
from naic.errors import BackboneError, CheckpointError, ConfigError
from naic.files import CONFIG, WEIGHTS
from naic.models.folder import LoadedModel, ModelSettings, load_model
from naic.runtime.calibration import Calibration, read_calibration
from naic.runtime.engines import (
    CompiledEngine,
    CompiledGraphEngine,
    EagerEngine,
    GraphEngine,
    Whole,
)
from naic.runtime.onnx_engine import MOST_PIXELS
from naic.runtime.ready import Ready, exported_file, find_model
from naic.text.style import Style, read_style
from naic.text.vocabulary import Vocabulary

if TYPE_CHECKING:  # few want a second model
    from naic.runtime.rescore import Rescoring
    from naic.runtime.rescorer import TeacherForced

ON_CPU = '--device cpu (in Python: device="cpu")'


class LoadedWhole(NamedTuple):
    """A model folder with all that it sees with, on the host, as float32."""

    whole: Whole
    settings: ModelSettings
    vocabulary: Vocabulary
    pixels: int
    calibration: Calibration | None = None
    style: Style | None = None


def make_engine(
    where: Path, device: str, runtime: str, precision: str, rescore: "Rescoring | None"
) -> Ready:
    """A model folder run by torch; "auto" leaves the choice.

    On a GPU that is a CUDA graph in float16, which says what float32 says more often than bfloat16
    does; on a CPU eager float32.

    Raises:
        ConfigError: there is no such device, or the runtime does not fit it.
        CheckpointError: the model is damaged.
    """
    chosen = choose_device(device)
    _check(runtime, precision, chosen)
    try:
        return _ready(where, chosen, runtime, precision, rescore)
    except torch.OutOfMemoryError as error:
        why = f"its memory has no room for {where}"
        raise ConfigError("--device", why, f"Free some of it, or use {ON_CPU}.") from error


def _ready(
    where: Path,
    device: torch.device,
    runtime: str,
    precision: str,
    rescore: "Rescoring | None",
) -> Ready:
    loaded, teacher = load_whole(where), None
    if rescore is not None:
        loaded, teacher = _with_teacher(loaded, rescore)
    own = loaded.whole.spec.backbone(loaded.settings.model) or loaded.settings.backbone
    recorded = device.type == "cuda" and backbone_spec(own).recordable
    if runtime == "auto":
        runtime = "graph" if recorded else "eager"
    if precision == "auto":
        half = runtime == "graph" or (runtime == "compile" and recorded)
        precision = "float16" if half else "float32"
    compiled = CompiledGraphEngine if recorded else CompiledEngine
    kinds = {"eager": EagerEngine, "compile": compiled, "graph": GraphEngine}
    if device.type == "cpu":
        keep_freed_memory()
    engine = kinds[runtime](loaded.whole, loaded.pixels, device, precision)
    searches = None if loaded.whole.spec.beams is None else loaded.whole
    # The probabilities of a teacher are another model's.
    calibration = loaded.calibration if teacher is None else None
    rescorer = None
    if rescore is not None and teacher is not None:
        from naic.runtime.rescorer import Rescorer

        rescorer = Rescorer(teacher, rescore, loaded.vocabulary, engine)
    return Ready(where, engine, loaded.vocabulary, searches, calibration, loaded.style, rescorer)


def _check(runtime: str, precision: str, device: torch.device) -> None:
    """Refuse what a model folder cannot be run with, before it is loaded."""
    if precision in ("bfloat16", "float16") and device.type != "cuda":
        # Some processors say that they can, and end the program when they are asked to.
        why = f"it is of no use on {device}, and not safe on every one"
        raise ConfigError(
            f"precision {precision}", why, "Use float32, or int8 through naic export."
        )
    if runtime == "graph" and device.type != "cuda":
        why = f"a CUDA graph cannot run on {device}"
        raise ConfigError("runtime", why, "Leave it out, or use an NVIDIA GPU.")


def _with_teacher(loaded: LoadedWhole, rescore: "Rescoring") -> "tuple[LoadedWhole, TeacherForced]":
    """The student as one that keeps what it saw, and the teacher that looks at it too."""
    from naic.runtime.rescorer import load_teacher, watched

    folder = find_model(rescore.teacher)
    if exported_file(folder) is not None:
        why = f"{folder} is an exported graph, and those are of parallel models"
        raise ConfigError("--rescore", why, "Name a causal model: runs/teacher/best")
    whole, settings = loaded.whole, loaded.settings
    student = LoadedModel(whole.model, whole.spec, settings, loaded.vocabulary)
    teacher = load_teacher(folder, student)
    return loaded._replace(whole=watched(whole, settings)), teacher


def load_whole(folder: Path) -> LoadedWhole:
    """A model folder with its backbone, or with the backbone that it learnt from.

    Raises:
        CheckpointError: there is no such model, or it is damaged.
        BackboneError: the backbone here is not the one that the model learnt from.
        MissingExtraError: the backbone's weights are not installed.
    """
    loaded = load_model(folder)
    settings = loaded.settings
    own = loaded.spec.backbone(settings.model)
    pixels = settings.pixels or DEFAULT_PIXELS
    cell = CELL if own else 1
    if not 0 < pixels <= MOST_PIXELS or pixels % cell:
        why = f"{pixels:,} pixels a side are not from {cell} to {MOST_PIXELS:,} in steps of {cell}"
        raise CheckpointError(str(folder / CONFIG), why, "Use the file as it was saved.")
    backbone = None if own else _backbone(folder, settings, pixels)
    whole = Whole(loaded.spec, loaded.model, backbone)
    beside = read_calibration(folder), read_style(folder)
    return LoadedWhole(whole, settings, loaded.vocabulary, pixels, *beside)


def _backbone(folder: Path, settings: ModelSettings, pixels: int) -> nn.Module:
    """What the features came from, if it is here."""
    found = load_backbone(
        settings.backbone, pixels=pixels, device="cpu", made_with=settings.made_with
    )
    if settings.digest and found.digest != settings.digest:
        why = f"it learnt from {settings.backbone} with other weights than those installed"
        hint = (
            "Put its own backbone into it: naic pack MODEL --backbone MODEL_WITH_BACKBONE --out DIR"
        )
        raise BackboneError(str(folder), why, hint)
    if found.dim != settings.features:
        why = f"it reads {settings.features} numbers a region, and {found.name} gives {found.dim}"
        raise BackboneError(str(folder), why, f"Use the {CONFIG} and {WEIGHTS} of one model.")
    return found.module
