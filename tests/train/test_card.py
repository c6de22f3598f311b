"""The model card: all that it takes to make and measure the model again."""

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch

from naic import __version__
from naic.data.features import FeatureStore
from naic.data.records import Record
from naic.data.storewriter import ShardRows, StoreWriter
from naic.errors import ConfigError
from naic.text.vocabulary import SPECIAL, Vocabulary
from naic.train.card import CardScore, DataSignature, model_card, sign_data

VOCABULARY = Vocabulary((*SPECIAL, "a", "circle"))
DATA = DataSignature(
    "0123abcd", "4567ef89", "lite2 at 260 pixels", ("train", "restval"), 1200, 6001
)


class Nowhere:
    """An image that is never opened."""

    name = "nowhere"

    def load(self, at_least: int | None = None) -> None:
        raise AssertionError


def make_store(folder: Path, captions: list[tuple[str, tuple[str, ...]]]) -> FeatureStore:
    records = [
        Record(str(i), Nowhere(), said, split)  # type: ignore[arg-type]
        for i, (split, said) in enumerate(captions)
    ]
    folder.mkdir()
    settings = {"backbone": "lite2", "pixels": 260, "dim": 2, "dtype": "float16"}
    writer = StoreWriter(folder, records, settings, 8)
    rows = ShardRows(
        list(range(len(records))),
        [1] * len(records),
        np.zeros((len(records), 2), np.float16),
    )
    writer.write(0, rows, [])
    return writer.finish()


def card(**changes: object) -> str:
    values: dict[str, object] = {
        "title": "shapes teacher",
        "summary": "A causal captioner.",
        "command": "naic train configs/teacher.toml --out runs/teacher",
        "config": '[model]\nwidth = 64\nnote = "```"\n',
        "data": DATA,
        "vocabulary": VOCABULARY,
        "parameters": 1234567,
        "scores": [CardScore("CIDEr", 0.98765, "val, 500 images, beam 3 | greedy")],
    }
    return model_card(**(values | changes))  # type: ignore[arg-type]


def test_a_card_says_it_all() -> None:
    text = card()
    for part in (
        "# shapes teacher\n\nA causal captioner.\n\n1,234,567 parameters, 6 words.",
        "```sh\nnaic train configs/teacher.toml --out runs/teacher\n```",
        f"naic {__version__}, torch {torch.__version__}",
        "| store index (SHA-256) | 0123abcd |",
        "| records (SHA-256) | 4567ef89 |",
        "| splits | train, restval |",
        "| images | 1,200 |",
        "| captions | 6,001 |",
        f"| vocabulary (SHA-256) | {VOCABULARY.fingerprint[:12]} |",
        "| CIDEr | 0.9877 | val, 500 images, beam 3 \\| greedy |",
    ):
        assert part in text
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings == ["## How it was made", "## Data", "## Scores", "## Limits"]


def test_the_config_can_be_taken_out_again() -> None:
    block = card().split("````toml\n")[1].split("\n````")[0]
    assert tomllib.loads(block) == {"model": {"width": 64, "note": "```"}}


def test_no_scores_yet_is_said() -> None:
    assert "## Scores\n\nNone was measured yet.\n" in card(scores=[])


def test_only_what_the_user_typed_is_named(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", [("train", ("a circle",))])
    assert str(tmp_path) not in card(data=sign_data(store, ["train"]))


def test_data_are_counted_and_signed(tmp_path: Path) -> None:
    rows: list[tuple[str, tuple[str, ...]]] = [
        ("train", ("a", "b")),
        ("train", ()),
        ("restval", ("c",)),
        ("val", ("d",)),
    ]
    store = make_store(tmp_path / "a", rows)
    signature = sign_data(store, ["train", "restval"])
    assert (signature.images, signature.captions) == (2, 3)
    assert signature.splits == ("train", "restval")
    assert signature.backbone == "lite2 at 260 pixels"
    assert sign_data(make_store(tmp_path / "b", rows), ["train", "restval"]) == signature
    rows[0] = ("train", ("a", "x"))
    changed = sign_data(make_store(tmp_path / "c", rows), ["train", "restval"])
    assert changed.records != signature.records
    assert changed.index == signature.index
    index = json.loads((tmp_path / "a" / "index.json").read_text()) | {"pixels": 224}
    (tmp_path / "a" / "index.json").write_text(json.dumps(index))
    assert sign_data(FeatureStore(tmp_path / "a"), ["train"]).index != signature.index


def test_splits_without_captions_are_refused(tmp_path: Path) -> None:
    store = make_store(tmp_path / "a", [("train", ("a",)), ("val", ())])
    with pytest.raises(ConfigError, match=r"no image of val has captions\. There are: 'train'"):
        sign_data(store, ["val"])
