"""An XMP packet as text: where its properties stand, so that one can be put in or taken out.

Other programs keep in it what only they understand. So it is never parsed and written anew: only
the bytes that must change do, and all others stay as they are. Expat says where things are. A
document type, by which a small file can become a huge one, is refused.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from xml.parsers import expat
from xml.sax.saxutils import escape

from naic.errors import DataError

MOST_BYTES = 1 << 25  # the history of a photo in darktable may fill some megabytes
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
DEFAULT = "x-default"  # the language of the text that is shown where no other fits
_LANGUAGE = "http://www.w3.org/XML/1998/namespace lang"
_NODE_ATTRIBUTES = {f"{RDF} {name}" for name in ("about", "ID", "nodeID", "type", "datatype")}
_ATTRIBUTE = re.compile(rb"\s+([^\s=/>]+)\s*=\s*(\"[^\"]*\"|'[^']*')")
_TAG = re.compile(rb"<([^\s/>]+)((?:\s+[^\s=/>]+\s*=\s*(?:\"[^\"]*\"|'[^']*'))*)\s*(/?)>")
_OURS = "It is left as it is. Repair it, or move it away to have a new one made."

Span = tuple[int, int]  # bytes from, up to
Texts = dict[str, str]  # by language


@dataclass(slots=True)
class Property:
    """A property of the photo.

    Attributes:
        name: namespace and name, with a space between.
        span: the bytes that it takes up, with the space before it.
        texts: what it says, by language; a text without one is the default.
    """

    name: str
    span: Span
    texts: Texts


@dataclass(slots=True)
class Node:
    """An rdf:Description: its bytes with the space before them, and its properties."""

    start: int
    properties: list[Property] = field(default_factory=list)
    end: int = 0

    @property
    def span(self) -> Span:
        """The bytes that it takes up."""
        return self.start, self.end


@dataclass(slots=True)
class Packet:
    """Where things are in an XMP file.

    Attributes:
        nodes: its descriptions, each with some of the properties.
        close: where a description can be put, behind all others: no bytes, or the `/>` of an
            rdf:RDF that is empty, which has to give way.
        name: of rdf:RDF as it is written, with its prefix.
        about: what all descriptions say that they are about.
        declared: where namespaces are bound to prefixes: the namespace, and its bytes.
        more: whether it has comments, or instructions to programs other than XMP's own.
    """

    nodes: list[Node] = field(default_factory=list)
    close: Span = (0, 0)
    name: str = ""
    about: str = ""
    declared: list[tuple[str, Span]] = field(default_factory=list)
    more: bool = False

    def properties(self) -> Iterator[Property]:
        """All of them."""
        for node in self.nodes:
            yield from node.properties

    def texts(self, name: str) -> Texts:
        """What a property says, by language."""
        found: Texts = {}
        for own in reversed([*self.properties()]):  # of two alike the first counts
            if own.name == name:
                found |= own.texts
        return found


def scan(data: bytes, where: str) -> Packet:
    """Find the properties of an XMP file.

    Raises:
        DataError: it is too large, no well-formed XML in UTF-8, has a document type, or no XMP.
    """
    if len(data) > MOST_BYTES:
        raise DataError(where, f"it is larger than {MOST_BYTES >> 20} MiB", _OURS)
    try:
        data.decode()
        packet = _Scanner(data, where).packet
    except UnicodeDecodeError:
        raise DataError(where, "it is not UTF-8 text, as XMP files are", _OURS) from None
    except expat.ExpatError as error:
        raise DataError(where, f"it is no well-formed XML ({error})", _OURS) from None
    if not packet.name:
        raise DataError(where, "it is no XMP: there is no rdf:RDF in it", _OURS)
    return packet


class _Tag(NamedTuple):
    end: int
    name: str
    empty: bool  # as <a/>
    attributes: list[tuple[str, str, Span]]  # as written: name and value, without entities resolved


class _Scanner:
    """Follows expat through the file, down to rdf:RDF, its nodes, and their properties."""

    def __init__(self, data: bytes, where: str) -> None:
        self._data, self._where = data, where
        self.packet = Packet()
        self._depth = 0
        self._root = 0  # the depth of rdf:RDF, while we are in it
        self._property: Property | None = None
        # Languages and texts: of the property itself, then of its items; and into which text goes.
        self._texts: list[tuple[str, list[str]]] = []  # in the parts in which they come
        self._into = 0
        self._empty: list[int] = []  # for each open element the end of its tag, if it is all
        parser = self._parser = expat.ParserCreate(namespace_separator=" ")
        parser.ordered_attributes = parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.CommentHandler = self._comment
        parser.ProcessingInstructionHandler = self._instruction
        parser.XmlDeclHandler = self._declaration
        parser.StartDoctypeDeclHandler = self._doctype
        parser.Parse(data, True)

    def _declaration(self, version: str, encoding: str | None, standalone: int) -> None:
        if (encoding or "UTF-8").upper() not in ("UTF-8", "UTF8", "US-ASCII"):
            raise DataError(self._where, f"it is in {encoding}, not in UTF-8", _OURS)

    def _doctype(self, *_: object) -> None:
        raise DataError(self._where, "it has a document type, which no XMP has", _OURS)

    def _comment(self, text: str) -> None:
        self.packet.more = True

    def _instruction(self, target: str, text: str) -> None:
        self.packet.more |= target != "xpacket"

    def _start(self, name: str, attributes: list[str]) -> None:
        place, self._depth = self._parser.CurrentByteIndex, self._depth + 1
        values = dict(zip(attributes[::2], attributes[1::2], strict=True))
        tag = self._tag(place)
        self._empty.append(tag.end if tag.empty else 0)
        self._note_declared(tag)
        if name == f"{RDF} RDF" and not self.packet.name:
            self._root, self.packet.name = self._depth, tag.name
            if tag.empty:
                self.packet.close = (tag.end - 2, tag.end)
        elif self._root and self._depth == self._root + 1:
            self._node(tag, place, values)
        elif self._root and self._depth == self._root + 2:
            self._property = Property(name, (self._after_space(place), 0), {})
            self._texts, self._into = [(values.get(_LANGUAGE, DEFAULT), [])], 0
        elif self._property is not None and name == f"{RDF} li":
            self._into = len(self._texts)
            self._texts.append((values.get(_LANGUAGE, DEFAULT), []))

    def _node(self, tag: _Tag, place: int, values: Mapping[str, str]) -> None:
        node = Node(self._after_space(place))
        written = [own for own in tag.attributes if not _is_declaration(own[0])]
        for (name, value), (_, _, span) in zip(values.items(), written, strict=True):
            if " " in name and name not in _NODE_ATTRIBUTES and name != _LANGUAGE:
                node.properties.append(Property(name, span, {DEFAULT: value}))
        self.packet.about = self.packet.about or values.get(f"{RDF} about", "")
        self.packet.nodes.append(node)

    def _end(self, name: str) -> None:
        place, end = self._parser.CurrentByteIndex, self._empty.pop()
        if not end:
            end = self._data.index(b">", place) + 1
        if self._root and self._depth == self._root:
            if not self.packet.close[1]:
                self.packet.close = (self._after_space(place),) * 2
            self._root = 0
        elif self._root and self._depth == self._root + 1:
            self.packet.nodes[-1].end = end
        elif self._property is not None and self._depth == self._root + 2:
            own, self._property = self._property, None
            own.span = own.span[0], end
            texts = [(language, "".join(parts)) for language, parts in self._texts]
            said = [text for text in texts[1:] if text[1].strip()]
            found = said or texts[1:] or texts[:1]
            own.texts = dict(reversed(found))  # of two alike the first counts
            self.packet.nodes[-1].properties.append(own)
        elif name == f"{RDF} li":
            self._into = 0
        self._depth -= 1

    def _text(self, text: str) -> None:
        if self._property is not None:
            self._texts[self._into][1].append(text)

    def _note_declared(self, tag: _Tag) -> None:
        self.packet.declared += [
            (value, span) for name, value, span in tag.attributes if _is_declaration(name)
        ]

    def _tag(self, place: int) -> _Tag:
        found = _TAG.match(self._data, place)
        assert found is not None  # expat has read it as a tag
        attributes = [
            (own[1].decode(), own[2][1:-1].decode(), own.span())
            for own in _ATTRIBUTE.finditer(self._data, *found.span(2))
        ]
        return _Tag(found.end(), found[1].decode(), bool(found[3]), attributes)

    def _after_space(self, place: int) -> int:
        """Where the space before `place` begins: what is put in and taken out includes it."""
        return len(self._data[max(0, place - 1024) : place].rstrip()) + max(0, place - 1024)


def _is_declaration(name: str) -> bool:
    return name == "xmlns" or name.startswith("xmlns:")


def markup(data: bytes) -> int:
    """At most how many tags and attributes a file has: what takes time and memory to read."""
    return data.count(b"<") + data.count(b"=")


def edited(data: bytes, edits: Iterable[tuple[Span, bytes]]) -> bytes:
    """The data with some of its bytes replaced; what lies within an earlier edit is passed over."""
    made, done = [], 0
    for (start, end), new in sorted(edits, key=lambda edit: (edit[0][0], -edit[0][1])):
        if start >= done:
            made += [data[done:start], new]
            done = end
    return b"".join([*made, data[done:]])


def alternatives(element: str, texts: Texts) -> str:
    """A property that says something in several languages; the default one comes first."""
    order = sorted(texts, key=lambda language: language != DEFAULT)
    items = "".join(
        f"\n     <rdf:li xml:lang={quoted(language)}>{_content(texts[language])}</rdf:li>"
        for language in order
    )
    return f"\n   <{element}>\n    <rdf:Alt>{items}\n    </rdf:Alt>\n   </{element}>"


def quoted(value: str) -> str:
    """An attribute's value as XML has it."""
    entities = {'"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}
    return f'"{escape(value, entities)}"'


def _content(text: str) -> str:
    return escape(text, {"\r": "&#13;"})
