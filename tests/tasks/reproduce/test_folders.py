"""Folders of a reproduction that were changed, or are called by another name."""

import shutil
from pathlib import Path

import pytest

from naic.errors import StoreError
from naic.tasks.reproduce.run import dry_run, reproduce
from tests.tasks.reproduce.micro import Heard, make_options
from tests.tasks.reproduce.test_going_on import figures


def test_a_stage_that_was_removed_is_made_again(preset: Path, tmp_path: Path) -> None:
    options = make_options(preset, tmp_path / "out", quick=True)
    reproduce(options, Heard().callbacks)
    before = figures(options.out)
    shutil.rmtree(options.out / "naic-base")
    reproduce(options, Heard().callbacks)
    assert (options.out / "naic-base" / "report.json").is_file()
    assert figures(options.out) == before


def test_a_folder_by_another_name(
    preset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same place spelt otherwise is the same run; what was moved and is not finished is not."""
    monkeypatch.chdir(tmp_path)
    reproduce(make_options(preset, Path("out"), quick=True), Heard().callbacks)
    shutil.rmtree(tmp_path / "out" / "naic-base")
    states = {
        line.name: line.state
        for line in dry_run(make_options(preset, tmp_path / "out", quick=True))
    }
    assert states.pop("naic-base") == "make"
    assert set(states.values()) == {"done"}
    shutil.move("out", "moved")
    with pytest.raises(StoreError, match="begun as out"):
        reproduce(make_options(preset, Path("moved"), quick=True), Heard().callbacks)
