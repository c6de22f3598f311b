"""The agents' view: `POST /v1/agents`, and `POST /v1/advantage`, what each word was worth."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from naic.errors import ImageError
from naic.files import printable
from naic.serve.agents import NO_REFERENCES
from naic.serve.contracts.ours import (
    Body,
    Options,
    Result,
    Spoken,
    asked_of,
    content_type,
    json_of,
    refusals,
    request_body,
    result_of,
)
from naic.serve.replies import Json
from naic.serve.service import Asked, Refused, Service, Upload

if TYPE_CHECKING:
    from naic.runtime.explain import Explained
    from naic.runtime.writer import Written
    from naic.serve.options import ServeOptions
    from naic.serve.service import Pixels

MOST_AGENTS, MOST_WORDS, LONGEST_WORD = 64, 100, 100
MOST_REFERENCES, LONGEST_REFERENCE = 20, 1000
_ADVANTAGE = 'JSON: {"agents": [[{"text": ..., "confidence": ...}]], "said": [0], "references": []}'


class AgentsOptions(Options):
    """What may be asked for beside the agents."""

    teacher: bool = Field(False, description="let the teacher write beside them")


class AgentsBody(Body, AgentsOptions):
    """One photo in JSON."""


class AgentTold(BaseModel):
    """What an agent could have said, and what it said."""

    words: list[Spoken]
    said: int


class At(BaseModel):
    """A word, and when it was there."""

    text: str
    ms: float


class Teacher(BaseModel):
    """What the teacher wrote, and when, beside the agents' own time."""

    model: str
    caption: str
    words: list[At]
    ms: float
    agents_ms: float


class AgentsAnswer(BaseModel):
    """All agents of a photo."""

    model: str
    result: Result
    agents: list[AgentTold]
    end: int
    grid: list[int] | None
    frame: list[float] | None
    attention: list[list[float]] | None
    attention_why: str | None
    ms: float
    teacher: Teacher | None


class Chance(BaseModel):
    """A word that an agent could have said, as `/v1/agents` told it."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(max_length=LONGEST_WORD)
    confidence: float = Field(ge=0, le=1, allow_inf_nan=False)


class AdvantageBody(BaseModel):
    """What the agents said, and what people say."""

    model_config = ConfigDict(extra="forbid")

    agents: list[Annotated[list[Chance], Field(min_length=1, max_length=MOST_WORDS)]] = Field(
        min_length=1, max_length=MOST_AGENTS
    )
    said: list[Annotated[int, Field(ge=0)]] = Field(
        max_length=MOST_AGENTS, description="for each agent the place of its word among its words"
    )
    references: list[Annotated[str, Field(max_length=LONGEST_REFERENCE)]] = Field(
        min_length=1, max_length=MOST_REFERENCES
    )
    topk: int = Field(2, ge=1, le=MOST_WORDS, description="likeliest words that are compared")


class OutcomeTold(BaseModel):
    """What would have come of another word."""

    text: str
    share: float
    reward: float
    sentence: str


class WorthTold(BaseModel):
    """What the word of an agent was worth."""

    advantage: float
    outcomes: list[OutcomeTold]


class AdvantageAnswer(BaseModel):
    """What a team was worth, and each agent's part in it."""

    reward: float
    sentence: str
    agents: list[WorthTold]
    unknown: list[str]


def router(service: Service, options: "ServeOptions") -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["naic"])
    ends = refusals(401, 403, 408, 413, 415, 421, 422, 429, 503)

    @routes.post(
        "/v1/agents",
        summary="What each agent said of one photo, and where it looked",
        response_model=AgentsAnswer,
        responses=ends,
        openapi_extra={"requestBody": request_body(AgentsOptions, AgentsBody)},
    )
    async def agents(request: Request) -> Json:
        photos, given = await asked_of(request, options.max_images, AgentsOptions, AgentsBody)
        return Json(await _told(service, _only(photos), given))

    @routes.post(
        "/v1/advantage",
        summary="What each agent's word was worth, as CMAL counts it",
        response_model=AdvantageAnswer,
        responses=ends,
        openapi_extra={"requestBody": _advantage_body()},
    )
    async def advantage(request: Request) -> Json:
        return Json(await _judged(service, request))

    return routes


