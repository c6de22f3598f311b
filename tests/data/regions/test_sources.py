"""What is read of single files, where a whole import would tell no more."""

import base64
import collections
import io
import pickle
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from naic.data.regions.archives import TarSource
from naic.data.regions.columns import ColumnSource
from naic.data.regions.databases import LmdbSource
from naic.data.regions.folders import FolderSource
from naic.data.regions.hdf5 import Hdf5Source
from naic.data.regions.tsv import TsvSource
from naic.errors import DataError
from tests.data.regions import files

SEEN = files.see()
ID, OWN = "391895", SEEN[391895]


@pytest.mark.parametrize("writer", [files.tsv, files.lxmert])
def test_columns_after_the_features_are_passed_over(writer: files.Writer, tmp_path: Path) -> None:
    """ViLBERT's tables end in class probabilities, volta's in these, attributes and classes."""
    writer(tmp_path, SEEN)
    (path,) = tmp_path.iterdir()
    lines = path.read_bytes().splitlines()
    further = base64.b64encode(bytes(12 * len(OWN.boxes)))
    path.write_bytes(b"\n".join(b"\t".join((line, further, further)) for line in lines))
    source = TsvSource(path)
    found = source.read(source.keys()[-1])
    assert np.array_equal(found.features, OWN.features)
    assert found.boxes is not None
    assert np.array_equal(found.boxes, OWN.boxes)


def test_lists_of_lists_of_lists_are_a_grid(tmp_path: Path) -> None:
    """(H, W, F), as libraries write an array of three sides; and ids that are bytes."""
    pa: Any = __import__("pyarrow")
    pq: Any = pytest.importorskip("pyarrow.parquet")
    grid = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    ragged = [[[1.0, 2.0], [3.0]], [[4.0], [5.0, 6.0]]]
    table = pa.table({"id": [b"a", b"b"], "features": [grid.tolist(), ragged]})
    pq.write_table(table, tmp_path / "grids.parquet")
    source = ColumnSource(tmp_path / "grids.parquet")
    assert np.array_equal(source.read("a").features, grid.reshape(6, 4))
    with pytest.raises(DataError, match="not of one length"):
        source.read("b")


def test_a_database_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    """What is mapped and not there would end the process, with no word of why."""
    files.lmdb_of(tmp_path / "db", {b"%d" % id_: bytes(400_000) for id_ in range(2)})
    path = tmp_path / "db/data.mdb"
    assert LmdbSource(path.parent).keys() == ["0", "1"]
    path.write_bytes(path.read_bytes()[:-400_000])
    with pytest.raises(DataError, match=r"cut off: 4\d\d,\d{3} bytes of 8"):
        LmdbSource(path.parent)


@pytest.mark.parametrize(
    ("table", "why"),
    [({9: 0, 25: 99}, "Index .99. out of range"), ({9: None}, "no table of"), ([9], "no table of")],
)
def test_tables_of_rows_that_are_wrong(table: object, why: str, tmp_path: Path) -> None:
    name = files.rows(tmp_path, SEEN).removeprefix("hdf5:")
    (tmp_path / "val_imgid2idx.pkl").write_bytes(pickle.dumps(table, 2))
    with pytest.raises(DataError, match=why):
        Hdf5Source(Path(name)).read("25")


def test_a_damaged_table_of_contents_is_told(tmp_path: Path) -> None:
    path = Path(files.m2(tmp_path, SEEN).removeprefix("hdf5:"))
    whole = path.read_bytes()
    assert b"TREE" in whole
    path.write_bytes(whole.replace(b"TREE", b"tree"))
    with pytest.raises(DataError, match="cannot be opened as HDF5"):
        Hdf5Source(path)


def test_damaged_headers_are_errors_of_ours(tmp_path: Path) -> None:
    """numpy takes one that it cannot read for one that Python 2 wrote, and then for source code."""
    np.save(tmp_path / "1.npy", np.ones((2, 3), np.float32))
    whole = (tmp_path / "1.npy").read_bytes()
    for old, new in ((b"}", b"("), (b"(2, 3)", b"(-2,3)"), (b"'<f4'", b"'<f4,")):
        assert old in whole
        (tmp_path / "1.npy").write_bytes(whole.replace(old, new))
        with pytest.raises(DataError, match="no whole file of numpy"):
            FolderSource(tmp_path).read("1")


def test_what_is_beside_the_features_may_be_anything(tmp_path: Path) -> None:
    """Objects in other fields of a .npz are not looked at, wherever that lies."""
    file = io.BytesIO()
    objects = np.array([{"name": "dog"}], dtype=object)
    np.savez(file, features=OWN.features, objects=objects)
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        info = tarfile.TarInfo("1.npz")
        info.size = len(file.getvalue())
        archive.addfile(info, io.BytesIO(file.getvalue()))
    files.lmdb_of(tmp_path / "db", {b"1": file.getvalue()})
    for source in (TarSource(tmp_path / "a.tar"), LmdbSource(tmp_path / "db")):
        assert np.array_equal(source.read("1").features, OWN.features)


def test_databases_of_pickled_arrays(tmp_path: Path) -> None:
    """ViLBERT's later ones; what csv read in Python 3.6 is an ordered dictionary."""
    fields = {"image_id": "1", "image_h": files.HEIGHT, "image_w": np.float64(files.WIDTH)}
    arrays = {"num_boxes": len(OWN.boxes), "boxes": OWN.boxes, "features": OWN.features}
    entries = {b"1": pickle.dumps(collections.OrderedDict({**fields, **arrays}))}
    files.lmdb_of(tmp_path / "db", entries)
    found = LmdbSource(tmp_path / "db").read("1")
    assert np.array_equal(found.features, OWN.features)
    assert found.boxes is not None
    assert np.array_equal(found.boxes, OWN.boxes)
    assert found.size == (files.WIDTH, files.HEIGHT)


def test_of_many_files_one_group_of_rows_is_held_and_none_stays_open(tmp_path: Path) -> None:
    sources, open_before = [], open_files()
    for name in "abcdef":
        (tmp_path / name).mkdir()
        files.parquet(tmp_path / name, SEEN)
        sources.append(ColumnSource(tmp_path / name / "clip.parquet"))
    pa: Any = __import__("pyarrow")
    held = []
    for source in sources:
        source.read("9")
        held.append(pa.total_allocated_bytes())
        assert open_files() == open_before
    assert held[-1] < 3 * held[0]  # what was let go may be counted a little longer


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir())) if sys.platform == "linux" else 0


@pytest.mark.parametrize("boxes", [1, len(OWN.boxes) + 1])
def test_boxes_of_other_features_are_refused(boxes: int, tmp_path: Path) -> None:
    """36 features of each image, and beside them the boxes of another run of the detector."""
    files.att(tmp_path, {1: OWN})
    np.save(tmp_path / "cocobu_box/1.npy", np.ones((boxes, 4), np.float32))
    with pytest.raises(DataError, match=rf"tells of {boxes} regions and has features of"):
        FolderSource(tmp_path / "cocobu_att").read("1")


def test_rows_that_only_fill_up_are_left_out(tmp_path: Path) -> None:
    np.savez(tmp_path / "1.npz", x=OWN.features, bbox=OWN.boxes, num_bbox=1)
    found = FolderSource(tmp_path).read("1")
    assert found.features.shape == (1, files.DIM)
    assert found.boxes is not None
    assert found.boxes.shape == (1, 4)
