"""What most images are like decides for all, and in which order they are read."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from naic.data.regions.columns import ColumnSource
from naic.errors import DataError
from naic.tasks.prepare import prepare
from tests.data.regions import files
from tests.data.regions.files import IDS, Seen
from tests.tasks.test_imported import SEEN, check, options, write


def test_a_group_of_rows_is_unpacked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not for every shard, where the dataset has its images in another order."""
    given = write(files.parquet, tmp_path, dict(reversed(SEEN.items())))  # groups of 4 and 2
    unpacked: list[int] = []
    read = ColumnSource._read

    def noted(self: ColumnSource, group: int, names: Sequence[str]) -> Any:
        unpacked.extend([group] * ("features" in names))
        return read(self, group, names)

    monkeypatch.setattr(ColumnSource, "_read", noted)
    check(prepare(options(tmp_path, given, per_shard=2, batch=2)).store)
    assert unpacked == [0, 1] * 2  # once to judge all by some, once for the work


def test_the_first_image_does_not_decide_for_all(tmp_path: Path) -> None:
    """Neither of how many numbers regions have, nor whether there are boxes."""
    given = write(files.att, tmp_path, {**SEEN, 30: replace(SEEN[30], features=np.ones((4, 2)))})
    (tmp_path / "given/cocobu_box/25.npy").unlink()  # the first, by name
    done = prepare(options(tmp_path, given, sizes=(files.write_sizes(tmp_path / "s.json"),)))
    check(done.store, {id_: SEEN[id_] for id_ in IDS if id_ not in (25, 30)})
    assert [problem.why for problem in done.errors] == [
        "it has no boxes, others have", "its regions have 2 numbers, others have 8"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("boxes_of", "why"),
    [
        (lambda own: own.boxes - np.tile(own.boxes[:, :2], 2) * [0, 0, 1, 1], "ends before it"),
        (lambda own: own.shares, "shares of the sides already"),
    ],
)
def test_what_is_wrong_with_most_is_refused_at_once(
    boxes_of: Callable[[Seen], Any], why: str, tmp_path: Path
) -> None:
    """Boxes with width and height, and boxes that are shares where pixels are expected."""
    given = write(files.tsv, tmp_path, {i: replace(o, boxes=boxes_of(o)) for i, o in SEEN.items()})
    with pytest.raises(DataError, match=rf"{why}.*; of 6 images that were tried \d cannot be used"):
        prepare(options(tmp_path, given))
    assert not (tmp_path / "store").exists()
