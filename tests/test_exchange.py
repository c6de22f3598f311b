"""What benchmarks/nodes.py says of exchanged gradients; and its script, on one process, tiny."""

import argparse
import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from naic.train.config import settings_toml
from tests.train.runs import make_learnable_store, make_settings

NODES: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[1] / "benchmarks" / "nodes.py"))


def test_a_ring_passes_on_each_part_of_all_gradients_twice() -> None:
    """By playing it: n cards, n parts; each sends one part a turn, adding up, then handing on."""
    cards, parameters = 4, 1000
    exchange = NODES["on_paper"](parameters, cards)
    parts = [[{card} for _ in range(cards)] for card in range(cards)]  # whose gradients are in it
    sent = 0
    for turn in range(2 * (cards - 1)):
        moves = [((card - turn) % cards, card) for card in range(cards)]
        given = [{*parts[card][part]} for part, card in moves]
        for (part, card), content in zip(moves, given, strict=True):
            parts[(card + 1) % cards][part] |= content
        sent += 4 * parameters // cards
    assert all(part == {*range(cards)} for card in parts for part in card)
    assert exchange.gradient_bytes == 4000
    assert exchange.bytes_sent == sent
    assert exchange.milliseconds == {
        "NVLink, one machine": pytest.approx(sent / 450e6),
        "InfiniBand, eight machines": pytest.approx(sent / 50e6),
    }


def test_eight_cards_are_beside_the_steps_of_one() -> None:
    rows = {row["stage"]: row for row in NODES["eight_cards"]()}
    assert [*rows] == ["teacher_xe", "student_xe", "cmal"]
    for row in rows.values():
        alone, eight = row["images_per_second_of_one_card"], row["images_per_second"]
        assert alone < eight["InfiniBand, eight machines"] < eight["NVLink, one machine"]
        assert row["bytes_sent"] * 8 == 2 * 7 * row["gradient_bytes"]
    assert rows["cmal"]["step_ms_of_one_card"].keys() == {"compiled", "compiled, graph"}


def test_the_steps_of_one_process(tmp_path: Path) -> None:
    make_learnable_store(tmp_path / "store")
    config = tmp_path / "config.toml"
    config.write_text(settings_toml(make_settings(tmp_path / "store", tmp_path / "run")))
    out = tmp_path / "found.json"
    NODES["work"](argparse.Namespace(config=config, batch=4, steps=2, out=out))
    found = json.loads(out.read_text())
    assert found["step_seconds"] > 0
    assert (found["stage"], found["processes"]) == ("teacher_xe", 1)
    assert not (tmp_path / "run").exists()
