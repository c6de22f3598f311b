"""Requests that are nearly right: photos, forms and JSON with some of their bytes changed.

Each is made from a number alone, so one that does harm can be made again.
"""

import base64
import io
import json
import random
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache

import httpx
import numpy as np
from PIL import Image

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "TIFF")
KINDS = ("photo", "form", "json")
BOUNDARY = b"a-boundary"
PATHS = {
    "/v1/caption": {"image": ""},
    "/v1/chat/completions": {
        "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": ""}}]}]
    },
    "/v1/responses": {
        "input": [{"role": "user", "content": [{"type": "input_image", "image_url": ""}]}]
    },
    "/api/generate": {"prompt": "what is it?", "images": [""]},
    "/api/chat": {"messages": [{"role": "user", "content": "what is it?", "images": [""]}]},
    "/api/v1/vision/caption": {"id": "1", "images": [""]},
}


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent to a server, and which kind of mutation it is."""

    kind: str
    path: str
    content: bytes
    content_type: str


def mutated_request(number: int) -> Request:
    """The request of that number."""
    chance = random.Random(number)
    kind = KINDS[number % len(KINDS)]
    photo = drawn(chance.choice(FORMATS))
    if kind == "photo":
        form = f"multipart/form-data; boundary={BOUNDARY.decode()}"
        return Request(kind, "/v1/caption", form_of(mutated(photo, chance)), form)
    if kind == "form":
        head = b"multipart/form-data; boundary=" + BOUNDARY
        if chance.random() < 0.3:
            head = mutated(head, chance)
        before, _, after = form_of(photo).partition(photo)
        whole = mutated(before, chance, most=4) + photo + mutated(after, chance, most=2)
        return Request(kind, "/v1/caption", whole, as_header(head))
    path = chance.choice(sorted(PATHS))
    text = json.dumps(PATHS[path]).replace('""', json.dumps(as_text(photo, chance)), 1)
    return Request(kind, path, mutated(text.encode(), chance, most=3), "application/json")


def as_text(photo: bytes, chance: random.Random) -> str:
    """A photo in base64, half of the time as a data: URL."""
    text = base64.b64encode(photo).decode()
    return f"data:image/jpeg;base64,{text}" if chance.random() < 0.5 else text


def as_header(words: bytes) -> str:
    """What of it a header can carry."""
    return "".join(chr(byte) for byte in words if 32 < byte < 127 or byte == 32).strip()


def form_of(photo: bytes, name: bytes = b"photo.jpg") -> bytes:
    """A form with one file and one further field."""
    kind = b"content-disposition: form-data; name="
    parts = (
        kind + b'"alternatives"\r\n\r\n2',
        kind + b'"files"; filename="' + name + b'"\r\ncontent-type: image/jpeg\r\n\r\n' + photo,
    )
    body = b"".join(b"--" + BOUNDARY + b"\r\n" + part + b"\r\n" for part in parts)
    return body + b"--" + BOUNDARY + b"--\r\n"


@cache
def drawn(kind: str) -> bytes:
    """A small photo of noise, of that format."""
    pixels = np.random.default_rng(FORMATS.index(kind)).integers(0, 256, (24, 32, 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind)
    return out.getvalue()


def mutated(content: bytes, chance: random.Random, most: int = 6) -> bytes:
    """The bytes with one or several changes; sometimes none."""
    changed = bytearray(content)
    for _ in range(chance.randint(0, most)):
        at = chance.randrange(len(changed) + 1)
        if chance.random() < 0.5:  # where sizes and offsets stand
            at = min(at, chance.randrange(64))
        end = min(len(changed), at + chance.choice((1, 1, 2, 4, 64)))
        change: Callable[[bytearray], object] = chance.choice(_CHANGES)(at, end, chance)
        change(changed)
    return bytes(changed)


def _changes() -> tuple[Callable[[int, int, random.Random], Callable[[bytearray], object]], ...]:
    def put(at: int, end: int, new: bytes) -> Callable[[bytearray], object]:
        return lambda own: own.__setitem__(slice(at, end), new)

    return (
        lambda at, end, chance: put(at, end, chance.randbytes(end - at)),
        lambda at, end, chance: put(at, end, b"\xff" * (end - at)),
        lambda at, end, chance: put(at, end, bytes(end - at)),
        lambda at, end, chance: put(at, end, b""),
        lambda at, end, chance: put(at, at, chance.randbytes(chance.randint(1, 64))),
        lambda at, end, chance: put(at, at, chance.choice((b"\r\n", b'"', b"--", b"\x00", b"{[:"))),
        lambda at, end, chance: lambda own: own.extend(own[at:end]),
        lambda at, end, chance: (
            (lambda own: own.__delitem__(slice(at, None)))
            if chance.random() < 0.2
            else put(at, end, b"0")
        ),
    )


_CHANGES = _changes()


def send_all(address: str, numbers: Iterable[int], at_once: int = 4) -> Counter[tuple[str, int]]:
    """Send the requests of these numbers; how often each kind was answered with each status."""
    with httpx.Client(base_url=address, timeout=60) as client:

        def send(number: int) -> tuple[str, int]:
            one = mutated_request(number)
            kind = {"content-type": one.content_type}
            for _ in range(100):
                answer = client.post(one.path, content=one.content, headers=kind)
                if answer.status_code != 429:
                    break
            assert answer.status_code < 500, (number, answer.status_code, answer.text)
            for line in answer.text.splitlines():  # one, but for a stream
                json.loads(line.removeprefix("data: ").removesuffix("[DONE]") or "0")
            return one.kind, answer.status_code

        with ThreadPoolExecutor(at_once) as pool:
            return Counter(pool.map(send, numbers))
