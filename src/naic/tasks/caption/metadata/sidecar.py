"""An XMP file with naic's caption: put in, found, and taken out, from bytes to bytes.

What naic adds is one rdf:Description of its own behind the others; what it replaces is cut out. The
mark keeps what was cut and a digest of the file as it was, so that it can be restored byte for
byte. If anybody has changed the file since, only naic's own properties are taken out.
"""

import base64
import hashlib
import json
import zlib
from collections.abc import Collection, Mapping
from dataclasses import fields, replace

from naic.tasks.caption.metadata.mark import ALT_TEXT, DESCRIPTION, NAMESPACE, Held, Mark
from naic.tasks.caption.metadata.xmp import (
    DEFAULT,
    MOST_BYTES,
    RDF,
    Packet,
    Span,
    Texts,
    alternatives,
    edited,
    markup,
    quoted,
    scan,
)

PLACES = (DESCRIPTION, ALT_TEXT)
FILE = "file"  # in a mark's `before`: how the file is restored, or None where naic made it
_MOST_MORE = 100_000  # tags and attributes that a file may have had more than now: naic cuts few
_DC = "http://purl.org/dc/elements/1.1/"
_IPTC = "http://iptc.org/std/Iptc4xmpCore/1.0/xmlns/"
_NAMES = {DESCRIPTION: f"{_DC} description", ALT_TEXT: f"{_IPTC} AltTextAccessibility"}
_ELEMENTS = {DESCRIPTION: "dc:description", ALT_TEXT: "Iptc4xmpCore:AltTextAccessibility"}
_MARKS = {field.name: f"{NAMESPACE} {field.name.capitalize()}" for field in fields(Mark)}
_NEW = """<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/">
 <rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
 </rdf:RDF>
</x:xmpmeta>
<?xpacket end="w"?>
""".encode()


def held(data: bytes | None, where: str) -> Held:
    """What an XMP file says; None stands for one that is not there.

    Raises:
        DataError: it cannot be used.
    """
    if data is None:
        return Held(dict.fromkeys(PLACES))
    return _held(scan(data, where))


def _held(packet: Packet) -> Held:
    texts = {place: _shown(packet.texts(name)) for place, name in _NAMES.items()}
    said = {field: packet.texts(name).get(DEFAULT) for field, name in _MARKS.items()}
    if said["text"] is None:
        return Held(texts)
    values = {field: value or "" for field, value in said.items() if field != "before"}
    return Held(texts, Mark(before=read_before(said["before"] or ""), **values))


def read_before(text: str) -> dict[str, str | None]:
    """What a mark says of what was there before; a mark that somebody has damaged says nothing."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: old for name, old in found.items() if isinstance(old, str | None)}


def _shown(texts: Texts) -> str | None:
    return texts.get(DEFAULT) or next((text for text in texts.values() if text.strip()), None)


def with_caption(data: bytes | None, mark: Mark, places: Collection[str], where: str) -> bytes:
    """The file with the caption at these places, and the mark with what was there before.

    Raises:
        DataError: the file cannot be used.
    """
    there = None if data is None else without_caption(data, where)
    base = _NEW if there is None else there
    return _marked(base, scan(base, where), mark, places, made=there is None)


def _marked(
    base: bytes, packet: Packet, mark: Mark, places: Collection[str], *, made: bool
) -> bytes:
    """A file that has no mark, with one; `made` if there was none before."""
    edits, texts = _replaced(packet, places, mark.text)
    before = {place: packet.texts(_NAMES[place]).get(DEFAULT) for place in places}
    before[FILE] = None if made else _restorer(base, [packet.close, *(e for e, _ in edits)])
    block = _description(packet.about, replace(mark, before=before), texts)
    return edited(base, [*edits, _put_in(packet, block)])


def with_persons_text(data: bytes | None, text: str, where: str) -> bytes:
    """The file with what a person says of the photo: in the fields that no person has filled.

    It has no mark, by which naic would take it for its own and write over it; naic's caption, if
    the file has one, gives way to it.

    Raises:
        DataError: the file cannot be used.
    """
    there = None if data is None else without_caption(data, where)
    base = _NEW if there is None else there
    packet = scan(base, where)
    places = _held(packet).open(PLACES, "skip")
    if not places:
        return base
    edits, texts = _replaced(packet, places, text)
    return edited(base, [*edits, _put_in(packet, _description(packet.about, None, texts))])


def _replaced(
    packet: Packet, places: Collection[str], text: str
) -> tuple[list[tuple[Span, bytes]], dict[str, Texts]]:
    """What is cut out where a text is to stand, and what these places say with it."""
    texts = {place: packet.texts(_NAMES[place]) | {DEFAULT: text} for place in places}
    names = {_NAMES[place] for place in places}
    return [(own.span, b"") for own in packet.properties() if own.name in names], texts


def _restorer(data: bytes, spans: Collection[Span]) -> str:
    """How a file is restored after edits at these spans: see `_restored`."""
    start, end = min(span[0] for span in spans), max(span[1] for span in spans)
    cut = base64.b64encode(zlib.compress(data[start:end])).decode()
    return f"{start} {len(data) - end} {hashlib.sha256(data).hexdigest()} {cut}"


def _restored(data: bytes, restorer: str | None) -> bytes | None:
    """The file as it was before naic's edits, or None if it has been changed since."""
    try:
        start, rest, digest, cut = (restorer or "").split(" ")
        old = zlib.decompressobj().decompress(base64.b64decode(cut), MOST_BYTES)
        was = data[: int(start)] + old + data[len(data) - int(rest) :]
    except (ValueError, zlib.error):
        return None
    if markup(old) > markup(data) + _MOST_MORE:  # a small file could become a huge one
        return None
    return was if hashlib.sha256(was).hexdigest() == digest else None


