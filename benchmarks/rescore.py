"""Captions of splits with a teacher that rescores, and what that costs.

python benchmarks/rescore.py data/features --student runs/student/best --teacher runs/teacher/best \
    --splits val --choices 5 10 20 --weights 0 0.3 --out rescored

Writes rescored/val-n10-w0.captions.json and so on, each in the form that `naic evaluate` takes, and
rescored/milliseconds.json: one image from its features on the device to a text on the host, the
student alone, with rescoring, and the teacher by beam search; all in one runtime, in turns. The
teacher writes a fixed number of words, as in `naic benchmark`. By default captions are as in the
paper's tables; --readable is as `naic caption` gives them.
"""

import argparse
import copy
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from naic.data.features import FeatureStore
from naic.decode.decoding import READABLE, Decoding
from naic.device import choose_device
from naic.errors import ConfigError, NaicError
from naic.files import write_atomically
from naic.models.transformer import CAUSAL, TransformerCaptioner
from naic.runtime.engines import EagerEngine, GraphEngine, Whole
from naic.runtime.rescore import Rescoring, as_said
from naic.runtime.rescorer import Rescorer, Watched
from naic.runtime.sentences import write
from naic.tasks.benchmark.models import Searched, Way
from naic.tasks.benchmark.rows import BEAM
from naic.tasks.benchmark.timing import Timed, machine, never_end, take_turns
from naic.tasks.options import WORDS
from naic.tasks.reproduce.scoring import report_rows
from naic.tasks.rescore import RescoredPair, load_pair, rescore_split
from naic.train.validate import results_file

Run = Callable[[], object]


def teacher_alone(pair: RescoredPair) -> Whole:
    """The teacher that writes by itself, `WORDS` words, whatever it sees."""
    model = pair.teacher.model
    if not isinstance(model, TransformerCaptioner):
        raise ConfigError(
            "--teacher", "it is no Transformer, and cannot be timed", "Use --no-time."
        )
    config = replace(model.config, length=WORDS)
    made = TransformerCaptioner(config, model.encoder.project.in_features, model.words, causal=True)
    made.load_state_dict(model.state_dict())
    never_end(made)
    return Searched(Whole(CAUSAL, made.eval(), None), Way(causal=True, width=BEAM))


def runs(
    pair: RescoredPair, features: Tensor, choices: Sequence[int], runtime: str, precision: str
) -> dict[str, Run]:
    """What is timed, by its name; features (1, R, F) are on the device."""
    kind = GraphEngine if runtime == "graph" else EagerEngine
    words, device = pair.loaded.vocabulary, features.device

    def student() -> Watched:
        return Watched(pair.loaded.spec, copy.deepcopy(pair.student), None, rounded=False)

    alone = kind(student(), 0, device, precision)
    found: dict[str, Run] = {"student": lambda: write(alone(features), None, words, READABLE)}
    for count in choices:
        engine = kind(student(), 0, device, precision)
        rescorer = Rescorer(copy.deepcopy(pair.teacher), Rescoring("", count), words, engine)

        def both(engine: EagerEngine = engine, rescorer: Rescorer = rescorer) -> object:
            said, order = rescorer(engine(features), READABLE)
            return write(said, order, words, as_said(READABLE))

        found[f"student, {count} rescored"] = both
    search = kind(teacher_alone(pair), 0, device, precision)
    return found | {f"teacher, beam {BEAM}": lambda: search(features)}


def milliseconds(
    pair: RescoredPair, store: FeatureStore, row: int, own: argparse.Namespace
) -> dict[str, Any]:
    """One image at a time, in the runtime that `naic caption` would choose."""
    device = choose_device(own.device)
    runtime, precision = ("graph", "float16") if device.type == "cuda" else ("eager", "float32")
    features = torch.from_numpy(store.batch([row])[0]).to(device)
    timed = take_turns(runs(pair, features, own.choices, runtime, precision), device, own.seconds)
    return {
        "runtime": runtime,
        "precision": precision,
        "batch": 1,
        "words": WORDS,
        "machine": machine(device),
        "rows": {name: _figures(found) for name, found in timed.items()},
    }


def _figures(found: Timed | Exception) -> dict[str, Any]:
    return {"why": str(found)} if isinstance(found, Exception) else found._asdict()


def caption(own: argparse.Namespace) -> None:
    """All that was asked for, into the folder `own.out`."""
    store = FeatureStore(own.store)
    pair = load_pair(store, own.student, own.teacher)
    own.out.mkdir(parents=True, exist_ok=True)
    decoding = READABLE if own.readable else Decoding()
    for split in own.splits:
        rows = report_rows(store, split)
        said = rescore_split(
            store,
            rows,
            pair,
            choices=own.choices,
            weights=own.weights,
            decoding=decoding,
            batch=own.batch,
            device=own.device,
            precision=own.precision,
        )
        for (count, weight), captions in said.items():
            name = f"{split.replace('/', '-')}-n{count}-w{weight:g}.captions.json"
            write_atomically(own.out / name, results_file(captions))
            print(f"{own.out / name}: {len(captions):,} captions")
    if own.time:
        # Loaded anew: what captioned is on its device by now.
        fresh = load_pair(store, own.student, own.teacher)
        found = milliseconds(fresh, store, report_rows(store, own.splits[0])[0], own)
        write_atomically(own.out / "milliseconds.json", f"{json.dumps(found, indent=2)}\n".encode())
        for name, row in found["rows"].items():
            print(f"{name}: {row.get('median_ms', row.get('why'))}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("store", type=Path, help="features that both models read")
    parser.add_argument("--student", type=Path, required=True)
    parser.add_argument("--teacher", type=Path, required=True)
    parser.add_argument("--splits", nargs="+", default=["val"])
    parser.add_argument("--choices", nargs="+", type=int, default=[5, 10, 20])
    parser.add_argument("--weights", nargs="+", type=float, default=[0.0])
    parser.add_argument("--out", type=Path, required=True, help="a folder")
    parser.add_argument("--readable", action="store_true", help="no repeats, no loose ends")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--device", default="auto")
    parser.add_argument(
        "--precision", choices=("float32", "bfloat16", "float16"), default="float32"
    )
    parser.add_argument("--seconds", type=float, default=1.0, help="that each row is timed")
    parser.add_argument("--no-time", dest="time", action="store_false")
    try:
        caption(parser.parse_args(arguments))
    except NaicError as error:
        raise SystemExit(f"rescore: {error}") from None


if __name__ == "__main__":
    main()
