"""Small pseudo-caption stores for tests."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from naic.data.features import FeatureStore
from naic.data.joined import backbone
from naic.data.pseudo import PseudoStore, PseudoWriter, Taught
from naic.text import Vocabulary
from naic.text.vocabulary import SPECIAL

WORDS = Vocabulary((*SPECIAL, "a", "cat", "dog", "sits"))
PER_SHARD = 2


def taught(*captions: str, ended: bool = True) -> Taught:
    """These captions, each a little less likely than the one before."""
    scores = tuple(-1.0 - i for i in range(len(captions)))
    return Taught(captions, scores, (ended,) * len(captions))


def settings_of(*stores: FeatureStore, vocabulary: Vocabulary = WORDS) -> dict[str, Any]:
    return {
        "teacher": {"weights": "abc", "vocabulary": vocabulary.fingerprint},
        "beam": 3,
        "features": [backbone(store.index) for store in stores],
    }


def make_pseudo(
    folder: Path,
    said: Mapping[str, Taught],
    *stores: FeatureStore,
    vocabulary: Vocabulary = WORDS,
) -> PseudoStore:
    """A store of what is said of each image id, as if made from `stores`."""
    settings = settings_of(*stores, vocabulary=vocabulary)
    folder.mkdir(exist_ok=True)
    writer = PseudoWriter(folder, list(said), settings, PER_SHARD)
    rows = list(said.values())
    for number in writer.shards:
        if not writer.is_whole(number):
            span = writer.span(number)
            writer.write(number, rows[span.start : span.stop])
    return writer.finish(vocabulary, {"teacher": settings["teacher"] | {"folder": "t/best"}})
