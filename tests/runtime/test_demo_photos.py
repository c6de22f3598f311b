import importlib.metadata
from pathlib import Path

import pytest
from benchmarks.demo_photos import PHOTOS, main, photos

from tests.runtime.small import LENGTH, NETWORK, make_model


def test_the_photos_come_with_the_package_and_need_no_download() -> None:
    files = {str(path) for path in importlib.metadata.files("scikit-image") or ()}
    assert {f"skimage/data/{name}" for name in PHOTOS} <= files
    assert all(photo.is_file() for photo in photos())


def test_each_photo_is_shown_with_its_source_and_the_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(make_model(tmp_path / "model", backbone=NETWORK, says="cat"))
    first, *blocks = capsys.readouterr().out.split("\n\n")
    assert first.startswith("8 photos that come inside scikit-image ")
    assert len(blocks) == len(PHOTOS)
    for block, (name, source) in zip(blocks, PHOTOS.items(), strict=True):
        told, text, words = block.splitlines()
        assert told == f"{name} ({source})"
        assert text.split().count("cat") == LENGTH // 2  # every second one: no word twice in a row
        assert words.count("%") == LENGTH


def test_without_a_model_it_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="is no model folder"):
        main(tmp_path)