def without_caption(data: bytes, where: str) -> bytes | None:
    """The file without what naic wrote; None if nothing is left of one that naic made.

    Raises:
        DataError: the file cannot be used.
    """
    packet = scan(data, where)
    there = _held(packet)
    if there.mark is None:
        return data
    before = there.mark.before
    restored = _restored(data, before.get(FILE))
    if restored is not None and _is_all(restored, there.mark, data, where):
        return restored
    own = {_NAMES[place] for place in PLACES if there.own(place)}
    texts = {
        place: _old(packet.texts(_NAMES[place]), there.mark.text, before[place])
        for place in PLACES
        if there.own(place)
    }
    texts = {place: old for place, old in texts.items() if old}
    edits, left = _takes_out(packet, own | {*_MARKS.values()})
    if before.get(FILE, "") is None and not (texts or left or packet.more):
        return None
    if texts:
        edits.append(_put_in(packet, _description(packet.about, None, texts)))
    return edited(data, edits)


def _is_all(before: bytes, mark: Mark, now: bytes, where: str) -> bool:
    """Whether all that happened to a file is that naic wrote to it.

    What it was is known without the bytes that naic wrote, so it does not tell of edits in these.
    naic marks no file that has a mark: somebody else made one that would be restored to such a
    file, and it may hold many, one within the other.
    """
    packet = scan(before, where)
    places = [place for place in mark.before if place in PLACES]
    unmarked = _held(packet).mark is None
    return unmarked and _marked(before, packet, mark, places, made=False) == now


def _old(texts: Texts, ours: str, before: str | None) -> Texts:
    """What a place had; another program may have given our text a language."""
    own = DEFAULT if DEFAULT in texts else next(name for name in texts if texts[name] == ours)
    others = {name: text for name, text in texts.items() if name != own}
    return others if before is None else others | {DEFAULT: before}


def _takes_out(packet: Packet, names: Collection[str]) -> tuple[list[tuple[Span, bytes]], bool]:
    """Edits without the properties of these names, and whether any other is left."""
    spans, left = [span for namespace, span in packet.declared if namespace == NAMESPACE], False
    for node in packet.nodes:
        doomed = [own.span for own in node.properties if own.name in names]
        whole = 0 < len(doomed) == len(node.properties)
        spans += [node.span] if whole else doomed
        left |= len(doomed) < len(node.properties)
    return [(span, b"") for span in spans], left


def _put_in(packet: Packet, description: str) -> tuple[Span, bytes]:
    """The edit that puts a description behind the others."""
    start, end = packet.close
    if end > start:  # the /> of an rdf:RDF that had none
        description = f">{description}\n </{packet.name}>"
    return packet.close, description.encode()


def _description(about: str, mark: Mark | None, texts: Mapping[str, Texts]) -> str:
    head = {"xmlns:rdf": RDF, "rdf:about": about, "xmlns:dc": _DC, "xmlns:Iptc4xmpCore": _IPTC}
    if mark is not None:
        values = {field: getattr(mark, field) for field in _MARKS}
        values["before"] = json.dumps(dict(mark.before))
        head |= {"xmlns:naic": NAMESPACE}
        head |= {f"naic:{field.capitalize()}": value for field, value in values.items()}
    attributes = "\n   ".join(f"{name}={quoted(value)}" for name, value in head.items())
    inside = "".join(alternatives(_ELEMENTS[place], said) for place, said in texts.items())
    return f"\n  <rdf:Description {attributes}>{inside}\n  </rdf:Description>"
