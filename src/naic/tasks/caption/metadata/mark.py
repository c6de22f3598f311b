"""What naic may write into a photo's metadata, and the mark by which it knows its own later.

A place is one field where a text can stand, by ExifTool's name for it. Beside the texts naic leaves
a mark: exactly what it wrote, and what stood there before. A place whose text is no longer that of
the mark has been edited by a person, and is theirs again.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from naic.tasks.caption.options import Existing

# Never change it: photos out there carry it. A UUID belongs to nobody's domain, and the sign at its
# end keeps it apart from the names of the fields (docs/decisions/032).
NAMESPACE = "urn:uuid:52368b2b-34c1-4179-ae0b-d1f1337724b6#"

DESCRIPTION = "XMP-dc:Description"
ALT_TEXT = "XMP-iptcCore:AltTextAccessibility"
EXIF_DESCRIPTION = "IFD0:ImageDescription"
# What people wrote may stand there too; naic itself never writes to these.
IPTC_CAPTION = "IPTC:Caption-Abstract"
PNG_DESCRIPTION = "PNG:Description"
# What XMP says in other languages only, without a default.
ELSEWISE = {DESCRIPTION: f"{DESCRIPTION} elsewise", ALT_TEXT: f"{ALT_TEXT} elsewise"}
# What a person wrote into a photo itself, for its XMP file.
IN_PHOTO = {"description": "description in the photo", "alt": "alt text in the photo"}

# Programs show a description from any of several places: it is one text to a person, so a text of
# theirs in one place keeps naic out of all of them.
_TOGETHER = (
    (
        *(DESCRIPTION, EXIF_DESCRIPTION, IPTC_CAPTION, PNG_DESCRIPTION),
        *(ELSEWISE[DESCRIPTION], IN_PHOTO["description"]),
    ),
    (ALT_TEXT, ELSEWISE[ALT_TEXT], IN_PHOTO["alt"]),
)


@dataclass(frozen=True, slots=True)
class Mark:
    """What naic says of its own caption.

    Attributes:
        text: the caption as it was written.
        software: naic and its version.
        model: the name of the model.
        date: when, in UTC.
        confidence: how sure the model was.
        request: a digest of the model and of the options that the caption depends on.
        before: for each place that naic wrote to, the text that it replaced, or None; and what
            else has to be put back.
    """

    text: str
    software: str
    model: str
    date: str
    confidence: str
    request: str
    before: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Held:
    """What is there.

    Attributes:
        texts: of each place that there can be; None where there is no such field.
        mark: naic's, if it wrote here.
        toolkit: the program that wrote the XMP in a photo last.
    """

    texts: Mapping[str, str | None]
    mark: Mark | None = None
    toolkit: str | None = None

    def own(self, place: str) -> bool:
        """Whether naic wrote what stands there, and nobody has edited it."""
        mark = self.mark
        return mark is not None and place in mark.before and self.texts.get(place) == mark.text

    def _persons(self, place: str) -> bool:
        """Whether a person decided what stands there; to empty what naic wrote is a decision."""
        if self.mark is not None and place in self.mark.before:
            return self.texts[place] != self.mark.text
        return bool((self.texts[place] or "").strip())

    def open(self, writes: Collection[str], existing: Existing) -> list[str]:
        """The places among `writes` that may get a caption."""
        found = []
        for together in _TOGETHER:
            here = [place for place in together if place in self.texts]
            if existing == "overwrite" or not any(map(self._persons, here)):
                found += [place for place in here if place in writes]
        return found

    def done(self, writes: Collection[str], existing: Existing, request: str) -> bool:
        """Whether a caption would change nothing: it is there already, or may not be."""
        places = self.open(writes, existing)
        if not places or self.mark is None:
            return not places
        return self.mark.request == request and all(map(self.own, places))
