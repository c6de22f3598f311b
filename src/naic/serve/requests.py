"""Requests as clients of other servers send them."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute


class AsJSON(APIRoute):
    """A route whose bodies are taken for JSON: `curl -d` says that they are forms."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """As the framework asks for it."""
        handle = super().get_route_handler()

        async def handle_json(request: Request) -> Response:
            headers = [pair for pair in request.scope["headers"] if pair[0] != b"content-type"]
            headers.append((b"content-type", b"application/json"))
            scope = {**request.scope, "headers": headers}
            return await handle(Request(scope, request.receive))

        return handle_json
