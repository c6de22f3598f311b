"""benchmarks/calibrate.py: how far confidences are from what is right, and what mends it."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import calibrate, right_captions
from benchmarks.calibrate import (
    Judged,
    calibration_error,
    compare,
    discrimination,
    error_by_chance,
    fit,
    measure,
)

from naic.metrics.meteor.data import Files, Lexicon
from naic.runtime.calibration import CALIBRATION, Calibration, read_calibration


def overconfident(count: int, slope: float = 0.5, intercept: float = -1.0) -> Judged:
    """Captions whose chances are known."""
    draw = np.random.default_rng(3)
    log_probs = np.log(draw.beta(3, 1, count))
    chances = np.array([Calibration(slope, intercept)(value) for value in log_probs.tolist()])
    return Judged(np.arange(count), log_probs, draw.random(count) < chances)


def test_the_map_is_found_again() -> None:
    found = fit(overconfident(40_000))
    assert found.slope == pytest.approx(0.5, abs=0.03)
    assert found.intercept == pytest.approx(-1.0, abs=0.05)


def test_no_other_map_is_likelier() -> None:
    captions = overconfident(500)

    def likelihood(slope: float, intercept: float) -> float:
        own = Calibration(slope, intercept)
        sure = np.array([own(value) for value in captions.log_probs.tolist()])
        return float(np.log(np.where(captions.right, sure, 1 - sure)).sum())

    best = fit(captions)
    most = likelihood(best.slope, best.intercept)
    for more, up in ((0.02, 0.0), (-0.02, 0.0), (0.0, 0.02), (0.0, -0.02)):
        assert likelihood(best.slope + more, best.intercept + up) < most


def test_errors_by_hand() -> None:
    sure = np.array([0.2, 0.4, 0.9, 0.9])
    right = np.array([False, True, True, False])
    halves = [np.array([0, 1]), np.array([2, 3])]
    assert calibration_error(sure, right, halves) == pytest.approx((0.2 + 0.4) / 2)
    found = measure(sure, right)
    assert found["ece"] == pytest.approx((0.2 + 0.6 + 0.1 + 0.9) / 4)  # a bin each
    assert found["ece_equal_width"] == pytest.approx((0.2 + 0.6 + 2 * 0.4) / 4)
    assert found["brier"] == pytest.approx((0.04 + 0.36 + 0.01 + 0.81) / 4)
    assert (found["above"], found["wrong_of_above"], found["above_of_wrong"]) == (0.5, 0.5, 0.5)
    assert sum(row["images"] for row in found["bins"]) == 4
    assert measure(np.array([0.1, 0.2]), right[:2])["wrong_of_above"] is None


def test_discrimination_counts_pairs() -> None:
    draw = np.random.default_rng(0)
    sure, right = np.round(draw.random(60), 1), draw.random(60) < 0.4
    pairs = [(a > b) + (a == b) / 2 for a in sure[right] for b in sure[~right]]
    assert discrimination(sure, right) == pytest.approx(np.mean(pairs))
    assert discrimination(-sure, right) == pytest.approx(1 - np.mean(pairs))
    assert math.isnan(discrimination(sure, np.ones(60, bool)))


def test_a_perfect_map_has_an_error_too() -> None:
    sure = np.full(1500, 0.5)
    assert 0.02 < error_by_chance(sure) < 0.06  # 15 bins of 100: 0.8 · sqrt(0.25 / 100)
    assert error_by_chance(np.repeat(sure, 100)) < 0.006


def test_each_half_is_measured_with_the_map_of_the_other() -> None:
    captions = overconfident(6000)
    maps = {name: fit(captions.half(name)) for name in ("even", "odd")}
    found = compare(captions, maps)["halves"]
    assert found["even"]["images"] == found["odd"]["images"] == 3000
    for half in found.values():
        assert half["before"]["ece"] > 0.2
        assert half["after"]["ece"] < 0.05
        assert half["after"]["discrimination"] == pytest.approx(half["before"]["discrimination"])
        assert half["after"]["brier"] < half["before"]["brier"]
    sure = {"even": Calibration(1e-9, 30.0), "odd": Calibration(1e-9, -30.0)}
    swapped = compare(captions, sure)["halves"]
    assert swapped["even"]["after"]["above"] == 0
    assert swapped["odd"]["after"]["above"] == 1


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Captions by people of 60 images, and a model's of the 40 of val: every third is nonsense."""
    lexicon = Lexicon(frozenset(), {}, {}, {})  # so that the data of METEOR is not needed
    monkeypatch.setattr(right_captions, "find_files", lambda: Files(Path(), Path()))
    monkeypatch.setattr(right_captions, "read_lexicon", lambda jar: lexicon)
    things = ("cat", "dog", "bus", "train", "horse", "kite")
    images, rows = [], []
    for number in range(60):
        thing, place = things[number % 6], f"place{number % 5}"
        text = f"a {thing} in the {place} with a man"
        split = ("train", "restval")[number % 2] if number < 20 else "val"
        sentences = [{"raw": own} for own in (text, f"one {text}", text)]
        name = {"filename": f"{number:012d}.jpg", "cocoid": number, "split": split}
        images.append(name | {"sentences": sentences})
        if split == "val":
            said = "a man with a man" if number % 3 == 0 else text
            sure = 0.95 - 0.01 * (number % 7) - 0.1 * (number % 3 == 0) * (number % 4)
            rows.append({"path": f"{number:012d}.jpg", "caption": said, "confidence": sure})
    (tmp_path / "said.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (tmp_path / "people.json").write_text(json.dumps({"images": images}))
    (tmp_path / "model").mkdir()
    return tmp_path


def words(home: Path, **over: Path) -> list[str]:
    said = over.get("said", home / "said.jsonl")
    return [
        *(str(home / "model"), "--captions", str(home / "people.json"), "--said", str(said)),
        *("--check", f"again={said}", "--out", str(home / "results" / "calibration.json")),
    ]


def test_a_model_gets_its_map(home: Path) -> None:
    calibrate.main(words(home))
    run: dict[str, Any] = json.loads((home / "results" / "calibration.json").read_text())
    assert run["captions"]["images"] == 40
    assert run["captions"]["right"] == pytest.approx(27 / 40)
    assert run["checks"]["again"] == run["captions"]
    found = read_calibration(home / "model")
    assert found == Calibration(**run["map"])
    assert str(home / "people.json") not in run["command"]  # a name, not a place on this machine
    # Captioned with the map that is there now: the same is fitted again.
    rows = [json.loads(line) for line in (home / "said.jsonl").read_text().splitlines()]
    again = [row | {"probability": row["confidence"], "confidence": 0.5} for row in rows]
    (home / "again.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in again))
    calibrate.main(words(home, said=home / "again.jsonl"))
    assert read_calibration(home / "model") == found


def test_captions_are_made_where_there_are_none(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def caption(arguments: list[str], code: int = 0) -> int:
        asked.append(arguments)
        Path(arguments[-1]).write_bytes((home / "said.jsonl").read_bytes())
        return code

    monkeypatch.setattr(calibrate, "naic", caption)
    images = ["--images", str(home / "images")]
    calibrate.main([*words(home), *images])
    assert asked == []
    made = words(home, said=home / "made.jsonl")
    calibrate.main([*made, *images])
    (arguments,) = asked
    assert arguments[:2] == ["caption", str(home / "images" / f"{20:012d}.jpg")]
    assert sum(word.endswith(".jpg") for word in arguments) == 40  # those of val alone
    assert arguments[-5:-2] == ["--model", str(home / "model"), "--confidence"]
    (home / "made.jsonl").unlink()
    monkeypatch.setattr(calibrate, "naic", lambda arguments: caption(arguments, 3))
    with pytest.raises(SystemExit, match="not all images could be captioned"):
        calibrate.main([*made, *images])


def test_other_images_are_refused_and_nothing_is_written(home: Path) -> None:
    lines = (home / "said.jsonl").read_text().splitlines(keepends=True)
    (home / "few.jsonl").write_text("".join(lines[1:]))
    with pytest.raises(SystemExit, match=r"few\.jsonl: it has 39 images, not the 40 of val"):
        calibrate.main(words(home, said=home / "few.jsonl"))
    (home / "bare.jsonl").write_text('{"path": "1.jpg", "caption": "a"}\n')
    with pytest.raises(SystemExit, match=r"row 1: it has no confidence\. Make it with naic"):
        calibrate.main(words(home, said=home / "bare.jsonl"))
    assert not (home / "model" / CALIBRATION).exists()
    assert not (home / "results").exists()
