"""The card of the model that ships: made from what was measured, and from nothing else."""

from pathlib import Path
from typing import Any

from benchmarks.ship import (
    GRAPHS,
    LARGEST,
    LARGEST_GRAPHS,
    METRICS,
    SHIPPED,
    TEMPLATE,
    card,
    scores_table,
)

from naic.runtime.calibration import read_calibration

SPEED = {"one": "71", "many": "53"}


def scores(cider: float = 1.05) -> dict[str, Any]:
    return {
        **dict.fromkeys(METRICS, 0.5),
        "CIDEr": cider,
        "SPICE": None,
        "intervals": {"CIDEr": [cider - 0.02, cider + 0.02]},
        "habits": {"captions": {"repeats": 0.0123, "bad_endings": 0.0045, "vocabulary": 1234}},
        "signature": {"images": 4392},
        "source": {"split": ["val"]},
    }


def test_a_row_for_each_evaluation() -> None:
    table = scores_table([scores(), scores(1.1)]).splitlines()
    assert len(table) == 4
    assert "| val | 4392 | 50.0 |" in table[2]
    assert "| 105.0 | – | 103.0 to 107.0 | 1.23 | 0.45 | 1,234 |" in table[2]
    assert "| 110.0 |" in table[3]
    assert {line.count("|") for line in table} == {len(METRICS) + 7}


def test_the_card_has_all_that_the_template_asks_for(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# parallel captioner\n\nA student.\n\n## Packing\n\nx\n")
    (tmp_path / "model.safetensors").write_bytes(bytes(12_340_000))
    text = card(tmp_path, [scores()], SPEED, "A note.")
    assert "$" not in text
    for part in ("A note.", "12.3 MB", "71 ms", "53 ms", "A student.", "### Packing", "CC BY 4.0"):
        assert part in text
    assert "# parallel captioner" not in text
    for part in ("about 1.3 above", "scored on `test` once"):
        assert part in text
    assert "close to" not in text
    assert "$scores" in TEMPLATE.read_text(encoding="utf-8")


def test_what_ships_is_whole_and_small() -> None:
    files = {path.name: path.stat().st_size for path in SHIPPED.iterdir()}
    assert set(files) == {
        *("README.md", "calibration.json", "config.toml", "model.safetensors", "vocab.json"),
        *GRAPHS,
    }
    assert read_calibration(SHIPPED) is not None
    assert sum(files.pop(name) for name in GRAPHS) <= LARGEST_GRAPHS
    assert sum(files.values()) <= LARGEST
    text = (SHIPPED / "README.md").read_text(encoding="utf-8")
    template = TEMPLATE.read_text(encoding="utf-8").splitlines()
    assert [line for line in template if "$" not in line and line not in text.splitlines()] == []
    for heading in ("## Scores", "## Speed and size", "## Data and terms", "## Limits"):
        assert heading in text
