"""What a run is made of, found before its first step."""

from pathlib import Path

from naic.train.inputs import find_inputs
from tests.train.runs import make_learnable_store, make_settings


def test_a_mirrored_or_cropped_twin_makes_no_word_more_frequent(tmp_path: Path) -> None:
    make_learnable_store(tmp_path / "plain")
    make_learnable_store(tmp_path / "twins", twins=True)
    one, two = (
        find_inputs(make_settings(tmp_path / name, tmp_path / "run", data={"more_than": 13}))
        for name in ("plain", "twins")
    )
    assert one.vocabulary == two.vocabulary
    assert len(two.targets) == 3 * len(one.targets)  # all views are learnt from
