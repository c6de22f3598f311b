"""What is read of single files, where a whole import would tell no more."""

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from naic.data.regions.columns import ColumnSource
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
