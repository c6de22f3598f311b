"""What a figure depends on, in one line: two figures compare only if their lines agree."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from naic import __version__
from naic.data.readers.captions import Captioned
from naic.metrics.cider import DocumentFrequencies

_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Corpus:
    """Document frequencies that come from elsewhere than the evaluated images."""

    name: str
    frequencies: DocumentFrequencies
    digest: str


def digest(images: Sequence[Captioned]) -> str:
    """A short digest of ids and captions, whatever order and format they were read in."""
    rows = sorted((image.id, sorted(image.captions)) for image in images)
    text = json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def sign(
    images: Sequence[Captioned],
    whole: int,
    splits: Sequence[str],
    corpus: Corpus | None,
    metrics: Sequence[str],
) -> dict[str, str | int]:
    """The signature of scores on `images`, which are some or all of `whole`."""
    df = f"evaluated set, {len(images)} images"
    if corpus is not None:
        df = f"{corpus.name}, {corpus.frequencies.images} images, data {corpus.digest}"
    signature: dict[str, str | int] = {
        "naic": __version__,
        "tokeniser": "ptb (each caption alone)",
        "period": "not counted",
        "df": df,
        "images": len(images),
        "references": sum(len(image.captions) for image in images),
        "split": "+".join(splits) or "all",
        "data": digest(images),
        "metrics": ",".join(metrics),
    }
    if len(images) < whole:
        signature["subset"] = f"{len(images)} of {whole} images"
    return signature


def signature_line(signature: dict[str, str | int]) -> str:
    """The signature to be printed beside a figure."""
    keys = [f"{key}:{value}" for key, value in signature.items() if key != "naic"]
    return "|".join([f"naic {signature['naic']}", *keys])
