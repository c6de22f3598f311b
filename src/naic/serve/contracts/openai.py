"""OpenAI's interface, as far as it concerns captions: chats, responses, and the list of models.

A conversation is answered with the captions of its latest images. Its texts are not read, and any
name of a model stands for the one that there is: programs have names built in. Where there is no
image, that is an error and no text: it would be kept as a caption, or as the title of a chat.
"""

from collections.abc import Iterator
from typing import Any

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from naic.files import printable
from naic.serve.contracts import openai_responses
from naic.serve.contracts.openai_parts import Message, Said, events, images_of, new_id, now, say
from naic.serve.requests import AsJSON
from naic.serve.service import Refused, Service

PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/models")

NOT_FOUND = 404
_SERVER = 500  # and above: it is not the client's fault
_CODES = {401: "invalid_api_key", 404: "not_found", 429: "rate_limit_exceeded"}


class StreamOptions(BaseModel):
    """How a stream ends."""

    include_usage: bool | None = None


class Chat(BaseModel):
    """What is read of a request for an answer in a chat."""

    messages: list[Message]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = Field(None, ge=1, description="whole sentences to choose from")
    max_tokens: int | None = Field(None, ge=1, description="words")
    max_completion_tokens: int | None = Field(None, ge=1, description="words")


def error_body(status: int, message: str) -> dict[str, Any]:
    """A failure as OpenAI's clients read it."""
    kind = "server_error" if status >= _SERVER else "invalid_request_error"
    error = {"message": message, "type": kind, "param": None, "code": _CODES.get(status)}
    return {"error": error}


def router(service: Service) -> APIRouter:
    """All of its routes."""
    routes = APIRouter(prefix="/v1", tags=["OpenAI"], route_class=AsJSON)

    @routes.post("/chat/completions")
    async def chat(request: Chat) -> Response:
        """The captions of the latest images of a chat, a line for each."""
        limit = request.max_completion_tokens or request.max_tokens
        said = await say(service, images_of(request.messages), request.n, limit)
        if not request.stream:
            return JSONResponse(_completion(service.model, said))
        usage = request.stream_options is not None and bool(request.stream_options.include_usage)
        return events(_chunks(service.model, said, usage=usage))

    @routes.get("/models")
    def models() -> dict[str, Any]:
        """The only one that there is."""
        return {"object": "list", "data": [_model(service)]}

    @routes.get("/models/{name:path}")
    def model(name: str) -> dict[str, Any]:
        """The same."""
        if name != service.model:
            why = f"this server has {service.model} only"
            raise Refused(NOT_FOUND, f"the model {printable(name)}", why, "Ask for that.")
        return _model(service)

    openai_responses.add(routes, service)
    return routes


def _model(service: Service) -> dict[str, Any]:
    return {
        "id": service.model,
        "object": "model",
        "created": service.loaded,
        "owned_by": "naic",
    }


def _usage(said: Said) -> dict[str, int]:
    into, out = said.tokens
    return {"prompt_tokens": into, "completion_tokens": out, "total_tokens": into + out}


def _completion(model: str, said: Said) -> dict[str, Any]:
    choices = [
        {
            "index": index,
            "message": {"role": "assistant", "content": text, "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
        for index, text in enumerate(said.texts)
    ]
    head = {"id": new_id("chatcmpl-"), "object": "chat.completion", "created": now()}
    return {**head, "model": model, "choices": choices, "usage": _usage(said)}


def _chunks(model: str, said: Said, *, usage: bool) -> Iterator[tuple[str, dict[str, Any] | str]]:
    head = {"id": new_id("chatcmpl-"), "object": "chat.completion.chunk", "created": now()}
    head |= {"model": model} | ({"usage": None} if usage else {})

    def chunk(index: int, delta: dict[str, str], end: str | None = None) -> dict[str, Any]:
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": end}
        return {**head, "choices": [choice]}

    for index, text in enumerate(said.texts):
        yield "", chunk(index, {"role": "assistant", "content": ""})
        yield "", chunk(index, {"content": text})
        yield "", chunk(index, {}, "stop")
    if usage:
        yield "", {**head, "choices": [], "usage": _usage(said)}
    yield "", "[DONE]"
