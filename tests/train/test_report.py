"""Names in what a run reports."""

from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from naic.train.report import _captions
from naic.train.validate import _image_id
from tests.train.runs import make_settings


@given(st.one_of(st.integers(0, 10**20).map(str), st.text()))
@example("007")
@example("0")
@example("-1")
@example("1_000")
@example("\N{ARABIC-INDIC DIGIT THREE}")
@example("1\n")
def test_an_id_is_a_number_only_if_it_is_the_same_one(name: str) -> None:
    assert str(_image_id(name)) == name
    assert isinstance(_image_id("391895"), int)


def test_splits_make_a_name_and_no_path() -> None:
    def name(*splits: str) -> str:
        data = {"validation": list(splits)}
        path = _captions(make_settings(Path("s"), Path("run"), data=data), 3)
        assert path.parent == Path("run/captions")
        return path.name

    assert name("val") == "val-beam3.json"
    assert name("val", "test-2") == "val-test-2-beam3.json"
    assert name("../../val a", "x/y") == ".._.._val_a-x_y-beam3.json"
