r"""Trials of `naic finetune` as people use it: a style, new words, a domain.

python benchmarks/finetune_trials.py style data/flickr8k --out docs/results/finetune
python benchmarks/finetune_trials.py words data/flickr8k --out docs/results/finetune
python benchmarks/finetune_trials.py domain data/flickr8k --features data/flickr8k-features \
    --coco data/coco-val-features \
    --sizes 100 500 2000 6000 --seeds 1 2 3 --out docs/results/finetune

The folder is Flickr8k as `naic prepare` reads it. Photos to learn from are of its training list,
photos that are captioned afterwards of its dev list; none of test is read. A style is put on what
the model says itself, so that it is known what a photo's caption should be; new words are those
people could use for a thing that the model calls otherwise. The domain is people's captions; its
features (`finetune_features.py`) are made once and put where the command would put them.
"""

import argparse
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from naic.data.features import FeatureStore, read_features
from naic.data.readers import read
from naic.data.records import Problems, Record
from naic.data.storewriter import ShardRows, StoreWriter
from naic.files import FINETUNING
from naic.images.sources import FileImage
from naic.metrics.cider import cider
from naic.models.folder import load_model
from naic.progress import SILENT
from naic.resume import claim, keep_request
from naic.runtime.captioner import Captioner, shipped_model
from naic.tasks.finetune import run as task
from naic.tasks.finetune import steps
from naic.tasks.finetune.plan import FinetuneOptions, make_plan
from naic.text import tokenise

SEED, LEARNT, UNSEEN = 5, 60, 200
NAIC = str(Path(sys.executable).with_name("naic"))
ARTICLES = ("a", "an", "the", "is", "are")
NEW = {  # words that the model does not know, and what people call so
    "hund": r"(?i)\b(dog|puppy|dogs|puppies)\b",
    "velo": r"(?i)\b(bike|bicycle|motorcycle|motorbike|bikes|bicycles|motorcycles|motorbikes)\b",
}
STYLES: dict[str, Callable[[str], str]] = {
    "photo-of": lambda text: f"photo of {text}",
    "telegram": lambda text: " ".join(word for word in text.split() if word not in ARTICLES),
    "capitals": str.upper,
    "sentences": lambda text: f"{text.capitalize()}.",
}


def chosen(folder: Path, split: str) -> list[Record]:
    """The photos of a split in an order of chance."""
    reading = read("flickr8k", str(folder), problems=Problems(skip=True), splits=(split,))
    return random.Random(SEED).sample(reading.records, len(reading.records))


def photo(record: Record) -> Path:
    assert isinstance(record.image, FileImage)
    return record.image.path.absolute()


def run(table: Path, out: Path, *more: str) -> tuple[dict[str, Any], float]:
    """`naic finetune` as a command; its report, and the seconds until all is there."""
    began = time.perf_counter()
    words = [NAIC, "finetune", str(table), "--out", str(out), *more]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - began
    return without_paths(json.loads((out / "report.json").read_text(encoding="utf-8"))), seconds


def without_paths(report: dict[str, Any]) -> dict[str, Any]:
    """What a report says wherever the photos lie: their names, and no command."""
    for own, key in (("examples", "id"), ("problems", "where")):
        report[own] = [{**row, key: Path(row[key]).name} for row in report[own]]
    return {name: value for name, value in report.items() if name != "command"}


def write_table(path: Path, rows: Sequence[tuple[Path, str]]) -> Path:
    lines = [json.dumps({"image": str(image), "caption": text}) for image, text in rows]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def words_of(text: str) -> list[str]:
    return [word for word in tokenise(text) if word not in ARTICLES]


