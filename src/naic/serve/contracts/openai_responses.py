"""OpenAI's newer interface: `/v1/responses`, at once or as events."""

from collections.abc import Iterator
from typing import Any

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from naic.serve.contracts.openai_parts import Message, Said, events, images_of, new_id, now, say
from naic.serve.service import Service


class Request(BaseModel):
    """What is read of a request; a text alone has no image, and is refused as such."""

    input: str | list[Message]
    stream: bool | None = None
    max_output_tokens: int | None = Field(None, ge=1, description="words")


def add(routes: APIRouter, service: Service) -> None:
    """Its one route. No answer is kept, so that there is none to be fetched later."""

    @routes.post("/responses")
    async def respond(request: Request) -> Response:
        """The captions of the latest images of the input, a line for each."""
        messages = [] if isinstance(request.input, str) else request.input
        said = await say(service, images_of(messages), 1, request.max_output_tokens)
        if request.stream:
            return events(_events(service.model, said))
        return JSONResponse(_response(service.model, said))


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _item(name: str, parts: list[dict[str, Any]], status: str) -> dict[str, Any]:
    kind = {"id": name, "type": "message", "role": "assistant"}
    return {**kind, "status": status, "content": parts}


def _usage(said: Said) -> dict[str, Any]:
    into, out = said.tokens
    return {
        "input_tokens": into,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": out,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": into + out,
    }


def _response(model: str, said: Said) -> dict[str, Any]:
    """A complete one."""
    return {
        "id": new_id("resp_"),
        "object": "response",
        "created_at": now(),
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": model,
        "output": [_item(new_id("msg_"), [_part(said.texts[0])], "completed")],
        "parallel_tool_calls": False,
        "previous_response_id": None,
        "store": False,
        "temperature": None,
        "tool_choice": "none",
        "tools": [],
        "top_p": None,
        "usage": _usage(said),
    }


def _events(model: str, said: Said) -> Iterator[tuple[str, dict[str, Any] | str]]:
    """How a complete response came about, as far as there is anything to tell."""
    whole = _response(model, said)
    begun = whole | {"status": "in_progress", "output": [], "usage": None}
    (done,) = whole["output"]
    (part,) = done["content"]
    text = part["text"]
    at = {"output_index": 0}
    within = at | {"item_id": done["id"], "content_index": 0}
    told: list[tuple[str, dict[str, Any]]] = [
        ("created", {"response": begun}),
        ("in_progress", {"response": begun}),
        ("output_item.added", at | {"item": _item(done["id"], [], "in_progress")}),
        ("content_part.added", within | {"part": _part("")}),
        ("output_text.delta", within | {"delta": text, "logprobs": []}),
        ("output_text.done", within | {"text": text, "logprobs": []}),
        ("content_part.done", within | {"part": part}),
        ("output_item.done", at | {"item": done}),
        ("completed", {"response": whole}),
    ]
    for number, (name, data) in enumerate(told):
        kind = f"response.{name}"
        yield kind, {"type": kind, "sequence_number": number, **data}
