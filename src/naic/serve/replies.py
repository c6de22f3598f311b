"""Whole answers."""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from starlette.types import Send

Headers = Iterable[tuple[bytes, bytes]]


class Json(JSONResponse):
    """JSON in ASCII: halves of characters, which JSON can name, have no form in UTF-8."""

    def render(self, content: object) -> bytes:
        """The bytes."""
        return as_json(content)


def as_json(content: object) -> bytes:
    """The bytes of it."""
    return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


async def reply(
    send: "Send",
    status: int,
    body: dict[str, Any] | None,
    headers: Headers = (),
    *,
    more: bool = False,
) -> None:
    """Send it.

    Args:
        send: as ASGI has it.
        status: of the answer.
        body: told as JSON; None: there is none.
        headers: further ones.
        more: the answer is whole, but its end is not told yet.
    """
    content = b"" if body is None else as_json(body)
    kinds = [] if body is None else [(b"content-type", b"application/json")]
    if body is not None or status != 204:
        kinds.append((b"content-length", str(len(content)).encode()))
    start = {"type": "http.response.start", "status": status, "headers": [*kinds, *headers]}
    await send(start)
    await send({"type": "http.response.body", "body": content, "more_body": more})
