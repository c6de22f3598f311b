"""Ollama's interface, as far as it concerns captions.

As there, an answer is a stream of JSON lines unless it is asked for at once, and a request without
a prompt and without an image asks only whether the model is loaded. Bodies are JSON whatever their
type says: `curl -d`, which all examples use, says that it is a form. Texts are not read, and any
name of a model stands for the one that there is.
"""

import hashlib
import json
import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from naic import __version__
from naic.files import printable
from naic.serve.reading import as_uploads, captions_of
from naic.serve.requests import AsJSON
from naic.serve.service import Refused, Service

PATHS = (
    "/api/generate",
    "/api/chat",
    "/api/show",
    "/api/tags",
    "/api/ps",
    "/api/version",
)

NOT_FOUND = 404
_NEVER = datetime(9999, 12, 31, tzinfo=UTC)  # when the model is put away
_NUMBERS = re.match(r"\d+(\.\d+)*", __version__)  # clients compare versions, number by number


class Generate(BaseModel):
    """What is read of a request for a text."""

    prompt: str | None = None
    images: list[str] | None = None
    stream: bool | None = None


class Message(BaseModel):
    """One message of a chat."""

    role: str
    content: str | None = None
    images: list[str] | None = None


class Chat(BaseModel):
    """What is read of a request for an answer in a chat."""

    messages: list[Message] | None = None
    stream: bool | None = None


class Show(BaseModel):
    """Of which model more is asked; older clients call it a name."""

    model: str = ""
    name: str = Field("", description="the same, of older clients")


def error_body(status: int, message: str) -> dict[str, Any]:
    """A failure as Ollama's clients read it."""
    return {"error": message}


def router(service: Service) -> APIRouter:
    """All of its routes."""
    routes = APIRouter(prefix="/api", tags=["Ollama"], route_class=AsJSON)

    @routes.post("/generate")
    async def generate(request: Generate) -> Response:
        """The captions of the images, a line for each."""
        if not request.prompt and not request.images:
            return JSONResponse(_loaded(service) | {"response": ""})
        text, end = await _say(service, request.images or [])
        lines = [{"response": text}, {"response": ""} | end]
        return _answer(service, request.stream, lines, {"response": text} | end)

    @routes.post("/chat")
    async def chat(request: Chat) -> Response:
        """The captions of the latest images of the chat."""
        if not request.messages:
            return JSONResponse(_loaded(service) | {"message": _message("")})
        theirs = (message for message in reversed(request.messages) if message.role == "user")
        sent = (message.images for message in theirs)
        text, end = await _say(service, next((images for images in sent if images), []))
        lines = [{"message": _message(text)}, {"message": _message("")} | end]
        return _answer(service, request.stream, lines, {"message": _message(text)} | end)

    _add_models(routes, service)
    return routes


def _add_models(routes: APIRouter, service: Service) -> None:
    """What can be asked about the model."""

    @routes.get("/tags")
    def tags() -> dict[str, Any]:
        """The only model that there is."""
        return {"models": [_model(service)]}

    @routes.get("/ps")
    def running() -> dict[str, Any]:
        """The same: it stays loaded."""
        more = {"expires_at": _NEVER.isoformat(), "size_vram": 0}
        return {"models": [_model(service) | more]}

    @routes.post("/show")
    def show(request: Show) -> dict[str, Any]:
        """What the model can do."""
        name = request.model or request.name
        if name.removesuffix(":latest") != service.model:
            why = f"this server has {service.model} only"
            raise Refused(NOT_FOUND, f"the model {printable(name)}", why, "Ask for that.")
        return {
            "modelfile": "",
            "parameters": "",
            "template": "",
            "details": _details(),
            "model_info": {"general.architecture": "naic"},
            "capabilities": ["completion", "vision"],
            "modified_at": _loaded_at(service),
        }

    @routes.get("/version")
    def version() -> dict[str, str]:
        """That of naic, as numbers alone."""
        return {"version": _NUMBERS[0] if _NUMBERS else __version__}


async def _say(service: Service, images: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """The captions, and what the last line tells of them."""
    began = time.perf_counter_ns()
    photos = as_uploads(images)
    read = time.perf_counter_ns()
    captions = await captions_of(service, photos)
    text = "\n".join(caption.text for caption in captions)
    ended = time.perf_counter_ns()
    return text, {
        "done": True,
        "done_reason": "stop",
        "total_duration": ended - began,
        "load_duration": 0,  # it was loaded before
        "prompt_eval_count": len(photos),
        "prompt_eval_duration": read - began,
        "eval_count": len(text.split()),
        "eval_duration": ended - read,
    }


def _answer(
    service: Service, stream: bool | None, lines: Sequence[dict[str, Any]], whole: dict[str, Any]
) -> Response:
    """All of it is known when it begins: what fails has its status, and no stream breaks off."""
    head = _head(service)
    if stream is False:
        return JSONResponse(head | whole)
    text = "".join(json.dumps(head | {"done": False} | line) + "\n" for line in lines)
    return Response(text, media_type="application/x-ndjson")


def _message(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def _head(service: Service) -> dict[str, Any]:
    return {"model": service.model, "created_at": datetime.now(UTC).isoformat()}


def _loaded(service: Service) -> dict[str, Any]:
    return _head(service) | {"done": True, "done_reason": "load"}


def _loaded_at(service: Service) -> str:
    return datetime.fromtimestamp(service.loaded, UTC).isoformat()


def _model(service: Service) -> dict[str, Any]:
    """The model; its files are not told of, so the digest is only one of its name and its time."""
    digest = hashlib.sha256(f"{service.model} {service.loaded}".encode()).hexdigest()
    return {
        "name": service.model,
        "model": service.model,
        "modified_at": _loaded_at(service),
        "size": 0,
        "digest": digest,
        "details": _details(),
    }


def _details() -> dict[str, Any]:
    return {
        "parent_model": "",
        "format": "naic",
        "family": "naic",
        "families": ["naic"],
        "parameter_size": "",
        "quantization_level": "",
    }
