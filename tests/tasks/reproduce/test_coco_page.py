"""The page of COCO's ladder: what its figures are of, what was aimed at, no one else's words."""

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from naic.errors import MissingExtraError
from tests.tasks.reproduce.test_page import COLLECT, PAGE, load

PEOPLE = {"bad_endings": 0.0123, "repeats": 0.001, "captions": 12044}
DATA = {"backbone": "efficientnet-lite2", "pixels": 256, "regions": 64, "weights": "0" * 64}


@pytest.fixture
def coco(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(PAGE.parent)
    return load(PAGE.parent / "coco_page.py")


def row(system: str, cider: float, **over: Any) -> dict[str, Any]:
    scores = dict.fromkeys([f"Bleu_{n}" for n in range(1, 5)] + ["METEOR", "ROUGE_L"], 0.5)
    values: dict[str, Any] = {"SPICE": None, "CIDEr": cider, "repeats": 0.01, "bad_endings": 0.02}
    ends = {"CIDEr": [cider - 0.02, cider + 0.02]}
    return {
        "system": system,
        "stage": system,
        **scores,
        **values,
        "intervals": ends,
        "spread": {},
        **over,
    }


def test_it_says_of_what_its_figures_are(coco: ModuleType) -> None:
    run: dict[str, Any] = {"data": DATA, "people": PEOPLE, "machine": "Linux, 16 cores"}
    run |= {"reported": {"split": "test", "images": 2407}, "latency": {"device": "one H200"}}
    text = " ".join(coco.about(run).split())
    assert "an 8×8 grid of efficientnet-lite2 at 256 pixels, tuned on COCO's captions" in text
    assert "not the bottom-up regions that the paper has" in text
    assert "2,407 of the 5,000 of Karpathy's test split" in text
    assert (
        "of the 12,044 captions that people wrote of these images 1.23 % have a bad ending" in text
    )
    assert "close to" not in text
    assert "df of 2,407, 4,392, 5,000 images, score 108.6, 107.5, 107.3" in text
    assert "about 1.3 above what 5,000 images would give" in text
    run["reported"]["images"] = 12
    assert "**CIDEr** is higher on fewer images" in coco.about(run)
    assert "one H200; Linux, 16 cores." in text
    run["data"] = DATA | {"weights": coco.PACKAGE}
    assert "tuned" not in coco.about(run)


def test_it_says_how_often_test_was_scored(coco: ModuleType) -> None:
    log = [
        {"captions": "kd.json", "sha256": "of the first run"},
        {"captions": "kd.json", "sha256": "of the last run"},
        {"captions": "kd.json", "sha256": "of the last run"},
    ]
    text = " ".join(coco.test_evaluations(log).split())
    assert "each of the 3 times, of 2 different files of captions" in text
    assert "1 of these were of an earlier ladder" in text
    assert "earlier ladder" not in coco.test_evaluations(log[1:])
    assert "once" not in coco.test_evaluations([])


def test_the_weights_that_are_not_tuned_are_those_of_the_package(coco: ModuleType) -> None:
    from naic.backbones.weights import load_efficientnet

    try:
        assert load_efficientnet("efficientnet-lite2")[1] == coco.PACKAGE
    except MissingExtraError:
        pytest.skip("the package with the weights is not installed")


def test_the_best_student_is_chosen_by_validation(coco: ModuleType) -> None:
    rows = [row("AIC beam 3", 1.3), row("+KD", 1.2), row("+CMAL", 1.1)]
    curves = {"AIC beam 3": [[[1, 130.0]]], "+KD": [[[1, 99.0], [2, 98.0]]]}
    best = coco.best_student(rows, curves | {"+CMAL": [[[1, 97.0], [2, 99.5], [3, 90.0]]]})
    assert best["system"] == "+CMAL"


def packed(cider: float, repeats: float) -> dict[str, Any]:
    return {"CIDEr": cider, "habits": {"captions": {"repeats": repeats}}}


def test_targets(coco: ModuleType) -> None:
    rows = [row("AIC beam 3", 1.11), row("+CMAL", 1.08)]
    good = coco.targets(rows, rows[1], PEOPLE, packed(1.076, 0.0))
    assert [claim[1:] for claim in good] == [
        ("111.0", "yes"),
        ("108.0", "yes"),
        ("3.0", "yes"),
        ("1.0", "yes"),
        ("2.0", "yes"),
        ("0.4", "yes"),
        ("0.0", "yes"),
    ]
    rows = [row("AIC beam 3", 1.09), row("+CMAL", 1.05, repeats=0.02, bad_endings=0.0224)]
    bad = coco.targets(rows, rows[1], PEOPLE, packed(1.04, 0.02))
    assert [claim[2] for claim in bad] == ["**no**"] * 7
    assert len(coco.targets(rows, rows[1], PEOPLE, None)) == 5


def test_intervals_of_every_score(coco: ModuleType) -> None:
    text = coco.intervals([row("+CMAL", 1.08)], None)
    assert (
        "| +CMAL | 50.0 | 50.0 | 50.0 | 50.0 | 50.0 | 50.0 | 108.0, 106.0 to 110.0 | n/a |" in text
    )


def test_the_whole_page(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(PAGE.parent)
    page, folder = load(PAGE), tmp_path / "coco"
    monkeypatch.setattr(sys, "argv", ["x", str(whole), "--out", str(folder)])
    load(COLLECT).main()
    monkeypatch.setattr(page, "FOLDER", tmp_path)
    run = json.loads((folder / "run.json").read_text())
    run |= {"preset": "coco", "data": DATA, "people": PEOPLE}
    run["calls"].append({"command": "naic scores", "seconds": 60.0, "machine": "a small one"})
    (folder / "run.json").write_text(json.dumps(run))
    text = page.ladder("coco")
    assert "| `naic scores`, on a small one | 1.0 min |" in text
    assert "12 of the 5,000 of Karpathy's test split" in text
    assert "AIC beam 3: 110 or more" in text
    assert "40-reference figures cannot be had offline" in text
    assert "ships" not in text
    calls = [{"command": "naic prepare", "seconds": 90.0, "machine": "one H200"}]
    (folder / "before.json").write_text(json.dumps(calls))
    habits = {"captions": {"repeats": 0.01, "bad_endings": 0.02}}
    (folder / "shipped.json").write_text(json.dumps(row("", 1.07) | {"habits": habits}))
    text = page.ladder("coco")
    assert "| `naic prepare` | 1.5 min | one H200 |" in text
    assert "| packed | 50.0 |" in text
    assert "packed: at most 0.5 behind" in text


def test_what_others_drew_or_said_is_not_copied(tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "out"
    run.mkdir()
    out.mkdir()
    said = {"people": "a dog", "teacher": "a cat"}
    examples = [{"id": "9", "image": str(tmp_path / "9.jpg"), "captions": said}]
    (run / "captions.json").write_text(json.dumps(examples))
    load(COLLECT).copy_examples(run, out)
    kept = [{"id": "9", "image": "", "captions": {"teacher": "a cat"}}]
    assert json.loads((out / "captions.json").read_text()) == kept
    assert [path.name for path in out.iterdir()] == ["captions.json"]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ('"naic x --out /a/b-c/run --y z/w"', '"naic x --out run --y z/w"'),
        ('{"features": "/data/coco", "s": 1}', '{"features": "coco", "s": 1}'),
        ("naic x --references '/a/c.json'", "naic x --references 'c.json'"),
        ("runs/coco ./x ../y 1/2", "runs/coco ./x ../y 1/2"),
    ],
)
def test_the_folders_of_a_machine_are_left_out(text: str, kept: str) -> None:
    assert load(COLLECT).without_folders(text) == kept
