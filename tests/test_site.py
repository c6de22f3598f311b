"""The documentation as a website: one list of pages, links that lead somewhere, and its checks.

`make site` builds it with Zensical and checks what was built; here is what needs no building.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from docs.site import check, maths
from docs.site.index import SiteError, read_index
from docs.site.make import navigation
from docs.site.pages import Pages

ROOT = Path(__file__).parent.parent
CMAL = (ROOT / "docs/how-cmal-works.md").read_text(encoding="utf-8")
CODES = re.findall(r"```python\n(.*?)```", CMAL, re.DOTALL)
INDEX = """# Documentation
## Start
- [Home](../README.md): see [its table](../README.md#table)
- [one.md](one.md), [`Two`](results/two.md): see [one](one.md)
- [All](README.md)
## Alone
- [Decisions](decisions)
"""
FILES = {
    "docs/README.md": INDEX,
    "README.md": "# Home\n\n[one](docs/one.md#there) ![photo](docs/photo.jpg)\n",
    "docs/one.md": "# The `first`\n\n- [code](../src/a.py) [home](../README.md)\n\n"
    "```sh\n[not](a-link.md)\n```\n`[nor](this.md)` $`x^2`$\n\n"
    "```math\n\\pi_a \\tag{4}\n```\n",
    "docs/results/two.md": "# Two\n\n[why](../decisions/001-why.md) [all](../decisions)\n",
    "docs/decisions/001-why.md": "# 001: Why\n",
    "docs/photo.jpg": "not looked into",
    "src/a.py": "print('```')\n",
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A small one."""
    for name, text in FILES.items():
        path = tmp_path / "repository" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "repository"


def laid_out(root: Path) -> Pages:
    pages = Pages(root, root.parent / "out", read_index(root))
    pages.write()
    return pages


def test_the_index_has_the_parts_of_the_site_and_every_page_once() -> None:
    sections = read_index(ROOT)  # refuses pages that are listed twice, or nowhere
    assert [section.title for section in sections] == [
        *("Start", "Use", "Serve", "Teach", "Research", "Extend", "How CMAL works"),
        *("Results", "Reference"),
    ]
    assert all(section.entries for section in sections)
    pages = Pages(ROOT, ROOT, sections)
    placed = [pages.place(path) for path in pages.pages]
    assert len({*placed}) == len(placed) > 80
    there = {p.relative_to(ROOT) for p in (ROOT / "docs").glob("results/*.md")}
    there |= {p.relative_to(ROOT) for p in (ROOT / "docs").glob("decisions/*.md")}
    assert there <= {*pages.pages}


def test_every_link_of_the_repository_s_pages_leads_somewhere(tmp_path: Path) -> None:
    pages = Pages(ROOT, tmp_path / "out", read_index(ROOT))
    pages.write()
    assert pages.problems == []
    assert Path("src/naic/models/rounding.py") in pages.linked


def test_the_navigation_is_the_index(repository: Path) -> None:
    sections = read_index(repository)
    assert navigation(Pages(repository, repository, sections), sections) == [
        {
            "Start": [
                *({"Home": "index.md"}, {"The first": "one.md"}, {"Two": "results/two.md"}),
                {"All": "pages.md"},
            ]
        },
        {"Alone": ["decisions/index.md", "decisions/001-why.md"]},
    ]


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("docs/README.md", INDEX + "- [again](one.md): x\n", "lists docs/one.md twice"),
        ("docs/README.md", INDEX + "- [no](no.md): x\n", "docs/no.md, which is not there"),
        ("docs/README.md", INDEX + "- [out](../../out.md): x\n", "leads out of the repository"),
        ("docs/results/new.md", "# New\n", "has no line for docs/results/new.md"),
        ("docs/one.md", "no heading\n", "docs/one.md has no heading"),
    ],
)
def test_an_index_that_is_wrong_is_refused(
    repository: Path, name: str, text: str, why: str
) -> None:
    (repository / name).write_text(text, encoding="utf-8")
    with pytest.raises(SiteError, match=re.escape(why)):
        read_index(repository)


def test_links_are_led_to_where_the_site_has_the_files(repository: Path) -> None:
    pages = laid_out(repository)
    assert pages.problems == []
    home = (pages.out / "index.md").read_text()
    assert "](one.md#there)" in home
    assert "](photo.jpg)" in home
    one = (pages.out / "one.md").read_text()
    assert "](source/src/a.py.md)" in one
    assert "](index.md)" in one
    assert "[not](a-link.md)" in one
    assert "`[nor](this.md)`" in one
    two = (pages.out / "results/two.md").read_text()
    assert "](../decisions/001-why.md)" in two
    assert "](../decisions/index.md)" in two
    assert "[001: Why](001-why.md)" in (pages.out / "decisions/index.md").read_text()
    assert "````python\nprint('```')\n````" in (pages.out / "source/src/a.py.md").read_text()
    assert (pages.out / "photo.jpg").is_file()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[gone](gone.md)", "docs/one.md: there is no docs/gone.md"),
        ("[sources](../src)", "docs/one.md: the site has no page for the folder src"),
        ("[out](../../out.md)", "docs/one.md: ../../out.md leads out of the repository"),
        ("$`\\nosuch`$", "docs/one.md: \\nosuch is not known"),
        ("```math\n\\begin{aligned} a & b \\end{aligned}\n```", "docs/one.md: & is not known"),
    ],
)
def test_what_leads_nowhere_is_a_problem(repository: Path, text: str, why: str) -> None:
    (repository / "docs/one.md").write_text(f"# One\n\n{text}\n", encoding="utf-8")
    (problem,) = laid_out(repository).problems
    assert problem.startswith(why)


