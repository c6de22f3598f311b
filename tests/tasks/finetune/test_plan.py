"""Which images are held out, and which words are learnt."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naic.data.records import Record
from naic.errors import ConfigError, DataError, VocabularyError
from naic.images.sources import FileImage
from naic.tasks.finetune.plan import (
    HELD_OUT,
    TRAIN,
    FinetuneOptions,
    default_epochs,
    how_many_held_out,
    share_out,
    strange_words,
)
from naic.text import MAX_IDS, Vocabulary
from naic.text.vocabulary import SPECIAL

OPTIONS = FinetuneOptions("mine.csv", Path("out"))


def records(splits: list[str], captions: tuple[str, ...] = ("a dog",)) -> list[Record]:
    return [
        Record(f"image-{i}", FileImage(Path(f"{i}.jpg")), captions, split)
        for i, split in enumerate(splits)
    ]


def held_out(shared: list[Record]) -> set[str]:
    return {record.id for record in shared if record.split == HELD_OUT}


@given(st.integers(10, 400), st.integers(0, 5))
def test_without_splits_some_are_held_out_and_all_are_used(count: int, seed: int) -> None:
    options = FinetuneOptions("mine.csv", Path("out"), seed=seed)
    shared, own = share_out(records([""] * count), options)
    assert not own
    assert [record.id for record in shared] == [f"image-{i}" for i in range(count)]
    assert len(held_out(shared)) == how_many_held_out(count)
    assert 2 <= how_many_held_out(count) <= count // 5
    assert share_out(records([""] * count), options)[0] == shared


def test_another_seed_holds_out_other_images() -> None:
    other = FinetuneOptions("mine.csv", Path("out"), seed=2)
    one, two = (share_out(records([""] * 50), options)[0] for options in (OPTIONS, other))
    assert held_out(one) != held_out(two)


def test_an_image_more_changes_little() -> None:
    before = held_out(share_out(records([""] * 60), OPTIONS)[0])
    after = held_out(share_out(records([""] * 61), OPTIONS)[0])
    assert len(before & after) >= len(before) - 1


@pytest.mark.parametrize("name", ["val", "validation", "dev"])
def test_the_splits_of_the_source_are_kept(name: str) -> None:
    given = ["train"] * 8 + [name] * 3 + ["test"] * 2 + ["restval"]
    shared, own = share_out(records(given), OPTIONS)
    assert own
    assert [record.split for record in shared] == [TRAIN] * 8 + [HELD_OUT] * 3 + [TRAIN]


def test_a_source_with_train_and_test_only_gets_images_held_out_of_train() -> None:
    shared, own = share_out(records(["train"] * 20 + ["test"] * 5), OPTIONS)
    assert not own
    assert len(shared) == 20
    assert len(held_out(shared)) == 4


def test_what_cannot_be_learnt_from() -> None:
    with pytest.raises(DataError, match="9 images with captions are too few"):
        share_out(records([""] * 9), OPTIONS)
    with pytest.raises(DataError, match="0 images with captions"):
        share_out(records([""] * 20, captions=()), OPTIONS)
    with pytest.raises(ConfigError, match="its splits are 'test'"):
        share_out(records(["test"] * 20), OPTIONS)
    with pytest.raises(ConfigError, match="all of its images are held out"):
        share_out(records(["val"] * 20), OPTIONS)


def test_words_seen_often_enough_are_learnt() -> None:
    known = Vocabulary((*SPECIAL, "a", "dog"))
    captions = ["A wombat.", "a wombat and a quokka", "the wombat", "a quokka"]
    assert strange_words(captions, known, 2) == (("wombat", "quokka"), ("and", "the"))
    assert strange_words(captions, known, 3) == (("wombat",), ("quokka", "and", "the"))
    assert strange_words(captions, known, 0) == ((), ("wombat", "quokka", "and", "the"))


def test_more_words_than_ids_are_refused() -> None:
    known = Vocabulary((*SPECIAL, *(f"word{i}" for i in range(MAX_IDS - len(SPECIAL) - 1))))
    assert strange_words(["a dog", "a cat"], known, 2) == (("a",), ("cat", "dog"))
    with pytest.raises(VocabularyError, match="3 words are new, and there is room for 1"):
        strange_words(["a dog", "a cat"], known, 1)


@pytest.mark.parametrize(
    ("images", "epochs"), [(10, 20), (150, 20), (300, 10), (1000, 3), (10**6, 3)]
)
def test_few_images_come_more_often(images: int, epochs: int) -> None:
    assert default_epochs(images) == epochs


@pytest.mark.parametrize(
    ("over", "named"),
    [
        ({"epochs": 0}, "--epochs"),
        ({"learning_rate": 0.0}, "--learning-rate"),
        ({"learning_rate": float("nan")}, "--learning-rate"),
        ({"batch": 0}, "--batch"),
        ({"new_words": -1}, "--new-words"),
        ({"seed": -1}, "--seed"),
    ],
)
def test_values_that_cannot_be(over: dict[str, float], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        FinetuneOptions("mine.csv", Path("out"), **over).check()  # type: ignore[arg-type]
