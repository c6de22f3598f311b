"""Builds the documentation as a website in build/site: `make site`.

Warnings are errors, and what was built is checked.
"""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import tomli_w
from docs.site.check import problems_of
from docs.site.index import Section, SiteError, read_index
from docs.site.pages import Pages

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
BUILD = ROOT / "build"
SOURCE, THEME, SETTINGS = BUILD / "site-source", BUILD / "site-theme", BUILD / "zensical.toml"
SITE = BUILD / "site"
BESIDE = ("site.css", "logo.svg", "iframe-worker.js")


def navigation(pages: Pages, sections: list[Section]) -> list[dict[str, Any]]:
    """The index as Zensical takes it; a section of one page is that page."""
    tabs: list[dict[str, Any]] = []
    for section in sections:
        entries: list[dict[str, Any]] = []
        for entry in section.entries:
            place = str(pages.place(entry.path))
            folder = entry.path in pages.folders
            entries.append({entry.label: [place, *pages.inside(entry.path)] if folder else place})
        alone = len(entries) == 1
        tabs.append({section.title: next(iter(entries[0].values())) if alone else entries})
    return tabs


def lay_out() -> Pages:
    """Writes all that the site is built from."""
    sections = read_index(ROOT)
    pages = Pages(ROOT, SOURCE, sections)
    pages.write()
    if pages.problems:
        raise SiteError("\n".join(pages.problems))
    for name in BESIDE:
        shutil.copyfile(HERE / name, SOURCE / name)
    settings = tomllib.loads((HERE / "zensical.toml").read_text(encoding="utf-8"))
    shutil.copytree(HERE / "theme", THEME, dirs_exist_ok=True)
    settings["project"]["nav"] = navigation(pages, sections)
    SETTINGS.write_text(tomli_w.dumps(settings), encoding="utf-8")
    return pages


def build(pages: Pages) -> None:
    """The site, from what was laid out."""
    shutil.rmtree(SITE, ignore_errors=True)
    words = ["build", "--strict", "--clean", "--config-file", str(SETTINGS)]
    done = subprocess.run(  # noqa: S603 - a program of this environment, and our own words
        [sys.executable, "-m", "zensical", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=os.environ | {"NO_COLOR": "1"},
        text=True,
        check=False,
    )
    if done.returncode:
        raise SiteError(done.stdout.partition("Traceback")[0])
    problems = problems_of(SITE, pages)
    if problems:
        raise SiteError("\n".join(problems))


def main() -> None:
    """Lay out, build, check."""
    try:
        pages = lay_out()
        build(pages)
    except SiteError as error:
        sys.exit(f"The site cannot be built:\n{error}")
    print(f"build/site: {len(pages.pages)} pages")


if __name__ == "__main__":
    main()
