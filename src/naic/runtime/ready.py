"""Which model is meant, and what runs it: ONNX Runtime on a processor, torch on a GPU.

Nothing here imports torch before it is known that it is wanted: who captions photos on a processor
needs none, and to import it takes longer than a caption.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from naic.device import CPU, Place, has_torch, may_have_gpu
from naic.errors import CheckpointError, ConfigError, MissingExtraError
from naic.files import CARD, CONFIG, VOCABULARY, WEIGHTS
from naic.runtime.calibration import CALIBRATION, Calibration, read_calibration
from naic.runtime.graphs import beside, exported, precisions
from naic.runtime.sentences import Proposals
from naic.runtime.skeleton import PRECISIONS as GRAPHS
from naic.runtime.skeleton import graph_names
from naic.text.style import STYLE, Style, read_style
from naic.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    import torch

    from naic.decode.stepwise import Beams
    from naic.runtime.rescore import Rescoring
    from naic.runtime.rescorer import Rescorer

SHIPPED = Path(__file__).parent.parent / "shipped"
RUNTIMES = ("auto", "eager", "compile", "graph", "onnx")
PRECISIONS = ("auto", "float32", "bfloat16", "float16", "int8")
ONNX = ".onnx"
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_DEVICE = re.compile(r"(cpu|cuda)(?::([0-9]{1,3}))?")
_IMAGES = 'An image is given to the model: naic caption photo.jpg; Captioner()("photo.jpg").'
_EXPORT = "Make one: naic export MODEL --beside"
_FETCHED = (
    WEIGHTS,
    CONFIG,
    VOCABULARY,
    CARD,
    CALIBRATION,
    STYLE,
    *(n for p in GRAPHS for n in graph_names(p)),
)


class Engine(Protocol):
    """A model made ready on a device. A Captioner calls it from one thread at a time.

    Attributes:
        runtime: "eager", "compile", "graph" or "onnx".
        device: where it runs.
        precision: "float32", "float16", "bfloat16" or "int8".
        pixels: P, the side of the images that it takes.
    """

    runtime: str
    precision: str
    pixels: int

    @property
    def device(self) -> "torch.device | Place":
        """Where it runs; torch's own name of it where torch runs it."""
        ...

    def __call__(self, pixels: "torch.Tensor | npt.NDArray[np.uint8]") -> Proposals:
        """uint8 (B, P, P, 3) on the host, any B from 1 on."""
        ...


class Searches(Protocol):
    """A network that has to search for other sentences, as a causal one does."""

    def beams(self, pixels: npt.NDArray[np.uint8], width: int) -> "Beams":
        """The sentences that it finds."""
        ...


class Ready(NamedTuple):
    """A model that can be shown images.

    Attributes:
        where: the folder or file that it came from.
        engine: what runs it.
        vocabulary: its words.
        searches: the network itself if its alternatives need a search; else None.
        calibration: how likely its captions are to be right, if that has been measured.
        style: how its sentences are written for people, if not as they are said.
        rescorer: a teacher that chooses what is said, if there is one.
    """

    where: Path
    engine: Engine
    vocabulary: Vocabulary
    searches: Searches | None = None
    calibration: Calibration | None = None
    style: Style | None = None
    rescorer: "Rescorer | None" = None


def shipped_model() -> Path:
    """The folder of the model that comes inside the package."""
    if not (SHIPPED / WEIGHTS).is_file():
        why = "this copy of naic has no model inside"
        hint = "Name a model folder with --model, or install naic from its wheel."
        raise CheckpointError(str(SHIPPED), why, hint)
    return SHIPPED


