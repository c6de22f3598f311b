"""The model card: what a model is, how it was made, and how its figures were measured.

It names things as the user typed them, so that a card can be published as it is.
"""

import hashlib
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from naic import __version__
from naic.data.features import FeatureStore
from naic.errors import ConfigError
from naic.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from naic.data.pseudo import PseudoStore

INDEX = "index.json"  # of a store, whether of features or of pseudo captions
_DIGITS = 12
_LIMITS = """- It describes an image in one sentence, and may name things that are not there.
- It says only what the captions it learnt from say, and repeats their habits and biases.
- It knows no names of people or places, and is no judge of what an image means."""


@dataclass(frozen=True, slots=True)
class DataSignature:
    """Which data a model was trained on: two runs compare only if these agree.

    Attributes:
        index: digest of the store's index, which tells of the backbone, its weights, the shards.
        records: digest of the ids, splits and captions in the store.
        backbone: what the features came from.
        splits: those trained on.
        images: how many images they have.
        captions: how many captions these have.
        pseudo: each store whose captions were learnt instead of these, and the digest of its index.
        unlabelled: the digests of each further store's index and records.
    """

    index: str
    records: str
    backbone: str
    splits: tuple[str, ...]
    images: int
    captions: int
    pseudo: tuple[str, ...] = ()
    unlabelled: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CardScore:
    """A figure, and what it takes to measure it again."""

    name: str
    value: float
    how: str  # split, number of images, decoding, and whose document frequencies


def sign_data(
    store: FeatureStore,
    splits: Sequence[str],
    pseudo: "Sequence[PseudoStore]" = (),
    unlabelled: Sequence[FeatureStore] = (),
) -> DataSignature:
    """The signature of the images of these splits that have captions, and of what is beside."""
    chosen = [record for record in store.records if record.split in splits and record.captions]
    if not chosen and not pseudo:
        known = ", ".join(sorted({repr(record.split) for record in store.records}))
        raise ConfigError(
            "splits", f"no image of {', '.join(splits)} has captions", f"There are: {known}."
        )
    index, records = _digests(store)
    return DataSignature(
        index,
        records,
        store.origin,
        tuple(splits),
        len(chosen),
        sum(len(record.captions) for record in chosen),
        tuple(f"{own.describe()} ({_digest(own.folder / INDEX)})" for own in pseudo),
        tuple("/".join(_digests(own)) for own in unlabelled),
    )


def _digests(store: FeatureStore) -> tuple[str, str]:
    return _digest(store.folder / INDEX), _digest(store.folder / "records.jsonl")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:_DIGITS]


def model_card(
    *,
    title: str,
    summary: str,
    command: str,
    config: str,
    data: DataSignature,
    vocabulary: Vocabulary,
    parameters: int,
    scores: Sequence[CardScore],
) -> str:
    """The card as Markdown.

    Args:
        title: the name of the model.
        summary: what it is, in a sentence or two.
        command: the exact command that trained it.
        config: all settings of the run, as TOML.
        data: what it was trained on.
        vocabulary: the words it can say.
        parameters: how many numbers were trained.
        scores: what was measured; none yet is said so.
    """
    return (
        "\n\n".join(
            [
                f"# {title}",
                summary,
                f"{parameters:,} parameters, {len(vocabulary):,} words.",
                "## How it was made",
                _fenced("sh", command),
                "All settings, defaults included:",
                _fenced("toml", config.strip()),
                f"Made with naic {__version__}, torch {torch.__version__}, "
                f"Python {platform.python_version()}.",
                "## Data",
                _data_table(data, vocabulary),
                "## Scores",
                _score_table(scores),
                "## Limits",
                _LIMITS,
            ]
        )
        + "\n"
    )


def _data_table(data: DataSignature, vocabulary: Vocabulary) -> str:
    rows = [
        ("features", data.backbone),
        ("store index (SHA-256)", data.index),
        ("records (SHA-256)", data.records),
        ("splits", ", ".join(data.splits)),
        ("images", f"{data.images:,}"),
        ("captions", f"{data.captions:,}"),
        *(("pseudo captions (SHA-256)", which) for which in data.pseudo),
        *(("unlabelled index/records (SHA-256)", which) for which in data.unlabelled),
        ("vocabulary (SHA-256)", vocabulary.fingerprint[:_DIGITS]),
    ]
    return _table(("what", "which"), rows)


def _score_table(scores: Sequence[CardScore]) -> str:
    if not scores:
        return "None was measured yet."
    rows = [(score.name, f"{score.value:.4f}", score.how) for score in scores]
    return _table(("score", "value", "how it was measured"), rows)


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def _fenced(language: str, text: str) -> str:
    """A code block whose fence does not occur in the text."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}"
