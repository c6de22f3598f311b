"""Which function words practically never end a human caption: the calibration of BAD_ENDINGS.

    python benchmarks/endings.py --captions dataset_coco.json.xz --out docs/results/endings.json

Counts in the training captions how often each candidate is used and how often it comes last. The
words that pass are to be those of `naic.text.vocabulary.BAD_ENDINGS`; how often people themselves
end on one is measured on captions that played no part in the choice.
"""

import argparse
import json
from collections import Counter
from pathlib import Path

from naic.data.readers.captions import read_captions
from naic.data.records import Problems
from naic.metrics.score import habits
from naic.text import tokenise
from naic.text.vocabulary import BAD_ENDINGS

TRAINING, HELD_OUT = ("train", "restval"), ("val",)
LEAST_USES = 1000  # with fewer, a share of 1 in 100 cannot be told
MOST_LAST = 0.01  # of a word's uses, at the end of a caption
# Words of the closed classes: none of them names a thing.
CANDIDATES = (
    *("a", "an", "the", "this", "these", "those", "some", "several", "many", "each", "every"),
    *("his", "her", "its", "their", "my", "your", "and", "or", "but", "while", "as", "that"),
    *("which", "who", "than", "if", "when", "where", "of", "in", "on", "at", "with", "without"),
    *("to", "from", "into", "onto", "for", "by", "near", "under", "over", "above", "below"),
    *("behind", "between", "among", "through", "across", "along", "around", "against", "during"),
    *("beside", "inside", "outside", "toward", "towards", "off", "up", "down", "next", "very"),
    *("is", "are", "was", "be", "being", "has", "have", "can", "will"),
)


def sentences(path: Path, splits: tuple[str, ...]) -> list[str]:
    read = read_captions(str(path), splits=splits, problems=Problems())
    return [" ".join(tokenise(caption)) for image in read.images for caption in image.captions]


def calibrate(training: list[str]) -> dict[str, dict[str, float]]:
    """Uses, ends and their ratio for each candidate, the rarest endings first."""
    uses, ends = Counter[str](), Counter[str]()
    for sentence in training:
        words = sentence.split(" ")
        uses.update(words)
        ends[words[-1]] += 1
    rows = {
        word: {"uses": uses[word], "last": ends[word], "share": ends[word] / uses[word]}
        for word in CANDIDATES
        if uses[word] >= LEAST_USES
    }
    return dict(sorted(rows.items(), key=lambda row: (row[1]["share"], row[0])))


def main() -> None:
    parser = argparse.ArgumentParser(description="Calibrate the list of bad endings.")
    parser.add_argument("--captions", type=Path, required=True, help="dataset_coco.json[.xz]")
    parser.add_argument("--out", type=Path, required=True, help="a JSON file to write")
    args = parser.parse_args()
    training, held_out = sentences(args.captions, TRAINING), sentences(args.captions, HELD_OUT)
    words = calibrate(training)
    passed = sorted(word for word, row in words.items() if row["share"] < MOST_LAST)
    rates = {
        "+".join(splits): {
            "captions": len(found),
            "bad_endings": habits(found).bad_endings,
            "repeats": habits(found).repeats,
        }
        for splits, found in ((TRAINING, training), (HELD_OUT, held_out))
    }
    run = {
        "command": "python benchmarks/endings.py --captions dataset_coco.json.xz"
        " --out docs/results/endings.json",
        "least_uses": LEAST_USES,
        "most_last": MOST_LAST,
        "chosen": passed,
        "humans": rates,
        "words": words,
    }
    args.out.write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
    if passed != sorted(BAD_ENDINGS):
        print("BAD_ENDINGS in naic/text/vocabulary.py is to be:", ", ".join(passed))


if __name__ == "__main__":
    main()
