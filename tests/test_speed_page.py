"""docs/results/speed.md: made of what was measured, and nothing where nothing was."""

import json
import runpy
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from naic.tasks.benchmark_rows import Row, with_ratios

ROOT = Path(__file__).parent.parent
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
    model |= {"agents": 16, "words": 99, "sight": "eyes", "pixels": 256, "features": "64 x 1280"}
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
    assert "| image to caption in at most 2 ms | 2.500 ms (graph, bfloat16) | **missed** |" in text
    assert "graph against graph, decode | 10.00× | **missed** |" in text
    assert "graph against graph, whole | 20.00× | reached |" in text
    assert "BLIP-base, beam 3, each as used | 64.00× | reached |" in text
    assert (
        "| graph, bfloat16 | teacher, beam 3 | 4.000 (8.000) 10.00× | 4.500 (9.000) 9.00× |" in text
    )
    assert "| eager, bfloat16 | BLIP-base, beam 3 | 160.000 (320.000) 20.00× |" in text
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
