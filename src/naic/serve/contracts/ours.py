"""naic's own contract: `POST /v1/caption` and `GET /v1/info`."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from fastapi import APIRouter, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from naic import __version__
from naic.errors import ImageError
from naic.files import printable
from naic.serve.reading import as_upload
from naic.serve.replies import Json
from naic.serve.service import Asked, Refused, Service, Upload
from naic.serve.uploads import FORM, form_of, photos_of

if TYPE_CHECKING:
    from naic.decode.wishes import Wishes
    from naic.runtime.sentences import Caption
    from naic.serve.options import ServeOptions

M = TypeVar("M", bound=BaseModel)
PATHS = ("/v1",)
_KINDS = f"{FORM} or application/json"
_HINT = 'curl -F files=@photo.jpg, or JSON: {"image": BASE64}'


class Options(BaseModel):
    """What may be asked for beside the captions; what is left out is as the server has it."""

    model_config = ConfigDict(extra="forbid")

    alternatives: int = Field(0, ge=0, le=100, description="whole sentences to give")
    max_words: int | None = Field(None, ge=1, description="cut longer captions")
    max_chars: int | None = Field(None, ge=1, description="cut longer captions")
    forbid: str | list[str] = Field("", description="words that are not said")
    prefer: str | list[str] = Field("", description="words that are said rather than others")
    neutral: bool = Field(False, description="person, people, child, not guessed genders")

    def asked(self) -> Asked:
        """The same for the service."""
        own = Options.model_fields.keys() & self.model_fields_set
        wishes: Wishes = {n: getattr(self, n) for n in own if n != "alternatives"}  # type: ignore[assignment]
        return Asked(self.alternatives, wishes)


class Body(Options):
    """Photos in JSON."""

    image: str | None = Field(None, description="base64 or a data: URL")
    images: list[str] = Field([], description="several of them")
    names: list[str] = Field([], description="what to call them in the answer")


class Spoken(BaseModel):
    """Something that was said, and how sure the model was."""

    text: str
    confidence: float


class Said(Spoken):
    """What one agent said, and what it would have said else."""

    alternatives: list[Spoken]


class Failed(BaseModel):
    """Why a photo has no caption."""

    what: str
    why: str
    hint: str


class Result(BaseModel):
    """What came of one photo: a caption with all that belongs to it, or an error."""

    name: str
    caption: str | None = None
    confidence: float | None = None
    calibrated: bool | None = None
    probability: float | None = None
    words: list[Said] | None = None
    alternatives: list[Spoken] | None = None
    error: Failed | None = None


class Answer(BaseModel):
    """One result for each photo, in their order."""

    model: str
    results: list[Result]


class Problem(BaseModel):
    """Why there is no answer."""

    status: int
    message: str


class Problems(BaseModel):
    """An error as all of ours are."""

    error: Problem


def error_body(status: int, message: str) -> dict[str, Any]:
    """An error as our own clients read it."""
    return {"error": {"status": status, "message": message}}


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """How a route can end otherwise, for the OpenAPI document."""
    return {status: {"model": Problems} for status in statuses}


def router(
    service: Service, options: "ServeOptions", agents: dict[str, Any] | None = None
) -> APIRouter:
    """The routes.

    Args:
        service: gives the captions.
        options: the limits that clients are told.
        agents: what is known of the agents' view.
    """
    routes = APIRouter(tags=["naic"])

    @routes.post(
        "/v1/caption",
        summary="Captions of photos",
        response_model=Answer,
        responses=refusals(401, 403, 408, 413, 415, 421, 429, 503)
        | {422: {"model": Answer | Problems, "description": "No photo could be used"}},
        openapi_extra={"requestBody": _request_body()},
    )
    async def caption(request: Request) -> Json:
        photos, asked = await _asked(request, options.max_images)
        results = await _captioned(service, photos, asked)
        worked = any("caption" in result for result in results)
        return Json({"model": service.model, "results": results}, 200 if worked else 422)

    @routes.get("/v1/info", summary="The model and the server's limits")
    async def info() -> dict[str, Any]:
        return _info(service, options, agents)

    return routes


def _info(
    service: Service, options: "ServeOptions", agents: dict[str, Any] | None
) -> dict[str, Any]:
    captioner = service.captioner
    engine = captioner.engine
    return {
        "model": service.model,
        "version": __version__,
        "loaded": service.loaded,
        "runtime": engine.runtime,
        "device": str(engine.device),
        "precision": engine.precision,
        "vocabulary": len(captioner.vocabulary),
        "calibrated": captioner.calibration is not None,
        "limits": {
            "images": options.max_images,
            "body": options.body_bytes,
            "pixels": options.image_pixels,
            "alternatives": 100,
        },
        "agents": agents,
    }


async def _asked(request: Request, max_images: int) -> tuple[list[Upload | ImageError], Asked]:
    """The photos of a request, of which some may be none, and what it wants of them."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == FORM:
        async with form_of(request, max_images) as form:
            given = {name: value for name, value in form.multi_items() if name != "files"}
            return [*await photos_of(form)], _valid(Options, given).asked()
    if kind != "application/json":
        raise Refused(415, "the request", f"{kind or 'nothing'!r} is not {_KINDS}", _HINT)
    try:
        parsed = json.loads(await request.body())
    except (ValueError, RecursionError) as error:
        raise Refused(422, "the request", f"it is no JSON ({error})", _HINT) from error
    body = _valid(Body, parsed)
    texts = [*([] if body.image is None else [body.image]), *body.images]
    if not texts:
        raise Refused(422, "the request", "it has no image", _HINT)
    if body.names and len(body.names) != len(texts):
        why = f"{len(body.names)} names are not one for each of {len(texts)} images"
        raise Refused(422, "names", why, "Give as many, or none.")
    names = body.names or [f"image {number}" for number in range(1, len(texts) + 1)]
    return [_upload(text, name) for text, name in zip(texts, names, strict=True)], body.asked()


