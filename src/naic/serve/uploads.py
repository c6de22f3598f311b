"""Photos of a form: kept in memory, however large, since the body has been limited already."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from naic.serve.service import Refused, Upload

if TYPE_CHECKING:
    from starlette.requests import Request

# What is wrong with a form is told to its sender: who looks after the server need not read it.
logging.getLogger("python_multipart").addHandler(logging.NullHandler())

FORM = "multipart/form-data"
_MOST_FIELDS = 32
_FIELD_BYTES = 1 << 20


class _InMemory(MultiPartParser):
    """Starlette's reader of forms, which would write files of a megabyte to a temporary disk."""

    spool_max_size = 1 << 62

    def close(self) -> None:
        """Let go of all files, also of those that were cut off, of which the form knows nothing."""
        for file in self._files_to_close_on_error:
            file.close()


@asynccontextmanager
async def form_of(request: "Request", max_files: int) -> AsyncIterator[FormData]:
    """The form of a request, to be read within.

    Raises:
        Refused: it is no form, or it has too many parts.
    """
    parser = _InMemory(
        request.headers,
        request.stream(),
        max_files=max_files,
        max_fields=_MOST_FIELDS,
        max_part_size=_FIELD_BYTES,
    )
    try:
        form = await parser.parse()
    except MultiPartException as error:
        status = 413 if "Too many" in error.message or "exceeded" in error.message else 422
        why = error.message.rstrip(".")
        hint = "Send it as a form's field: curl -F files=@photo.jpg"
        raise Refused(status, "the form", why, hint) from error
    try:
        yield form
    finally:
        parser.close()


async def photos_of(form: FormData, field: str = "files") -> list[Upload]:
    """The photos of a form's field.

    Raises:
        Refused: there are none, or the field has text.
    """
    found: list[Upload] = []
    for value in form.getlist(field):
        if not isinstance(value, UploadFile):
            hint = f"Send a file: curl -F {field}=@photo.jpg"
            raise Refused(422, f"the field {field}", "it is text, no file", hint)
        found.append(Upload(value.filename or f"image {len(found) + 1}", await value.read()))
    if not found:
        hint = f"Send at least one: curl -F {field}=@photo.jpg"
        raise Refused(422, f"the field {field}", "the form has no such file", hint)
    return found
