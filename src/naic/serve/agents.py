"""What the agents' view has beside captions: attention, references, a teacher; and its loading."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from naic.device import has_torch
from naic.errors import MissingExtraError
from naic.files import printable
from naic.runtime.captioner import shipped_model
from naic.runtime.explain import Pass
from naic.runtime.ready import find_model
from naic.serve.advantage import Judge

if TYPE_CHECKING:
    from naic.runtime.captioner import Captioner
    from naic.runtime.writer import Writer
    from naic.serve.options import ServeOptions

_PRECISIONS = ("float32", "float16", "bfloat16")  # of torch; int8 is ONNX Runtime's
NO_REFERENCES = "advantages take --references STORE, the features and captions of a training set"


@dataclass(frozen=True, slots=True)
class View:
    """All of it, of one model.

    Attributes:
        length: N, the agents; 0: the model writes word by word, and has none.
        attention_why: why it is not known where the agents look; None: it is.
        judge: tells what words were worth; None: there is no store.
        references: the name of the store; None: likewise.
        writer: a teacher; None: there is none.
        teacher: its name; None: likewise.
    """

    length: int = 0
    attention_why: str | None = None
    judge: Judge | None = None
    references: str | None = None
    writer: "Writer | None" = None
    teacher: str | None = None

    def told(self) -> dict[str, Any] | None:
        """What `/v1/info` tells of it; None: there are no agents."""
        if not self.length:
            return None
        return {
            "length": self.length,
            "attention": self.attention_why is None,
            "attention_why": self.attention_why,
            "references": self.references,
            "references_why": NO_REFERENCES if self.judge is None else None,
            "teacher": self.teacher,
        }


def load_view(options: "ServeOptions", captioner: "Captioner") -> View:
    """What the options ask for; nothing else may use the captioner meanwhile.

    Raises:
        MissingExtraError: it needs torch, and there is none.
        NaicError: the store or the teacher cannot be used.
    """
    side = captioner.engine.pixels
    once = Pass(captioner.engine)
    _, agents, choices = once(np.zeros((1, side, side, 3), np.uint8)).words.shape
    judge, writer = None, None
    if options.references is not None:
        judge = Judge(options.references, captioner.vocabulary)
    if options.teacher is not None:
        writer = _writer(options, captioner)
    return View(
        agents if choices > 1 else 0,
        _why_blind(captioner.engine.runtime, once),
        judge,
        _name(options.references),
        writer,
        _name(options.teacher),
    )


def _why_blind(runtime: str, once: Pass) -> str | None:
    """Why it is not known where agents look; None: it is, by a pass of any image."""
    if runtime != "eager":
        return f"where words looked takes --runtime eager; this server runs {runtime}"
    if once.looks is None:
        return "this model does not tell where its words looked"
    return None if once.looks.grid else "this model sees regions of an image that are no grid"


def _writer(options: "ServeOptions", captioner: "Captioner") -> "Writer":
    if not has_torch():
        why = "is not installed, and --teacher is run by it"
        raise MissingExtraError("torch", why, "Run: pip install 'naic[train]'")
    from naic.runtime.writer import load_writer

    engine = captioner.engine
    model = shipped_model() if options.model is None else find_model(str(options.model))
    gpu = engine.device.type != "cpu" and engine.precision in _PRECISIONS
    precision = engine.precision if gpu else "float32"
    return load_writer(str(options.teacher), model, str(engine.device), precision)


def _name(path: Path | None) -> str | None:
    return None if path is None else printable(path.name) or str(path)
