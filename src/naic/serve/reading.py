"""Photos out of the text of a JSON body, and their captions; knows nothing of HTTP.

A photo comes as base64, alone or in a `data:` URL. An address is never followed: a server that
fetches what it is told to can be sent to its own network, or to a file on its own disk.
"""

import base64
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from naic.errors import ImageError
from naic.files import printable
from naic.serve.service import PLAIN, Asked, Refused, Service, Upload

if TYPE_CHECKING:
    from naic.runtime.sentences import Caption

BAD_REQUEST = 400
UNPROCESSABLE = 422
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]{0,31}):", re.IGNORECASE)
_BLANKS = str.maketrans("", "", " \t\r\n")  # `base64` makes lines
_SEND = "Send the bytes of its file, as base64 or as a data URL (data:image/jpeg;base64,...)."


def as_upload(text: str, name: str) -> Upload:
    """The photo that is written as base64, or as a `data:` URL.

    Raises:
        Refused: it is the address of a photo.
        ImageError: it is no base64.
    """
    name = printable(name)
    scheme = _SCHEME.match(text.lstrip())
    if scheme is None:
        return Upload(name, _decoded(text, name))
    if scheme[1].lower() != "data":
        why = f"it is an address ({scheme[1].lower()}:), and URLs are never fetched"
        raise Refused(UNPROCESSABLE, name, why, _SEND)
    header, comma, data = text.partition(",")
    if not comma or not header.rstrip().lower().endswith(";base64"):
        raise ImageError(name, "it is a data URL without base64", _SEND)
    return Upload(name, _decoded(data, name))


def _decoded(text: str, name: str) -> bytes:
    """Strictly: what is left out in silence would be a photo that is cut short."""
    try:
        content = base64.b64decode(text.translate(_BLANKS), validate=True)
    except ValueError as error:
        raise ImageError(name, "it is not base64", _SEND) from error
    if not content:
        raise ImageError(name, "it is empty", _SEND)
    return content


def as_uploads(images: Sequence[str]) -> list[Upload]:
    """All photos of a request, called by their place in it.

    Raises:
        Refused: there is none, or one of them is an address.
        ImageError: one of them is no base64.
    """
    if not images:
        why = "it has no image, and a caption is all that this model can say"
        raise Refused(BAD_REQUEST, "the request", why, "Send an image with it.")
    return [as_upload(text, f"image {number}") for number, text in enumerate(images, 1)]


async def captions_of(
    service: Service, photos: Sequence[Upload], asked: Asked = PLAIN
) -> "list[Caption]":
    """The captions of all of the photos, for contracts that cannot tell of one that failed.

    Raises:
        ImageError: one of them cannot be used.
        Refused: as `Service.caption`.
        ConfigError: likewise.
    """
    captions = []
    for outcome in await service.caption(photos, asked):
        if isinstance(outcome, ImageError):
            raise outcome
        captions.append(outcome)
    return captions
