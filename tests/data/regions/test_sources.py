"""What is read of single files, where a whole import would tell no more."""

import base64
from pathlib import Path

import numpy as np
import pytest

from naic.data.regions.tsv import TsvSource
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