def style_trials(folder: Path, out: Path) -> None:
    """60 photos with the model's own captions in a style, and with a third of people's instead."""
    learnt, unseen = chosen(folder, "train")[:LEARNT], chosen(folder, "val")[:UNSEEN]
    captioner = Captioner()
    own = captioner([photo(record) for record in learnt])
    before = captioner([photo(record) for record in unseen])
    for name, write in STYLES.items():
        for corrected in (False, True) if name == "photo-of" else (False,):
            path = out / f"style-{name}{'-corrected' if corrected else ''}.json"
            if path.exists():
                continue
            captions = [
                record.captions[0].rstrip(" .").lower() if corrected and number % 3 == 0 else text
                for number, (record, text) in enumerate(zip(learnt, own, strict=True))
            ]
            with tempfile.TemporaryDirectory() as temporary:
                rows = [(photo(r), write(c)) for r, c in zip(learnt, captions, strict=True)]
                table = write_table(Path(temporary) / "captions.jsonl", rows)
                report, seconds = run(table, Path(temporary) / "out")
                after = Captioner(Path(temporary) / "out" / "best")(
                    [photo(record) for record in unseen]
                )
            pairs = list(zip(after, before, strict=True))
            found = {
                "trial": "style",
                "name": path.stem.removeprefix("style-"),
                "unseen": len(pairs),
                "in_style": _share(_is_written(name, text) for text, _ in pairs),
                "same_words": _share(_bare(name, text) == words_of(said) for text, said in pairs),
                "examples": pairs[:5],
                "seconds": seconds,
                "report": report,
            }
            path.write_text(json.dumps(found, indent=1), encoding="utf-8")
            print(path.stem, found["in_style"], found["same_words"], round(seconds), flush=True)


def _is_written(name: str, text: str) -> bool:
    if name == "photo-of":
        return text.startswith("photo of ") and text.count("photo of") == 1
    if name == "telegram":
        return not set(tokenise(text)) & set(ARTICLES)
    return text.isupper() if name == "capitals" else text[0].isupper() and text.endswith(".")


def _bare(name: str, text: str) -> list[str]:
    """The words of a caption without its style, articles left out."""
    return words_of(text.removeprefix("photo of ") if name == "photo-of" else text)


def _share(values: Any) -> float:  # noqa: ANN401 - of truths
    return float(np.mean(list(values)))


def words_trial(folder: Path, out: Path) -> None:
    """Two new words in 30 photos each."""
    path = out / "words.json"
    if path.exists():
        return

    def showing(records: list[Record], word: str) -> list[Record]:
        others = [pattern for own, pattern in NEW.items() if own != word]
        return [
            record
            for record in records
            if sum(bool(re.search(NEW[word], text)) for text in record.captions) >= 4
            and not any(re.search(own, text) for own in others for text in record.captions)
        ]

    train, dev = chosen(folder, "train"), chosen(folder, "val")
    learnt = {word: showing(train, word)[:30] for word in NEW}
    unseen = {word: showing(dev, word)[:100] for word in NEW}
    others = [
        r for r in dev if not any(re.search(own, t) for own in NEW.values() for t in r.captions)
    ]
    with tempfile.TemporaryDirectory() as temporary:
        rows = []
        for word, records in learnt.items():
            for record in records:
                text = next(t for t in record.captions if re.search(NEW[word], t))
                rows.append((photo(record), re.sub(NEW[word], word, text)))
        table = write_table(Path(temporary) / "captions.jsonl", rows)
        report, seconds = run(table, Path(temporary) / "out")
        captioner = Captioner(Path(temporary) / "out" / "best")
        said = {word: captioner([photo(record) for record in own]) for word, own in unseen.items()}
        elsewhere = captioner([photo(record) for record in others[:UNSEEN]])
    found = {
        "trial": "words",
        "learnt": {word: len(own) for word, own in learnt.items()},
        "unseen": {word: len(own) for word, own in unseen.items()},
        "said": {w: _share(w in tokenise(text) for text in own) for w, own in said.items()},
        "elsewhere": _share(not NEW.keys().isdisjoint(tokenise(text)) for text in elsewhere),
        "others": len(elsewhere),
        "examples": {word: own[:5] for word, own in said.items()},
        "seconds": seconds,
        "report": report,
    }
    path.write_text(json.dumps(found, indent=1), encoding="utf-8")
    print("words", found["said"], found["elsewhere"], round(seconds), flush=True)


