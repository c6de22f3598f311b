"""`/v1/agents`: the words of all agents, where they looked, and a teacher beside them."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from naic.cli.main import main
from naic.errors import CheckpointError, ConfigError, NaicError, StoreError
from tests.images.images import encode
from tests.images.images import photo as drawn
from tests.runtime.small import LENGTH, PIXELS
from tests.runtime.without import run_without_torch
from tests.serve.real import make_home, served

PHOTO = encode(drawn(70, 50), "PNG")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def client(home: Path) -> Iterator[httpx.Client]:
    teacher = home / "teacher"
    with served(model=home / "model", runtime="eager", teacher=teacher, forbid="dogs") as client:
        yield client


def ask(client: httpx.Client, path: str = "/v1/agents", **form: str) -> Any:
    answer = client.post(path, files={"files": ("a.png", PHOTO)}, data=form)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_result_is_that_of_captions(client: httpx.Client) -> None:
    wishes: list[dict[str, str]] = [
        {},
        {"alternatives": "3", "max_words": "2"},
        {"forbid": "cat", "neutral": "true"},
        {"prefer": "sofa"},
    ]
    for form in wishes:
        [wanted] = ask(client, "/v1/caption", **form)["results"]
        told = ask(client, **form)
        assert told["result"] == wanted
        assert told["model"] == "model"
        encoded = base64.b64encode(PHOTO).decode()
        body = {"image": encoded, "names": ["a.png"], **form, "neutral": "neutral" in form}
        again = client.post("/v1/agents", json=body).json()
        assert {**again, "ms": 0} == {**told, "ms": 0}


def test_all_agents_tell_their_words(client: httpx.Client) -> None:
    told = ask(client)
    agents = told["agents"]
    assert len(agents) == LENGTH
    said = [agent["words"][agent["said"]]["text"] for agent in agents]
    assert told["end"] == (said.index(".") if "." in said else LENGTH)
    spoken = [word["text"] for word in told["result"]["words"]]
    assert said[: len(spoken)] == spoken
    for agent in agents:
        assert "dogs" not in [word["text"] for word in agent["words"]]  # the server's own wish
        assert 1 < len(agent["words"]) <= 10
    assert told["ms"] > 0
    assert told["teacher"] is None


def test_where_they_looked(client: httpx.Client) -> None:
    told = ask(client)
    side = PIXELS // 32
    assert told["grid"] == [side, side]
    assert told["frame"] == [0, 0, 1, 1]
    assert told["attention_why"] is None
    assert len(told["attention"]) == LENGTH
    for row in told["attention"]:
        assert len(row) == side * side
        assert sum(row) == pytest.approx(1)


def test_a_teacher_writes_beside_them(client: httpx.Client) -> None:
    teacher = ask(client, teacher="true")["teacher"]
    assert teacher["model"] == "teacher"
    times = [word["ms"] for word in teacher["words"]]
    assert times == sorted(times)
    assert teacher["ms"] == times[-1]
    assert teacher["agents_ms"] > 0
    words = [word["text"] for word in teacher["words"] if word["text"] != "."]
    assert len(words) == len(teacher["caption"].split())


def test_info_tells_of_it(client: httpx.Client) -> None:
    told = client.get("/v1/info").json()["agents"]
    why = told.pop("references_why")
    assert "--references STORE" in why
    assert told == {
        "length": LENGTH,
        "attention": True,
        "attention_why": None,
        "references": None,
        "teacher": "teacher",
    }
    answer = client.post(
        "/v1/advantage",
        json={"agents": [[{"text": "a", "confidence": 1}]], "said": [0], "references": ["a cat"]},
    )
    assert answer.status_code == 422
    assert why in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("sent", "status", "message"),
    [
        ({"files": [("files", PHOTO)] * 2}, 422, "it has 2 images"),
        ({"files": {"files": b"no image"}}, 422, "image"),
        ({"files": {"files": PHOTO}, "data": {"teacher": "maybe"}}, 422, "teacher"),
        ({"files": {"files": PHOTO}, "data": {"prefer": "a", "forbid": "a"}}, 422, "'a'"),
        ({"json": {}}, 422, "it has no image"),
        ({"json": {"image": "?"}}, 422, "not base64"),
        ({"json": {"image": "AAAA", "teachers": True}}, 422, "teachers"),
        ({"content": b"[" * 100_000, "headers": {"content-type": "application/json"}}, 422, "JSON"),
        ({"content": b"x"}, 415, "is not"),
    ],
)
def test_bad_requests_say_what_is_wrong(
    client: httpx.Client, sent: Any, status: int, message: str
) -> None:
    answer = client.post("/v1/agents", **sent)
    assert answer.status_code == status
    assert message in answer.json()["error"]["message"]


def test_the_document_tells_of_both_bodies(client: httpx.Client) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    body = paths["/v1/agents"]["post"]["requestBody"]["content"]
    assert "teacher" in body["multipart/form-data"]["schema"]["properties"]
    assert {"image", "teacher"} <= set(body["application/json"]["schema"]["properties"])
    kinds = paths["/v1/advantage"]["post"]["requestBody"]["content"]
    chance = kinds["application/json"]["schema"]["properties"]["agents"]["items"]["items"]
    assert set(chance["properties"]) == {"text", "confidence"}


def test_a_model_that_writes_word_by_word_has_none(home: Path) -> None:
    with served(model=home / "causal", runtime="eager") as client:
        assert client.get("/v1/info").json()["agents"] is None
        answer = client.post("/v1/agents", files={"files": PHOTO})
        assert answer.status_code == 422
        assert "word by word" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"teacher": "model"}, ConfigError, "does not write word by word"),
        ({"teacher": "nobody"}, CheckpointError, "there is no such model"),
        ({"references": "model"}, StoreError, "there is no feature store"),
        ({"references": "nobody"}, StoreError, "there is no such folder"),
    ],
)
def test_what_cannot_be_loaded_ends_the_server(
    home: Path, options: dict[str, str], kind: type[NaicError], message: str
) -> None:
    named = {name: home / value for name, value in options.items()}
    with pytest.raises(kind, match=message), served(model=home / "model", **named):
        pass


_LIGHT = """
from pathlib import Path
from tests.serve.real import served
from tests.images.images import encode, photo
from naic.errors import MissingExtraError
model, store = map(Path, sys.argv[1:])
with served(model=model) as client:
    info = client.get("/v1/info").json()
    told = client.post("/v1/agents", files={"files": encode(photo(70, 50), "PNG")}).json()
    print(info["runtime"], info["agents"]["attention"], told["attention"], len(told["agents"]))
    print(told["attention_why"])
for option in ({"references": store}, {"teacher": store}):
    try:
        with served(model=model, **option):
            print("it runs")
    except MissingExtraError as error:
        print(error)
print("torch" in sys.modules)
"""


def test_without_torch_all_else_is_there(home: Path) -> None:
    assert main(["export", str(home / "model"), "--out", str(home / "graph")]) == 0
    done = run_without_torch(_LIGHT, str(home / "graph"), str(home / "store"))
    lines = done.stdout.splitlines()
    assert lines[:2] == [
        f"onnx False None {LENGTH}",
        "where words looked takes --runtime eager; this server runs onnx",
    ], done.stderr
    assert lines[2].startswith("torch: is not installed, and --references needs it")
    assert lines[3].startswith("torch: is not installed, and --teacher is run by it")
    assert lines[4] == "False"
