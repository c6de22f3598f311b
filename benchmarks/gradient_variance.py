"""How much CMAL's gradient varies with what is sampled, under each of the five baselines.

The form that learns from all counterfactuals (`cmal.gradient = "all"`) is a sixth row, "cf-all".

python benchmarks/gradient_variance.py runs/tiny/naic-kd --out docs/results/gradient-variance.json

The best weights of a student's run are taken as they are and not trained. On each of a few fixed
batches sentences are sampled again and again; all baselines judge the same sentences, as many for
an image, and all of them estimate the same gradient (`tests/train/test_stage_cmal_proof.py`). What
differs is how far single estimates lie from it: the variance is summed over all parameters.
Dropout is off, so that nothing but sampling varies; `--dropout` leaves it on, as in training.
"""

import argparse
import json
import platform
import shlex
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor, nn

from naic.device import choose_device
from naic.learn.cider.references import References
from naic.learn.cider.rewards import make_rewards
from naic.train.batches import Batch, Feed
from naic.train.config import read_settings
from naic.train.engine import seed_noise
from naic.train.inputs import Inputs, find_inputs
from naic.train.settings import Baseline, CMALSettings
from naic.train.stages import STAGES, make_tools
from naic.train.tools import Tools

BASELINES: tuple[Baseline, ...] = get_args(Baseline)
ALL = "cf-all"  # the counterfactual baseline with cmal.gradient = "all": the same rewards
SETTLING = 40  # steps that the moving average sees first: then it has forgotten where it began


@dataclass
class Spread:
    """Mean and variance of vectors that come one by one (Welford's way)."""

    count: int = 0
    mean: Tensor | float = 0.0
    squares: Tensor | float = 0.0

    def add(self, vector: Tensor) -> None:
        self.count += 1
        away = vector - self.mean
        self.mean = self.mean + away / self.count
        self.squares = self.squares + away * (vector - self.mean)

    @property
    def variance(self) -> float:
        """Summed over all components."""
        assert isinstance(self.squares, Tensor)
        return float(self.squares.sum()) / (self.count - 1)

    @property
    def signal(self) -> float:
        """The squared length of the expected vector; that of the mean is too long by its noise."""
        assert isinstance(self.mean, Tensor)
        return float(self.mean.square().sum()) - self.variance / self.count


def read_run(options: argparse.Namespace) -> Inputs:
    """The student of a run, as if CMAL began with it now."""
    given = [("data.features", str(options.features))] if options.features else []
    settings = read_settings(options.run / "config.toml", given)
    cmal = CMALSettings(topk=options.topk, samples=options.samples)
    return find_inputs(
        replace(
            settings,
            stage="cmal",
            start=options.run / "best",
            data=replace(settings.data, pseudo=(), unlabelled=()),  # real captions
            cmal=cmal,
        ),
    )


def make_all_tools(inputs: Inputs, model: nn.Module) -> dict[str, Tools]:
    """Tools for each baseline and for all actions; the rewards are one for all."""
    settings, vocabulary = inputs.settings, inputs.vocabulary
    references = References.beside(inputs.store, vocabulary, settings.data.train)
    rewards = make_rewards(references, next(model.parameters()).device)
    found: dict[str, Tools] = {}
    rows = {str(name): replace(settings.cmal, baseline=name) for name in BASELINES}
    rows[ALL] = replace(settings.cmal, baseline="cf", gradient="all")
    for name, cmal in rows.items():
        own = replace(settings, cmal=cmal)
        found[name] = make_tools(own, inputs.spec, model, vocabulary, rewards)
    return found


def gradient(model: nn.Module, batch: Batch, tools: Tools) -> tuple[Tensor, float]:
    """All parameters' in a row, float64; and the mean reward of what was sampled."""
    loss, logs = STAGES["cmal"].step(model, batch, tools)
    wanted = [p for p in model.parameters() if p.requires_grad]
    parts = torch.autograd.grad(loss, wanted)
    return torch.cat([part.flatten() for part in parts]).double(), float(logs["reward"])


