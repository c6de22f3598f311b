import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from naic.data.batches import Ints, Spread, Stream, Targets, columns, count_regions
from naic.data.features import read_features
from naic.errors import ConfigError, DataError, StoreError
from naic.text import PAD, PERIOD, UNK, Vocabulary
from tests.data.stores import DIM, make_store

VOCABULARY = Vocabulary((".", "<bos>", "<unk>", "<pad>", "a", "cat", "dog", "sits"))
A, CAT, DOG, SITS = range(4, 8)
LONG = " ".join(["cat dog"] * 9)


def test_targets_are_the_captions_of_the_splits(tmp_path: Path) -> None:
    store = make_store(
        tmp_path / "store",
        [["A cat sits."], ["a dog"], [], ["a zebra", "a dog", "a cat"]],
        splits=["train", "val", "train", "restval"],
    )
    targets = Targets.build(store, ("train", "restval"), VOCABULARY, 5)
    assert targets.rows.tolist() == [0, 3]  # row 1 is of another split, row 2 has no caption
    assert targets.counts.tolist() == [1, 3]
    assert (len(targets), targets.captions) == (2, 4)
    assert targets.ids.dtype == np.int16
    nothing = [PAD] * 5
    assert targets.ids.tolist() == [
        [[A, CAT, SITS, PERIOD, PAD], nothing, nothing],
        [[A, UNK, PERIOD, PAD, PAD], [A, DOG, PERIOD, PAD, PAD], [A, CAT, PERIOD, PAD, PAD]],
    ]


@pytest.mark.parametrize(("words", "ends"), [(15, True), (16, False), (17, False), (18, False)])
def test_a_caption_that_is_cut_gets_no_period(words: int, ends: bool, tmp_path: Path) -> None:
    caption = " ".join(LONG.split()[:words]) + "."
    targets = Targets.build(make_store(tmp_path / "s", [[caption]]), ["train"], VOCABULARY, 16)
    ids = targets.ids[0, 0].tolist()
    assert ids[:15] == [CAT, DOG] * 7 + [CAT]
    assert ids[15] == (PERIOD if ends else DOG)


