"""Unlabelled means unseen: which images' captions a store's backbone has learnt from.

A backbone that was trained inside a captioner has learnt from captions. The folder of such a model
lists the images (`backbone_images.json`), and `naic prepare --weights MODEL` puts the list beside
the features that this backbone makes. Images are known by their ids.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from naic.data.features import FeatureStore
from naic.errors import StoreError

SEEN = "backbone_images.json"
_FORMAT = "naic-backbone-images-1"
_HINT = "Prepare both stores with another backbone: leave out --weights, or tune it on"


@dataclass(frozen=True)
class SeenImages:
    """The images whose captions a backbone has learnt from.

    Attributes:
        ids: of the images.
        whole: whether there are no others; not so if it was trained on from a model without a list.
    """

    ids: frozenset[str]
    whole: bool = True

    def as_json(self) -> bytes:
        """The content of the file."""
        content = {"format": _FORMAT, "whole": self.whole, "images": sorted(self.ids)}
        return f"{json.dumps(content)}\n".encode()


def read_seen(folder: Path) -> SeenImages | None:
    """The list in the folder of a model or a store; None: there is none."""
    path = folder / SEEN
    if not path.exists():
        return None
    try:
        content = json.loads(path.read_bytes())
        if content["format"] != _FORMAT:
            raise ValueError(f"its format is {content['format']!r}")  # noqa: TRY301
        return SeenImages(frozenset(map(str, content["images"])), content["whole"] is True)
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = f"cannot be read ({error})"
        raise StoreError(str(path), why, "Put back the file as it was written.") from error


def check_unseen(
    unlabelled: FeatureStore, others: Collection[FeatureStore], *, tuned: bool
) -> None:
    """Refuse unlabelled images whose captions the backbone that looks at them has learnt from.

    Args:
        unlabelled: the store of these images.
        others: stores with features of the same backbone, one of which may have the list.
        tuned: whether its weights are known to be other ones than were published.
    """
    lists = [found for store in (unlabelled, *others) if (found := read_seen(store.folder))]
    both = {record.id for record in unlabelled.records} & {i for own in lists for i in own.ids}
    if both:
        why = (
            f"its backbone has learnt from the captions of {len(both):,} of its images, "
            f"such as {min(both)!r}"
        )
        raise StoreError(str(unlabelled.folder), why, f"{_HINT} other images.")
    if tuned and not any(found.whole for found in lists):
        why = "its backbone was tuned on captions, and nothing says of which images"
        hint = f"{_HINT} known ones: this naic notes them in the model's folder."
        raise StoreError(str(unlabelled.folder), why, hint)