def settle(model: nn.Module, feed: Feed, tools: dict[str, Tools], batches: int, seed: int) -> float:
    """Let the moving average see rewards of other batches first; what it has come to."""
    moving = tools["ma"].moving
    assert moving is not None
    for step in range(batches, batches + SETTLING):
        seed_noise(seed, step, 1)
        with torch.no_grad():
            _, logs = STAGES["cmal"].step(model, feed.fetch(feed.draw(step)[0]), tools["ma"])
        moving.update(logs["reward"])
    return float(moving.value)


def measure(
    model: nn.Module, feed: Feed, tools: dict[str, Tools], options: argparse.Namespace
) -> dict[str, Any]:
    """Variances on each batch, the signal they are to be seen against, and their means."""
    rows: dict[str, dict[str, list[float]]] = {
        name: {"variances": [], "relatives": [], "rewards": []} for name in tools
    }
    signals = []
    for number in range(options.batches):
        batch = feed.fetch(feed.draw(number)[0])
        spreads = {name: Spread() for name in tools}
        for name, own in tools.items():
            rewards = 0.0
            for sampling in range(options.samplings):
                seed_noise(options.seed, number * options.samplings + sampling, 0)
                found, reward = gradient(model, batch, own)
                spreads[name].add(found)
                rewards += reward
            rows[name]["variances"].append(spreads[name].variance)
            rows[name]["rewards"].append(rewards / options.samplings)
        # The expected gradient is the same for all; the steadiest estimate of it is the best.
        signals.append(min(spreads.values(), key=lambda spread: spread.variance).signal)
        for name, spread in spreads.items():
            rows[name]["relatives"].append(spread.variance / signals[-1])
        print(f"batch {number + 1} of {options.batches}", flush=True)
    means = {
        name: {
            "variance": sum(own["variances"]) / options.batches,
            "relative": sum(own["variances"]) / sum(signals),
            **own,
        }
        for name, own in rows.items()
    }
    if sum(signals) <= 0:
        sys.exit("The noise drowns the signal: more --samplings are needed.")
    return {"signals": signals, "baselines": means}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="the run's folder: student_xe or cmal")
    parser.add_argument("--out", type=Path, required=True, help="a JSON file to write")
    parser.add_argument("--features", type=Path, help="by default the run's own")
    parser.add_argument("--name", help="what to call the folder; by default as it is given")
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--batch", type=int, default=50, help="images of a batch")
    parser.add_argument("--samplings", type=int, default=100, help="gradients of each batch")
    parser.add_argument("--samples", type=int, default=2, help="sentences an image; loo needs 2")
    parser.add_argument("--topk", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dropout", action="store_true")
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    if min(options.samplings, options.samples) < 2:
        parser.error("a variance needs two samplings, and leave-one-out two samples, at least")
    inputs, device = read_run(options), choose_device(options.device)
    model = inputs.model.to(device).train(options.dropout)
    feed = Feed(
        inputs.store,
        inputs.targets,
        batch=options.batch,
        captions=1,
        seed=options.seed,
        device=device,
        keep="host",  # a few batches are all that is read
    )
    tools = make_all_tools(inputs, model)
    average = settle(model, feed, tools, options.batches, options.seed)
    found = measure(model, feed, tools, options)
    feed.close()
    for name, row in found["baselines"].items():
        print(f"{name:6} variance {row['variance']:.4g}, {row['relative']:.4g} of the signal")
    names = ("batches", "batch", "samplings", "samples", "topk", "seed", "dropout")
    report = {
        "command": f"python {shlex.join(sys.argv)}",
        "run": options.name or str(options.run),
        "data": asdict(inputs.sign()),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "parameters": sum(p.numel() for p in model.parameters()),
        **{name: getattr(options, name) for name in names},
        "moving_average": average,
        **found,
    }
    options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
