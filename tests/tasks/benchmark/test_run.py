"""The benchmark: every row is there, compares like with like, and says why it has no figure."""

import itertools
import json
import sys
import xml.etree.ElementTree as ET
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from naic.errors import CheckpointError, ConfigError
from naic.progress import Progress
from naic.tasks.benchmark import run as task
from naic.tasks.benchmark.models import Contest
from naic.tasks.benchmark.report import charts
from naic.tasks.benchmark.rows import BenchmarkOptions, Row, plan, with_ratios
from naic.tasks.benchmark.run import benchmark, dry_run
from tests.runtime.small import NETWORK, make_model
from tests.watch import watch

TEACHER = [f"teacher, {how}{end}" for end in ("", ", no cache") for how in ("greedy", "beam 3")]
OTHER_MODELS = [
    f"{who}, {how}" for who in ("BLIP-base", "ViT-GPT2") for how in ("greedy", "beam 3")
]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    make_model(folder / "student", backbone=NETWORK)
    make_model(folder / "teacher", "causal", backbone=NETWORK)
    return folder


def small(models: Path, **more: Any) -> BenchmarkOptions:
    values: dict[str, Any] = {
        "device": "cpu",
        "words": 3,
        "seconds": 0.001,
        "batches": (1, 2),
        "against": (),
    }
    return BenchmarkOptions(models / "student", teacher=models / "teacher", **(values | more))


def names(rows: list[Row], *group: object) -> list[str]:
    return [row.name for row in rows if row.group == group]


def test_all_that_is_planned_on_a_gpu() -> None:
    rows = plan(BenchmarkOptions(), "cuda", other_models=True)
    assert list(dict.fromkeys(row.batch for row in rows)) == [1, 4, 16, 64, 256]
    assert {row.precision for row in rows} == {"float16"}
    assert {row.state for row in rows} == {"planned"}
    for batch, runtime in itertools.product((1, 256), ("graph", "eager")):
        assert names(rows, batch, runtime, "float16", "decode") == ["NAIC", *TEACHER]
        both = ["NAIC", "NAIC, as text", *TEACHER]
        others = OTHER_MODELS if runtime == "eager" else []
        assert names(rows, batch, runtime, "float16", "whole") == [*both, *others]
    assert [row.group[:2] for row in rows[:3]] == [(1, "graph")] * 3  # what matters most is first
    groups = [group for group, _ in itertools.groupby(rows, key=lambda row: row.group)]
    assert len(groups) == len(set(groups))  # a group is in one piece


def test_all_that_is_planned_on_a_processor() -> None:
    rows = plan(BenchmarkOptions(), "cpu", other_models=True)
    assert list(dict.fromkeys(row.batch for row in rows)) == [1, 4, 16]
    assert {row.batch for row in rows if row.name in OTHER_MODELS} == {1}
    for precision in ("float32", "int8"):
        whole = [row for row in rows if row.group == (1, "onnx", precision, "whole")]
        assert [row.state for row in whole] == ["planned", "planned", "left out"]
        assert "one pass" in whole[-1].why
        assert whole[-1].name == "teacher, greedy"
    asked = BenchmarkOptions(runtimes=("graph", "compile"), parts="decode", batches=(8, 8))
    rows = plan(asked, "cpu", other_models=True)
    assert {row.why for row in rows if row.runtime == "graph"} == {
        "a CUDA graph needs an NVIDIA GPU"
    }
    compiled = [row for row in rows if row.runtime == "compile"]
    assert [row.state for row in compiled] == ["planned"] * 3 + ["left out"] * 2
    onnx = plan(replace(asked, runtimes=("onnx",)), "cuda", other_models=True)
    assert [row.state for row in onnx] == ["left out"] * 2


