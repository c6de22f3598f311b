"""Which model is meant, and which engine runs it."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import nn

from naic.backbones.load import DEFAULT_PIXELS, backbone_spec, load_backbone
from naic.backbones.patches import CELL
from naic.device import choose_device, keep_freed_memory
from naic.errors import BackboneError, CheckpointError, ConfigError
from naic.models.folder import (
    CARD,
    CONFIG,
    VOCABULARY,
    WEIGHTS,
    LoadedModel,
    ModelSettings,
    load_model,
)
from naic.runtime.calibration import CALIBRATION, Calibration, read_calibration
from naic.runtime.engines import (
    KINDS,
    MOST_PIXELS,
    CompiledEngine,
    CompiledGraphEngine,
    EagerEngine,
    Engine,
    GraphEngine,
    Whole,
)
from naic.text.vocabulary import Vocabulary

if TYPE_CHECKING:  # few want a second model
    from naic.runtime.rescore import Rescoring
    from naic.runtime.rescorer import Rescorer, TeacherForced

RUNTIMES = ("auto", "eager", "compile", "graph", "onnx")
PRECISIONS = ("auto", *KINDS, "int8")
ONNX = ".onnx"
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_IMAGES = 'An image is given to the model: naic caption photo.jpg; Captioner()("photo.jpg").'
_EXPORT = "Make one: naic export MODEL --out DIR"


class Ready(NamedTuple):
    """A model that can be shown images.

    Attributes:
        where: the folder or file that it came from.
        engine: what runs it.
        vocabulary: its words.
        searches: the network itself if its alternatives need a search, as a causal one's; else
            None.
        calibration: how likely its captions are to be right, if that has been measured.
        rescorer: a teacher that chooses what is said, if there is one.
    """

    where: Path
    engine: Engine
    vocabulary: Vocabulary
    searches: Whole | None
    calibration: Calibration | None
    rescorer: "Rescorer | None" = None


class LoadedWhole(NamedTuple):
    """A model folder with all that it sees with, on the host, as float32."""

    whole: Whole
    settings: ModelSettings
    vocabulary: Vocabulary
    pixels: int
    calibration: Calibration | None = None


def make_ready(
    model: str | Path,
    device: str,
    runtime: str,
    precision: str,
    rescore: "Rescoring | None" = None,
) -> Ready:
    """Load a model and choose its engine; "auto" leaves the choice.

    On a GPU that is a CUDA graph in float16, which says what float32 says more often than bfloat16
    does; on a CPU eager float32; an exported file is for ONNX Runtime alone, on a GPU if it is
    built for one.

    Raises:
        ConfigError: there is no such device, runtime or precision, or they do not go together.
        CheckpointError: there is no such model, or it is damaged.
    """
    _known("runtime", runtime, RUNTIMES)
    _known("precision", precision, PRECISIONS)
    chosen = choose_device(device)
    where = find_model(model)
    exported = exported_file(where)
    if rescore is not None and (exported is not None or runtime == "onnx"):
        why = "an exported graph keeps nothing that a teacher could look at"
        raise ConfigError("--rescore", why, "Name the model folder that it was made from.")
    if exported is not None:
        return _exported(exported, chosen, runtime, precision, may_move=device == "auto")
    _check(runtime, precision, chosen)
    loaded, teacher = load_whole(where), None
    if rescore is not None:
        loaded, teacher = _with_teacher(loaded, rescore)
    own = loaded.whole.spec.backbone(loaded.settings.model) or loaded.settings.backbone
    recorded = chosen.type == "cuda" and backbone_spec(own).recordable
    if runtime == "auto":
        runtime = "graph" if recorded else "eager"
    if precision == "auto":
        half = runtime == "graph" or (runtime == "compile" and recorded)
        precision = "float16" if half else "float32"
    compiled = CompiledGraphEngine if recorded else CompiledEngine
    kinds = {"eager": EagerEngine, "compile": compiled, "graph": GraphEngine}
    if chosen.type == "cpu":
        keep_freed_memory()
    engine = kinds[runtime](loaded.whole, loaded.pixels, chosen, precision)
    searches = None if loaded.whole.spec.beams is None else loaded.whole
    # The probabilities of a teacher are another model's.
    calibration = loaded.calibration if teacher is None else None
    rescorer = None
    if rescore is not None and teacher is not None:
        from naic.runtime.rescorer import Rescorer

        rescorer = Rescorer(teacher, rescore, loaded.vocabulary, engine)
    return Ready(where, engine, loaded.vocabulary, searches, calibration, rescorer)


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


def find_model(model: str | Path) -> Path:
    """The folder or file that is meant; a name "owner/name" that is none is looked for on the hub.

    Raises:
        CheckpointError: it is neither here nor there, or a file that is no graph.
    """
    path = Path(model)
    if path.is_file() and path.suffix != ONNX:
        why = f"is no model: that is a folder with {WEIGHTS}, or a {ONNX} file of naic export"
        raise CheckpointError(str(model), why, _IMAGES)
    if path.exists():
        return path
    if not _HUB_ID.fullmatch(str(model)):
        raise CheckpointError(str(model), "there is no such model", "Name a model folder.")
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        why = "there is no such model here, and huggingface_hub, which could fetch it, is missing"
        hint = "Name a model folder, or run: pip install huggingface_hub"
        raise CheckpointError(str(model), why, hint) from error
    try:
        # Nothing else is fetched: what these files hold is checked, and none of it is code.
        wanted = [WEIGHTS, CONFIG, VOCABULARY, CARD, CALIBRATION]
        found = snapshot_download(str(model), allow_patterns=wanted)
    except Exception as error:  # the client has a tree of errors, and so has its network library
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        why = f"there is no such model here, and the hub does not give it ({reason})"
        hint = "Name a model folder, or check the id and the network."
        raise CheckpointError(str(model), why, hint) from error
    return Path(found)


def exported_file(where: Path) -> Path | None:
    """The graph of `naic export`, if this is one or a folder with one; None: a model folder."""
    if where.suffix == ONNX and where.is_file():
        return where
    if not where.is_dir() or (where / WEIGHTS).is_file():
        return None
    found = sorted(where.glob(f"*{ONNX}"))
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise CheckpointError(str(where), f"has several graphs: {names}", "Name one of them.")
    return found[0] if found else None


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
    return LoadedWhole(whole, settings, loaded.vocabulary, pixels, read_calibration(folder))


def _backbone(folder: Path, settings: ModelSettings, pixels: int) -> nn.Module:
    """What the features came from, if it is here."""
    found = load_backbone(settings.backbone, pixels=pixels, device="cpu")
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


def _exported(
    path: Path, device: torch.device, runtime: str, precision: str, *, may_move: bool
) -> Ready:
    """An exported graph: it has its precision, and one engine that can run it.

    ONNX Runtime as most have it is built for CPUs; with `may_move` it runs there, whatever PyTorch
    could use.
    """
    if runtime not in ("auto", "onnx"):
        why = f"{path.name} is an exported graph, which {runtime} cannot run"
        raise ConfigError("runtime", why, "Leave it out, or name the model it was made from.")
    from naic.runtime.onnx_engine import OnnxEngine, can_use  # ONNX Runtime is an extra

    if may_move and not can_use(device):
        device = torch.device("cpu")
    engine = OnnxEngine(path, device)
    if precision not in ("auto", engine.precision):
        why = f"{path.name} is {engine.precision}, not {precision}"
        raise ConfigError("precision", why, f"Leave it out. {_EXPORT} --precision {precision}")
    return Ready(path, engine, engine.vocabulary, None, engine.calibration)


def _check(runtime: str, precision: str, device: torch.device) -> None:
    """Refuse what a model folder cannot be run with, before it is loaded."""
    if runtime == "onnx":
        raise ConfigError("runtime", "onnx needs an exported graph", _EXPORT)
    if precision == "int8":
        raise ConfigError(
            "precision", "int8 needs an exported graph", f"{_EXPORT} --precision int8"
        )
    if precision in ("bfloat16", "float16") and device.type != "cuda":
        # Some processors say that they can, and end the program when they are asked to.
        why = f"it is of no use on {device}, and not safe on every one"
        raise ConfigError(
            f"precision {precision}", why, "Use float32, or int8 through naic export."
        )
    if runtime == "graph" and device.type != "cuda":
        why = f"a CUDA graph cannot run on {device}"
        raise ConfigError("runtime", why, "Leave it out, or use an NVIDIA GPU.")


def _known(name: str, value: str, values: tuple[str, ...]) -> None:
    if value not in values:
        raise ConfigError(name, f"there is no {value!r}", f"Known are: {', '.join(values)}.")
