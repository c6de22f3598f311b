"""How fast and how exact rewards are: public Python, numba, torch, on real COCO references.

python benchmarks/rewards.py --captions dataset_coco.json.xz --out docs/results/rewards.json
python benchmarks/rewards.py --captions ... --device cuda --out docs/results/rewards-gpu-1.json

On a CPU everything runs on one core, the forms in turns, so that a busy machine slows all of them
alike. A batch is what CMAL scores at once: captions of 50 images and each caption with one
word replaced by one of the k that its agent thinks likeliest.
"""

import argparse
import json
import platform
import shlex
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from naic.data.readers import read
from naic.data.records import Problems
from naic.learn.cider.ngrams import encode_reference
from naic.learn.cider.references import References
from naic.learn.cider.rewards import Rewards, make_rewards
from naic.text import PERIOD, UNK, Vocabulary

LENGTH = 16
TRAINING = ("train", "restval")
Batch = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class Corpus:
    """The training captions, their tables, and the words people use, by frequency."""

    captions: list[list[list[int]]]
    references: References
    chances: npt.NDArray[np.float64]  # (V,) of each word
    seconds: float


def load(path: Path) -> Corpus:
    """Read the training images and build the tables."""
    reading = read("karpathy", str(path), problems=Problems(), splits=TRAINING, with_images=False)
    texts = [record.captions for record in reading.records]
    vocabulary = Vocabulary.build(text for image in texts for text in image)
    started = time.perf_counter()
    references = References.build(texts, vocabulary)
    seconds = time.perf_counter() - started
    captions = [[encode_reference(text, vocabulary) for text in image] for image in texts]
    counts = np.zeros(len(vocabulary))
    for word, n in Counter(w for image in captions for ids in image for w in ids).items():
        counts[word] = n
    counts[UNK] = 0
    return Corpus(captions, references, counts / counts.sum(), seconds)


def make_batch(corpus: Corpus, seed: int, images: int, choices: int) -> Batch:
    """Sampled captions and likely words.

    A caption is one that people gave the image with every fifth word drawn anew; what agents say
    after the period is drawn too. The likeliest word of an agent is the one it said in two cases
    of three; the other alternatives are drawn as people use words.
    """
    random = np.random.default_rng(seed)
    index = random.choice(len(corpus.captions), images, replace=False)
    words = random.choice(len(corpus.chances), (images, LENGTH), p=corpus.chances)
    for row, image in enumerate(index):
        said = corpus.captions[image][random.integers(len(corpus.captions[image]))][:LENGTH]
        kept = (random.random(len(said)) < 0.8) | (np.array(said) == PERIOD)
        words[row, : len(said)] = np.where(kept, said, words[row, : len(said)])
    alternatives = random.choice(len(corpus.chances), (images, LENGTH, choices), p=corpus.chances)
    likeliest = random.random((images, LENGTH)) < 2 / 3
    alternatives[..., 0] = np.where(likeliest, words, alternatives[..., 0])
    return torch.from_numpy(words), torch.from_numpy(alternatives), torch.from_numpy(index)


class Public:
    """The public Python CIDEr-D, given the words of a batch as strings, as training code does."""

    def __init__(self, corpus: Corpus) -> None:
        from pycocoevalcap.cider.cider_scorer import CiderScorer

        self.scorer = CiderScorer
        self.texts = [[" ".join(map(str, ids)) for ids in image] for image in corpus.captions]
        counting = CiderScorer()
        for image in self.texts:
            counting.cook_append("", image)
        counting.compute_doc_freq()
        self.frequencies = counting.document_frequency  # it grows with each unknown n-gram

    def sentences(
        self, words: Tensor, alternatives: Tensor, images: Tensor
    ) -> tuple[list[str], list[int]]:
        """All sentences of a batch as strings; not part of what is timed."""
        sentences, owners = [], []
        for row, choices, image in zip(
            words.tolist(), alternatives.tolist(), images.tolist(), strict=True
        ):
            changed = [
                [*row[:agent], word, *row[agent + 1 :]]
                for agent in range(len(row))
                for word in choices[agent]
            ]
            for ids in [row, *changed]:
                end = ids.index(PERIOD) + 1 if PERIOD in ids else len(ids)
                sentences.append(" ".join(map(str, ids[:end])))
                owners.append(image)
        return sentences, owners

    def judge(self, words: Tensor, alternatives: Tensor, images: Tensor) -> tuple[float, Any, Any]:
        """Seconds for the scoring alone, and the scores (B,) and (B, N, k)."""
        sentences, owners = self.sentences(words, alternatives, images)
        scorer = self.scorer()
        scorer.document_frequency = self.frequencies
        scorer.crefs = _Sized()
        scorer.crefs.images = len(self.texts)
        started = time.perf_counter()
        for sentence, image in zip(sentences, owners, strict=True):
            scorer.cook_append(sentence, self.texts[image])
        scores = np.array(scorer.compute_cider())
        seconds = time.perf_counter() - started
        table = scores.reshape(len(words), -1)
        return seconds, table[:, 0], table[:, 1:].reshape(alternatives.shape)