def test_other_models_that_are_named_are_planned_though_they_are_missing() -> None:
    assert not [
        row
        for row in plan(BenchmarkOptions(), "cuda", other_models=False)
        if row.name in OTHER_MODELS
    ]
    rows = plan(BenchmarkOptions(against=("blip",), batches=(1,)), "cuda", other_models=False)
    assert [row.name for row in rows if row.name in OTHER_MODELS] == OTHER_MODELS[:2]
    rows = plan(BenchmarkOptions(against=()), "cuda", other_models=True)
    assert not [row for row in rows if row.name in OTHER_MODELS]


def timed(runtime: str, part: str, model: str, taken: float, batch: int = 1, **more: Any) -> Row:
    decoding = {"NAIC": "parallel"}.get(model, "beam 3")
    cache = "none" if model == "NAIC" else "on"
    row = Row(part, runtime, "float16", batch, model, decoding, cache, "timed")
    return replace(row, median_ms=taken, p99_ms=2 * taken, repeats=9, **more)


def test_ratios_are_of_one_group() -> None:
    rows = [
        timed("graph", "whole", "NAIC", 1.0),
        timed("graph", "whole", "teacher", 8.0),
        timed("eager", "whole", "NAIC", 4.0),
        timed("eager", "whole", "teacher", 20.0),
        timed("eager", "whole", "BLIP-base", 100.0),
        timed("eager", "decode", "teacher", 9.0),
        timed("graph", "whole", "teacher", 30.0, batch=4),
        timed("onnx", "whole", "NAIC", 0.5, precision="int8"),
        replace(timed("graph", "decode", "teacher", 1.0), median_ms=None, state="failed"),
    ]
    found = with_ratios(rows)
    assert [row.ratio for row in found] == [None, 8.0, None, 5.0, 25.0, None, None, None, None]
    used = [row.ratio_as_used for row in found]
    assert used == [None] * 4 + [100.0] + [None] * 4  # of the graph; int8 says something else


def test_charts_compare_one_runtime() -> None:
    rows = with_ratios(
        [
            timed(runtime, "whole", model, taken * batch, batch)
            for batch in (1, 4)
            for runtime, model, taken in (
                ("graph", "NAIC", 1.0),
                ("graph", "teacher", 8.0),
                ("eager", "NAIC", 4.0),
                ("eager", "BLIP-base", 77.0),
            )
        ]
    )
    found = charts(rows)
    assert set(found) == {"-whole", "-whole-batches"}
    text = " ".join(ET.fromstring(found["-whole"]).itertext())
    assert "graph" in text
    assert "BLIP-base, beam 3, eager" in text
    assert "NAIC" in text
    assert ">4<" not in found["-whole"]  # the eager NAIC is not in it
    assert charts([replace(row, median_ms=None) for row in rows]) == {}


@pytest.mark.parametrize("name", ["nic", "satic"])
def test_a_teacher_that_does_not_write_word_by_word_as_a_transformer_reads_nothing_again(
    models: Path, tmp_path: Path, name: str
) -> None:
    make_model(tmp_path / name, name)
    few = small(models, runtimes=("eager",), batches=(1,), parts="decode")
    report = benchmark(replace(few, teacher=tmp_path / name))
    states = {(row.name, row.state) for row in report.rows if row.model == "teacher"}
    assert states == {(name, "left out" if "no cache" in name else "timed") for name in TEACHER}
    assert any("is the captioner in" in note for note in report.notes)


def test_every_row_is_timed(models: Path, tmp_path: Path) -> None:
    heard: list[Progress] = []
    out = tmp_path / "speed.json"
    report = benchmark(small(models, out=out), watch(heard.append))
    assert report.finished
    assert {row.state for row in report.rows} == {"timed", "left out"}
    for row in report.rows:
        if row.state != "timed":
            assert row.why
            continue
        assert row.median_ms is not None
        assert row.p99_ms is not None
        assert 0 < row.median_ms <= row.p99_ms
        assert row.repeats >= 3
        assert row.images_per_second == pytest.approx(1000 * row.batch / row.median_ms)
        assert (row.ratio is not None) == (row.model == "teacher")
    total = len(report.rows)
    assert heard[-1] == Progress(total, total, 0)
    assert json.loads(out.read_text()) == asdict(report)
    assert {path.name for path in tmp_path.iterdir()} == {
        "speed.json",
        *(f"speed-{part}{end}.svg" for part in ("decode", "whole") for end in ("", "-batches")),
    }
    about, model = report.machine, report.model
    assert about["device"] == "cpu"
    assert {"processor", "cores", "threads", "python", "packages"} <= set(about)
    assert model["features"] == "4 x 1280"
    assert model["teacher"] == str(models / "teacher")
    assert any("It writes 3 words" in note for note in report.notes)
    assert "--words 3" in report.command


