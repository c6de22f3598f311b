"""How fast a training step is on a GPU: eager, compiled, graphed; and where its time goes.

python benchmarks/training.py --features data/coco-features --out docs/results/training-speed.json

The engine is the one of `naic train`, with the settings of configs/coco: Transformer-base, mixed
precision, features in the GPU's memory. All ways of running a step take the same batches in turns
of their own; times are medians over whole steps, the device waited for.
"""

import argparse
import copy
import itertools
import json
import platform
import shlex
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from accelerate import Accelerator
from torch import Tensor

from naic.learn.cider.references import References
from naic.learn.cider.rewards import make_rewards
from naic.models.config import TransformerConfig
from naic.models.transformer import TransformerCaptioner
from naic.train.batches import Batch, Draw, Feed
from naic.train.config import read_settings
from naic.train.engine import TrainingEngine, prepare_speed
from naic.train.inputs import Inputs, find_inputs
from naic.train.settings import EngineSettings, Settings
from naic.train.stages import make_tools

CONFIGS = Path(__file__).parents[1] / "configs" / "coco"
PEAK = 989e12  # bfloat16 FLOP/s of an H200 by its data sheet, without sparsity
WAYS = {
    "eager": (False, False),
    "compiled": (True, False),
    "graph": (False, True),
    "compiled, graph": (True, True),
}
ROUNDS, STEPS = 5, 10  # medians over rounds of steps
KINDS = {  # kernels by what their names hold; the first kind that fits counts
    "attention": ("flash", "fmha", "attention"),
    "matrix products": ("gemm", "nvjet", "cutlass", "xmma", "cublas"),
    "compiled element-wise": ("triton",),
    "optimiser": ("multi_tensor", "adam", "foreach", "lpnorm"),
    "copies": ("memcpy", "memset", "copy", "cat"),
    "gathers": ("index", "gather", "scatter"),
}


