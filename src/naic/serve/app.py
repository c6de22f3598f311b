"""The server as an ASGI application: the table of contracts, and how errors are told."""

from collections.abc import Mapping
from http import HTTPStatus
from types import ModuleType
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException

from naic import __version__
from naic.errors import ConfigError, ImageError, NaicError
from naic.serve import pages, reference
from naic.serve.arrivals import Arrivals
from naic.serve.contracts import agents, ollama, openai, ours, photoprism, xmp
from naic.serve.doors import Counted, Doors
from naic.serve.metrics import CONTENT_TYPE
from naic.serve.replies import Json
from naic.serve.service import Refused

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from naic.serve.health import Health
    from naic.serve.metrics import Metrics
    from naic.serve.options import ServeOptions
    from naic.serve.service import Service
    from naic.serve.worker import Worker

# Those whose router takes the service alone.
_CONTRACTS: tuple[ModuleType, ...] = (openai, ollama, photoprism)
_OF_PATHS = {path: module for module in (ours, *_CONTRACTS) for path in module.PATHS}
# Nothing on the page comes from elsewhere, and it is shown in nobody's frame.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


_STATUSES = (400, 401, 403, 404, 408, 413, 415, 421, 422, 429, 503)


def error_body(path: str, status: int, message: str) -> dict[str, Any]:
    """An error as the clients of that path read it."""
    fitting = [known for known in _OF_PATHS if path == known or path.startswith(f"{known}/")]
    module = _OF_PATHS[max(fitting, key=len)] if fitting else ours
    body: dict[str, Any] = module.error_body(status, message)
    return body


def make_app(
    worker: "Worker", options: "ServeOptions", metrics: "Metrics", health: "Health"
) -> "ASGIApp":
    """The whole server, but for its sockets.

    Args:
        worker: gives the captions.
        options: who may ask, and how much.
        metrics: count what happens.
        health: is asked by `/healthz`.
    """
    app = make_routes(worker, options)
    _add_own_pages(app, metrics, health)
    arrivals = Arrivals(app, worker, options, error_body, metrics)
    return Counted(Doors(arrivals, options, error_body), metrics)


def make_routes(service: "Service", options: "ServeOptions") -> FastAPI:
    """All contracts over one service, and their errors in their own words."""
    app = FastAPI(
        title="naic",
        version=__version__,
        summary="Image captions in one parallel pass",
        docs_url=None,
        redoc_url=None,
    )
    for own in (
        ours.router(service, options),
        xmp.router(options),
        agents.router(service, options),
    ):
        app.include_router(own, responses=_refusals(ours))
    for module in _CONTRACTS:
        app.include_router(module.router(service), responses=_refusals(module))
    for error in (NaicError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(error, _told)
    return app


def _refusals(module: ModuleType) -> dict[int | str, dict[str, Any]]:
    """How any route can end otherwise, for the OpenAPI document."""
    told = ((status, HTTPStatus(status).phrase) for status in _STATUSES)
    return {
        status: {
            "description": words,
            "content": {"application/json": {"example": module.error_body(status, f"{words}.")}},
        }
        for status, words in told
    }


def _add_own_pages(app: FastAPI, metrics: "Metrics", health: "Health") -> None:
    """What is for people and for those who look after servers."""
    app.include_router(pages.router(POLICY))

    @app.get("/healthz", summary="Whether the model captions", responses={503: {}}, tags=["naic"])
    async def healthz() -> Json:
        status, body = health.told()
        return Json(body, status, {"cache-control": "no-store"})

    @app.get(
        "/metrics",
        summary="Numbers for Prometheus",
        tags=["naic"],
        response_class=PlainTextResponse,
    )
    async def numbers() -> Response:
        health.told()
        return Response(metrics.text(), media_type=CONTENT_TYPE)

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> HTMLResponse:
        page = reference.page_of(app.openapi(), str(request.base_url))
        return HTMLResponse(page, headers={"content-security-policy": POLICY})

    @app.get(reference.STYLE, include_in_schema=False)
    async def style() -> Response:
        return Response(reference.CSS, media_type="text/css")


async def _told(request: Request, error: Exception) -> Json:
    """An error in the words of the contract that was asked."""
    status, message, headers = _what_went_wrong(error)
    return Json(error_body(request.url.path, status, message), status, headers)


def _what_went_wrong(error: Exception) -> tuple[int, str, dict[str, str]]:
    if isinstance(error, Refused):
        wait = {} if error.retry_after is None else {"retry-after": str(error.retry_after)}
        return error.status, str(error), wait
    if isinstance(error, ImageError | ConfigError):
        return 422, str(error), {}
    if isinstance(error, RequestValidationError):
        return 422, "; ".join(map(_complaint, error.errors()[:5])), {}
    if isinstance(error, HTTPException):
        headers = dict(error.headers or {})
        return error.status_code, _told_what_to_do(error, headers), headers
    # What it was stands in the log, where who runs the server looks.
    return 500, "Something went wrong here; the server's log tells what.", {}


def _told_what_to_do(error: HTTPException, headers: Mapping[str, str]) -> str:
    """What the framework says of a route, and what to ask for in its place."""
    if error.status_code == HTTPStatus.NOT_FOUND:
        return "There is no such route here: /docs lists those that there are."
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        return f"This route takes {headers.get('Allow', 'another method')}: see /docs."
    return str(error.detail)


def _complaint(error: Mapping[str, Any]) -> str:
    where = ".".join(str(part) for part in error.get("loc", ()))
    why = str(error.get("msg", "it cannot be"))
    if error.get("type") == "extra_forbidden":
        why = "there is no such field; /docs lists those that there are"
    return f"{where}: {why}" if where else why
