"""CPU time of tokenising and scoring COCO's val split, ours against the public evaluation.

    python benchmarks/metrics.py --captions dataset_coco.json.xz [--out docs/results/metrics.json]

Needs java and the extra `metrics`. Both sides get the same captions and do the same work: cut them
into tokens, then BLEU, ROUGE-L and CIDEr-D. Each side runs in a process of its own, in turns; what
counts is CPU time, the user's and the system's, Java's included, and the best run of each side.
The clock starts when the modules are imported and the captions are in memory. Then the same from
the start of a process to its end: `naic evaluate`, which adds intervals and habits, against the
public classes with COCO's own reader, both on the same two files in COCO's formats.
"""

import argparse
import json
import lzma
import os
import platform
import random
import resource
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from naic.metrics.cider import bleu, cider, rouge_l
from naic.metrics.score import Score
from naic.text import tokenise

PARTS = ("tokenise", "BLEU", "ROUGE-L", "CIDEr")


@dataclass(frozen=True)
class Captions:
    """What is scored: one hypothesis an image, and its references."""

    hypotheses: list[str]
    references: list[list[str]]


@dataclass(frozen=True)
class Answer:
    """What one side gave: CPU seconds of each part, scores, and the tokens they were made from."""

    seconds: dict[str, float]
    values: list[float]  # Bleu_1 to Bleu_4, ROUGE_L, CIDEr
    per_image: list[list[float]]
    tokens: Captions

    @property
    def total(self) -> float:
        return sum(self.seconds.values())


def read_split(path: Path, *splits: str) -> list[list[str]]:
    """The captions of each image of some splits of a Karpathy file, plain or xz."""
    opener = lzma.open if path.suffix == ".xz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        images = json.load(file)["images"]
    return [[s["raw"] for s in image["sentences"]] for image in images if image["split"] in splits]


def corrupt(sentences: list[str], *, share: float, seed: int) -> list[str]:
    """Replace a share of the words by words of other sentences: captions right in part."""
    rng = random.Random(seed)
    words = [word for sentence in sentences for word in sentence.split()]
    return [
        " ".join(rng.choice(words) if rng.random() < share else word for word in sentence.split())
        for sentence in sentences
    ]


def cpu_seconds(whose: tuple[int, ...] = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) -> float:
    """CPU time so far, of this process and of the children that have ended."""
    usages = [resource.getrusage(who) for who in whose]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


class Laps:
    """CPU seconds of each part, one after the other."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.last = cpu_seconds()

    def done(self, part: str) -> None:
        now = cpu_seconds()
        self.seconds[part], self.last = now - self.last, now


def score(tokens: Captions, laps: Laps) -> list[Score]:
    """Our scores of sentences that are tokenised."""
    scores = bleu(tokens.hypotheses, tokens.references)
    laps.done("BLEU")
    scores.append(rouge_l(tokens.hypotheses, tokens.references))
    laps.done("ROUGE-L")
    scores.append(cider(tokens.hypotheses, tokens.references))
    laps.done("CIDEr")
    return scores


def run_ours(captions: Captions) -> Answer:
    laps = Laps()
    tokens = Captions(
        [" ".join(tokenise(text)) for text in captions.hypotheses],
        [[" ".join(tokenise(text)) for text in texts] for texts in captions.references],
    )
    laps.done("tokenise")
    scores = score(tokens, laps)
    images = [one.per_image.tolist() for one in scores]
    return Answer(laps.seconds, [one.value for one in scores], images, tokens)


def run_public(captions: Captions) -> Answer:
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.rouge.rouge import Rouge
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    wanted = {i: [{"caption": t} for t in texts] for i, texts in enumerate(captions.references)}
    given = {i: [{"caption": text}] for i, text in enumerate(captions.hypotheses)}
    laps = Laps()
    references, hypotheses = PTBTokenizer().tokenize(wanted), PTBTokenizer().tokenize(given)
    laps.done("tokenise")
    values, images = Bleu().compute_score(references, hypotheses, verbose=0)
    laps.done("BLEU")
    for metric, part in ((Rouge(), "ROUGE-L"), (Cider(), "CIDEr")):
        value, each = metric.compute_score(references, hypotheses)
        laps.done(part)
        values, images = [*values, float(value)], [*images, each.tolist()]
    tokens = Captions([hypotheses[i][0] for i in given], [references[i] for i in given])
    return Answer(laps.seconds, values, images, tokens)


def run_apart(side: str, captions: Path) -> Answer:
    """One side in a fresh process."""
    answer = captions.with_name("answer.json")
    command = [sys.executable, __file__, "--side", side, "--captions", str(captions)]
    done = subprocess.run([*command, "--out", str(answer)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{side} failed:\n{done.stderr}")
    found = json.loads(answer.read_text(encoding="utf-8"))
    return Answer(**found | {"tokens": Captions(**found["tokens"])})


def run_side(side: str, captions: Path, out: Path) -> None:
    """What the fresh process does."""
    found = Captions(**json.loads(captions.read_text(encoding="utf-8")))
    answer = run_public(found) if side == "public" else run_ours(found)
    out.write_text(json.dumps(asdict(answer)), encoding="utf-8")


WHOLE_PUBLIC = """
import sys
from pycocotools.coco import COCO
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.rouge.rouge import Rouge
from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer
coco = COCO(sys.argv[1])
results = coco.loadRes(sys.argv[2])
tokenizer = PTBTokenizer()
wanted = tokenizer.tokenize({i: coco.imgToAnns[i] for i in coco.getImgIds()})
given = tokenizer.tokenize({i: results.imgToAnns[i] for i in coco.getImgIds()})
for metric in (Bleu(4), Rouge(), Cider()):
    print(metric.compute_score(wanted, given)[0])
