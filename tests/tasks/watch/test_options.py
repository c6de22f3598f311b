import dataclasses
from pathlib import Path

from naic.tasks.caption.options import CaptionOptions
from naic.tasks.watch.options import WatchOptions

# A watch has a folder for paths, and writes text files where there are none: these have no place.
NOT_OF_A_WATCH = {"paths", "format", "existing", "null", "confidence", "undo"}


def test_a_watch_has_the_options_of_naic_caption() -> None:
    """All that say how captions are made, with the same types and defaults."""
    theirs = {field.name: field for field in dataclasses.fields(CaptionOptions)}
    ours = {field.name: field for field in dataclasses.fields(WatchOptions)}
    assert set(theirs) - set(ours) == NOT_OF_A_WATCH
    for name in set(theirs) & set(ours):
        assert ours[name].default == theirs[name].default, name


def test_naic_caption_is_asked_for_just_that() -> None:
    given = {"prefix": "a", "out": Path("out"), "batch": 3, "max_words": 4, "recursive": False}
    options = WatchOptions(Path("in"), **given)  # type: ignore[arg-type]
    assert options.captioning() == CaptionOptions((Path("in"),), format="txt", **given)  # type: ignore[arg-type]