@cache
def before(store: FeatureStore) -> float:
    """CIDEr of the model that all begin with."""
    return score(shipped_model(), store)


def score(model: Path, store: FeatureStore) -> float:
    """CIDEr of a model on all photos of the split "val" of a store."""
    rows = steps.rows_of(store, "val")
    said = steps.say(load_model(model), store, rows, "cpu")
    people = {store.records[row].id: store.records[row].captions for row in rows}
    wanted = [[" ".join(tokenise(text)) for text in own] for own in people.values()]
    return cider([" ".join(tokenise(said[id_])) for id_ in people], wanted).value


def lay_features(options: FinetuneOptions, store: FeatureStore) -> None:
    """The features of a table's photos where `naic finetune` would put them."""
    folder, loaded, given = task._find(options, SILENT)
    plan = make_plan(options, given, loaded.vocabulary)
    with claim(options.out):
        asked = task._request(options, folder, plan)
        keep_request(options.out / FINETUNING, asked, "fine-tuning")
    places = {record.id: row for row, record in enumerate(store.records)}
    folder = options.out / steps.WORK / steps.FEATURES
    folder.mkdir(parents=True)
    keys = ("backbone", "weights", "pixels", "regions", "dim", "dtype", "device", "batch")
    settings = {"reader": plan.reader, **{key: store.index[key] for key in keys}}
    writer = StoreWriter(folder, plan.reading.records, settings, 512, notes={"tuned": True})
    for number in writer.missing:
        span = writer.span(number)
        rows = np.array([places[Path(plan.reading.records[place].id).name] for place in span])
        block = read_features(store, rows, store.index["regions"])[0]
        lengths = [block.shape[1]] * len(rows)
        writer.write(number, ShardRows(list(span), lengths, block.reshape(-1, store.dim)), [])
    writer.finish()


def domain_trial(
    folder: Path, store: FeatureStore, coco: FeatureStore, size: int, seed: int, out: Path
) -> None:
    """So many photos with people's captions."""
    path = out / f"domain-{size}-{seed}.json"
    if path.exists():
        return
    photos = random.Random(seed).sample(chosen(folder, "train"), size)
    with tempfile.TemporaryDirectory() as temporary:
        rows = [(photo(record), text) for record in photos for text in record.captions]
        table = write_table(Path(temporary) / "captions.jsonl", rows)
        options = FinetuneOptions(
            str(table), Path(temporary) / "out", style=False, new_words=0, seed=seed, device="cpu"
        )
        began = time.perf_counter()
        lay_features(options, store)
        done = task.finetune(options)
        best = options.out / steps.BEST
        found = {
            "trial": "domain",
            "photos": size,
            "seed": seed,
            "dev": {"before": before(store), "after": score(best, store)},
            "coco": {"before": before(coco), "after": score(best, coco)},
            "seconds": time.perf_counter() - began,
            "report": without_paths({**asdict(done), "examples": []}),
        }
        shutil.rmtree(options.out)
    path.write_text(json.dumps(found, indent=1), encoding="utf-8")
    print(path.stem, found["dev"], found["coco"], done.verdict, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trial", choices=["style", "words", "domain"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--features", type=Path)
    parser.add_argument("--coco", type=Path)
    parser.add_argument("--sizes", type=int, nargs="*", default=[100])
    parser.add_argument("--seeds", type=int, nargs="*", default=[1])
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    if asked.trial == "style":
        style_trials(asked.folder, asked.out)
    elif asked.trial == "words":
        words_trial(asked.folder, asked.out)
    else:
        stores = FeatureStore(asked.features), FeatureStore(asked.coco)
        for size in asked.sizes:
            for seed in asked.seeds:
                domain_trial(asked.folder, *stores, size, seed, asked.out)


if __name__ == "__main__":
    main()
