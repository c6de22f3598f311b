from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from naic.data.batches import count_regions
from naic.data.features import read_features
from naic.data.joined import JoinedStore
from naic.errors import StoreError
from tests.data.stores import make_store


@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_rows_follow_each_other(sizes: list[int], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("stores")
    stores = [make_store(folder / str(i), [["a cat"]] * n) for i, n in enumerate(sizes)]
    joined = JoinedStore(stores)
    expected = [(store, row) for store in stores for row in range(len(store))]
    assert len(joined) == len(expected) == len(joined.records)
    for row, (store, own) in enumerate(expected):
        assert joined.locate(row) == (store, own)
        assert np.array_equal(joined[row], store[own])
        assert joined.records[row] is store.records[own]
    for row in (-1, len(joined)):
        with pytest.raises(IndexError, match=f"row {row} of stores of {len(joined)}"):
            joined[row]


def test_batches_are_read_across_stores(tmp_path: Path) -> None:
    one = make_store(tmp_path / "one", [[]] * 3, regions=[2, 1, 2])
    two = make_store(tmp_path / "two", [[]] * 2, regions=[4, 3])
    joined = JoinedStore([one, two])
    assert count_regions(joined, [4, 1, 3]).tolist() == [3, 1, 4]
    features, mask = read_features(joined, [4, 1], 4)
    assert mask.sum(1).tolist() == [3, 1]
    assert np.array_equal(features[0, :3], two[1])
    assert np.array_equal(features[1, :1], one[1])


def test_an_image_without_regions_is_named_with_its_own_store(tmp_path: Path) -> None:
    one = make_store(tmp_path / "one", [[]] * 2)
    two = make_store(tmp_path / "two", [[]] * 2, regions=[2, 0])
    with pytest.raises(StoreError, match=r"two: the image 'r1' has no regions"):
        count_regions(JoinedStore([one, two]), range(4))


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("backbone", "other", "from other"),
        ("weights", "0123456789abcdef", "(0123456789ab)"),
        ("pixels", 9, "at 9 pixels, not 3 numbers from b (None) at 8 pixels"),
        ("dim", 4, "4 numbers from b"),
    ],
)
def test_features_of_other_backbone_do_not_join(
    tmp_path: Path, key: str, value: object, said: str
) -> None:
    one, two = (make_store(tmp_path / name, [[]]) for name in ("one", "two"))
    two.index[key] = value
    with pytest.raises(StoreError, match=r"two: its features are not like those of .*one") as found:
        JoinedStore([one, two])
    assert said in str(found.value)
