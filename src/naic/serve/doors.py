"""Who may ask: names, foreign pages, tokens; each request is counted, whatever comes of it."""

import hmac
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from naic.serve.reference import STYLE
from naic.serve.replies import reply

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from naic.serve.metrics import Metrics
    from naic.serve.options import ServeOptions

ErrorBody = Callable[[str, int, str], dict[str, Any]]
REFUSALS = (401, 403, 408, 413, 421, 429, 503)
# What needs no token: whether the server is well, and the page, which asks for the token.
OPEN = ("/", "/healthz", "/page", "/docs", STYLE)
_SAFE = ("GET", "HEAD", "OPTIONS")
_KINDS = (
    *("/v1/caption", "/v1/agents", "/v1/advantage", "/v1/xmp", "/v1/info", "/v1/chat"),
    *("/v1/responses", "/v1/models", "/api/v1", "/api/generate", "/api/chat", "/api/tags", "/page"),
)
_OTHER = (
    "other"  # the route of paths that are none: a stranger must not fill the metrics with names
)


def header(scope: "Scope", name: bytes) -> str | None:
    """The first of the headers of that name."""
    for key, value in scope["headers"]:
        if key == name:
            return str(value.decode("latin-1"))
    return None


def without_port(host: str) -> str:
    """The name in a Host header: localhost of localhost:8000, [::1] of [::1]:8000."""
    return host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]


@dataclass(slots=True)
class Counted:
    """Counts requests, and how they end."""

    app: "ASGIApp"
    metrics: "Metrics"

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """As ASGI has it."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        began, status = time.monotonic(), 499  # as proxies say of a client that went away

        async def seen(message: "Message") -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        kind = _kind(scope["path"])
        with self.metrics.running.labels(kind).track_inprogress():
            try:
                await self.app(scope, receive, seen)
            except Exception:
                status = HTTPStatus.INTERNAL_SERVER_ERROR
                raise
            finally:
                route = getattr(scope.get("route"), "path", kind)
                took = time.monotonic() - began
                self.metrics.answered.labels(route, str(int(status))).observe(took)
                if status in REFUSALS:
                    self.metrics.refused.labels(route, str(status)).inc()


def _kind(path: str) -> str:
    """What a path begins with, of the few that there are: it is not known yet where it leads."""
    first = "/".join(path.split("/")[:3])
    return first if first in _KINDS or path in OPEN or path == "/metrics" else _OTHER


@dataclass(slots=True)
class Doors:
    """Refuses who may not ask, before a byte of the body is read."""

    app: "ASGIApp"
    options: "ServeOptions"
    error_body: ErrorBody

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """As ASGI has it."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        origin = header(scope, b"origin")
        foreign = origin if origin and not self._own(scope, origin) else None
        allowed = foreign is not None and foreign.lower() in self.options.known_origins
        shared = _for_pages(foreign) if foreign and allowed else []

        async def told(message: "Message") -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *shared, *_ALWAYS]
            await send(message)

        if shared and scope["method"] == "OPTIONS":
            return await reply(told, 204, None, _PREFLIGHT)
        if refused := self._refused(scope, foreign if not allowed else None):
            status, why = refused
            extra = [(b"www-authenticate", b"Bearer")] if status == 401 else []
            return await reply(told, status, self.error_body(scope["path"], status, why), extra)
        return await self.app(scope, receive, told)

    def _own(self, scope: "Scope", origin: str) -> bool:
        """Whether the page that asks is of this server, by whatever name it was reached."""
        try:
            own = urlsplit(origin).netloc.lower()
        except ValueError:  # it is no address at all
            return False
        return own == (header(scope, b"host") or "").lower()

    def _refused(self, scope: "Scope", foreign: str | None) -> tuple[int, str] | None:
        host = without_port((header(scope, b"host") or "").lower())
        known = self.options.known_hosts
        # A page of a name that was made to lead here would be of this server, to a browser.
        if known and host not in known and scope["path"] != "/healthz":
            return (
                421,
                f"This server is not known as {host[:200]!r}: it needs --hosts.",
            )
        if foreign is not None and scope["method"] not in _SAFE:
            return (
                403,
                f"Pages of {foreign[:200]!r} may not ask: it needs --origins.",
            )
        if not self._has_token(scope):
            return 401, "A token is needed, in the header Authorization: Bearer TOKEN."
        return None

    def _has_token(self, scope: "Scope") -> bool:
        path = scope["path"]
        if not self.options.token or path in OPEN or path.startswith("/page/"):
            return True
        kind, _, given = (header(scope, b"authorization") or "").partition(" ")
        same = hmac.compare_digest(given.strip().encode(), self.options.token.encode())
        return kind.lower() == "bearer" and same


_ALWAYS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_PREFLIGHT = [
    (b"access-control-allow-methods", b"GET, POST"),
    (b"access-control-allow-headers", b"authorization, content-type"),
    (b"access-control-max-age", b"600"),
]


def _for_pages(origin: str) -> list[tuple[bytes, bytes]]:
    return [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", b"retry-after"),
        (b"vary", b"origin"),
    ]
