"""The real thing: MSCOCO in Karpathy's layout, its images in tars."""

from pathlib import Path

import pytest

from naic.data.readers import read
from naic.data.records import Problems


@pytest.mark.slow
def test_every_image_and_caption_is_accounted_for(coco: Path) -> None:
    problems = Problems(skip=True)
    source = str(coco / "dataset_coco.json.xz")
    tars = sorted(coco.glob("images-*.tar"))
    reading = read("karpathy", source, images=tars, problems=problems)
    assert reading.all_splits == {"train": 82783, "restval": 26705, "val": 4392, "test": 2407}
    assert reading.splits == {"train": 4577, "restval": 1423, "val": 1000, "test": 1000}
    assert (reading.images_seen, reading.captions_seen) == (116_287, 581_751)
    assert (len(reading.records), reading.captions) == (8000, 40_016)
    assert (reading.bad_images, reading.bad_captions, reading.bad_rows) == (108_287, 541_735, 0)
    assert len(problems.items) == 108_287
    assert {record.image.load().size for record in reading.records[::400]} == {(256, 256)}
