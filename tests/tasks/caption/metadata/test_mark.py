"""What may be written: what a person wrote stays, what naic wrote may change."""

from dataclasses import replace
from pathlib import Path

import pytest

from naic.tasks.caption.metadata.exiftool import CONFIG
from naic.tasks.caption.metadata.mark import (
    ALT_TEXT,
    DESCRIPTION,
    EXIF_DESCRIPTION,
    IPTC_CAPTION,
    NAMESPACE,
    Held,
    Mark,
)

PLACES = (DESCRIPTION, EXIF_DESCRIPTION, ALT_TEXT)
MARK = Mark("a cat", "naic", "m", "now", "0.5", "abc", {})


def there(
    description: str = "", exif: str = "", alt: str = "", iptc: str = "", own: tuple[str, ...] = ()
) -> Held:
    texts: dict[str, str | None]
    texts = {DESCRIPTION: description, EXIF_DESCRIPTION: exif, ALT_TEXT: alt, IPTC_CAPTION: iptc}
    return Held(texts, replace(MARK, before=dict.fromkeys(own)) if own else None)


@pytest.mark.parametrize(
    ("held", "places"),
    [
        (there(), PLACES),
        (there(description=" \n", exif="  "), PLACES),  # cameras write blanks
        (there(description="mine"), (ALT_TEXT,)),
        (there(exif="mine"), (ALT_TEXT,)),
        (there(iptc="mine"), (ALT_TEXT,)),
        (there(alt="mine"), (DESCRIPTION, EXIF_DESCRIPTION)),
        (there(description="mine", alt="mine"), ()),
        (there(description="a cat", exif="a cat", alt="a cat", own=PLACES), PLACES),
        # Edited by a person since, and emptied by one.
        (there(description="my cat", exif="a cat", alt="a cat", own=PLACES), (ALT_TEXT,)),
        (there(description="a cat", exif="a cat", alt="", own=PLACES), PLACES[:2]),
        # The same words, but not naic's.
        (there(description="a cat", alt="a cat", own=(ALT_TEXT,)), (ALT_TEXT,)),
    ],
)
def test_what_a_person_wrote_is_left(held: Held, places: tuple[str, ...]) -> None:
    assert sorted(held.open(PLACES, "skip")) == sorted(places)
    assert sorted(held.open(PLACES, "overwrite")) == sorted(PLACES)
    assert held.done(PLACES, "skip", "another") == (not places)


def test_a_caption_is_made_again_for_another_model() -> None:
    full = there(description="a cat", exif="a cat", alt="a cat", own=PLACES)
    for existing in ("skip", "overwrite"):
        assert full.done(PLACES, existing, "abc")
        assert not full.done(PLACES, existing, "another model")
    half = there(description="mine", alt="a cat", own=(ALT_TEXT,))
    assert half.done(PLACES, "skip", "abc")
    assert not half.done(PLACES, "overwrite", "abc")
    freed = there(alt="a cat", own=(ALT_TEXT,))  # the person has deleted a description
    assert not freed.done(PLACES, "skip", "abc")


def test_exiftool_is_told_of_the_same_namespace() -> None:
    assert NAMESPACE in Path(CONFIG).read_text(encoding="utf-8")
