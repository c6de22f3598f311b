"""What a run is made of, found before its first step."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from naic.errors import ConfigError
from naic.train.batches import Feed
from naic.train.config import settings_toml
from naic.train.inputs import Inputs, find_inputs
from naic.train.kept import Kept
from naic.train.setup import check_folder
from tests.data.pseudos import make_pseudo, taught
from tests.train.runs import (
    IMAGES,
    VALIDATION,
    make_learnable_store,
    make_settings,
    make_vocabulary,
)


def test_a_mirrored_or_cropped_twin_makes_no_word_more_frequent(tmp_path: Path) -> None:
    make_learnable_store(tmp_path / "plain")
    make_learnable_store(tmp_path / "twins", twins=True)
    one, two = (
        find_inputs(make_settings(tmp_path / name, tmp_path / "run", data={"more_than": 13}))
        for name in ("plain", "twins")
    )
    assert one.vocabulary == two.vocabulary
    assert len(two.targets) == 3 * len(one.targets)  # all views are learnt from


def chosen(home: Path, *views: str, **data: Any) -> Inputs:
    made = make_settings(
        home / "store", home / "run", "student_xe", data={"views": list(views), **data}
    )
    return find_inputs(made)


def shown(inputs: Inputs) -> Counter[str]:
    """The images to learn from by what stands at the end of their ids."""
    ids = [inputs.images.records[row].id for row in inputs.targets.rows]
    return Counter(id_.partition("-")[2] or "first" for id_ in ids)


def test_some_views_are_learnt_from(tmp_path: Path) -> None:
    store = make_learnable_store(tmp_path / "store", twins=True)
    every, first = chosen(tmp_path), chosen(tmp_path, "first")
    assert shown(every) == {"first": IMAGES, "mirrored": IMAGES, "cropped": IMAGES}
    assert shown(first) == {"first": IMAGES}
    both = chosen(tmp_path, "cropped", "mirrored")
    assert shown(both) == {"mirrored": IMAGES, "cropped": IMAGES}
    assert sorted([*first.targets.rows, *both.targets.rows]) == every.targets.rows.tolist()
    for row, own in zip(both.targets.rows, both.targets.ids, strict=True):
        assert (own == every.targets.ids[every.targets.rows == row]).all()
    assert first.vocabulary == both.vocabulary == every.vocabulary
    # What decides which weights are the best is the same for all.
    assert first.validation == both.validation == every.validation
    assert [store.records[row].split for row in both.validation] == ["val"] * VALIDATION


def test_only_these_are_brought_to_the_device_and_runs_share_no_others(tmp_path: Path) -> None:
    make_learnable_store(tmp_path / "store", twins=True)
    with Kept() as kept:
        for views, count in (("mirrored",), IMAGES), ((), 3 * IMAGES), (("first",), IMAGES):
            made = make_settings(tmp_path / "store", tmp_path / "run", data={"views": list(views)})
            found = find_inputs(made, kept)
            feed = Feed(found.images, found.targets, batch=8, captions=2, seed=1, kept=kept)
            assert feed._table is not None
            assert len(feed._table[0]) == count
            (draw,) = feed.draw(0)
            for row, own in zip(draw.rows.tolist(), feed.fetch(draw).features, strict=True):
                assert (own.numpy() == found.images[row]).all()


def test_of_pseudo_captions_the_same_views_are_learnt(tmp_path: Path) -> None:
    store = make_learnable_store(tmp_path / "store", twins=True)
    ids = [record.id for record in store.records if record.split == "train"]
    words = make_vocabulary(store)
    said = {id_: taught("a red dog") for id_ in ids if not id_.endswith("-cropped")}
    make_pseudo(tmp_path / "pseudo", said, store, vocabulary=words)
    data = {"pseudo": [str(tmp_path / "pseudo")]}
    assert shown(chosen(tmp_path, **data)) == {"first": IMAGES, "mirrored": IMAGES}
    assert shown(chosen(tmp_path, "mirrored", **data)) == {"mirrored": IMAGES}
    with pytest.raises(ConfigError, match=r"data\.views: no image to learn from is a cropped view"):
        chosen(tmp_path, "mirrored", "cropped", **data)


def test_a_view_that_is_not_there_is_refused(tmp_path: Path) -> None:
    make_learnable_store(tmp_path / "store")
    assert shown(chosen(tmp_path, "first")) == {"first": IMAGES}
    with pytest.raises(ConfigError, match=r"is a mirrored view in .*store.* There are: first\."):
        chosen(tmp_path, "first", "mirrored")
    with pytest.raises(ConfigError, match=r"data\.views.*there is no 'flipped'"):
        chosen(tmp_path, "flipped")


def test_runs_from_before_there_were_views_go_on(tmp_path: Path) -> None:
    make_learnable_store(tmp_path / "store", twins=True)
    (tmp_path / "run").mkdir()
    inputs = chosen(tmp_path)
    inputs.vocabulary.save(tmp_path / "run" / "vocab.json")
    text = settings_toml(inputs.settings)
    assert text.count("\nviews = []\n") == 1
    (tmp_path / "run" / "config.toml").write_text(text.replace("\nviews = []\n", "\n"))
    check_folder(inputs, resume=True)
    with pytest.raises(ConfigError, match=r"begun with data\.views"):
        check_folder(chosen(tmp_path, "first"), resume=True)
