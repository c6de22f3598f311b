"""One HTML file of captions, references and scores, to be looked at without a server or a network.

What the page is written in lies in the folder `web` beside this file. Everything from outside is
text in it: in the HTML by escapes, in the data by JSON that holds no sign of HTML, and its policy
lets no script run but its own.
"""

import base64
import hashlib
import html
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from naic.metrics.marks import marks, pieces
from naic.tasks.evaluate.tables import Figures
from naic.tasks.pages import base_style, facts, table

PARTS = Path(__file__).with_name("web")
SCRIPTS = ("rows.js", "blocks.js", "app.js")  # in this order they are one
AT_ONCE = 100  # small copies in one block of data: a block is read when a row of it is looked at
_PLACE = re.compile(r"\{\{(\w+)\}\}")
# The scripts are modules, so that each can be tried alone; in the page they share one scope.
_MODULE = re.compile(
    r"^(?:import .*\n|export (?=(?:async )?(?:function|const|class) ))", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Said:
    """The captions of one system, and by metric the score of each."""

    name: str
    captions: Sequence[str]
    scores: Mapping[str, Sequence[float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Contents:
    """All that a page shows.

    Attributes:
        title: of the page.
        notes: sentences below it.
        tables: figures of the whole set.
        facts: what they are of, by name.
        ids: of the images.
        references: the human captions of each image.
        systems: what was said of them.
        links: the address of each image, None where there is none; empty without pictures.
        copies: small copies in place of these, as the base64 text of WebP files.
    """

    title: str
    notes: Sequence[str]
    ids: Sequence[str]
    references: Sequence[Sequence[str]]
    systems: Sequence[Said]
    tables: Sequence[Figures] = ()
    facts: Sequence[tuple[str, str]] = ()
    links: Sequence[str | None] = ()
    copies: Iterable[str | None] | None = None


def page(contents: Contents) -> Iterator[bytes]:
    """The file, in parts: with pictures in it, it can be large."""
    script = _script()
    style = base_style() + _part("style.css")
    filled = {
        "policy": _policy(script, style, contents),
        "title": html.escape(contents.title),
        "summary": _summary(contents),
        "style": style,
        "data": in_script(_data(contents)),
        "script": script,
    }
    for i, text in enumerate(_PLACE.split(_part("index.html"))):
        if not i % 2:
            yield text.encode()
        elif text == "copies":
            yield from _copies(contents)
        else:
            yield filled[text].encode()


def in_script(value: object) -> str:
    """The value as JSON that can stand in a script: no `</script>` or `<!--` can end it.

    All signs beyond ASCII are escapes, too: U+2028 is a line's end to some, and half a character
    has no place in UTF-8.
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")


def _script() -> str:
    """The scripts as one, with nothing to be had from outside."""
    parts = "\n".join(_MODULE.sub("", _part(name)) for name in SCRIPTS)
    return f'"use strict";\n(() => {{\n{parts}}})();\n'


def _part(name: str) -> str:
    return (PARTS / name).read_text(encoding="utf-8")


def _policy(script: str, style: str, contents: Contents) -> str:
    """Nothing is loaded but the pictures, nothing runs but the page's own script."""
    pictures = "'none'"
    if contents.copies is not None:
        pictures = "data:"
    elif contents.links:
        pictures = "'self' file:"
    return (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; "
        f"img-src {pictures}; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _summary(contents: Contents) -> str:
    """What is there before any script runs: the figures of the whole set."""
    lines = [f"<p>{html.escape(note)}</p>" for note in contents.notes]
    lines.append('<div class="tables">')
    lines += [table(figures, f"By {figures.header[0]}") for figures in contents.tables]
    lines.append("</div>")
    if contents.facts:
        lines.append(facts(contents.facts))
    return "\n".join(lines)


def _data(contents: Contents) -> dict[str, Any]:
    return {
        "ids": list(contents.ids),
        "references": [list(own) for own in contents.references],
        "systems": [_system(said) for said in contents.systems],
        "links": list(contents.links),
        "copies": AT_ONCE if contents.copies is not None else 0,
    }


def _system(said: Said) -> dict[str, Any]:
    """Captions, scores times 100, and for the few captions with a mark what is marked in them."""
    found = {row: own for row, text in enumerate(said.captions) if (own := marks(text))}
    return {
        "name": said.name,
        "captions": list(said.captions),
        "scores": {name: [_rounded(x) for x in values] for name, values in said.scores.items()},
        "marks": found,
        "pieces": {row: pieces(said.captions[row]) for row in found},
    }


def _rounded(score: float) -> float | None:
    return round(100 * score, 2) if math.isfinite(score) else None


def _copies(contents: Contents) -> Iterator[bytes]:
    """The small copies behind all else: captions are there before they are read."""
    copies, number = iter(contents.copies or ()), 0
    while block := list(islice(copies, AT_ONCE)):
        text = in_script(block)
        yield f'<script type="application/json" id="copies-{number}">{text}</script>\n'.encode()
        number += 1
