"""docs/results/speed.md: made of what was measured, and nothing where nothing was."""

import json
import runpy
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from benchmarks import text as host_text
from benchmarks import two_models
from PIL import Image

from naic.tasks.benchmark.rows import Row, with_ratios
from tests.runtime.small import make_model

ROOT = Path(__file__).parent.parent
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "docs/results")  # its modules import each other by name
    PAGES: Callable[[Path], dict[str, Callable[[], str]]] = runpy.run_path(
        str(ROOT / "docs/results/speed_page.py")
    )["speed_pages"]


def row(runtime: str, precision: str, part: str, batch: int, model: str, taken: float) -> Row:
    decoding, cache = ("parallel", "none") if model == "NAIC" else ("beam 3", "on")
    made = Row(part, runtime, precision, batch, model, decoding, cache, "timed")
    return Row(**(asdict(made) | {"median_ms": taken, "p99_ms": 2 * taken, "repeats": 5}))


def write(path: Path, rows: list[Row], **machine: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    about = {"device": "a card", "processor": "a core", "cores": 2, "threads": 2, "python": "3.11"}
    model = {"name": "it", "weights": 7, "encoder_layers": 6, "decoder_layers": 6, "width": 512}
    model |= {
        "agents": 16,
        "words": 99,
        "sight": "backbone",
        "pixels": 256,
        "features": "64 x 1280",
    }
    run = {
        "naic": "1.2.3",
        "command": "naic benchmark it",
        "machine": about | {"packages": {"torch": "2.13"}} | machine,
        "model": model,
        "notes": ["so it was"],
        "finished": True,
        "rows": [asdict(own) for own in with_ratios(rows)],
    }
    path.write_text(json.dumps(run), encoding="utf-8")


def test_without_runs_there_is_no_page(tmp_path: Path) -> None:
    assert PAGES(tmp_path) == {}


def test_what_was_asked_of_a_gpu(tmp_path: Path) -> None:
    rows = [
        row("graph", "bfloat16", "decode", 1, "NAIC", 0.4),
        row("graph", "bfloat16", "decode", 1, "teacher", 4.0),
        row("graph", "bfloat16", "decode", 4, "NAIC", 0.5),
        row("graph", "bfloat16", "decode", 4, "teacher", 4.5),
        row("graph", "bfloat16", "whole", 1, "NAIC", 2.5),
        row("graph", "bfloat16", "whole", 1, "teacher", 50.0),
        row("eager", "bfloat16", "whole", 1, "NAIC", 8.0),
        row("eager", "bfloat16", "whole", 1, "BLIP-base", 160.0),
    ]
    write(tmp_path / "speed" / "gpu.json", rows, driver="1.2", cuda="12")
    pages = PAGES(tmp_path)
    charts = {f"speed/gpu-{end}.svg" for end in ("decode", "decode-batches", "whole")}
    assert set(pages) == {"speed.md", *charts}
    text = pages["speed.md"]()
    assert "| decoding in at most 0.5 ms | 0.400 ms (graph, bfloat16) | reached |" in text
    assert "| image to words in at most 2 ms | 2.500 ms (graph, bfloat16) | **missed** |" in text
    assert "graph against graph, decode | 10.00× | **missed** |" in text
    assert "graph against graph, whole | 20.00× | reached |" in text
    used = "64.00× (BLIP-base: median of 5 passes); 20.00× eager against eager"
    assert f"BLIP-base, beam 3, each as used | {used} | reached |" in text
    assert (
        "| graph, bfloat16 | teacher, beam 3 | 4.000 (8.000) 10.00× | 4.500 (9.000) 9.00× |" in text
    )
    assert (
        "| eager, bfloat16 | BLIP-base, beam 3 | 160.000 (320.000) 20.00×, as used 64.00× |" in text
    )
    assert all(f"]({name})" in text for name in charts)
    assert pages["speed/gpu-whole.svg"]().startswith("<svg")


def test_what_was_asked_of_a_processor(tmp_path: Path) -> None:
    rows = [
        row("eager", "float32", "whole", 1, "NAIC", 50.0),
        row("onnx", "int8", "whole", 1, "NAIC", 16.0),
    ]
    write(tmp_path / "speed" / "cpu.json", rows)
    text = PAGES(tmp_path)["speed.md"]()
    assert "| int8 in ONNX Runtime 2.5× faster than eager float32 | 3.12× | reached |" in text


def test_why_a_ratio_is_missed_is_told_with_its_figures(tmp_path: Path) -> None:
    rows = [row("graph", "float16", "decode", 1, "NAIC", 0.5)]
    for decoding, cache, taken in (
        ("greedy", "on", 4.0),
        ("beam 3", "on", 5.0),
        ("beam 3", "off", 4.5),
    ):
        made = Row("decode", "graph", "float16", 1, "teacher", decoding, cache, "timed")
        rows.append(Row(**(asdict(made) | {"median_ms": taken, "p99_ms": taken})))
    write(tmp_path / "speed" / "gpu.json", rows, driver="1.2", cuda="12")
    text = PAGES(tmp_path)["speed.md"]()
    assert "graph against graph, decode | 10.00× | **missed** |" in text
    assert "8.0× greedy, 10.0× with a beam" in text
    assert "(5.00 ms; without its cache\n4.50 ms)" in text


def test_runtimes_a_folder_and_kills_follow(tmp_path: Path) -> None:
    write(tmp_path / "speed" / "cpu.json", [row("eager", "float32", "whole", 1, "NAIC", 50.0)])
    plain = PAGES(tmp_path)["speed.md"]()
    assert "## Which runtimes" not in plain
    engine = {"engine": "onnx:int8", "bytes": 7000, "equal": 955, "furthest": 0.01, "cider": 113.9}
    engine |= {"ms, batch 1": 17.0, "times faster, batch 1": 2.7}
    compared = {"machine": {"device": "cpu"}, "images": 1000, "batches": [1], "rows": [engine]}
    (tmp_path / "runtimes").mkdir()
    (tmp_path / "runtimes" / "cpu.json").write_text(json.dumps(compared | {"note": "Said so."}))
    folder = {
        "machine": {"cores": 2},
        "images": 1000,
        "rounds": 3,
        "model alone, a second": 40.0,
        "naic caption, a second": 30.0,
        "share": 0.75,
        "naic caption with its start, a second": 28.0,
        "share with its start": 0.7,
        "memory": {"images": 8000, "peak so far, MiB": {"1000": 900.0, "8000": 901.0}},
    }
    (tmp_path / "caption-folder.json").write_text(json.dumps(folder))
    kills = {"command": "kill it", "images": 120, "kills": [{"format": "csv"}] * 3}
    (tmp_path / "caption-kills.json").write_text(json.dumps(kills))
    text = PAGES(tmp_path)["speed.md"]()
    assert text.startswith(plain.rstrip())
    assert "| onnx, int8 | 955 | 113.90 | 0.0100 | 7,000 | 17.00 (2.70×) |" in text
    assert "\nSaid so.\n" in text
    assert "--engines onnx:int8 --batches 1`" in text
    assert "--count 1000 --rounds\n3 --long 8000`" in text
    assert "| `naic caption`, once it is at work | 30.0 | 0.75 |" in text
    assert "0.8 of the model alone: **missed**" in text
    assert "| most memory so far | 900 MiB | 901 MiB |" in text
    assert "3 kills with SIGKILL\n(3 of csv)" in text


def test_two_models_are_timed_in_turns_and_shown_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [make_model(tmp_path / who, seed=seed) for seed, who in enumerate(("old", "new"))]
    photos = tmp_path / "photos"
    photos.mkdir()
    for number in range(3):
        Image.new("RGB", (64, 64), (number, 0, 0)).save(photos / f"{number}.jpg")
    given = []

    def command(_: Path, __: Path, options: Sequence[str]) -> tuple[float, list[Any]]:
        given.append(options)
        return 2.0, [(0.0, 0, 0), (1.0, 1, 0), (1.5, 3, 0)]

    monkeypatch.setattr(two_models, "command", command)
    out = tmp_path / "speed/models/cpu.json"
    words = ["--old", folders[0], "--new", folders[1], "--images", photos, "--out", out]
    words += ["--device", "cpu", "--batches", 1, "--seconds", 0.001, "--rounds", 2]
    two_models.main([str(word) for word in words])
    assert [Path(own[1]).name for own in given] == 2 * ["old", "old.onnx", "new", "new.onnx"]
    assert "speed.md" not in PAGES(tmp_path)
    write(tmp_path / "speed" / "cpu.json", [row("eager", "float32", "whole", 1, "NAIC", 50.0)])
    text = PAGES(tmp_path)["speed.md"]()
    assert "## The model that ships, and one without transitions" in text
    assert text.count("| onnx, int8 | 1 |") == text.count("| onnx, int8, as text | 1 |") == 1
    assert "failed" not in text
    assert "| int8, once it is at work | 4.0 | 4.0 |" in text
    assert "| int8, from its start to its end | 1.5 | 1.5 |" in text
    assert "at least 5 images a second | 4.0 | **missed** |" in text


def test_texts_on_the_host_are_beside_the_way_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_text, "ROUNDS", 1)
    monkeypatch.setattr(host_text, "SECONDS", 0.0)
    out = tmp_path / "speed/text/cpu.json"
    host_text.main(["--made-up", "--batch", "2", "256", "--note", "So it was.", "--out", str(out)])
    assert "speed.md" not in PAGES(tmp_path)
    write(tmp_path / "speed" / "cpu.json", [row("eager", "float32", "whole", 1, "NAIC", 50.0)])
    run = json.loads(out.read_text())
    for own, taken in zip(run["rows"], (100.0, 8.0, 50.0, 8.1), strict=True):
        own["microseconds"] = {"search": 1, "text": taken, "captions": 300, "before": 2 * taken}
    out.write_text(json.dumps(run))
    page = PAGES(tmp_path)["speed.md"]()
    assert "256 proposals of chance, with " in page
    assert "texts. So it was.\n" in page
    assert "| with transitions | 2 | 1.00 | 100.00 | 300.00 | 200.00 | 2.0 |" in page
    assert "text with transitions: at most 8 µs an image over words | 8.00 µs | reached |" in page
    assert "without transitions: at most 8 µs an image over words | 8.10 µs | **missed**" in page


