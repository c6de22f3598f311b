"""`POST /v1/xmp`: a caption as the XMP file that `naic caption --write xmp` puts beside a photo.

A browser cannot write such files as naic does, and two writers of one format would come apart. The
file itself stays with the client: its text comes, and goes back.
"""

import asyncio
import contextlib
import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from naic.errors import DataError
from naic.files import printable
from naic.serve.batcher import late
from naic.serve.contracts.ours import refusals
from naic.serve.service import Refused
from naic.serve.threads import aside
from naic.tasks.caption.metadata.sidecar import PLACES, held, with_caption, with_persons_text
from naic.tasks.caption.metadata.writing import Marks
from naic.tasks.caption.metadata.xmp import markup

if TYPE_CHECKING:
    from naic.serve.options import ServeOptions

T = TypeVar("T")
_LONGEST = 10_000  # characters of a caption: programs that show photos cut far shorter ones
_MOST = 4_000_000  # characters of a file: what other programs keep there fills some megabytes
_MOST_MARKUP = 100_000  # tags and attributes of a file: each takes a while, its text does not
_SHOWN = 200  # characters of a name, in a message
# What XML 1.0 has no way to write, not even as an entity.
_NO_XML = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")


class Body(BaseModel):
    """A caption, and the file that it is for."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(max_length=_LONGEST, description="of the photo, for messages alone")
    caption: str = Field(min_length=1, max_length=_LONGEST)
    confidence: float | None = Field(
        None, ge=0, le=1, description="of the model; null: a person wrote or changed the caption"
    )
    existing: str | None = Field(
        None, max_length=_MOST, description="the XMP file that the photo has, as text"
    )


class Written(BaseModel):
    """The file as it is with the caption."""

    xmp: str = Field(description="where a person filled all fields, the file as it was")
    said: bool = Field(description="whether a field of it says the caption; if not, a person's do")


def router(options: "ServeOptions") -> APIRouter:
    """The route; no photo is needed, nor the model."""
    routes = APIRouter(tags=["naic"])
    marks = cache(lambda: Marks(options.captioning()))
    one = asyncio.Lock()  # at a time: captions have the other cores

    @routes.post(
        "/v1/xmp",
        summary="A caption as an XMP file",
        responses=refusals(401, 403, 408, 413, 421, 422, 429, 503),
    )
    async def xmp(body: Body) -> Written:
        # XML takes a while, and so do the model's files, which the first mark tells of.
        try:
            async with asyncio.timeout(options.timeout):
                return await _alone(one, lambda: written(body, marks))
        except TimeoutError:
            raise late(options.timeout) from None

    return routes


async def _alone(one: asyncio.Lock, work: Callable[[], T]) -> T:
    """What `work` gives, in a thread that has the lock until it ends, whoever waits for it."""
    loop = asyncio.get_running_loop()

    def let_go(_: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(one.release)

    await one.acquire()
    try:
        done = aside(work, "naic xmp")
    except BaseException:  # there is no room for one more thread
        one.release()
        raise
    done.add_done_callback(let_go)
    return await asyncio.wrap_future(done)


def written(body: Body, marks: Callable[[], Marks]) -> Written:
    """The XMP file with the caption; what a person wrote there stays.

    Raises:
        Refused: the caption is blank or cannot stand in XML, or the file cannot be used.
    """
    where = printable(body.name)[:_SHOWN] or "the photo"
    text = body.caption.strip()
    if not text:
        raise Refused(422, where, "its caption is blank", "Send one with words.")
    if found := _NO_XML.search(text):
        why = f"its caption has {found[0]!a}, which XML cannot hold"
        raise Refused(422, where, why, "Leave that character out.")
    if body.existing and markup(body.existing.encode()) > _MOST_MARKUP:
        why = f"its XMP file has more than {_MOST_MARKUP:,} tags and attributes"
        raise Refused(422, where, why, "Write it by naic caption --write xmp.")
    try:
        data = _put(body, text, marks, where)
        return Written(xmp=data.decode(), said=text in held(data, where).texts.values())
    except DataError as error:
        raise Refused(422, error.what, error.why, error.hint) from error


def _put(body: Body, text: str, marks: Callable[[], Marks], where: str) -> bytes:
    data = None if body.existing is None else body.existing.encode()
    if body.confidence is None:
        return with_persons_text(data, text, where)
    there, own = held(data, where), marks()
    same = there.mark is not None and there.mark.text == text
    if data is not None and there.done(PLACES, "skip", own.request if same else ""):
        return data
    places = there.open(PLACES, "skip")
    return with_caption(data, own.of(text, body.confidence), places, where)
