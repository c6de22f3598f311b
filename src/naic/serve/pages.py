"""The page at `/`, and the files that it is made of: those that lie in `page/`, and no others."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

PARTS = Path(__file__).with_name("page")
INDEX = "index.html"
_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class _Part:
    """One file of the page."""

    content: bytes
    kind: str
    tag: str


def router(policy: str) -> APIRouter:
    """The routes; the files are read once, so that no path leads anywhere else.

    Args:
        policy: the page's Content-Security-Policy.
    """
    routes = APIRouter(include_in_schema=False)
    parts = _parts()

    @routes.api_route("/", methods=["GET", "HEAD"])
    async def page(request: Request) -> Response:
        return _answer(request, parts[INDEX], policy)

    @routes.api_route("/page/{name}", methods=["GET", "HEAD"])
    async def part(request: Request, name: str) -> Response:
        if name not in parts:
            raise HTTPException(404)
        return _answer(request, parts[name], policy)

    return routes


def _parts() -> dict[str, _Part]:
    found = {}
    for path in sorted(PARTS.iterdir()):
        if kind := _KINDS.get(path.suffix):
            content = path.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            found[path.name] = _Part(content, kind, tag)
    return found


def _answer(request: Request, part: _Part, policy: str) -> Response:
    """The file, or that the browser has it: it asks each time, since a new naic has new files."""
    headers = {"etag": part.tag, "cache-control": "no-cache", "content-security-policy": policy}
    if part.tag in (tag.strip() for tag in request.headers.get("if-none-match", "").split(",")):
        return Response(None, 304, headers)
    return Response(part.content, 200, headers, part.kind)