def test_what_was_asked_of_the_new_model_on_a_gpu(tmp_path: Path) -> None:
    figures = {"p99_ms": 3.0, "repeats": 9}
    timed = {"runtime": "graph", "precision": "float16", "batch": 1, "text": True}
    timed |= {"old": {"median_ms": 1.0, **figures}, "new": {"median_ms": 1.9, **figures}}
    proposed = timed | {"text": False, "new": {"median_ms": 1.2, **figures}}
    model = {"sight": "eyes", "pixels": 256, "weights": 7, "bytes": 38_100_000}
    about = {"device": "a card", "processor": "a core", "cores": 2, "threads": 2, "python": "3.11"}
    machine = about | {"packages": {"torch": "2.13"}, "driver": "1"}
    models = {"old": model, "new": model}
    run = {"naic": "1", "machine": machine, "models": models, "rows": [proposed, timed]}
    (tmp_path / "speed/models").mkdir(parents=True)
    (tmp_path / "speed/models/h200.json").write_text(json.dumps(run))
    write(tmp_path / "speed" / "cpu.json", [row("eager", "float32", "whole", 1, "NAIC", 50.0)])
    text = PAGES(tmp_path)["speed.md"]()
    assert "| old | eyes at 256 pixels | 7 | 38.1 MB |" in text
    assert "| graph, float16, as text | 1 | 1.000 (3.000) | 1.900 (3.000) |" in text
    assert "| pixels to text in at most 2 ms | 1.900 ms | reached |" in text
