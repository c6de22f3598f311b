"""The page's files over HTTP: all of them, nothing else, and nothing that the policy forbids."""

import http.client
import re
from collections.abc import Iterator

import httpx
import pytest

from naic.serve.app import POLICY
from naic.serve.pages import INDEX, PARTS
from tests.serve.standing import Server, serving

FILES = sorted(path.name for path in PARTS.iterdir())
KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
ELSEWHERE = [
    "..",
    "../pages.py",
    "..%2fpages.py",
    "%2e%2e/pages.py",
    "pages.py",
    "",
    "app.js/",
    "a.js",
]


@pytest.fixture(scope="module")
def locked() -> Iterator[Server]:
    with serving(token="secret") as running:
        yield running


def test_the_page_needs_no_token(locked: Server) -> None:
    answer = locked.get("/")
    assert (answer.status_code, answer.text) == (200, (PARTS / INDEX).read_text("utf-8"))
    assert answer.headers["content-security-policy"] == POLICY


def test_each_file_comes_as_what_it_is(locked: Server) -> None:
    for name in FILES:
        answer = locked.get(f"/page/{name}")
        assert (answer.status_code, answer.content) == (200, (PARTS / name).read_bytes())
        assert answer.headers["content-type"] == KINDS[name.split(".")[-1]] + "; charset=utf-8"
        assert answer.headers["content-security-policy"] == POLICY


@pytest.mark.parametrize("path", ELSEWHERE)
def test_nothing_else_is_to_be_had(locked: Server, path: str) -> None:
    connection = http.client.HTTPConnection(*locked.address)  # which leaves the path as it is
    connection.request("GET", f"/page/{path}", headers={"authorization": "Bearer secret"})
    answer = connection.getresponse()
    assert answer.status in (307, 404)
    assert b"import" not in answer.read()
    connection.close()


def test_a_browser_that_has_a_file_is_told_so(locked: Server) -> None:
    first = locked.get("/page/app.js")
    tag = first.headers["etag"]
    again = locked.get("/page/app.js", headers={"if-none-match": f'"old", {tag}'})
    assert (again.status_code, again.content) == (304, b"")
    assert (again.headers["etag"], again.headers["cache-control"]) == (tag, "no-cache")
    assert locked.get("/page/app.js", headers={"if-none-match": '"old"'}).status_code == 200
    assert httpx.head(f"{locked.url}/page/app.js").headers["etag"] == tag


def test_all_that_the_page_asks_for_is_there() -> None:
    html = (PARTS / INDEX).read_text("utf-8")
    named = set(re.findall(r'(?:src|href)="page/([^"]+)"', html))
    for path in PARTS.glob("*.js"):
        named |= set(re.findall(r'(?:from|import) "\./([^"]+)"', path.read_text("utf-8")))
    assert named == set(FILES) - {INDEX}


def test_nothing_in_it_is_what_the_policy_forbids_or_makes_markup_of_data() -> None:
    html = (PARTS / INDEX).read_text("utf-8")
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|<script(?![^>]*\ssrc=)", html)
    for path in PARTS.iterdir():
        text = path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|innerHTML|outerHTML|insertAdjacentHTML|\beval\(", text), (
            path
        )