def agreement(
    corpus: Corpus, public: Public, forms: dict[str, Rewards], sentences: int
) -> dict[str, Any]:
    """Public, numba and torch on so many sentences, with every way in which an end can change."""
    worst: dict[str, float] = dict.fromkeys(forms, 0.0)
    kinds: Counter[str] = Counter()
    bits_kept, seed = True, 10_000
    while kinds["sentences"] < sentences:
        words, alternatives, images = make_batch(corpus, seed, 50, 2)
        words[::3] = words[::3].masked_fill(words[::3] == PERIOD, UNK + 2)  # rows without an end
        alternatives[torch.rand(alternatives.shape, generator=_generator(seed)) < 0.1] = PERIOD
        _, base, changed = public.judge(words, alternatives, images)
        same = _count_kinds(words, alternatives, kinds)
        for name, form in forms.items():
            rewards, outcomes = form.judge(words, alternatives, images)
            score = form.score(words, images)
            gaps = np.abs(rewards.numpy() - base).max(), np.abs(outcomes.numpy() - changed).max()
            worst[name] = max(worst[name], *map(float, gaps))
            kept = outcomes[same] == score[:, None, None].expand_as(outcomes)[same]
            bits_kept = bits_kept and bool(kept.all())
        seed += 1
    return {"largest_difference": worst, "kinds": dict(kinds), "unchanged_to_the_bit": bits_kept}


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _count_kinds(words: Tensor, alternatives: Tensor, kinds: Counter[str]) -> Tensor:
    """Count the cases of a batch; tells where (B, N, k) the sentence stays what it was."""
    places = torch.arange(LENGTH)
    has = (words == PERIOD).any(1)[:, None, None]
    ends = torch.where(words == PERIOD, places + 1, LENGTH).amin(1)[:, None, None]
    places, different = places[:, None], alternatives != words[..., None]
    inside = places < ends
    kinds["sentences"] += len(words) + alternatives.numel()
    kinds["the replacement is a period"] += int(
        (different & (alternatives == PERIOD) & inside).sum()
    )
    kinds["the period is replaced"] += int((different & has & (places == ends - 1)).sum())
    kinds["no period at all"] += int((different & ~has).sum())
    kinds["after the period"] += int((~inside).expand_as(different).sum())
    kinds["the same word"] += int((~different).sum())
    return ~different | ~inside


class _Sized(list[Any]):
    """Looks to the public code like the whole training set."""

    images = 0

    def __len__(self) -> int:
        return self.images


def on_one_core(corpus: Corpus, rounds: int) -> dict[str, Any]:
    """The three forms in turns, and numba and torch for several k."""
    torch.set_num_threads(1)
    public = Public(corpus)
    forms: dict[str, Rewards] = {
        "numba": make_rewards(corpus.references, "cpu", form="numba"),
        "torch": make_rewards(corpus.references, "cpu", form="torch"),
    }
    batches = [make_batch(corpus, seed, 50, 2) for seed in range(rounds)]
    seconds: dict[str, list[float]] = defaultdict(list)
    worst, unchanged = dict.fromkeys(forms, 0.0), []
    for form in forms.values():
        form.judge(*batches[0])  # compiles
    for turn, batch in enumerate(batches):
        took, base, changed = public.judge(*batch)
        seconds["public"].append(took)
        unchanged.append(float((changed == base[:, None, None]).mean()))
        for name, form in forms.items():
            # Right after the public code has filled all caches, then batch after batch.
            seconds[f"{name}, first"].append(_seconds(form.judge, batch))
            seconds[name].append(statistics.median(_seconds(form.judge, b) for b in batches))
            found = [x.numpy() for x in form.judge(*batches[turn])]
            gap = max(np.abs(found[0] - base).max(), np.abs(found[1] - changed).max())
            worst[name] = max(worst[name], float(gap))
    milliseconds = {name: 1000 * statistics.median(times) for name, times in seconds.items()}
    return {
        "milliseconds": milliseconds,
        "ratio": {
            name: milliseconds["public"] / value
            for name, value in milliseconds.items()
            if name != "public"
        },
        "largest_difference": worst,
        "unchanged": statistics.mean(unchanged),
        "agreement": agreement(corpus, public, forms, sentences=100_000),
        "by_choices": _by_choices(corpus, forms, rounds),
    }


