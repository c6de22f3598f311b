"""What the figures of an evaluation depend on, in a line.

Two figures can be compared only if their signatures agree.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from naic import __version__
from naic.data.readers.captions import ImageCaptions
from naic.images.formats import plain_id
from naic.metrics.cider import DocumentFrequencies

_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Corpus:
    """Document frequencies that come from elsewhere than the evaluated images."""

    frequencies: DocumentFrequencies
    digest: str


def digest(images: Sequence[ImageCaptions]) -> str:
    """A short digest of ids and captions, whatever order and format they were read in.

    Ids are taken in their plain form, in which formats agree, unless two images share one.
    """
    ids = [plain_id(image.id) for image in images]
    if len(set(ids)) < len(ids):
        ids = [image.id for image in images]
    rows = sorted((id_, sorted(image.captions)) for id_, image in zip(ids, images, strict=True))
    text = json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def sign(
    images: Sequence[ImageCaptions],
    whole: int,
    corpus: Corpus | None,
    metrics: Sequence[str],
    programs: Mapping[str, str],
) -> dict[str, str | int]:
    """The signature of scores on `images`, which are some or all of `whole`.

    Nothing in it is a name that a user gave: equal figures must have equal lines. `programs` are
    those that computed the scores that we do not compute ourselves.
    """
    data = digest(images)
    df = f"evaluated set, {len(images)} images"
    if corpus is not None and corpus.digest != data:
        df = f"data {corpus.digest}, {corpus.frequencies.images} images"
    signature: dict[str, str | int] = {
        "naic": __version__,
        "tokeniser": "ptb (each caption alone)",
        "period": "not counted",
        "df": df,
        "images": len(images),
        "references": sum(len(image.captions) for image in images),
        "data": data,
        **programs,
        "metrics": ",".join(metrics),
    }
    if len(images) < whole:
        signature["subset"] = f"{len(images)} of {whole} images"
    return signature


def signature_line(signature: dict[str, str | int]) -> str:
    """The signature to be printed beside a figure."""
    keys = [f"{key}:{value}" for key, value in signature.items() if key != "naic"]
    return "|".join([f"naic {signature['naic']}", *keys])
