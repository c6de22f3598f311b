"""The page says what two nodes did, and what has not been run."""

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "docs" / "results"
PAGE = runpy.run_path(str(RESULTS / "scale_nodes_page.py"))
two_nodes: Callable[[dict[str, Any] | None], str] = PAGE["two_nodes"]
exchange: Callable[[dict[str, Any] | None], str] = PAGE["exchange"]


def test_what_has_not_run_is_named_with_its_command() -> None:
    assert "`python benchmarks/two_nodes.py configs/shapes/teacher_xe.toml" in two_nodes(None)
    assert "`python benchmarks/nodes.py configs/shapes/teacher_xe.toml" in exchange(None)


def test_a_node_that_was_killed() -> None:
    same = {"weights_identical": True, "loss": 0.0, "gradient": 0.0}
    other = {"weights_identical": False, "loss": 2e-7, "gradient": 3e-4}
    text = two_nodes(
        {
            "command": "python benchmarks/two_nodes.py",
            "stage": "teacher_xe",
            "images": 1600,
            "batch": 24,
            "steps": 266,
            "steps_of_two": 151,
            "resumed_from_step": 133,
            "seconds_until_the_other_ended": 1.24,
            "exit_code": 1,
            "it_said": ["naic train: it is gone"],
            "deviation": {"nodes and parts": same, "parts and one": other},
            "cider": [1.25, 1.5],
            "curve": [[1, 6.25, 6.5]],
        }
    )
    assert "After 151 steps one node was killed" in text
    assert "1.2 s later with exit code 1" in text
    assert "> naic train: it is gone" in text
    assert "went on from step\n133." in text
    assert "| nodes and parts | yes | 0.0e+00 | 0.0e+00 |" in text
    assert "| parts and one | no | 2.0e-07 | 3.0e-04 |" in text
    assert "scenes: 125.00 of one process, 150.00 of the broken run" in text
    assert "| 1 | 6.250000 | 6.500000 |" in text


def test_the_cost_beside_one_process() -> None:
    card = {
        "stage": "cmal",
        "gradient_bytes": 200e6,
        "bytes_sent": 350e6,
        "milliseconds": {"NVLink": 0.78},
        "step_ms_of_one_card": {"compiled": 40.0},
        "images_per_second": {"NVLink": 50_000.0},
        "images_per_second_of_one_card": 9_000.0,
    }
    text = exchange(
        {
            "command": "python benchmarks/nodes.py",
            "cores": 2,
            "torch": "2.13.0",
            "stage": "teacher_xe",
            "parameters": 5_000_000,
            "gradient_bytes": 20_000_000,
            "batch": 48,
            "steps_per_second": {"one process": 4.0, "two processes": 3.0},
            "eight_cards": [card],
        }
    )
    assert "| two processes | 3.00 | 0.75 |" in text
    assert "20.0 MB of\ngradients" in text
    assert "| cmal | NVLink | 200 | 350 | 0.78 | 40.0 | 50,000 | 9,000 |" in text
