"""Two models on one clock: the one that ships, and the one before it.

python -m benchmarks.two_models --old runs/shipped-lite2 --device cuda \
    --out docs/results/speed/models/h200.json
python -m benchmarks.two_models --old runs/shipped-lite2 --device cpu --images train2017 \
    --out docs/results/speed/models/cpu.json

From pixels to words the two take turns, in each runtime and at each batch. With --images they also
caption a folder by `naic caption`, one command after the other, in float32 or float16 as it comes
and in int8 on a processor; the rate is that from the second batch of captions on. Both folders are
as `naic pack` or `naic train` leaves them; --new is by default the model inside naic.
"""

import argparse
import json
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from benchmarks.caption_folder import command, steady

from naic import __version__
from naic.device import choose_device, keep_freed_memory
from naic.runtime.captioner import BATCH, shipped_model
from naic.runtime.export import export_graph
from naic.runtime.load import load_whole
from naic.tasks.benchmark.models import Contest, Way, make_pairs
from naic.tasks.benchmark.timing import Timed, machine, take_turns

BATCHES = {"cuda": (1, 16, 256), "cpu": (1, 16)}
ENGINES = {
    "cuda": (("graph", "float16"), ("eager", "float16")),
    "cpu": (("eager", "float32"), ("onnx", "float32"), ("onnx", "int8")),
}


class Given(NamedTuple):
    """What a model is given to caption a folder: `naic caption`'s own options."""

    who: str
    precision: str
    options: tuple[str, ...]


def describe(folder: Path, contest: Contest) -> dict[str, Any]:
    """What is timed."""
    loaded = contest.loaded
    return {
        "sight": loaded.whole.spec.backbone(loaded.settings.model) or loaded.settings.backbone,
        "pixels": loaded.pixels,
        "weights": sum(parameter.numel() for parameter in loaded.whole.parameters()),
        "bytes": sum(path.stat().st_size for path in folder.iterdir() if path.is_file()),
    }


def pixels_to_words(
    contests: Mapping[str, Contest], batches: Sequence[int], device: torch.device, seconds: float
) -> list[dict[str, Any]]:
    """A row for each runtime and batch, with the milliseconds of both."""
    rows = []
    for batch in batches:
        for runtime, precision in ENGINES[device.type]:
            for text in (False, True):
                runs = {
                    who: own.runner("whole", Way(text=text), runtime, precision, batch)
                    for who, own in contests.items()
                }
                found = take_turns(runs, device, seconds)
                row = {"runtime": runtime, "precision": precision, "batch": batch, "text": text}
                rows.append(row | {who: _figures(own) for who, own in found.items()})
    return rows


def _figures(found: Timed | Exception) -> dict[str, Any]:
    return {"why": str(found)} if isinstance(found, Exception) else found._asdict()


def forms(models: Mapping[str, Path], device: torch.device, folder: Path) -> list[Given]:
    """Each model as it is, and on a processor in int8 too."""
    on = ("--device", str(device))
    given = []
    for who, model in models.items():
        plain = "float16" if device.type == "cuda" else "float32"
        given.append(Given(who, plain, ("--model", str(model), *on)))
        if device.type == "cpu":
            path = folder / f"{who}.onnx"
            path.write_bytes(export_graph(str(model), load_whole(model), "int8").graph)
            given.append(Given(who, "int8", ("--model", str(path), *on)))
    return given


def folder_rates(
    given: Sequence[Given], images: Sequence[Path], rounds: int, folder: Path
) -> list[dict[str, Any]]:
    """Images a second of each, by `naic caption`; they take turns."""
    listed = folder / "images.list"
    listed.write_text("".join(f"{path}\n" for path in images), encoding="utf-8")
    later: dict[Given, list[float]] = {own: [] for own in given}
    whole: dict[Given, list[float]] = {own: [] for own in given}
    for _ in range(rounds):
        for own in given:
            taken, seen = command(listed, folder, own.options)
            later[own].append(steady(seen))
            whole[own].append(len(images) / taken)
    return [
        {
            "model": own.who,
            "precision": own.precision,
            "a second": statistics.median(later[own]),
            "with its start, a second": statistics.median(whole[own]),
        }
        for own in given
    ]


def measure(own: argparse.Namespace) -> dict[str, Any]:
    device = choose_device(own.device)
    if device.type == "cpu":
        keep_freed_memory()  # as a Captioner does
    models = {"old": own.old, "new": own.new or shipped_model()}
    contests = {}
    for who, folder in models.items():
        loaded = load_whole(folder)
        contests[who] = Contest(loaded, make_pairs(loaded, None, 1), device)
    batches = own.batches or BATCHES[device.type]
    made = {
        "naic": __version__,
        "machine": machine(device),
        "seconds": own.seconds,
        "models": {who: describe(models[who], contest) for who, contest in contests.items()},
        "rows": pixels_to_words(contests, batches, device, own.seconds),
    }
    if own.images is not None:
        del contests  # the commands are processes of their own, and want the memory
        files = sorted(own.images.rglob("*.jpg"))[: own.count]
        with tempfile.TemporaryDirectory() as name:
            given = forms(models, device, Path(name))
            rates = folder_rates(given, files, own.rounds, Path(name))
        made["folder"] = {"images": len(files), "rounds": own.rounds, "rates": rates}
    return made


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--old", type=Path, required=True, help="the folder of a model")
    parser.add_argument("--new", type=Path, help="likewise; default: the model inside naic")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--batches", type=int, nargs="+")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each figure")
    parser.add_argument("--images", type=Path, help="a folder of JPEGs to caption")
    parser.add_argument("--count", type=int, default=20 * BATCH, help="so many of them")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True)
    own = parser.parse_args(arguments)
    own.out.parent.mkdir(parents=True, exist_ok=True)
    own.out.write_text(json.dumps(measure(own), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
