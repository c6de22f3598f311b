"""The page of `naic serve` in a real browser: captions, agents, keys, colours, and who may ask."""

import json
import re
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import skimage

from tests.chromium import drive, find_tools
from tests.serve.page_visits import (
    EVIL,
    TOKEN,
    Steps,
    agents,
    asking_for_a_token,
    captioning,
    keyboard,
    reference_of,
    said_of,
    without_attention,
)
from tests.serve.stand_in_page import (
    BUSY,
    COLUMNS,
    NOT_KNOWN,
    StandIn,
    advantage_of,
    agents_of,
    attention_of,
    page_served,
)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Three photos, one with a strange name, one that finds the queue full; and what is none."""
    folder = tmp_path_factory.mktemp("photos")
    data = Path(skimage.__file__).parent / "data"
    paths = {"cat": folder / "cat.png", "evil": folder / EVIL, "busy": folder / "busy.png"}
    for name, path in zip(("chelsea.png", "coffee.png", "rocket.jpg"), paths.values(), strict=True):
        shutil.copy(data / name, path)
    with paths["busy"].open("ab") as file:
        file.write(BUSY)
    paths |= {"text": folder / "notes.txt", "large": folder / "large.png"}
    paths["text"].write_text("no photo")
    paths["large"].write_bytes(paths["cat"].read_bytes() + bytes(2_000_000))
    return {name: str(path) for name, path in paths.items()}


@pytest.fixture(scope="module")
def seen(photos: dict[str, str]) -> tuple[dict[str, Any], StandIn]:
    """What each of the visits gave, by its name: texts and values in their order."""
    tools = find_tools()
    file = str(tools[0] / "axe-core" / "axe.min.js")
    axe: Steps = []
    for scheme, width in (("light", 1280), ("dark", 360)):
        axe += [["screen", None, width, scheme], ["axe", file]]
    axe += [["screen", None, 360, "light"]]
    with ExitStack() as stack:
        url, heard = stack.enter_context(page_served())
        locked, _ = stack.enter_context(page_served(TOKEN))
        plain, _ = stack.enter_context(page_served(attention=False, judged=False))
        visits = {
            "captions": (url, captioning(photos, axe)),
            "agents": (url, agents(photos, axe)),
            "keyboard": (url, keyboard(photos)),
            "token": (locked, asking_for_a_token(photos)),
            "plain": (plain, without_attention(photos, axe)),
        }
        listed = [{"url": url, "steps": steps} for url, steps in visits.values()]
        found = drive(tools, visits=listed, patience=30_000)
    told: dict[str, Any] = {"requests": found["requests"], "console": found["console"]}
    told["addresses"] = (url, locked, plain)
    told["axe"] = {}
    for (name, (_, steps)), given in zip(visits.items(), found["steps"], strict=True):
        pairs = list(zip((what for what, *_ in steps), given, strict=True))
        told["axe"][name] = [found for what, found in pairs if what == "axe"]
        told[name] = [found for what, found in pairs if what in ("texts", "value")]
    return told, heard


def test_captions_come_for_what_is_chosen_dropped_and_pasted(
    seen: tuple[dict[str, Any], StandIn], photos: dict[str, str]
) -> None:
    said, names, hacked, came, more, wider = seen[0]["captions"]
    expected = [said_of(photos[name]) for name in ("cat", "evil", "busy")]
    assert said == [
        *expected,
        "No caption. It is not an image. Send another one.",
        "No caption. The file is larger than the 2 MB that this server takes.",
    ]
    assert names == ["cat.png", EVIL, "busy.png", "notes.txt", "large.png"]
    assert hacked == "undefined"
    assert came == [0, 1]  # text and a picture: no photo where text is written
    assert more == ["dropped.png", "dropped.png", *names[:3]]
    assert wider <= 0


def test_the_full_queue_was_waited_for(seen: tuple[dict[str, Any], StandIn]) -> None:
    assert len(seen[1].service.seen_busy) == 1


def test_the_lattice_and_where_words_looked(
    seen: tuple[dict[str, Any], StandIn], photos: dict[str, str]
) -> None:
    words, silent, veil, told, marked, looked, *_ = seen[0]["agents"]
    text = said_of(photos["cat"])
    assert words[: len(text.split()) + 1] == [*text.split(), "end"]
    assert silent[0] == str(len(text.split()) + 2)
    brightest = max(range(len(veil)), key=lambda cell: attention_of(1)[cell])
    assert veil[brightest] == 0 == min(veil)
    assert max(veil) > 150
    assert re.fullmatch(r"Agent 2, “\w+”, looked mostly at the .+ \(\d+\xa0%\)\.", told[0])
    shares = {
        n: attention_of(n)[1]
        for n in range(len(text.split()))
        if attention_of(n)[1] > 2 / COLUMNS**2
    }
    assert marked == [str(n + 1) for n in shares]
    first = text.split()[max(shares, key=lambda n: shares[n])]
    assert looked[0].startswith(f"Here looked: {first} ")


def test_advantages_follow_references_and_words(
    seen: tuple[dict[str, Any], StandIn], photos: dict[str, str]
) -> None:
    bars, reward, cells, later, caption, back = seen[0]["agents"][6:12]
    agents = agents_of(said_of(photos["cat"]))["agents"]
    body: dict[str, Any] = {"agents": [own["words"] for own in agents]}
    body |= {"said": [0] * len(agents)}
    body |= {"references": [reference_of(photos["cat"])], "topk": 2}
    asked = [own for own in seen[1].asked if "references" in own]
    assert json.dumps(asked[0]) == json.dumps(body)
    first, second = advantage_of(body), advantage_of({**body, "said": [0, 1, *body["said"][2:]]})
    for shown, counted in ((bars, first), (later, second)):
        worth = [own["advantage"] for own in counted["agents"]][: len(shown)]
        most = max(0.02, *(abs(value) for value in worth))
        assert any(abs(value) > 0.1 for value in worth)
        for (text, height), value in zip(shown, worth, strict=True):
            assert float(text.replace("−", "-")) == pytest.approx(value, abs=0.006)
            assert float(height.strip("%")) == pytest.approx(50 * abs(value) / most, abs=0.01)
    assert reward[0].startswith(f"Reward {first['reward']:.2f}: “{first['sentence']}”")
    assert "Not in the vocabulary: zyzzyva." in reward[0]
    outcomes = first["agents"][1]["outcomes"]
    assert [cells[0], cells[4]] == [own["text"] for own in outcomes]
    assert [cells[3], cells[7]] == [own["sentence"] for own in outcomes]
    assert caption == [second["sentence"]]
    assert back == [first["sentence"]]


def test_the_teacher_is_on_the_same_axis(
    seen: tuple[dict[str, Any], StandIn], photos: dict[str, str]
) -> None:
    moving, marks, buttons, wider, hacked = seen[0]["agents"][12:]
    text = said_of(photos["cat"])
    taught = text.replace("a ", "the ", 1).split()
    assert marks == [
        f"{text} 8.3 ms",
        *(f"{word} {21 * n} ms" for n, word in enumerate(taught, 1)),
    ]
    assert moving >= 2 * len(marks)  # each has a line, which grows, and a text, which appears
    assert buttons == ["Play again"]
    assert [own["teacher"] for own in seen[1].asked if own.get("teacher")] == ["true"]
    assert wider <= 0
    assert hacked == "undefined"


def test_keys_do_it_all(seen: tuple[dict[str, Any], StandIn], photos: dict[str, str]) -> None:
    summary, link, right, corner, first, below, told, after, tried, caption, none, home = seen[0][
        "keyboard"
    ]
    words = said_of(photos["cat"]).split()
    other = agents_of(" ".join(words))["agents"][1]["words"][1]["text"]
    assert (summary, link) == ("Other captions", "#agents/1")
    assert (right, corner) == ("Row 1, column 2", f"Row 2, column {COLUMNS}")
    assert first.startswith("Copy") or first.startswith(words[0])
    assert below.startswith(other)
    assert after == below
    assert told[0].startswith(f"Agent 2, “{words[1]}”")
    assert tried[0] == told[0].replace(words[1], other)
    assert caption == [" ".join([words[0], other, *words[2:]])]
    assert none == [""]
    assert home.split()[0] in [w["text"] for w in agents_of(" ".join(words))["agents"][0]["words"]]


def test_the_page_asks_for_the_token(
    seen: tuple[dict[str, Any], StandIn], photos: dict[str, str]
) -> None:
    refused, said, kept = seen[0]["token"]
    assert refused == ["No caption. The server asks for a token."]
    assert (said, kept) == ([said_of(photos["cat"])], TOKEN)


def test_without_attention_and_references_it_says_why(
    seen: tuple[dict[str, Any], StandIn],
) -> None:
    told, later, worth, hidden, wider = seen[0]["plain"]
    assert told == later == [f"Where the agents looked is not known: {NOT_KNOWN}."]
    assert worth == [
        "Advantages take --references STORE, the features and captions of a training set."
    ]
    assert hidden is True
    assert wider <= 0


def test_axe_finds_nothing(seen: tuple[dict[str, Any], StandIn]) -> None:
    found = seen[0]["axe"]
    assert {name: len(runs) for name, runs in found.items() if runs} == {
        "captions": 4,
        "agents": 2,
        "plain": 4,
    }
    assert [violation for runs in found.values() for run in runs for violation in run] == []


def test_nothing_is_asked_for_elsewhere(seen: tuple[dict[str, Any], StandIn]) -> None:
    own = (*seen[0]["addresses"], "blob:", "data:")
    assert [address for address in seen[0]["requests"] if not address.startswith(own)] == []
    assert all("status of 4" in text for text in seen[0]["console"]), seen[0]["console"]
