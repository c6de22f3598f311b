"""Where captions go: what must be right with it before any model is loaded, and what is there."""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from naic import __version__
from naic.data.readers.textfiles import read_text
from naic.errors import CheckpointError, ConfigError, DataError
from naic.files import printable, what_is
from naic.resume import Warn, digest_of
from naic.tasks.caption.find import Found, real_folder
from naic.tasks.caption.journal import Start
from naic.tasks.caption.options import CaptionOptions
from naic.tasks.caption.rows import Rows
from naic.text.tokeniser import single_words

# What makes the captions what they are, and who gets one; a run that goes on must agree in it.
_REQUESTED = (
    *("existing", "prefix", "suffix"),
    *("alternatives", "confidence", "max_words", "runtime"),
)
# What the words of a caption do not depend on.
_ELSEWHERE = ("existing", "format", "alternatives", "confidence", "naic", "current folder")

# The files of a model folder that its captions come from.
_WEIGHTS = (".safetensors", ".onnx")
_SETTINGS = ("config.toml", "config.json", "vocab.json", "calibration.json", "style.json")


def check_file(out: Path, images: Sequence[Found]) -> None:
    """Refuse an output that cannot be a file."""
    name, kind = printable(str(out)), what_is(out)
    if kind == "folder":
        hint = "Name a file in it, or use --format txt for a text file for each image."
        raise ConfigError(name, "it is a folder", hint)
    if kind == "special":
        hint = "Leave --out away, and send standard output there."
        raise ConfigError(name, "it is there, and is no regular file", hint)
    folder = Path(os.path.realpath(out)).parent
    if what_is(folder) != "folder":
        named = printable(str(folder if out.is_symlink() else out.parent))
        hint = "Make it, or choose another --out."
        raise ConfigError(named, "there is no such folder", hint)
    # What is not there is no image; to follow the paths of all would take longer than their text.
    if kind == "file" and os.path.realpath(out) in {
        os.path.realpath(image.path) for image in images
    }:
        raise ConfigError(name, "it is one of the images", "Name another file.")


def check_folder(out: Path) -> None:
    """Refuse an output that is to be a folder and is none."""
    if what_is(out) in ("file", "special"):
        hint = "Name a folder, or leave --format away for one file."
        raise ConfigError(printable(str(out)), "it is no folder, which --format txt needs", hint)


def starting(options: CaptionOptions, out: Path, rows: Rows, warn: Warn) -> Start:
    """What to do about a file that is there; by default nothing, and the run is refused.

    `warn` hears of a table that is not in UTF-8.
    """
    digest, name = digest_of(out), printable(str(out))
    if digest is None:
        return Start()
    if options.existing is None:
        why = "there is such a file already"
        hint = "Add --existing skip, overwrite or append, or choose another --out."
        raise ConfigError(name, why, hint)
    if options.existing == "overwrite":
        return Start(digest=digest)
    return Start(rows.held(_text_of(options, out, warn), name), digest)


def _text_of(options: CaptionOptions, out: Path, warn: Warn) -> str:
    """What the file holds; a table may have been in a spreadsheet since we wrote it."""
    if options.kind == "csv":
        return read_text(out, warn)
    try:
        return out.read_bytes().decode("utf-8", "surrogateescape")
    except OSError as error:
        why = f"it cannot be read ({error.strerror})"
        raise DataError(printable(str(out)), why, "Check its permissions.") from error


def without_caption(
    options: CaptionOptions, out: Path, rows: Rows, start: Start, images: Sequence[Found]
) -> Sequence[Found]:
    """The images to caption: with --existing skip, those that the file had none of."""
    if options.existing != "skip":
        return images
    keys = rows.keys(start.held, printable(str(out)))
    return [image for image in images if rows.key(image.path) not in keys]


def request(options: CaptionOptions) -> dict[str, Any]:
    """What a run that goes on must agree in; not where it computes, nor in which batches."""
    relative = any(not path.is_absolute() for path in options.paths)
    # None without it, as where nothing is written: runs of an earlier naic can go on.
    rescoring: dict[str, Any] = dict.fromkeys(("rescore", "rescore_choices", "rescore_weight"))
    if options.rescore is not None:
        how = (identity(options.rescore), options.rescore_choices, options.rescore_weight)
        rescoring = dict(zip(rescoring, how, strict=True))
    return {
        "format": options.kind,
        **{name: value for name, value in asdict(options).items() if name in _REQUESTED},
        "model": identity(options.model),
        **rescoring,
        **_wishes(options),
        "precision": None if options.precision == "auto" else options.precision,
        "naic": __version__,
        # Elsewhere the same names are those of other images.
        "current folder": real_folder(".") if relative else "",
    }


def digest(options: CaptionOptions) -> str:
    """Of what a caption's words depend on."""
    asked = {name: value for name, value in request(options).items() if name not in _ELSEWHERE}
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]


def _wishes(options: CaptionOptions) -> dict[str, Any]:
    """What is wished of the words; None where nothing is, likewise."""
    lists = {"forbid": options.forbid, "prefer": options.prefer}
    return {
        "max_chars": options.max_chars,
        "min_confidence": options.min_confidence or None,  # 0 leaves nothing out
        **{name: " ".join(sorted(single_words(name, own))) or None for name, own in lists.items()},
        "neutral": options.neutral or None,
        "style": None if options.style else False,
    }


def identity(model: Path | None) -> str:
    """The identity of a model: its weights, settings and words, or its name on the hub.

    Only regular files are read: a pipe of such a name would keep us waiting for ever.
    """
    if model is None:
        from naic.runtime.captioner import shipped_model

        model = shipped_model()
    kind = what_is(model)
    if kind not in ("file", "folder"):
        return str(model)
    try:
        if kind == "file":
            return f"{digest_of(model)}"
        files = sorted(path for path in model.iterdir() if _makes_captions(path))
        return " ".join(f"{path.name} {digest_of(path)}" for path in files)
    except OSError as error:
        why = f"it cannot be read ({error.strerror})"
        hint = "Check its permissions."
        raise CheckpointError(printable(str(model)), why, hint) from error


def _makes_captions(path: Path) -> bool:
    named = path.suffix in _WEIGHTS or path.name in _SETTINGS
    return named and what_is(path) == "file"