def make_ready(
    model: str | Path,
    device: str,
    runtime: str,
    precision: str,
    rescore: "Rescoring | None" = None,
) -> Ready:
    """Load a model and choose its engine; "auto" leaves the choice.

    On a GPU that is torch; on a processor the graph beside the model's weights, in int8, which is
    the fastest and loses no CIDEr (docs/results/light.md), and torch where there is no graph.

    Raises:
        ConfigError: there is no such device, runtime or precision, or they do not go together.
        CheckpointError: there is no such model, or it is damaged.
        MissingExtraError: it needs torch, and there is none.
    """
    _known("runtime", runtime, RUNTIMES)
    _known("precision", precision, PRECISIONS)
    where = find_model(model)
    graph = exported_file(where)
    if rescore is not None and (graph is not None or runtime == "onnx"):
        why = "an exported graph keeps nothing that a teacher could look at"
        raise ConfigError("--rescore", why, "Name the model folder that it was made from.")
    if graph is not None:
        return _exported(graph, device, runtime, precision)
    if rescore is None and (chosen := _light(where, device, runtime, precision)):
        from naic.runtime.onnx_engine import OnnxEngine

        vocabulary = Vocabulary.load(where / VOCABULARY)
        engine = OnnxEngine(beside(where, chosen), CPU, vocabulary)
        if engine.precision != chosen:
            why = f"its {chosen} graph is {engine.precision}"
            raise CheckpointError(str(where), why, "Make it again: naic export MODEL --beside")
        calibration, style = read_calibration(where), read_style(where)
        return Ready(where, engine, vocabulary, None, calibration, style)
    if runtime == "onnx" or precision == "int8":
        raise _no_graph(where, "runtime" if runtime == "onnx" else "precision")
    if not has_torch():
        why = "is not installed, and is needed for a GPU, a teacher, and models without a graph"
        raise MissingExtraError("torch", why, "Run: pip install 'naic[train]'")
    from naic.runtime.load import make_engine

    return make_engine(where, device, runtime, precision, rescore)


def _light(where: Path, device: str, runtime: str, precision: str) -> str | None:
    """The precision in which ONNX Runtime is to run a model folder; None: torch is to run it."""
    there = precisions(where)
    wanted = there[:1] if precision == "auto" else tuple(p for p in there if p == precision)
    if runtime not in ("auto", "onnx") or not wanted or device.partition(":")[0] == "cuda":
        return None
    free = device == "auto" and runtime == "auto" and precision != "int8"
    if free and has_torch() and may_have_gpu():
        import torch

        if torch.cuda.is_available():
            return None
    return wanted[0] if device == "auto" or _place(device) == CPU else None


def _no_graph(where: Path, what: str) -> ConfigError:
    """The error where a graph is asked for that is not there, or not to be run like this."""
    if there := precisions(where):
        why = f"the graphs of {where} are {' and '.join(there)}, run by ONNX Runtime on a processor"
        hint = "Add --device cpu and one of these precisions; leave out --runtime and --rescore."
        return ConfigError(what, why, hint)
    return ConfigError(what, f"{where} has no graph, which ONNX Runtime and int8 need", _EXPORT)


def _place(device: str) -> Place:
    """A device by its name.

    Raises:
        ConfigError: there is none of that name.
    """
    found = _DEVICE.fullmatch(device)
    if found is None:
        raise ConfigError("--device", f"{device!r} is no device", "Try auto, cpu or cuda.")
    return Place(found[1], None if found[2] is None or found[1] == "cpu" else int(found[2]))


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
        found = snapshot_download(str(model), allow_patterns=[*_FETCHED])
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


def _exported(path: Path, device: str, runtime: str, precision: str) -> Ready:
    """An exported graph: it has its precision, and one engine that can run it.

    ONNX Runtime as most have it is built for CPUs; where no device is named it runs there, whatever
    PyTorch could use.
    """
    if runtime not in ("auto", "onnx"):
        why = f"{path.name} is an exported graph, which {runtime} cannot run"
        raise ConfigError("runtime", why, "Leave it out, or name the model it was made from.")
    from naic.runtime.onnx_engine import OnnxEngine, can_use

    if device == "auto":
        gpu = Place("cuda")
        place = gpu if can_use(gpu) and may_have_gpu() else CPU
    else:
        place = _place(device)
    engine = OnnxEngine(exported(path), place)
    if precision not in ("auto", engine.precision):
        why = f"{path.name} is {engine.precision}, not {precision}"
        hint = f"Leave it out. Make one: naic export MODEL --out DIR --precision {precision}"
        raise ConfigError("precision", why, hint)
    return Ready(path, engine, engine.vocabulary, None, engine.calibration, engine.style)


def _known(name: str, value: str, values: tuple[str, ...]) -> None:
    if value not in values:
        raise ConfigError(name, f"there is no {value!r}", f"Known are: {', '.join(values)}.")
