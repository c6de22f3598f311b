"""A server for the page: real doors, contracts and files over captions that are made up."""

import hashlib
import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import uvicorn
from fastapi import Request
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

from naic.errors import ImageError
from naic.runtime.sentences import Alternative, Caption, Word
from naic.serve.agents import NO_REFERENCES
from naic.serve.app import POLICY, error_body, make_routes
from naic.serve.doors import Doors
from naic.serve.options import ServeOptions
from naic.serve.pages import router
from naic.serve.run import listen
from naic.serve.service import PLAIN, Asked, Refused, Upload
from tests.serve.fake import FakeService

SENTENCES = (
    "a cat sitting on top of a table",
    "a cup of coffee on a red plate",
    "a motorcycle parked in a garage next to refrigerators",
    "a group of people standing around a large field with kites",
)
OTHERS = ("dog", "the", "laying", "in", "bed", "wooden", "white", "two", "with", "couch")
AGENTS, ROWS, COLUMNS = 16, 8, 8
NOT_KNOWN = "the graph of ONNX Runtime does not tell it; start the server with --runtime eager"
BUSY = b"busy"
"""A photo that ends with this is refused once because of a full queue."""


class PageService(FakeService):
    """Says something of each photo that depends on its bytes; what ends in BROKEN is none."""

    def __init__(self) -> None:
        super().__init__()
        self.seen_busy: set[bytes] = set()

    async def caption(
        self, photos: Sequence[Upload], asked: Asked = PLAIN
    ) -> list[Caption | ImageError]:
        """As a model would."""
        for photo in photos:
            if photo.content.endswith(BUSY) and photo.content not in self.seen_busy:
                self.seen_busy.add(photo.content)
                why = "4 of at most 4 images wait already"
                raise Refused(429, "the queue", why, "Try again later.", 1)
        self.requests.append((list(photos), asked))
        return [_caption(photo) for photo in photos]


def sentence(content: bytes) -> str:
    """What is said of a photo."""
    return SENTENCES[hashlib.sha256(content).digest()[0] % len(SENTENCES)]


def _caption(photo: Upload) -> Caption | ImageError:
    if b"\x89PNG" not in photo.content[:8] and b"\xff\xd8" not in photo.content[:3]:
        return ImageError(photo.name, "it is not an image", "Send another one.")
    text = sentence(photo.content)
    words = tuple(Word(word, 0.7, ((word, 0.7), ("dog", 0.2))) for word in text.split())
    others = tuple(Alternative(t, 0.1 / n) for n, t in enumerate((text, *SENTENCES[:2]), 1))
    return Caption(text, words, 0.62, others, 0.1, calibrated=True)


def agents_of(text: str) -> dict[str, Any]:
    """`/v1/agents` of a photo of which this is said."""
    said = [*text.split(), ".", *["."] * AGENTS][:AGENTS]
    agents: list[dict[str, Any]] = []
    attention: list[list[float]] = []
    for n, word in enumerate(said):
        others = [other for other in (*OTHERS[n % 10 :], *OTHERS[: n % 10]) if other != word][:8]
        sure = 0.35 + 0.6 * abs(math.cos(n))
        shares = [sure, *((1 - sure) * 0.5 ** (k + 1) for k in range(len(others)))]
        texts = [word, *others]
        words = [{"text": t, "confidence": c} for t, c in zip(texts, shares, strict=True)]
        agents.append({"words": words, "said": 0})
        attention.append(attention_of(n))
    words = [
        {"text": own["words"][0]["text"], "confidence": own["words"][0]["confidence"],
         "alternatives": own["words"]}
        for own in agents[: len(text.split())]
    ]  # fmt: skip
    alternatives = [{"text": text, "confidence": 0.1}]
    result = {"name": "photo", "caption": text, "confidence": 0.62, "calibrated": True}
    result |= {"probability": 0.1, "words": words, "alternatives": alternatives}
    return {
        "model": "naic",
        "result": result,
        "agents": agents,
        "end": len(text.split()),
        "grid": [ROWS, COLUMNS],
        "frame": [0.0, 0.0, 1.0, 1.0],
        "attention": attention,
        "attention_why": None,
        "ms": 8.25,
        "teacher": None,
    }