"""


def run_whole(captions: Captions, rounds: int) -> dict[str, list[float]]:
    """CPU seconds of whole processes, from two files to the scores on the screen."""
    images = range(len(captions.hypotheses))
    annotations = [(i, text) for i, texts in enumerate(captions.references) for text in texts]
    references = {
        "images": [{"id": i, "file_name": f"{i}.jpg"} for i in images],
        "annotations": [
            {"id": number, "image_id": i, "caption": text}
            for number, (i, text) in enumerate(annotations)
        ],
        "type": "captions",
    }
    given = [{"image_id": i, "caption": captions.hypotheses[i]} for i in images]
    seconds: dict[str, list[float]] = {"public": [], "ours": []}
    with tempfile.TemporaryDirectory() as folder:
        files = [str(Path(folder) / name) for name in ("captions_val.json", "results.json")]
        for file, value in zip(files, (references, given), strict=True):
            Path(file).write_text(json.dumps(value), encoding="utf-8")
        naic = ["-m", "naic", "evaluate", files[1], "--references", files[0], "--fast"]
        for _ in range(rounds):
            for side, words in (("public", ["-c", WHOLE_PUBLIC, *files]), ("ours", naic)):
                before = cpu_seconds((resource.RUSAGE_CHILDREN,))
                subprocess.run([sys.executable, *words], check=True, capture_output=True)
                seconds[side].append(cpu_seconds((resource.RUSAGE_CHILDREN,)) - before)
    return {side: [round(value, 3) for value in values] for side, values in seconds.items()}


def differences(ours: Answer, public: Answer) -> dict[str, dict[str, float]]:
    """How far apart the scores are: ours on the public tokens, and each side on its own."""
    scores = score(public.tokens, Laps())
    return {
        one.name: {
            "public_value": public.values[place],
            "largest_on_the_same_tokens": max(
                abs(one.value - public.values[place]),
                float(np.abs(one.per_image - public.per_image[place]).max()),
            ),
            "of_the_set_with_own_tokens": abs(ours.values[place] - public.values[place]),
        }
        for place, one in enumerate(scores)
    }


def tokens_apart(ours: Captions, public: Captions) -> int:
    """Sentences, hypotheses and references alike, whose tokens are not the same."""
    pairs = [*zip(ours.hypotheses, public.hypotheses, strict=True)]
    for mine, theirs in zip(ours.references, public.references, strict=True):
        pairs += zip(mine, theirs, strict=True)
    return sum(mine != theirs for mine, theirs in pairs)


def measure(captions: Captions, rounds: int) -> dict[str, object]:
    """Both sides in turns, and all that is to be said about them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "captions.json"
        path.write_text(json.dumps(asdict(captions)), encoding="utf-8")
        turns = [(run_apart("public", path), run_apart("ours", path)) for _ in range(rounds)]
    public = min((turn[0] for turn in turns), key=lambda answer: answer.total)
    ours = min((turn[1] for turn in turns), key=lambda answer: answer.total)
    print(table(public.seconds, ours.seconds))
    whole = run_whole(captions, rounds)
    return {
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "images": len(captions.hypotheses),
        "references": sum(map(len, captions.references)),
        "rounds": rounds,
        "cpu_seconds_public": {k: round(v, 3) for k, v in public.seconds.items()},
        "cpu_seconds_ours": {k: round(v, 3) for k, v in ours.seconds.items()},
        "totals_public": [round(turn[0].total, 3) for turn in turns],
        "totals_ours": [round(turn[1].total, 3) for turn in turns],
        "ratio": round(public.total / ours.total, 1),
        "whole_process": whole,
        "whole_ratio": round(min(whole["public"]) / min(whole["ours"]), 1),
        "sentences_tokenised_otherwise": tokens_apart(ours.tokens, public.tokens),
        "differences": differences(ours, public),
    }


def table(public: dict[str, float], ours: dict[str, float]) -> str:
    lines = [f"{'CPU seconds':12}{'public':>9}{'ours':>9}{'ratio':>8}"]
    rows = [(part, public[part], ours[part]) for part in PARTS]
    rows.append(("all", sum(public.values()), sum(ours.values())))
    lines += [f"{part:12}{a:9.2f}{b:9.2f}{a / b:8.1f}" for part, a, b in rows]
    return "\n".join(lines)


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description="CPU time of the metrics, ours and the public.")
    parser.add_argument("--captions", type=Path, required=True, help="dataset_coco.json[.xz]")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="a JSON file to write")
    parser.add_argument("--side", choices=("ours", "public"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.side:
        run_side(chosen.side, chosen.captions, chosen.out)
        return
    references = read_split(chosen.captions, "val")
    hypotheses = corrupt([texts[0] for texts in references], share=0.25, seed=0)
    command = "python benchmarks/metrics.py --captions $NAIC_COCO/dataset_coco.json.xz"
    captions = Captions(hypotheses, references)
    result = {"command": f"{command} --rounds {chosen.rounds}"} | measure(captions, chosen.rounds)
    print(json.dumps(result, indent=2))
    if chosen.out:
        chosen.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
