"""`/v1/advantage` against the code that trains with it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch

from naic.data.features import FeatureStore
from naic.decode.policy import choose, log_policy, spoken
from naic.errors import ConfigError, StoreError, WriteError
from naic.learn.cider import References, make_rewards
from naic.serve.advantage import Judge
from naic.serve.contracts.agents import AdvantageBody
from naic.serve.options import read_options
from naic.text import PERIOD
from naic.train import cmal_stage
from tests.data.stores import make_store
from tests.runtime.small import LENGTH, WORDS
from tests.serve.real import CAPTIONS, make_home, served
from tests.train.stage_cases import Policy, make_batch, make_tools

CLOSE = 1e-9


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def client(home: Path) -> Iterator[httpx.Client]:
    with served(model=home / "model", runtime="eager", references=home / "store") as client:
        yield client


@pytest.fixture(scope="module")
def judge(home: Path) -> Judge:
    return Judge(home / "store", WORDS)


@pytest.mark.parametrize("topk", [2, 5])
def test_it_is_what_cmal_learns_from(home: Path, client: httpx.Client, topk: int) -> None:
    """Sentences sampled of agents, some with the period early, some without one."""
    references = References.beside(FeatureStore(home / "store"), WORDS, ("train",))
    rewards = make_rewards(references, "cpu", form="torch")
    changing = 0
    for seed in range(2):
        model = Policy(LENGTH, len(WORDS), seed)
        tools = make_tools("cmal", model, rewards, cmal={"topk": topk, "samples": 3})
        batch = make_batch(len(CAPTIONS))
        policy = log_policy(model(batch.features, None)[:, 0]).detach()
        torch.manual_seed(seed)
        words = torch.stack([choose(policy) for _ in range(3)], 1)  # (B, S, N)
        judged = cmal_stage._judge(policy, words, batch, tools)
        for image, texts in enumerate(CAPTIONS):
            for sample in range(3):
                said = words[image, sample].tolist()
                agents, places = posted(policy[image], said)
                body = {"agents": agents, "said": places, "references": texts, "topk": topk}
                told = client.post("/v1/advantage", json=body).json()
                assert told["reward"] == pytest.approx(float(judged.reward[image, sample]), CLOSE)
                found = [agent["advantage"] for agent in told["agents"]]
                wanted = judged.advantage[image, sample].tolist()
                assert found == pytest.approx(wanted, rel=CLOSE, abs=CLOSE)
                heard = int(spoken(words[image, sample]).sum())
                assert found[heard:] == [0.0] * (LENGTH - heard)  # exactly
                changing += sum(value != 0 for value in found)
                assert told["sentence"] == WORDS.decode(said)
                check_outcomes(told, said, topk)
    assert changing > 25


def posted(policy: torch.Tensor, said: list[int]) -> tuple[list[list[dict[str, Any]]], list[int]]:
    """All words of agents (N, V) as the server is sent them, in any order."""
    agents, places = [], []
    for own, word in zip(policy.exp().tolist(), said, strict=True):
        ids = [id_ for id_ in range(len(WORDS)) if own[id_] > 0]
        np.random.default_rng(word).shuffle(ids)
        agents.append([{"text": WORDS.word(id_), "confidence": own[id_]} for id_ in ids])
        places.append(ids.index(word))
    return agents, places


def check_outcomes(told: dict[str, Any], said: list[int], topk: int) -> None:
    """An advantage is that of its outcomes, and these are sentences with one other word."""
    for number, agent in enumerate(told["agents"]):
        outcomes = agent["outcomes"]
        assert len(outcomes) == topk
        shares = [outcome["share"] for outcome in outcomes]
        assert sum(shares) == pytest.approx(1)
        assert shares == sorted(shares, reverse=True)
        worth = sum(o["share"] * (told["reward"] - o["reward"]) for o in outcomes)
        assert agent["advantage"] == pytest.approx(worth, rel=1e-6, abs=1e-12)
        for outcome in outcomes:
            changed = [*said[:number], WORDS.id(outcome["text"]), *said[number + 1 :]]
            assert outcome["sentence"] == WORDS.decode(changed)
            if outcome["sentence"] == told["sentence"] and PERIOD in said[: number + 1]:
                assert outcome["reward"] == told["reward"]


def agents_saying(sentence: str) -> list[list[tuple[str, float]]]:
    return [[(word, 0.9), (".", 0.1)] for word in sentence.split()]


def test_other_references_than_those_of_the_store(judge: Judge) -> None:
    agents = agents_saying("a black cat")
    near = judge(agents, [0, 0, 0], ["A black cat, on the RED zebra!", "zebra cats"], 2)
    assert near.unknown == ("zebra", "cats")
    assert near.reward > judge(agents, [0, 0, 0], ["two dogs"], 2).reward == 0
    assert near.sentence == "a black cat"
    assert [one.text for one in near.agents[1].outcomes] == ["black", "."]
    assert [one.sentence for one in near.agents[1].outcomes] == ["a black cat", "a"]


def test_agents_may_have_fewer_words_than_others(judge: Judge) -> None:
    agents = agents_saying("a black cat")
    few = [agents[0], agents[1][:1], agents[2]]
    told, whole = (judge(own, [0, 0, 0], CAPTIONS[0], 5) for own in (few, agents))
    assert [len(own.outcomes) for own in told.agents] == [2, 1, 2]
    assert told.agents[1].advantage == 0.0
    assert (told.agents[0], told.agents[2]) == (whole.agents[0], whole.agents[2])


def test_a_store_that_cannot_be_written_to(
    home: Path, judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise WriteError("store", "it cannot be written")

    monkeypatch.setattr(References, "beside", refuse)
    agents = agents_saying("the cat sits .")
    again = Judge(home / "store", WORDS)(agents, [0] * 4, CAPTIONS[3], 2)
    assert again == judge(agents, [0] * 4, CAPTIONS[3], 2)


def test_a_store_without_captions_to_learn_from_is_refused(tmp_path: Path) -> None:
    make_store(tmp_path / "silent", [[], []])
    make_store(tmp_path / "held", [["a cat"]], splits=["test"])
    for name in ("silent", "held"):
        with pytest.raises(ConfigError, match="has no captions of a split that is learnt from"):
            Judge(tmp_path / name, WORDS)
    (tmp_path / "held" / "records.jsonl").write_text("{")
    with pytest.raises(StoreError, match="cannot be read"):
        Judge(tmp_path / "held", WORDS)


def test_info_names_the_store(client: httpx.Client) -> None:
    told = client.get("/v1/info").json()["agents"]
    assert (told["references"], told["references_why"]) == ("store", None)


GOOD = {
    "agents": [[{"text": "a", "confidence": 0.5}], [{"text": "cat", "confidence": 1}]],
    "said": [0, 0],
    "references": ["a cat"],
}


def test_the_least_that_can_be_asked(client: httpx.Client) -> None:
    answer = client.post("/v1/advantage", json=GOOD)
    assert answer.status_code == 200
    told = answer.json()
    assert told["reward"] > 0
    assert [agent["advantage"] for agent in told["agents"]] == [0.0, 0.0]
    assert told["unknown"] == []


WORD = {"text": "a", "confidence": 0.5}
REST = b'"said":[0],"references":["a"]}'


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"said": [0]}, "1 places are not one for each of 2 agents"),
        ({"said": [0, 1]}, "agent 2 has 1 words, and no place 1"),
        ({"said": [0, -1]}, "said"),
        ({"said": [0, 10**30]}, "said"),
        ({"agents": []}, "agents"),
        ({"agents": [[], []]}, "agents"),
        ({"agents": [[WORD]] * 65, "said": [0] * 65}, "at most 64"),
        ({"agents": [[WORD] * 101], "said": [0]}, "at most 100"),
        ({"agents": [[{"text": "a", "confidence": 1.5}]], "said": [0]}, "confidence"),
        ({"agents": [[{"text": "a", "confidence": 0}]], "said": [0]}, "has a probability"),
        ({"agents": [[{"text": "zebra", "confidence": 1}]], "said": [0]}, "no word of the model"),
        ({"agents": [[{"text": "<pad>", "confidence": 1}]], "said": [0]}, "no word of the model"),
        ({"agents": [[{"text": "a" * 101, "confidence": 1}]], "said": [0]}, "100"),
        ({"references": []}, "references"),
        ({"references": ["a cat", " !"]}, "reference 2: it has no word"),
        ({"references": ["a"] * 21}, "at most 20"),
        ({"references": ["a" * 1001]}, "1000"),
        ({"references": "a cat"}, "references"),
        ({"topk": 0}, "topk"),
        ({"topk": 101}, "topk"),
        ({"more": 1}, "more"),
    ],
)
def test_bad_requests_say_what_is_wrong(
    client: httpx.Client, changed: dict[str, Any], message: str
) -> None:
    answer = client.post("/v1/advantage", json=GOOD | changed)
    assert answer.status_code == 422, answer.text
    assert message in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (
            b'{"agents":[[{"text":"a","confidence":NaN}]],"said":[0],"references":["a"]}',
            "json",
            422,
        ),
        (
            b'{"agents":[[{"text":"\\ud800","confidence":1}]],"said":[0],"references":["a"]}',
            "json",
            422,
        ),
        (b"[" * 100_000, "json", 422),
        (b"[]", "json", 422),
        (b"\xff", "json", 422),
        (b"{}", "xml", 415),
    ],
)
def test_what_is_no_such_body_is_refused(
    client: httpx.Client, content: bytes, kind: str, status: int
) -> None:
    headers = {"content-type": f"application/{kind}"}
    answer = client.post("/v1/advantage", content=content, headers=headers)
    assert answer.status_code == status, answer.text


def test_the_largest_request_is_answered(client: httpx.Client) -> None:
    words = [{"text": word, "confidence": 0.05} for word in WORDS.words[4:]]
    body = {"agents": [words] * 64, "said": [1] * 64, "references": ["a cat"] * 20, "topk": 100}
    assert client.post("/v1/advantage", json=body).status_code == 200


def test_what_the_page_tells_to_send_can_be_sent() -> None:
    page = (Path(__file__).parents[2] / "docs" / "serve-agents.md").read_text(encoding="utf-8")
    [sent] = re.findall(r"/v1/advantage -d '(.*?)'", page, re.DOTALL)
    body = AdvantageBody.model_validate_json(sent)
    assert len(body.said) == len(body.agents)
    commands = re.findall(r"^naic serve (.*)$", page, re.MULTILINE)
    options = [read_options(command.split(), "") for command in commands]
    assert [(o.runtime, o.references, o.teacher) for o in options] == [
        ("eager", None, None),
        ("auto", Path("features/coco"), None),
        ("auto", None, Path("runs/teacher/best")),
    ]