def _seconds(judge: Callable[..., object], batch: Batch) -> float:
    started = time.perf_counter()
    judge(*batch)
    return time.perf_counter() - started


def _by_choices(
    corpus: Corpus, forms: dict[str, Rewards], rounds: int
) -> dict[str, dict[str, float]]:
    """Milliseconds of each form for some k, all of them in turns."""
    seconds: dict[tuple[str, int], list[float]] = defaultdict(list)
    batches = [
        (k, make_batch(corpus, seed, 50, k)) for seed in range(rounds) for k in (1, 2, 5, 10)
    ]
    for _ in range(5):
        for choices, batch in batches:
            for name, form in forms.items():
                seconds[name, choices].append(_seconds(form.judge, batch))
    return {
        name: {
            str(k): 1000 * statistics.median(times)
            for (form, k), times in seconds.items()
            if form == name
        }
        for name in forms
    }


def on_a_gpu(corpus: Corpus) -> dict[str, Any]:
    """Eager, in a CUDA graph, compiled; and the agreement with numba on 100,000 sentences."""
    scorer = make_rewards(corpus.references, "cuda")
    exact = make_rewards(corpus.references, "cpu")
    times = {
        f"{images}x{1 + LENGTH * choices}": _gpu_times(corpus, scorer, images, choices)
        for images, choices in ((50, 2), (50, 5), (500, 2))
    }
    worst, sentences = 0.0, 0
    for seed in range(31):
        batch = make_batch(corpus, 1000 + seed, 100, 2)
        found = scorer.judge(*(x.cuda() for x in batch))
        for one, two in zip(found, exact.judge(*batch), strict=True):
            worst = max(worst, float((one.cpu() - two).abs().max()))
            sentences += two.numel()
    return {
        "milliseconds": times,
        "kernels": _count_kernels(corpus, scorer),
        "largest_difference": worst,
        "sentences": sentences,
    }


def _count_kernels(corpus: Corpus, scorer: Rewards) -> int:
    """How many kernels one call starts."""
    batch = [x.cuda() for x in make_batch(corpus, 0, 50, 2)]
    scorer.judge(*batch)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as found:
        scorer.judge(*batch)
        torch.cuda.synchronize()
    return sum(event.device_type.name == "CUDA" for event in found.events())


def _gpu_times(corpus: Corpus, scorer: Rewards, images: int, choices: int) -> dict[str, float]:
    batch = tuple(x.cuda() for x in make_batch(corpus, 0, images, choices))
    words, alternatives, index = batch

    def eager() -> None:
        scorer.judge(words, alternatives, index)

    eager()
    torch.cuda.synchronize()
    compiled = torch.compile(scorer.judge, fullgraph=True)

    def fused() -> None:
        compiled(words, alternatives, index)

    return {
        "eager": _gpu_time(eager),
        "graph": _gpu_time(_captured(eager)),
        "compiled, graph": _gpu_time(_captured(fused)),
    }


def _captured(work: Callable[[], None]) -> Callable[[], None]:
    """The same work as one CUDA graph."""
    for _ in range(3):
        work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def _gpu_time(work: Callable[[], object]) -> float:
    """Median milliseconds of a call with nothing else in flight, from the call to its end."""
    for _ in range(20):
        work()
    torch.cuda.synchronize()
    times = []
    for _ in range(200):
        started = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - started)
    return 1000 * statistics.median(times)


def _command(options: argparse.Namespace) -> str:
    """How to run this again; where the captions lay is nobody's business."""
    device = [] if options.device == "cpu" else ["--device", options.device]
    words = ["python", "benchmarks/rewards.py", "--captions", options.captions.name, *device]
    rounds = ["--rounds", str(options.rounds)] if options.device == "cpu" else []
    return shlex.join([*words, *rounds])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--captions", type=Path, required=True)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    corpus = load(options.captions)
    gpu = options.device == "cuda"
    run = {
        "command": _command(options),
        "machine": torch.cuda.get_device_name() if gpu else f"one core, {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "images": len(corpus.captions),
        "captions": sum(map(len, corpus.captions)),
        "ngrams": len(corpus.references.keys),
        "build_seconds": corpus.seconds,
        **({} if gpu else {"rounds": options.rounds}),
        **(on_a_gpu(corpus) if gpu else on_one_core(corpus, options.rounds)),
    }
    print(json.dumps(run, indent=2))
    if options.out:
        options.out.write_text(json.dumps(run, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
