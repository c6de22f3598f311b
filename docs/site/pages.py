"""Lays out the repository's Markdown as the site's: build/site-source, from which Zensical builds.

The Markdown is written for the repository, where its links lead to files. Here each of them is led
to where the site has that file: pages to pages, source files to pages that show them, images and
tables of numbers to copies. What leads nowhere is refused.
"""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

from docs.site import maths
from docs.site.index import INDEX, Section, SiteError, pages_in, resolve, title_of

# Pages from outside docs/, and the index, by their places in the site.
PLACES = {
    Path("README.md"): Path("index.md"),
    Path("CHANGELOG.md"): Path("changes.md"),
    Path("CONTRIBUTING.md"): Path("contributing.md"),
    Path("src/naic/shipped/README.md"): Path("card.md"),
    INDEX: Path("pages.md"),
}
COPIED = {".png", ".jpg", ".svg", ".json", ".jsonl"}  # a browser shows them
LANGUAGES = {".py": "python", ".toml": "toml", ".cff": "yaml", ".js": "js", ".html": "html"}
# A block or span of code, in which nothing is a link; an equation; or the target of a link.
PIECE = re.compile(
    r"^```math\n(?P<block>.*?)^```$"
    r"|\$`(?P<inline>[^`]+)`\$"
    r"|^(?P<indent> *)(?P<fence>`{3,})[^\n]*\n.*?^(?P=indent)(?P=fence)$"
    r"|(?<!`)(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)"
    r"|\]\((?P<target>[^()\s]+)\)",
    re.MULTILINE | re.DOTALL,
)


class Pages:
    """The pages of a site, as they are laid out.

    Attributes:
        problems: what is wrong with them.
        linked: files that pages link to and that are no pages themselves.
    """

    def __init__(self, root: Path, out: Path, sections: list[Section]) -> None:
        self.root, self.out = root, out
        self.problems: list[str] = []
        self.linked: set[Path] = set()
        listed = [entry.path for section in sections for entry in section.entries]
        self.folders = [path for path in listed if (root / path).is_dir()]
        self.pages = [path for path in listed if path not in self.folders]
        self.pages += [page for folder in self.folders for page in pages_in(root, folder)]

    def write(self) -> None:
        """All of them, and the files that they link to."""
        shutil.rmtree(self.out, ignore_errors=True)
        for page in self.pages:
            self._put(self.place(page), self.rendered(page))
        for folder in self.folders:
            lines = [f"- [{title_of(self.root, p)}]({p.name})" for p in pages_in(self.root, folder)]
            self._put(self.place(folder), "\n".join([f"# {folder.name.title()}", "", *lines, ""]))
        for path in sorted(self.linked):
            if path.suffix in COPIED:
                target = self.out / self.place(path)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(self.root / path, target)
            else:
                self._put(self.place(path), self._shown(path))

    def inside(self, path: Path) -> list[str]:
        """The places of the pages of a folder."""
        return [str(self.place(p)) for p in pages_in(self.root, path)]

    def place(self, path: Path) -> Path:
        """Where the site has a file of the repository."""
        if path in PLACES:
            return PLACES[path]
        if path in self.folders:
            return path.relative_to("docs") / "index.md"
        if path in self.pages or path.suffix in COPIED:
            return path.relative_to("docs") if path.is_relative_to("docs") else path
        return Path("source", f"{path}.md")

    def rendered(self, page: Path) -> str:
        """The text of a page as the site needs it."""
        text = (self.root / page).read_text(encoding="utf-8")

        def change(found: re.Match[str]) -> str:
            for kind, convert in (("block", maths.block), ("inline", maths.inline)):
                if found[kind] is not None:
                    return self._equation(page, convert, found[kind])
            target = found["target"]
            return found[0] if target is None else f"]({self._led(page, target)})"

        return PIECE.sub(change, text)

    def _equation(self, page: Path, convert: Callable[[str], str], latex: str) -> str:
        try:
            return convert(latex)
        except ValueError as error:
            self.problems.append(f"{page}: {error}, in {latex.strip()}")
            return latex

    def _led(self, page: Path, target: str) -> str:
        """A link's target in the site."""
        address, sign, anchor = target.partition("#")
        if not address or re.match(r"[a-z]+:", address):
            return target
        try:
            path = resolve(page, unquote(address))
        except SiteError as error:
            self.problems.append(str(error))
            return target
        if not (self.root / path).exists():
            self.problems.append(f"{page}: there is no {path}")
            return target
        if path not in self.pages and path not in self.folders:
            if (self.root / path).is_dir():
                self.problems.append(f"{page}: the site has no page for the folder {path}")
                return target
            self.linked.add(path)
        where = os.path.relpath(self.place(path), self.place(page).parent)
        return f"{where}{sign}{anchor}"

    def _shown(self, path: Path) -> str:
        """A page that shows a file which is no page."""
        text = (self.root / path).read_text(encoding="utf-8")
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
        code = f"{fence}{LANGUAGES.get(path.suffix, 'text')}\n{text.rstrip()}\n{fence}\n"
        return f"---\nsearch:\n  exclude: true\n---\n\n# {path}\n\n{code}"

    def _put(self, place: Path, text: str) -> None:
        target = self.out / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