def test_equations_are_mathml_with_their_numbers() -> None:
    found = maths.block("\\pi_a * [x_b] \\tag{10}\n")
    assert found.startswith('<div class="equation"><math ')
    assert found.endswith('</math><span class="number">(10)</span></div>')
    assert "\n" not in found
    assert not re.search(r"[*_`\[\]\\]", found)  # or Markdown would find something in it
    assert 'display="inline"' in maths.inline("x")
    assert "number" not in maths.block("x")


def page(body: str, head: str = "") -> str:
    return f"<html><head>{check.POLICY}>{head}</head><body><article>{body}</article></body></html>"


@pytest.fixture
def built(repository: Path) -> tuple[Path, Pages]:
    """A site as it might have been built, without fault."""
    pages, site = laid_out(repository), repository.parent / "site"
    bodies = {Path("one.html"): '<h2 id="there">x</h2><ul><li>x</li></ul><pre>x</pre>'}
    places = [pages.place(path).with_suffix(".html") for path in pages.pages]
    for place in (*places, Path("decisions/index.html")):
        (site / place).parent.mkdir(parents=True, exist_ok=True)
        (site / place).write_text(page(bodies.get(place, "x")))
    (repository / "docs/one.md").write_text("# One\n\n## There\n\n- x\n\n```sh\nx\n```\n")
    (repository / "docs/README.md").write_text("# All\n")
    items = [{"location": f"{place}#x"} for place in places]
    (site / "search.json").write_text(json.dumps({"items": items}))
    (site / "site.css").write_text("a { background: url(logo.svg) }")
    return site, pages


def test_a_site_without_fault_has_no_problems(built: tuple[Path, Pages]) -> None:
    site, pages = built
    links = '<a href="one.html#there">a</a><a href="https://example.org">b</a><a href="#x" id="x">'
    (site / "index.html").write_text(page(links, '<link rel="stylesheet" href="site.css">'))
    assert check.problems_of(site, pages) == []


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("index.html", page('<a href="gone.html">'), "gone.html leads nowhere"),
        ("index.html", page('<a href="one.html#no">'), "one.html has no place called #no"),
        ("index.html", page('<img src="gone.png">'), "gone.png leads nowhere"),
        ("index.html", page('<img src="https://a.b/c.png">'), "c.png is fetched from elsewhere"),
        ("index.html", page("", '<script src="//a.b/c.js">'), "c.js is fetched from elsewhere"),
        ("index.html", page("", '<link rel="preconnect" href="https://a.b">'), "from elsewhere"),
        ("index.html", page("").replace("self", "*"), "it has no policy"),
        ("site.css", "@import 'https://a.b/c.css'", "site.css: it fetches something"),
        ("site.css", "a { src: url(//a.b/c.woff) }", "site.css: it fetches something"),
        ("one.html", page('<h2 id="there">x</h2><p>- x</p><pre>x</pre>'), "<li>: 1 in the"),
        ("one.html", None, "docs/one.md: no page one.html was built"),
        ("search.json", '{"items": []}', "docs/one.md: the search does not know it"),
    ],
)
def test_faults_of_a_site_are_found(
    built: tuple[Path, Pages], name: str, text: str | None, why: str
) -> None:
    site, pages = built
    if text is None:
        (site / name).unlink()
    else:
        (site / name).write_text(text)
    assert any(why in problem for problem in check.problems_of(site, pages))


# How CMAL works: what it shows is what runs.


def shown(code: str) -> tuple[list[str], list[list[str]]]:
    """The lines of the source that a block names, and the block's parts between the `...`."""
    first, *lines = code.splitlines()
    source = (ROOT / first.removeprefix("# ")).read_text(encoding="utf-8").splitlines()
    parts: list[list[str]] = [[]]
    for line in lines:
        if line.strip() == "...":
            parts.append([])
        else:
            parts[-1].append(line)
    return source, parts


def is_at(source: list[str], place: int, part: list[str]) -> bool:
    """Whether these lines are there, all indented by as much."""
    found = source[place : place + len(part)]
    space = " " * (len(found[0]) - len(found[0].lstrip()) - len(part[0]) + len(part[0].lstrip()))
    return found == [space + line for line in part]


@pytest.mark.parametrize(
    "code", [code for code in CODES if code.startswith("# src/")], ids=lambda code: code[:60]
)
def test_the_code_that_is_shown_is_the_code(code: str) -> None:
    source, parts = shown(code)
    place = 0
    for part in parts:
        places = [i for i in range(place, len(source)) if is_at(source, i, part)]
        assert places, "\n".join(part)
        place = places[0] + len(part)


def test_every_equation_of_the_method_is_there_once_and_has_its_code() -> None:
    assert re.findall(r"\\tag\{(\d+)\}", CMAL) == [str(number) for number in range(1, 11)]
    assert sum(code.startswith("# src/") for code in CODES) >= 7


def test_the_example_gives_the_figures_of_its_table() -> None:
    (code,) = (code for code in CODES if not code.startswith("# src/"))
    names: dict[str, Any] = {}
    exec(code, names)
    rows = re.findall(r"^\| (\d) \| (\S+) \| (\S+) \| ([-.\d]+) \| ([-.\d]+) \|$", CMAL, re.M)
    said, instead, rewards, advantages = zip(*(row[1:] for row in rows), strict=True)
    vocabulary = names["vocabulary"]
    assert [vocabulary.id(word) for word in said] == names["said"].tolist()
    assert [vocabulary.id(word) for word in instead] == names["instead"].tolist()
    assert [f"{x:.2f}" for x in names["outcomes"][0, :, 1].tolist()] == [*rewards]
    assert [f"{x:.2f}" for x in names["advantage"][0, 0].tolist()] == [*advantages]
    assert f"has a reward of {names['reward'].item():.2f}." in CMAL
