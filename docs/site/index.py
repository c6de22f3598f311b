"""The one list of pages: docs/README.md, which people read in the repository, is the navigation."""

import re
from pathlib import Path
from typing import NamedTuple

INDEX = Path("docs/README.md")
LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")
# The links that a line of the list begins with; those in what is said of them are no entries.
LINE = re.compile(rf"- ({LINK.pattern}(?:, {LINK.pattern})*)")


class Entry(NamedTuple):
    """A page of the navigation, or a folder of pages; its path is from the repository's root."""

    label: str
    path: Path


class Section(NamedTuple):
    """A heading of the list and what is under it."""

    title: str
    entries: list[Entry]


class SiteError(Exception):
    """What is wrong with the documentation, in words for its author."""


def read_index(root: Path) -> list[Section]:
    """The sections of docs/README.md; a page is in one of them, once."""
    sections: list[Section] = []
    for line in (root / INDEX).read_text(encoding="utf-8").splitlines():
        found = LINE.match(line)
        if line.startswith("## "):
            sections.append(Section(line.removeprefix("## "), []))
        elif found and sections:
            for label, target in LINK.findall(found[1]):
                path = resolve(INDEX, target)
                sections[-1].entries.append(Entry(_label(root, label, path), path))
    _check(root, [entry.path for section in sections for entry in section.entries])
    return sections


def resolve(page: Path, target: str) -> Path:
    """What a link of a page leads to, from the repository's root."""
    parts: list[str] = []
    for part in (page.parent / target).parts:
        if part != "..":
            parts.append(part)
        elif parts:
            parts.pop()
        else:
            raise SiteError(f"{page}: {target} leads out of the repository")
    return Path(*parts)


def pages_in(root: Path, folder: Path) -> list[Path]:
    """The pages of a folder that is listed as a whole."""
    return [path.relative_to(root) for path in sorted((root / folder).glob("*.md"))]


def title_of(root: Path, page: Path) -> str:
    """The first heading of a page."""
    found = re.search(r"^# (.+)$", (root / page).read_text(encoding="utf-8"), re.MULTILINE)
    if not found:
        raise SiteError(f"{page} has no heading")
    return found[1].replace("`", "")


def _label(root: Path, label: str, path: Path) -> str:
    """What the navigation calls a page: a bare file name says less than the page's heading."""
    exists = (root / path).is_file()
    return title_of(root, path) if label == path.name and exists else label.replace("`", "")


def _check(root: Path, listed: list[Path]) -> None:
    """Refuse what is not there, what is listed twice, and pages that are not listed."""
    pages = [p for path in listed for p in _pages(root, path)]
    for path in listed:
        if not (root / path).exists():
            raise SiteError(f"{INDEX} lists {path}, which is not there")
    for page in pages:
        if pages.count(page) > 1:
            raise SiteError(f"{INDEX} lists {page} twice")
    there = [p for folder in ("docs", "docs/results") for p in pages_in(root, Path(folder))]
    for page in there:
        if page not in pages:
            raise SiteError(f"{INDEX} has no line for {page}")


def _pages(root: Path, path: Path) -> list[Path]:
    return pages_in(root, path) if (root / path).is_dir() else [path]
