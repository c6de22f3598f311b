"""What makes the outputs of a run over shards what they are: who goes on with it must agree."""

from typing import Any

from naic import __version__
from naic.tasks.caption.output import identity
from naic.tasks.caption.output import request as caption_request
from naic.tasks.shards.options import Asked, CaptionShards, PrepareShards

# Of captions in files, which shards have none of.
_NONE = ("format", "existing", "prefix", "suffix", "confidence", "min_confidence", "current folder")


def request(asked: Asked) -> dict[str, Any]:
    """All that outputs depend on but the shards; not by whom they are made, nor on which device.

    A batch is part of it: in float32 the last bits of an image depend on how many come with it.
    """
    both = {
        "image_column": asked.image_column,
        "key_column": asked.key_column,
        "batch": asked.batch,
        "naic": __version__,
    }
    if isinstance(asked, CaptionShards):
        own = caption_request(asked.as_caption()) | both
        return {name: value for name, value in own.items() if name not in _NONE}
    weights = None if asked.weights is None else identity(asked.weights)
    if isinstance(asked, PrepareShards):
        return {"backbone": asked.backbone, "weights": weights, "pixels": asked.pixels} | both
    return {
        "teacher": identity(asked.model),
        "weights": weights,
        "beam": asked.beam,
        "keep": asked.keep,
        "precision": asked.precision,
    } | both