def _advantage_body() -> dict[str, Any]:
    """For the OpenAPI document, in which a schema cannot have definitions of its own."""
    schema = AdvantageBody.model_json_schema()
    schema["properties"]["agents"]["items"]["items"] = schema.pop("$defs")["Chance"]
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _only(photos: list[Upload | ImageError]) -> Upload:
    """The one photo of a request."""
    if len(photos) != 1:
        why = f"it has {len(photos)} images, and the agents of one are told"
        raise Refused(422, "the request", why, "Send one at a time.")
    [photo] = photos
    if isinstance(photo, ImageError):
        raise photo
    return photo


async def _told(service: Service, photo: Upload, given: AgentsOptions) -> dict[str, Any]:
    view, captioner = service.view, service.captioner
    if not view.length:
        why = "it writes word by word, and has no agents"
        raise Refused(422, "the model", why, "Ask for captions, or serve a parallel one.")
    if given.teacher and view.writer is None:
        raise Refused(422, "teacher", "this server has none", "Start it with --teacher TEACHER.")
    writer = view.writer if given.teacher else None

    def work(pixels: "Pixels", asked: Asked) -> "tuple[Explained, Written | None]":
        told = captioner.explain(pixels, alternatives=asked.alternatives, **asked.wishes)
        return told, None if writer is None else writer(pixels)

    explained, written = await service.look(photo, given.asked(), work)
    looks = explained.looks if explained.looks is not None and explained.looks.grid else None
    return {
        "model": service.model,
        "result": {"name": printable(photo.name), **result_of(explained.caption)},
        "agents": [
            {"words": [{"text": t, "confidence": c} for t, c in one.words], "said": one.said}
            for one in explained.agents
        ],
        "end": explained.end,
        "grid": None if looks is None else looks.grid,
        # A photo is squashed to a square, and nothing of it is cut off.
        "frame": None if looks is None else [0.0, 0.0, 1.0, 1.0],
        "attention": None if looks is None else looks.weights.tolist(),
        "attention_why": view.attention_why,
        "ms": 1e3 * explained.seconds,
        "teacher": None if written is None else _of_teacher(view.teacher or "", written),
    }


def _of_teacher(name: str, written: "Written") -> dict[str, Any]:
    return {
        "model": name,
        "caption": written.caption,
        "words": [{"text": text, "ms": 1e3 * seconds} for text, seconds in written.words],
        "ms": 1e3 * written.seconds,
        "agents_ms": 1e3 * written.agents,
    }


async def _judged(service: Service, request: Request) -> dict[str, Any]:
    if (kind := content_type(request)) != "application/json":
        why = f"{kind or 'nothing'!r} is not application/json"
        raise Refused(415, "the request", why, _ADVANTAGE)
    body = await json_of(request, AdvantageBody, _ADVANTAGE)
    judge = service.view.judge
    if judge is None:
        raise Refused(422, "the server", NO_REFERENCES, "Start it with that option.")
    if len(body.said) != len(body.agents):
        why = f"{len(body.said)} places are not one for each of {len(body.agents)} agents"
        raise Refused(422, "said", why, "Send one for each agent.")
    for number, (own, place) in enumerate(zip(body.agents, body.said, strict=True), 1):
        if place >= len(own):
            why = f"agent {number} has {len(own)} words, and no place {place}"
            raise Refused(422, "said", why, "Places are counted from 0.")
    agents = [[(word.text, word.confidence) for word in own] for own in body.agents]
    return asdict(await service.turn(lambda: judge(agents, body.said, body.references, body.topk)))