def test_splits_that_give_nothing_are_refused(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", [["a cat"], []], splits=["train", "web"])
    with pytest.raises(ConfigError, match=r"there is no split 'trian'.*train, web"):
        Targets.build(store, ["train", "trian"], VOCABULARY, 16)
    with pytest.raises(DataError, match=r"no image of the splits asked for \('web'\) has"):
        Targets.build(store, ["web"], VOCABULARY, 16)
    with pytest.raises(DataError, match=r"asked for \(none\)"):
        Targets.build(store, [], VOCABULARY, 16)


@given(
    images=st.integers(1, 40),
    batch=st.integers(1, 60),
    seed=st.integers(0, 2**63 - 1),
    epochs=st.integers(1, 4),
)
def test_every_image_comes_once_an_epoch(images: int, batch: int, seed: int, epochs: int) -> None:
    stream = Stream(images, batch, seed)
    steps = range(-(-images * epochs // batch))
    seen = np.concatenate([stream.at(step) for step in steps])
    when = np.concatenate([stream.epochs(step) for step in steps])
    assert all(stream.at(step).shape == (batch,) for step in steps)
    assert seen.dtype == np.int64
    for epoch in range(epochs):
        own = seen[epoch * images : (epoch + 1) * images]
        assert sorted(own.tolist()) == list(range(images))
        assert (when[epoch * images : (epoch + 1) * images] == epoch).all()


@given(
    images=st.integers(1, 30),
    batch=st.integers(1, 40),
    steps=st.lists(st.integers(0, 60), min_size=1, max_size=12),
)
def test_a_step_does_not_depend_on_the_steps_before_it(
    images: int, batch: int, steps: list[int]
) -> None:
    stream = Stream(images, batch, seed=3)
    for step in steps:
        assert stream.at(step).tolist() == Stream(images, batch, seed=3).at(step).tolist()


# A checkpoint of last year must go on with the same images.
FIRST = [2, 4, 7, 5, 0, 6, 3, 1]
SECOND = [5, 6, 3, 0, 7, 2, 1, 4]


def test_orders_differ_by_seed_and_epoch_and_stay_what_they_are() -> None:
    assert Stream(8, 8, 1).at(0).tolist() == FIRST
    assert Stream(8, 8, 1).at(1).tolist() == SECOND
    assert Stream(8, 8, 2).at(0).tolist() not in (FIRST, SECOND)
    assert Stream(8, 4, 1).at(1).tolist() == FIRST[4:]
    assert Stream(8, 12, 1).at(0).tolist() == FIRST + SECOND[:4]


def test_epochs_are_counted_in_images() -> None:
    stream = Stream(10, 4, 0)
    assert [stream.epoch_of(step) for step in (0, 1, 5, 6)] == [0.0, 0.4, 2.0, 2.4]
    assert stream.epochs(2).tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(("images", "batch"), [(0, 4), (4, 0), (4, -1)])
def test_no_batch_at_all_is_refused(images: int, batch: int) -> None:
    with pytest.raises(ConfigError, match="make no batch"):
        Stream(images, batch, 0)


@given(
    images=st.integers(6, 40),
    share=st.integers(1, 10),
    parts=st.integers(1, 6),
    world=st.integers(1, 4),
)
def test_each_part_comes_once_an_epoch_to_those_who_hold_it(
    images: int, share: int, parts: int, world: int
) -> None:
    batch = share * parts * world
    spread = Spread(images, batch, 3, parts)
    steps = range(-(-images // (batch // parts)))
    drawn = np.stack([spread.at(step) for step in steps])  # (steps, batch)
    when = np.stack([spread.epochs(step) for step in steps])
    assert drawn.shape == when.shape == (len(steps), batch)
    assert sorted(drawn[when == 0].tolist()) == list(range(images))
    cut = drawn.reshape(len(steps), world, -1)
    for rank in range(world):
        held = spread.held(rank, world)
        assert {*cut[:, rank].flat} <= {*range(held.start, held.stop)}
        most = -(-parts // world) + (parts % world > 0)  # it may begin and end inside a part
        assert held.stop - held.start <= most * -(-images // parts)


def test_one_part_has_the_order_of_before_and_others_have_their_own() -> None:
    whole, spread = Spread(8, 8, 1), Spread(16, 16, 1, 2)
    assert [whole.at(step).tolist() for step in (0, 1)] == [FIRST, SECOND]
    assert spread.at(0)[:8].tolist() == FIRST
    assert spread.at(0)[8:].tolist() == [11, 9, 15, 12, 13, 8, 10, 14]  # for years to come
    assert whole.epoch_of(3) == spread.epoch_of(3) == 3.0


@pytest.mark.parametrize(
    ("batch", "parts", "told"),
    [(8, 3, "run.batch: 8 images cannot be taken from 3"), (8, 8, "4 images cannot be cut into 8")],
)
def test_what_cannot_be_spread_is_refused(batch: int, parts: int, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Spread(4, batch, 1, parts)


def ints(*values: int) -> Ints:
    return np.array(values, np.int64)


def test_columns_by_hand() -> None:
    counts = ints(2, 5, 7, 7)
    # Place 12 with seed 1 begins at caption 13 mod 7 = 6; an epoch later 5 further on.
    chosen = columns(counts, ints(0, 1, 12, 12), ints(0, 3, 0, 1), 5, seed=1)
    assert chosen.tolist() == [
        [0, 1, -1, -1, -1],
        [0, 1, 2, 3, 4],
        [6, 0, 1, 2, 3],
        [4, 5, 6, 0, 1],
    ]
    assert chosen.dtype == np.int64


@given(
    count=st.integers(1, 9),
    captions=st.integers(1, 9),
    place=st.integers(0, 200_000),
    seed=st.integers(0, 2**63 - 1),
    start=st.integers(0, 1000),
)
def test_all_captions_are_learnt_equally_often(
    count: int, captions: int, place: int, seed: int, start: int
) -> None:
    """Over as many epochs as it has captions, each comes as often as the others."""
    epochs = np.arange(start, start + count)
    chosen = columns(
        np.full(count, count), np.full(count, place), epochs, captions, seed
    )  # (epochs, captions)
    for row in chosen:
        real = row[row >= 0].tolist()
        assert len(real) == min(count, captions)
        assert len(set(real)) == len(real)
    often = np.bincount(chosen[chosen >= 0], minlength=count)
    assert often.tolist() == [min(count, captions)] * count


def test_features_are_padded_to_the_size_asked_for(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", [["a cat"]] * 5, regions=[1, 4, 2, 3, 4], per_shard=2)
    rows = [4, 0, 2]
    assert count_regions(store, rows).tolist() == [4, 1, 2]
    features, mask = read_features(store, rows, 6)
    assert features.shape == (3, 6, DIM)
    assert features.dtype == np.float16
    assert mask.sum(1).tolist() == [4, 1, 2]
    assert not features[~mask].any()
    for own, row in zip(features, rows, strict=True):
        assert np.array_equal(own[: len(store[row])], store[row])


def test_an_image_without_regions_is_refused(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", [["a cat"]] * 3, regions=[2, 0, 2])
    assert count_regions(store, [0, 2]).tolist() == [2, 2]
    with pytest.raises(StoreError, match="'r1' has no regions"):
        count_regions(store, [0, 1, 2])


def test_importing_it_does_not_import_torch() -> None:
    code = "import sys, naic.data.batches; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
