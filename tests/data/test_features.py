import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL.Image import Image
from safetensors import safe_open

from naic.data.features import Features, FeatureStore, map_shard
from naic.data.records import Record
from naic.data.storewriter import ShardRows, StoreWriter
from naic.errors import ConfigError, Problem, StoreError

DIM = 3
SETTINGS: dict[str, Any] = {
    "backbone": "b",
    "pixels": 8,
    "regions": 4,
    "dim": DIM,
    "dtype": "float16",
}


class NoImage:
    """Stands where an image would: the store only asks for its name."""

    name = "image.jpg"

    def load(self, at_least: int | None = None) -> Image:
        raise AssertionError

    def describe(self) -> None: ...


def records(count: int, caption: str = "a cat") -> list[Record]:
    return [Record(f"r{i}", NoImage(), (caption,), "train") for i in range(count)]


def shard_rows(span: list[tuple[int, Features | None]]) -> ShardRows:
    good = [(position, row) for position, row in span if row is not None]
    features = np.concatenate([np.empty((0, DIM), np.float16), *(row for _, row in good)])
    return ShardRows([position for position, _ in good], [len(row) for _, row in good], features)


def build(folder: Path, rows: list[Features | None], per_shard: int = 2) -> FeatureStore:
    """A store of these rows; None is an image that could not be used."""
    folder.mkdir(exist_ok=True)
    writer = StoreWriter(folder, records(len(rows)), SETTINGS, per_shard)
    for number in writer.missing:
        span = [(position, rows[position]) for position in writer.span(number)]
        errors = [(p, Problem(f"r{p}", "broken", "mend it")) for p, row in span if row is None]
        writer.write(number, shard_rows(span), errors)
    return writer.finish()


row = st.integers(0, 3).flatmap(
    lambda regions: arrays.arrays(
        np.float16,
        (regions, DIM),
        elements=st.floats(-60000, 60000, width=16, allow_nan=False, allow_infinity=False),
    )
)


@given(rows=st.lists(st.none() | row, max_size=7), per_shard=st.integers(1, 4))
def test_what_goes_in_comes_out(
    rows: list[Features | None], per_shard: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("store")
    store = build(folder, rows, per_shard)
    good = [(f"r{i}", r) for i, r in enumerate(rows) if r is not None]
    assert [record.id for record in store.records] == [name for name, _ in good]
    assert len(store) == len(good)
    for i, (_, expected) in enumerate(good):
        assert store[i].tobytes() == expected.tobytes()
        assert store[i].shape == expected.shape
    features, mask = store.batch(range(len(good)))
    assert mask.sum(1).tolist() == [len(r) for _, r in good]
    assert (features[~mask] == 0).all()
    assert np.array_equal(features[mask], np.concatenate([r for _, r in good] or [features[mask]]))
    errors = (folder / "errors.jsonl").read_text().splitlines()
    assert len(errors) == len(rows) - len(good)


def ones(count: int) -> list[Features | None]:
    return [np.full((2, DIM), i, np.float16) for i in range(count)]


def test_rows_are_views_into_the_file(tmp_path: Path) -> None:
    store = build(tmp_path / "a", ones(3))
    assert isinstance(store[2].base, np.memmap)
    assert not store[2].flags.writeable
    with pytest.raises(IndexError, match="row 3 of a store of 3"):
        store[3]
    with pytest.raises(IndexError):
        store[-1]


def test_shards_are_ordinary_safetensors(tmp_path: Path) -> None:
    build(tmp_path / "a", ones(2))
    with safe_open(tmp_path / "a" / "shard-00000.safetensors", "np") as shard:
        assert shard.get_tensor("features").shape == (4, DIM)
        assert shard.get_tensor("ends").tolist() == [2, 4]


def test_a_store_travels_to_another_process_by_name(tmp_path: Path) -> None:
    store = build(tmp_path / "a", ones(3))
    store[0]
    sent = pickle.dumps(store)
    assert len(sent) < 500
    assert np.array_equal(pickle.loads(sent)[2], store[2])


def test_the_same_input_gives_the_same_bytes_in_any_order(tmp_path: Path) -> None:
    build(tmp_path / "a", ones(5))
    (tmp_path / "b").mkdir()
    writer = StoreWriter(tmp_path / "b", records(5), SETTINGS, 2)
    for number in (2, 0):
        span = [(position, ones(5)[position]) for position in writer.span(number)]
        writer.write(number, shard_rows(span), [])
    (tmp_path / "b" / "shard-00001.safetensors.9.part").write_bytes(b"half")  # killed here
    build(tmp_path / "b", ones(5))
    for path in sorted((tmp_path / "a").iterdir()):
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes(), path.name
    assert len(list((tmp_path / "b").iterdir())) == len(list((tmp_path / "a").iterdir()))


def test_only_missing_or_damaged_shards_are_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    build(folder, ones(8))
    shard = folder / "shard-00002.safetensors"
    whole = shard.read_bytes()
    for damaged in (whole[:-1], whole[:40], b"", b"\xff" * 64, whole.replace(b"positions", b"x")):
        shard.write_bytes(damaged)
        assert StoreWriter(folder, records(8), SETTINGS, 2).missing == [2]
    shutil.copy(folder / "shard-00001.safetensors", shard)  # whole, but of other records
    assert StoreWriter(folder, records(8), SETTINGS, 2).missing == [2]
    shard.unlink()
    assert StoreWriter(folder, records(8), SETTINGS, 2).missing == [2]


def test_other_settings_or_other_records_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    build(folder, ones(4))
    with pytest.raises(ConfigError, match="begun with pixels"):
        StoreWriter(folder, records(4), SETTINGS | {"pixels": 9}, 2)
    with pytest.raises(ConfigError, match="another list of images and captions"):
        StoreWriter(folder, records(4, "a dog"), SETTINGS, 2)
    with pytest.raises(ConfigError, match="begun with per_shard"):
        StoreWriter(folder, records(4), SETTINGS, 4)


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "film.mkv.part").touch()
    with pytest.raises(StoreError, match=r"is not empty \(.*\) and holds no feature store"):
        StoreWriter(tmp_path, records(1), SETTINGS, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["film.mkv.part"]


def test_features_that_overflow_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="do not fit float16"):
        build(tmp_path / "a", [np.full((2, DIM), np.inf, np.float16)])


