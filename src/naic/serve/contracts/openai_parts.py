"""What chats and responses of OpenAI's interface have in common: messages in, texts out."""

import json
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from fastapi import Response
from pydantic import BaseModel

from naic.serve.reading import UNPROCESSABLE, as_uploads, captions_of
from naic.serve.service import Asked, Refused, Service

if TYPE_CHECKING:
    from naic.runtime.sentences import Caption

# Words; no caption has as many. Larger limits change nothing, and requests that ask for the same
# are captioned in one batch.
LONGEST = 64
_IMAGES = ("image_url", "input_image")


class Address(BaseModel):
    """Where a chat has the data URL of an image."""

    url: str


class Part(BaseModel):
    """A part of a message: a text, which is not read, or an image."""

    type: str
    image_url: Address | str | None = None

    def image(self) -> str | None:
        """The data URL, if this is an image.

        Raises:
            Refused: it is an image that is not sent along.
        """
        if self.type not in _IMAGES:
            return None
        if self.image_url is None:
            why = "it has no image_url; no files are kept here that it could name"
            raise Refused(UNPROCESSABLE, f"the {self.type}", why, "Send it as a data URL.")
        return self.image_url if isinstance(self.image_url, str) else self.image_url.url


class Message(BaseModel):
    """One message of a conversation."""

    role: str | None = None
    content: str | list[Part] | None = None

    def images(self) -> list[str]:
        """The images that a user sent with it."""
        if self.role != "user" or not isinstance(self.content, list):
            return []
        return [image for part in self.content if (image := part.image()) is not None]


class Said(NamedTuple):
    """What is answered.

    Attributes:
        texts: one for each choice; a line for each image.
        tokens: how many went in and out. An image is one, and so is a word.
    """

    texts: list[str]
    tokens: tuple[int, int]


def images_of(messages: Sequence[Message]) -> list[str]:
    """Those of the last message that has any: who asks again means the same images."""
    found = (message.images() for message in reversed(messages))
    return next((images for images in found if images), [])


async def say(
    service: Service, images: Sequence[str], number: int | None, limit: int | None
) -> Said:
    """The captions of the images, as one text, or as `number` texts.

    Raises:
        ImageError: one of them cannot be used.
        Refused: as `Service.caption`, or there is no image.
        ConfigError: as `Service.caption`.
    """
    photos = as_uploads(images)
    number = number or 1
    captions = await captions_of(service, photos, _asked(number, limit))
    texts = _texts(captions, number)
    return Said(texts, (len(photos), sum(len(text.split()) for text in texts)))


def _asked(number: int, limit: int | None) -> Asked:
    alternatives = number if number > 1 else 0
    if limit is None or limit >= LONGEST:
        return Asked(alternatives)
    return Asked(alternatives, {"max_words": limit})


def _texts(captions: "Sequence[Caption]", number: int) -> list[str]:
    """Of a caption with fewer alternatives there are fewer texts."""
    if number == 1:
        return ["\n".join(caption.text for caption in captions)]
    sentences = [[other.text for other in caption.alternatives[:number]] for caption in captions]
    return ["\n".join(line) for line in zip(*sentences, strict=False)]


def new_id(kind: str) -> str:
    """A name for an answer, as OpenAI gives them."""
    return f"{kind}{uuid4().hex}"


def now() -> int:
    """Seconds since 1970."""
    return int(time.time())


def events(blocks: Iterable[tuple[str, dict[str, Any] | str]]) -> Response:
    """Server-sent events, each with its name, if it has one.

    The caption is known when they begin, so they are all sent at once: what fails has its status
    before, and no stream breaks off.
    """
    lines = []
    for name, data in blocks:
        lines += [f"event: {name}\n"] * bool(name)
        text = data if isinstance(data, str) else json.dumps(data, separators=(",", ":"))
        lines.append(f"data: {text}\n\n")
    headers = {"Cache-Control": "no-cache"}
    return Response("".join(lines), media_type="text/event-stream", headers=headers)