def _upload(text: str, name: str) -> Upload | ImageError:
    try:
        return as_upload(text, name)
    except ImageError as error:
        return error


def _valid(kind: type[M], given: object) -> M:
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        raise RequestValidationError(error.errors()) from error


async def _captioned(
    service: Service, photos: Sequence[Upload | ImageError], asked: Asked
) -> list[dict[str, Any]]:
    """A result for each of the photos; what is none does not hinder the others."""
    good = [photo for photo in photos if isinstance(photo, Upload)]
    said = iter(await service.caption(good, asked) if good else ())
    results = []
    for photo in photos:
        outcome = next(said) if isinstance(photo, Upload) else photo
        name = printable(photo.name if isinstance(photo, Upload) else photo.what)
        if isinstance(outcome, ImageError):
            told = {"what": outcome.what, "why": outcome.why, "hint": outcome.hint}
            results.append({"name": name, "error": told})
        else:
            results.append({"name": name, **result_of(outcome)})
    return results


def result_of(caption: "Caption") -> dict[str, Any]:
    """A caption in JSON."""
    return {
        "caption": caption.text,
        "confidence": caption.confidence,
        "calibrated": caption.calibrated,
        "probability": caption.probability,
        "words": [
            {
                "text": word.text,
                "confidence": word.confidence,
                "alternatives": [{"text": t, "confidence": c} for t, c in word.alternatives],
            }
            for word in caption.words
        ],
        "alternatives": [
            {"text": other.text, "confidence": other.confidence} for other in caption.alternatives
        ],
    }


def _request_body() -> dict[str, Any]:
    """Of `/v1/caption`, which is a form or JSON: FastAPI knows of one at a time."""
    form = Options.model_json_schema()
    files = {"type": "array", "minItems": 1, "items": {"type": "string", "format": "binary"}}
    form["properties"] = {"files": files, **form["properties"]}
    form["required"] = ["files"]
    kinds = {FORM: {"schema": form}, "application/json": {"schema": Body.model_json_schema()}}
    return {"required": True, "content": kinds}
