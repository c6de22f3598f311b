"""The line that must be the same wherever figures may be compared."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

import naic
from naic.data.readers.captions import ImageCaptions
from naic.tasks.evaluate.options import EvaluateOptions
from naic.tasks.evaluate.run import evaluate
from naic.tasks.evaluate.signature import digest, signature_line
from tests.data.readers.helpers import Item, karpathy_value, write_json
from tests.tasks.evaluate.evaluations import SCENES, fake, first_captions, write_results


def test_the_signature_tells_figures_apart(options: EvaluateOptions, tmp_path: Path) -> None:
    found = evaluate(options)
    assert signature_line(found.signature) == (
        f"naic {naic.__version__}|tokeniser:ptb (each caption alone)"
        f"|period:not counted|df:evaluated set, {SCENES} images|images:{SCENES}"
        f"|references:{5 * SCENES}|data:{found.signature['data']}"
        "|metrics:Bleu_1,Bleu_2,Bleu_3,Bleu_4,ROUGE_L,CIDEr"
    )
    few = write_results(tmp_path / "few.json", first_captions(10))
    subset = evaluate(replace(options, results=few, subset=True))
    assert subset.signature["subset"] == f"10 of {SCENES} images"
    assert subset.signature["data"] != found.signature["data"]
    with_df = evaluate(replace(options, df="50"))
    assert re.fullmatch(r"data [0-9a-f]{12}, 50 images", str(with_df.signature["df"]))
    assert with_df.signature["data"] == found.signature["data"]


def test_the_format_of_the_references_does_not_matter(tmp_path: Path) -> None:
    items = [Item(str(n), (f"a dog number {n}", "some dog"), "val") for n in range(5)]
    karpathy = write_json(tmp_path / "k.json", karpathy_value(items))
    table = tmp_path / "t.jsonl"
    rows = [
        {
            "image": f"images/COCO_val2014_{int(i.name):012d}.jpg",
            "captions": list(reversed(i.captions)),
        }
        for i in items
    ]
    table.write_text("".join(json.dumps(row) + "\n" for row in reversed(rows)), encoding="utf-8")
    results = write_results(tmp_path / "r.json", {i.name: "a big dog" for i in items})
    found = [
        evaluate(EvaluateOptions(results, references=str(path), fast=True, split=split))
        for path, split in ((karpathy, ("val",)), (table, ()))
    ]
    assert found[0].signature["data"] == found[1].signature["data"]
    assert signature_line(found[0].signature) == signature_line(found[1].signature)
    assert [one.source["split"] for one in found] == [["val"], []]
    assert [one.source["references"] for one in found] == ["k.json", "t.jsonl"]
    for name, score in found[0].system.scores.items():
        assert score.value == pytest.approx(found[1].system.scores[name].value, abs=1e-12)


def test_how_the_same_images_are_asked_for_does_not_matter(tmp_path: Path) -> None:
    items = [Item(str(n), (f"a dog number {n}",), ("val", "test")[n % 2]) for n in range(4)]
    source = write_json(tmp_path / "odd|name.json", karpathy_value(items))
    results = write_results(tmp_path / "r.json", {i.name: "a big dog" for i in items})
    options = EvaluateOptions(results, references=str(source), fast=True)
    lines = {
        signature_line(evaluate(replace(options, split=split, df=df)).signature)
        for split in ((), ("val", "test"), ("test", "val", "test"))
        for df in (None, str(source))
    }
    assert len(lines) == 1
    assert "odd" not in lines.pop()


def test_the_names_of_files_and_splits_are_not_in_the_line(
    options: EvaluateOptions, tmp_path: Path
) -> None:
    folder = tmp_path / "caf\udce9|df:x"
    folder.mkdir()
    (folder / "1.txt").write_text("a dog", encoding="utf-8")
    found = evaluate(replace(options, df=str(folder)))
    assert found.source["df"] == "caf\\udce9|df:x"
    assert re.fullmatch(r"data [0-9a-f]{12}, 1 images", str(found.signature["df"]))


def test_the_programs_are_in_the_line(
    options: EvaluateOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("naic.metrics.meteor.meteor", fake("METEOR"))
    monkeypatch.setattr("naic.metrics.meteor.program", lambda: "meteor-9 on Java 3")
    found = evaluate(replace(options, fast=False, metrics=("METEOR", "Bleu")))
    assert "|meteor:meteor-9 on Java 3|metrics:" in signature_line(found.signature)
    assert "spice" not in found.signature
    assert "meteor" not in evaluate(options).signature


def test_images_that_share_a_plain_id_are_told_apart() -> None:
    one, two = ("a dog",), ("a cat",)
    there = [ImageCaptions("train/1", one, ""), ImageCaptions("val/1", two, "")]
    swapped = [ImageCaptions("train/1", two, ""), ImageCaptions("val/1", one, "")]
    assert digest(there) != digest(swapped)
    assert digest(there) == digest(list(reversed(there)))
    assert digest(there[:1]) == digest([ImageCaptions("0001", one, "val")])