class Bench:
    """One stage: its engine in each way, on the same batches."""

    def __init__(self, settings: Settings, inputs: Inputs) -> None:
        self.settings = settings
        self.inputs = inputs
        self.accelerator = Accelerator()
        self.feed = Feed(
            inputs.store,
            inputs.targets,
            batch=settings.run.batch,
            captions=settings.data.captions,
            seed=1,
            device=self.accelerator.device,
            keep="device",
        )
        self.references = None
        if settings.stage in ("scst", "cmal"):
            store, vocabulary = inputs.store, inputs.vocabulary
            self.references = References.beside(store, vocabulary, settings.data.train)

    def engine(self, compiled: bool, graph: bool) -> TrainingEngine:
        """A fresh model in one way of running it."""
        device = self.accelerator.device
        precision: Literal["bfloat16", "float32"] = (
            "bfloat16" if device.type == "cuda" else "float32"
        )
        way = EngineSettings(precision=precision, compile=compiled, graph=graph)
        model = copy.deepcopy(self.inputs.model).to(device)
        rewards = None
        if self.references is not None:
            rewards = make_rewards(self.references, device, compiled=compiled)
        tools = make_tools(
            replace(self.settings, engine=way),
            self.inputs.spec,
            model,
            self.inputs.vocabulary,
            rewards,
            prepare_speed(model, way),
        )
        return TrainingEngine(self.accelerator, tools, self.feed)

    def seconds(self, way: str) -> tuple[float, float, float]:
        """A step, the first step (compiling, capturing), and the most memory in GB."""
        torch.compiler.reset()
        cuda = self.accelerator.device.type == "cuda"
        if cuda:
            torch.cuda.reset_peak_memory_stats()
        engine = self.engine(*WAYS[way])
        began = time.perf_counter()
        engine.step(0, 1e-6)
        wait()
        first = time.perf_counter() - began
        for step in range(1, 4):
            engine.step(step, 1e-6)
        steps = itertools.count(4)
        seconds = median_seconds(lambda: engine.step(next(steps), 1e-6))
        return seconds, first, torch.cuda.max_memory_allocated() / 1e9 if cuda else 0.0

    def parts(self) -> dict[str, float]:
        """Seconds of each part of a compiled step: differences of graphs that end after it."""
        torch.compiler.reset()
        engine = self.engine(compiled=True, graph=False)
        engine.step(0, 1e-6)
        draws = self.feed.draw(1)
        ends = {
            name: graph_seconds(partial(prefix, draws))
            for name, prefix in self._prefixes(engine).items()
        }
        begins = [0.0, *ends.values()]
        return {name: ends[name] - begin for name, begin in zip(ends, begins, strict=False)}

    def _prefixes(self, engine: TrainingEngine) -> dict[str, Callable[[list[Draw]], object]]:
        """The step cut off after each of its parts, in their order."""
        plain, spec = engine.plain, engine.tools.spec
        assert isinstance(plain, TransformerCaptioner)

        def sample(batch: Batch) -> Tensor:
            assert spec.sample is not None
            return spec.sample(plain, batch.features, batch.mask, self.settings.scst.samples)

        def reward(batch: Batch) -> object:
            rewards = engine.tools.rewards
            assert rewards is not None
            words = sample(batch)
            rows = batch.rows.repeat_interleave(words.shape[1])
            return words, rewards.score(words.flatten(0, 1), rows)

        def after(work: Callable[[Batch], object]) -> Callable[[list[Draw]], object]:
            def prefix(draws: list[Draw]) -> object:
                with engine.autocast():
                    return work(self.feed.fetch(draws[0]))

            return prefix

        def backward(draws: list[Draw]) -> None:
            engine.optimiser.zero_grad(set_to_none=True)
            engine.loss(self.feed.fetch(draws[0]))[0].backward()  # type: ignore[no-untyped-call]

        own: dict[str, Callable[[Batch], object]] = {
            "encoder": lambda batch: plain.encode(batch.features, batch.mask),
            "decoder and words": lambda batch: plain(batch.features, batch.mask, batch.words),
            "loss": engine.loss,
        }
        if self.settings.stage == "scst":
            own = {"encode and sample": sample, "reward": reward, "forward and loss": engine.loss}
        return {
            "gather features": lambda draws: self.feed.fetch(draws[0]),
            **{name: after(work) for name, work in own.items()},
            "backward": backward,
            "clip, Adam, average": engine.update,
        }

    def kernels(self) -> dict[str, float]:
        """Share of the time by kind of kernel, in the compiled and graphed step."""
        torch.compiler.reset()
        engine = self.engine(compiled=True, graph=True)
        for step in range(3):
            engine.step(step, 1e-6)
        torch.cuda.synchronize()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            began = time.perf_counter()
            for step in range(3, 8):
                engine.step(step, 1e-6)
            torch.cuda.synchronize()
            wall = time.perf_counter() - began
        kinds: dict[str, float] = {}
        for event in profile.key_averages():
            seconds = event.self_device_time_total / 1e6
            kinds[kind_of(event.key)] = kinds.get(kind_of(event.key), 0.0) + seconds
        busy = sum(kinds.values())
        return {name: value / wall for name, value in kinds.items()} | {"idle": 1 - busy / wall}


def kind_of(kernel: str) -> str:
    """What a kernel does, told by its name."""
    name = kernel.lower()
    fits = (kind for kind, marks in KINDS.items() if any(mark in name for mark in marks))
    return next(fits, "other element-wise")


def wait() -> None:
    """Until the device has done all that it was given."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def median_seconds(work: Callable[[], object]) -> float:
    """One run of `work`, the median of rounds, the device waited for."""
    times = []
    for _ in range(ROUNDS):
        wait()
        began = time.perf_counter()
        for _ in range(STEPS):
            work()
        wait()
        times.append((time.perf_counter() - began) / STEPS)
    return statistics.median(times)


def graph_seconds(work: Callable[[], object]) -> float:
    """One run of `work` as a CUDA graph."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = work()  # so that what it gives is not freed within the graph
    seconds = median_seconds(graph.replay)
    del kept
    return seconds


