"""naic's own contract: `POST /v1/caption` and `GET /v1/info`."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

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
Wanted = TypeVar("Wanted", bound="Options")
PATHS = ("/v1",)
MOST_SENTENCES = 100
_KINDS = f"{FORM} or application/json"
_HINT = 'curl -F files=@photo.jpg, or JSON: {"image": BASE64}'

# Bounded: they are looked at before a photo waits, and requests of the same words are one batch.
Words = (
    Annotated[str, Field(max_length=10_000)]
    | Annotated[list[Annotated[str, Field(max_length=100)]], Field(max_length=1000)]
)


class Options(BaseModel):
    """What may be asked for beside the captions; what is left out is as the server has it."""

    model_config = ConfigDict(extra="forbid")

    alternatives: int = Field(0, ge=0, le=MOST_SENTENCES, description="whole sentences to give")
    max_words: int | None = Field(None, ge=1, description="cut longer captions")
    max_chars: int | None = Field(None, ge=1, description="cut longer captions")
    forbid: Words = Field("", description="words that are not said")
    prefer: Words = Field("", description="words that are said rather than others")
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


def router(service: Service, options: "ServeOptions") -> APIRouter:
    """The routes.

    Args:
        service: gives the captions.
        options: the limits that clients are told.
    """
    routes = APIRouter(tags=["naic"])

    @routes.post(
        "/v1/caption",
        summary="Captions of photos",
        response_model=Answer,
        responses=refusals(401, 403, 408, 413, 415, 421, 429, 503)
        | {422: {"model": Answer | Problems, "description": "No photo could be used"}},
        openapi_extra={"requestBody": request_body(Options, Body)},
    )
    async def caption(request: Request) -> Json:
        photos, given = await asked_of(request, options.max_images, Options, Body)
        results = await _captioned(service, photos, given.asked())
        worked = any("caption" in result for result in results)
        return Json({"model": service.model, "results": results}, 200 if worked else 422)

    @routes.get("/v1/info", summary="The model and the server's limits")
    async def info() -> dict[str, Any]:
        return _info(service, options)

    return routes


def _info(service: Service, options: "ServeOptions") -> dict[str, Any]:
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
        "style": None if captioner.style is None else captioner.style.describe(),
        "limits": {
            "images": options.max_images,
            "body": options.body_bytes,
            "pixels": options.image_pixels,
            "alternatives": options.rescore_choices if options.rescore else MOST_SENTENCES,
        },
        "agents": service.view.told(),
    }


async def asked_of(
    request: Request, max_images: int, options: type[Wanted], body: type[Body]
) -> tuple[list[Upload | ImageError], Wanted]:
    """The photos of a request, of which some may be none, and what it wants of them.

    Args:
        request: a form or JSON.
        max_images: of a form.
        options: what a form may ask for.
        body: what JSON may have: these options, too.
    """
    kind = content_type(request)
    if kind == FORM:
        async with form_of(request, max_images) as form:
            given = {name: value for name, value in form.multi_items() if name != "files"}
            return [*await photos_of(form)], valid(options, given)
    if kind != "application/json":
        raise Refused(415, "the request", f"{kind or 'nothing'!r} is not {_KINDS}", _HINT)
    wanted = await json_of(request, body, _HINT)
    texts = [*([] if wanted.image is None else [wanted.image]), *wanted.images]
    if not texts:
        raise Refused(422, "the request", "it has no image", _HINT)
    if wanted.names and len(wanted.names) != len(texts):
        why = f"{len(wanted.names)} names are not one for each of {len(texts)} images"
        raise Refused(422, "names", why, "Give as many, or none.")
    names = wanted.names or [f"image {number}" for number in range(1, len(texts) + 1)]
    photos = [_upload(text, name) for text, name in zip(texts, names, strict=True)]
    return photos, wanted  # type: ignore[return-value]  # a body has the options


def content_type(request: Request) -> str:
    """What the body is said to be, without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def json_of(request: Request, kind: type[M], hint: str) -> M:
    """The body of a request that is JSON.

    Raises:
        Refused: it is none; `hint` says what to send.
        RequestValidationError: it is not as it should be.
    """
    try:
        parsed = json.loads(await request.body())
    except (ValueError, RecursionError) as error:
        raise Refused(422, "the request", f"it is no JSON ({error})", hint) from error
    return valid(kind, parsed)


def _upload(text: str, name: str) -> Upload | ImageError:
    try:
        return as_upload(text, name)
    except ImageError as error:
        return error


def valid(kind: type[M], given: object) -> M:
    """What was given, as it should be."""
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


def request_body(options: type[Options], body: type[Body]) -> dict[str, Any]:
    """Of a form or JSON, for the OpenAPI document: FastAPI knows of one at a time."""
    form = options.model_json_schema()
    files = {"type": "array", "minItems": 1, "items": {"type": "string", "format": "binary"}}
    form["properties"] = {"files": files, **form["properties"]}
    form["required"] = ["files"]
    kinds = {FORM: {"schema": form}, "application/json": {"schema": body.model_json_schema()}}
    return {"required": True, "content": kinds}
