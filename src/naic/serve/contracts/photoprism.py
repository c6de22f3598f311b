"""The service that PhotoPrism asks for captions: `vision.ApiRequest` and `vision.ApiResponse`.

Its client takes `model` for an object where it sends a name, reads `code` and `error` of a failure,
and tries again after a 429 alone.
"""

from typing import Any
from uuid import uuid4

from fastapi import APIRouter
from pydantic import BaseModel, Field

from naic import __version__
from naic.serve.reading import as_uploads, captions_of
from naic.serve.service import Service

PATHS = ("/api/v1/vision",)
# What PhotoPrism keeps beside the text; one that it does not know would rank below all others.
SOURCE = "image"


class Request(BaseModel):
    """What is read of a request: its prompt and its options are for models that can read."""

    id: str = ""
    images: list[str] = []
    url: str = ""


class Told(BaseModel):
    """A caption."""

    text: str
    confidence: float
    source: str = SOURCE


class Result(BaseModel):
    """What was found out; of other kinds there is nothing."""

    caption: Told


class Model(BaseModel):
    """Who found it out."""

    type: str = "caption"
    name: str
    version: str = __version__


class Response(BaseModel):
    """The answer to a request, by its number."""

    id: str = Field(description="that of the request, or a new one")
    code: int = 200
    model: Model
    result: Result


def error_body(status: int, message: str) -> dict[str, Any]:
    """A failure as PhotoPrism reads it."""
    return {"code": status, "error": message}


def router(service: Service) -> APIRouter:
    """Captions; a model that is named in the path is whichever there is."""
    routes = APIRouter(prefix="/api/v1/vision", tags=["PhotoPrism"])

    @routes.post("/caption")
    @routes.post("/caption/{model}", include_in_schema=False)
    @routes.post("/caption/{model}/{version}", include_in_schema=False)
    async def caption(request: Request) -> Response:
        """The caption of a photo; of several pictures of it, the one that is surest."""
        photos = as_uploads(request.images or [request.url] * bool(request.url))
        captions = await captions_of(service, photos)
        surest = max(captions, key=lambda caption: caption.confidence)
        told = Told(text=surest.text, confidence=surest.confidence)
        name = request.id.encode(errors="replace").decode()  # half a letter has no UTF-8
        return Response(
            id=name or str(uuid4()),
            model=Model(name=service.model),
            result=Result(caption=told),
        )

    return routes
