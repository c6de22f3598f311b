"""What is wrong with a site that was built: nobody sees a broken link by reading the Markdown."""

import html
import json
import os
import re
from functools import partial
from pathlib import Path
from urllib.parse import unquote

from docs.site.pages import Pages
from markdown_it import MarkdownIt

ELEMENT = re.compile(r"<(\w+)\s[^>]*>")
ATTRIBUTE = re.compile(r"\b(href|src|srcset|id|rel)=\"([^\"]*)\"")
OUTSIDE = re.compile(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", re.IGNORECASE)
ELSEWHERE = re.compile(r"(?:[a-z][a-z0-9+.-]*:|//)", re.IGNORECASE)
POLICY = """<meta http-equiv="Content-Security-Policy" content="default-src 'self' """
# What a page is made of that a reader would miss, as HTML and as the tokens of CommonMark.
PARTS = {
    "li": "list_item_open",
    "table": "table_open",
    "tr": "tr_open",
    "pre": "fence",
    "h2": "h2",
    "h3": "h3",
}


class Built:
    """A page of the site, as far as it is checked.

    Attributes:
        ids: what a link can lead to within it.
        links: what it links to.
        loads: what a browser fetches to show it.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        for found in ELEMENT.finditer(text):
            named = {name: html.unescape(value) for name, value in ATTRIBUTE.findall(found[0])}
            self.ids.add(named.get("id", ""))
            wanted = named.get("src") or named.get("srcset") or named.get("href")
            if found[1] == "a" or (found[1] == "link" and named.get("rel") in ("prev", "next")):
                self.links += [wanted] if wanted is not None else []
            elif wanted is not None and not wanted.startswith("data:"):
                self.loads.append(wanted)


def problems_of(site: Path, pages: Pages) -> list[str]:
    """All that is wrong, one line each; none if the site is as it should be."""
    built = {
        path.relative_to(site): Built(path.read_text(encoding="utf-8"))
        for path in sorted(site.rglob("*.html"))
        if path.name != "404.html"  # its addresses begin at the root of a server
    }
    problems = [f"{name}: {what}" for name in built for what in _links(site, name, built)]
    problems += [
        f"{style.relative_to(site)}: it fetches something from elsewhere"
        for style in site.rglob("*.css")
        if OUTSIDE.search(style.read_text(encoding="utf-8"))
    ]
    found = _searchable(site)
    for page in pages.pages:
        place = pages.place(page).with_suffix(".html")
        if place not in built:
            problems.append(f"{page}: no page {place} was built")
            continue
        if str(place) not in found:
            problems.append(f"{page}: the search does not know it")
        problems += [f"{page}: {what}" for what in _lost(pages.root / page, built[place])]
    return problems


def _links(site: Path, name: Path, built: dict[Path, Built]) -> list[str]:
    """Links of a page that lead nowhere, and what it fetches from elsewhere."""
    page, problems = built[name], []
    if POLICY not in page.text:
        problems.append("it has no policy against what is fetched from elsewhere")
    for link in [*page.links, *page.loads]:
        if ELSEWHERE.match(link):
            if link in page.loads:
                problems.append(f"{link} is fetched from elsewhere")
            continue
        address, _, anchor = link.partition("#")
        target = Path(os.path.normpath(name.parent / unquote(address))) if address else name
        if not (site / target).is_file():
            problems.append(f"{link} leads nowhere")
        elif anchor and target in built and unquote(anchor) not in built[target].ids:
            problems.append(f"{target} has no place called #{anchor}")
    return sorted({*problems})


def _searchable(site: Path) -> set[str]:
    """The pages that the search knows."""
    items = json.loads((site / "search.json").read_text(encoding="utf-8"))["items"]
    return {item["location"].partition("#")[0] for item in items}


_parse = partial(MarkdownIt("commonmark").enable("table").parse)


def _lost(page: Path, built: Built) -> list[str]:
    """What the repository's own view of the page has, and the site's has not, or the reverse.

    The two read Markdown by different rules: a list without a blank line before it, say, is a list
    for one and text for the other.
    """
    tokens = _parse(page.read_text(encoding="utf-8"))
    article = built.text.partition("<article")[2].partition("</article>")[0]
    problems = []
    for part, kind in PARTS.items():
        name = kind if "_" in kind or kind == "fence" else "heading_open"
        wanted = sum(
            token.type == name and (name != "heading_open" or token.tag == kind)
            for token in tokens
            if token.info.strip() != "math"
        )
        there = len(re.findall(rf"<{part}[\s>]", article))
        if wanted != there:
            problems.append(f"<{part}>: {wanted} in the repository's view, {there} here")
    return problems