def test_a_row_that_fails_says_why_and_the_others_go_on(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = Contest.runner

    def fails(self: Contest, part: str, way: Any, *rest: Any) -> Any:
        if way.width == 3 and way.cached:
            raise RuntimeError("no such kernel\nand a long story")
        if way.width == 3:
            return iter(()).__next__  # built, and fails when it is run
        return runner(self, part, way, *rest)

    monkeypatch.setattr(Contest, "runner", fails)
    monkeypatch.setitem(sys.modules, "transformers", None)
    report = benchmark(small(models, runtimes=("eager",), batches=(1,), against=("blip",)))
    rows = {row.name: row for row in report.rows}
    assert rows["teacher, beam 3"].why == "RuntimeError: no such kernel"
    assert rows["teacher, beam 3, no cache"].why == "StopIteration: no reason given"
    assert "pip install transformers" in rows["BLIP-base, greedy"].why
    assert rows["teacher, greedy"].state == rows["NAIC"].state == "timed"
    assert report.finished


def test_a_run_that_is_cut_off_leaves_what_it_had(models: Path, tmp_path: Path) -> None:
    def stop(_: Progress) -> None:
        raise KeyboardInterrupt

    out = tmp_path / "speed.json"
    with pytest.raises(KeyboardInterrupt):
        benchmark(small(models, out=out, runtimes=("eager",)), watch(stop))
    kept = json.loads(out.read_text())
    assert not kept["finished"]
    states = [row["state"] for row in kept["rows"]]
    assert states == ["timed"] * 5 + ["planned"] * (len(states) - 5)
    assert kept["rows"][1]["ratio"] is not None


def test_a_plan_loads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "_contest", lambda *_: pytest.fail("it was loaded"))
    rows = dry_run(BenchmarkOptions(Path("no-such-model"), device="cpu", batches=(1,)))
    assert rows[0].name == "NAIC"
    monkeypatch.undo()
    with pytest.raises(CheckpointError):
        benchmark(BenchmarkOptions(Path("no-such-model"), device="cpu"))


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"size": "transformer-base"}, "MODEL"),
        ({"batches": (1, 0)}, "--batches"),
        ({"batches": ()}, "--batches"),
        ({"runtimes": ()}, "--runtimes"),
        ({"words": 0}, "--words"),
        ({"seconds": 0.0}, "--seconds"),
        ({"seconds": float("nan")}, "--seconds"),
        ({"out": Path("speed.txt")}, "--out"),
        ({"out": Path("no-such-folder/speed.json")}, "--out"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], what: str, models: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        dry_run(small(models, **options))
    assert caught.value.what == what


def test_no_figures_are_overwritten(models: Path, tmp_path: Path) -> None:
    out = tmp_path / "speed.json"
    out.write_text("{}")
    with pytest.raises(ConfigError, match="is there already"):
        dry_run(small(models, out=out))


@pytest.mark.gpu
def test_on_a_gpu_graphs_and_eager_are_timed(models: Path) -> None:
    report = benchmark(small(models, device="cuda"))
    assert {row.state for row in report.rows} == {"timed"}
    assert {(row.runtime, row.precision) for row in report.rows} == {
        ("graph", "float16"),
        ("eager", "float16"),
    }
    assert report.machine["driver"]
