"""The captions of a split by a model, in the form that `naic evaluate` and COCO's server take.

python benchmarks/caption_split.py runs/packed --features data/coco-pixels --split val --out v.json
"""

import argparse
from pathlib import Path

from naic.data.features import FeatureStore
from naic.decode.decoding import Decoding
from naic.device import choose_device
from naic.errors import NaicError
from naic.files import write_atomically
from naic.models.folder import load_model
from naic.models.teacher import check_features
from naic.tasks.reproduce.scoring import report_rows
from naic.train.validate import Validator


def caption(
    model: Path,
    features: Path,
    split: str,
    *,
    beam: int = 1,
    repeats: bool = False,
    batch: int = 256,
    device: str = "auto",
) -> bytes:
    """A results file; `features` are what the model reads, pixels for one that has a backbone."""
    store, chosen = FeatureStore(features), choose_device(device)
    loaded = load_model(model, device=chosen)
    check_features(model, loaded.settings, store)
    rows = report_rows(store, split)
    validator = Validator(store, rows, loaded.vocabulary, batch=batch, device=chosen)
    return validator.validate(loaded.model, loaded.spec, Decoding(beam, repeats)).results()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--features", type=Path, required=True)
    parser.add_argument("--split", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--repeats", action="store_true", help="as in the tables of the paper")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--device", default="auto")
    own = parser.parse_args()
    try:
        options = {key: value for key, value in vars(own).items() if key != "out"}
        found = caption(**options)
        write_atomically(own.out, found)
    except NaicError as error:
        raise SystemExit(f"caption_split: {error}") from None


if __name__ == "__main__":
    main()