def test_unfinished_missing_and_foreign_stores_are_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no feature store in this folder"):
        FeatureStore(tmp_path)
    StoreWriter(tmp_path, records(4), SETTINGS, 2)
    with pytest.raises(StoreError, match="the feature store in this folder is unfinished"):
        FeatureStore(tmp_path)
    (tmp_path / "index.json").write_text('{"format": 99}')
    with pytest.raises(StoreError, match="has format 99, this naic reads 1"):
        FeatureStore(tmp_path)
    (tmp_path / "index.json").write_text("{")
    with pytest.raises(StoreError, match=r"index\.json: cannot be read"):
        FeatureStore(tmp_path)


def test_damage_is_named_when_it_is_met(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    build(folder, ones(4))
    shard = folder / "shard-00001.safetensors"
    shard.write_bytes(shard.read_bytes()[:-1])
    store = FeatureStore(folder)
    assert store[0].shape == (2, DIM)
    with pytest.raises(StoreError, match=r"shard-00001\.safetensors: is not a whole shard"):
        store[3]
    (folder / "records.jsonl").write_text("")
    with pytest.raises(StoreError, match="4 rows of features but 0 records"):
        _ = store.records


def test_a_shard_swapped_for_another_is_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    build(folder, ones(3))
    shutil.copy(folder / "shard-00001.safetensors", folder / "shard-00000.safetensors")
    with pytest.raises(StoreError, match=r"is not the shard that index\.json tells of"):
        FeatureStore(folder)[0]


def test_a_header_that_lies_about_sizes_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    build(folder, ones(2))
    path = folder / "shard-00000.safetensors"
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    header["features"]["shape"] = [400, DIM]
    lie = json.dumps(header).encode()
    path.write_bytes(len(lie).to_bytes(8, "little") + lie + data[8 + size :])
    with pytest.raises(StoreError, match="its header contradicts itself"):
        map_shard(path)


def test_pixels_stay_whole_numbers(tmp_path: Path) -> None:
    """A store of pixels: half the bytes of float16, and shards of the other kind are refused."""
    pixels = np.arange(4 * DIM, dtype=np.uint8).reshape(4, DIM) + 200
    record = Record("a", NoImage(), ("a dog.",), "train")
    for name, kind in (("pixels", "uint8"), ("floats", "float16")):
        (tmp_path / name).mkdir()
        writer = StoreWriter(tmp_path / name, [record], {**SETTINGS, "dtype": kind}, 1)
        writer.write(0, ShardRows([0], [4], pixels.astype(kind)), [])
        writer.finish()
    store = FeatureStore(tmp_path / "pixels")
    assert store.dtype == np.uint8
    assert np.array_equal(store[0], pixels)
    features, mask = store.batch([0, 0])
    assert features.dtype == np.uint8
    assert mask.all()
    other = next((tmp_path / "floats").glob("shard-*"))
    other.replace(tmp_path / "pixels" / other.name)
    with pytest.raises(StoreError, match="is not the shard"):
        FeatureStore(tmp_path / "pixels")[0]


def test_an_unknown_kind_of_numbers_is_refused(tmp_path: Path) -> None:
    for kind, told in (('"int4"', "'int4'"), ('["float16"]', r"\['float16'\]")):
        (tmp_path / "index.json").write_text(f'{{"format": 1, "dtype": {kind}}}')
        with pytest.raises(StoreError, match=f"the kind {told}, which this naic does not know"):
            FeatureStore(tmp_path)