def attention_of(n: int) -> list[float]:
    """Attention of agent n: a spot, which each agent has elsewhere."""
    rows, columns = np.mgrid[:ROWS, :COLUMNS]
    down, right = (3 * n) % ROWS, (5 * n + 1) % COLUMNS
    spot = np.exp(-((rows - down) ** 2 + (columns - right) ** 2) / 3).ravel() + 0.01
    return [float(share) for share in spot / spot.sum()]


def _teacher(text: str) -> dict[str, Any]:
    said = text.replace("a ", "the ", 1)
    words = [{"text": w, "ms": 21.0 * n} for n, w in enumerate(said.split(), 1)]
    return {"model": "teacher", "caption": said, "words": words, "ms": 21.0 * (len(words) + 1),
            "agents_ms": 8.25}  # fmt: skip


def advantage_of(body: dict[str, Any]) -> dict[str, Any]:
    """`/v1/advantage`: twice the words of the first reference that are there."""
    reference = body["references"][0].split()

    def read(said: list[str]) -> tuple[float, str]:
        end = said.index(".") if "." in said else len(said)
        return sum(word in said[:end] for word in reference) * 2.0, " ".join(said[:end])

    chosen = [own[n]["text"] for own, n in zip(body["agents"], body["said"], strict=True)]
    reward, text = read(chosen)
    agents = []
    for n, own in enumerate(body["agents"]):
        top = own[: body["topk"]]
        whole = sum(word["confidence"] for word in top)
        outcomes = []
        for word in top:
            other, told = read([*chosen[:n], word["text"], *chosen[n + 1 :]])
            share = word["confidence"] / whole
            outcomes.append(
                {"text": word["text"], "share": share, "reward": other, "sentence": told}
            )
        advantage = sum(o["share"] * (reward - o["reward"]) for o in outcomes)
        agents.append({"advantage": advantage, "outcomes": outcomes})
    unknown = [word for word in reference if word == "zyzzyva"]
    return {"reward": reward, "sentence": text, "agents": agents, "unknown": unknown}


class StandIn:
    """The routes of the agents' view, and what was asked of them."""

    def __init__(
        self, service: PageService, *, attention: bool = True, judged: bool = True
    ) -> None:
        self.service, self.attention, self.judged = service, attention, judged
        self.asked: list[dict[str, Any]] = []

    async def info(self, request: Request) -> JSONResponse:
        agents = {
            "length": AGENTS,
            "attention": self.attention,
            "attention_why": None if self.attention else NOT_KNOWN,
            "references": "flickr8k-train" if self.judged else None,
            "references_why": None if self.judged else NO_REFERENCES,
            "teacher": "teacher" if self.judged else None,
        }
        limits = {"images": 32, "body": 2_000_000, "pixels": 10**8, "alternatives": 100}
        about = {"model": "naic", "version": "1", "runtime": "eager", "device": "cpu"}
        return JSONResponse(about | {"precision": "float32", "limits": limits, "agents": agents})

    async def agents(self, request: Request) -> JSONResponse:
        async with request.form() as form:
            content = await form["files"].read()  # type: ignore[union-attr]
            self.asked.append({"agents": len(content), "teacher": form.get("teacher")})
            told = agents_of(sentence(content))
            if form.get("teacher") == "true":
                told["teacher"] = _teacher(told["result"]["caption"])
        if not self.attention:
            told |= {"grid": None, "frame": None, "attention": None, "attention_why": NOT_KNOWN}
        return JSONResponse(told)

    async def advantage(self, request: Request) -> JSONResponse:
        body = await request.json()
        self.asked.append(body)
        return JSONResponse(advantage_of(body))

    def routes(self) -> list[Route]:
        return [
            Route("/v1/info", self.info),
            Route("/v1/agents", self.agents, methods=["POST"]),
            Route("/v1/advantage", self.advantage, methods=["POST"]),
        ]


@contextmanager
def page_served(token: str = "", **more: bool) -> Iterator[tuple[str, StandIn]]:
    """The address of such a server, and what it hears."""
    options = ServeOptions(port=0, token=token)
    service = PageService()
    stand_in = StandIn(service, **more)
    contracts = make_routes(service, options)
    contracts.include_router(router(POLICY))
    app = Starlette(routes=[*stand_in.routes(), Mount("/", contracts)])
    with listen(options) as listening:
        host, port = listening.getsockname()[:2]
        config = uvicorn.Config(Doors(app, options, error_body), log_config=None, lifespan="off")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://{host}:{port}/", stand_in
        finally:
            server.should_exit = True
            thread.join(10)
