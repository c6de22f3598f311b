"""Runs of `naic caption --undo`, without a model."""

from pathlib import Path
from typing import Any

from naic.tasks.caption.options import CaptionOptions
from naic.tasks.caption.run import Captioned, caption
from tests.tasks.caption.small import Fake, Heard


def no_model(options: CaptionOptions) -> Fake:
    raise AssertionError("--undo loads no model")


def undo(*paths: Path | str, **settings: Any) -> tuple[Captioned, Heard]:
    heard = Heard()
    options = CaptionOptions(tuple(map(Path, paths)), undo=True, **settings)
    return caption(options, heard.pieces.append, heard.callbacks(), load=no_model), heard