def flops(
    config: TransformerConfig,
    features: int,
    words: int,
    regions: int,
    captions: int,
    causal: bool,
) -> int:
    """Floating-point operations of `TransformerCaptioner.forward` for one image and its captions.

    Matrix products only, a multiplication and an addition counted as two. Attention among the
    words of a causal captioner is counted in full, though half of it is masked. A training step is
    three times as much.
    """
    width, length = config.width, config.length
    sentences = captions if causal else 1
    places = sentences * length
    square = 2 * width * width  # one place through one width x width layer
    feed_forward = 4 * width * config.hidden
    encoder_layer = regions * (4 * square + feed_forward + 4 * regions * width)
    decoder_layer = places * (6 * square + feed_forward + 4 * (length + regions) * width)
    remember = regions * 2 * config.decoder_layers * square
    return (
        2 * regions * features * width
        + config.encoder_layers * encoder_layer
        + remember
        + config.decoder_layers * decoder_layer
        + 2 * places * width * words
    )


def matmul_flops() -> float:
    """What the card reaches on a large bfloat16 product, here and now."""
    size = 8192
    a = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
    return 2 * size**3 / graph_seconds(lambda: a @ a)


def work_of(settings: Settings, inputs: Inputs) -> float:
    """Matrix-product FLOPs that a step needs for each image.

    A forward and a backward pass, three times the forward pass; sampling needs one more.
    """
    model, store, scst = inputs.model, inputs.store, settings.stage == "scst"
    assert isinstance(model, TransformerCaptioner)
    captions = settings.scst.samples if scst else settings.data.captions
    once = flops(model.config, store.dim, model.words, len(store[0]), captions, model.causal)
    return (4.0 if scst else 3.0) * once


def measure(settings: Settings, inputs: Inputs) -> dict[str, Any]:
    """All that is said of one stage."""
    bench, work = Bench(settings, inputs), work_of(settings, inputs)
    batch, ways = settings.run.batch, {}
    for way in WAYS:
        seconds, first, memory = bench.seconds(way)
        ways[way] = {
            "step_ms": 1e3 * seconds,
            "images_per_second": batch / seconds,
            "flops_per_second": work * batch / seconds,
            "utilisation": work * batch / seconds / PEAK,
            "first_step_seconds": first,
            "gigabytes": memory,
        }
        print(settings.stage, way, ways[way], flush=True)
    return {
        "command": f"python {shlex.join(sys.argv)}",
        "matmul_flops": matmul_flops(),
        "batch": batch,
        "gflops_per_image": work / 1e9,
        "ways": ways,
        "parts_ms": {name: 1e3 * seconds for name, seconds in bench.parts().items()},
        "kernels": bench.kernels(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--features", type=Path, required=True)
    parser.add_argument("--vocabulary", type=Path, help="a vocab.json; else from the captions")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--stages", nargs="+", default=["xe", "scst"])
    parser.add_argument("--batches", nargs="+", type=int, default=[])
    options = parser.parse_args()
    data = {"data.features": options.features, "data.vocabulary": options.vocabulary}
    given = [(name, str(path)) for name, path in data.items() if path]
    found: dict[str, Any] = {}
    inputs = find_inputs(read_settings(CONFIGS / "teacher_xe.toml", given))
    for name in options.stages:
        settings = read_settings(CONFIGS / f"teacher_{name}.toml", given)
        for batch in [settings.run.batch, *options.batches]:
            sized = replace(settings, run=replace(settings.run, batch=batch))
            key = name if batch == settings.run.batch else f"{name}, batch {batch}"
            found[key] = measure(sized, inputs)
            torch.cuda.empty_cache()
    report = {
        "machine": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "peak_flops": PEAK,
        "parameters": sum(p.numel() for p in inputs.model.parameters()),
        "words": len(inputs.vocabulary),
        "images": len(inputs.targets),
        "regions": len(inputs.store[0]),
        "features": inputs.store.dim,
        "stages": found,
    }
    options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
