"""The captions of a split as `naic caption` gives them, for `naic evaluate`, from a pixel store.

python benchmarks/caption_pixels.py src/naic/shipped --pixels data/coco-pixels --split val \
    --runtime eager --precision float32 --out shipped-val.captions.json
python benchmarks/caption_pixels.py exported-int8 --pixels data/coco-pixels --split val \
    --device cpu --out shipped-int8-val.captions.json

The model is a folder, or what `naic export` made: no word twice in a row, no loose end. (For the
captions of the paper's tables, and for models that read features: caption_split.py.)
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from naic.backbones.patches import put_together
from naic.data.features import FeatureStore
from naic.errors import NaicError
from naic.files import write_atomically
from naic.runtime.captioner import BATCH, Captioner
from naic.runtime.sentences import Caption
from naic.tasks.reproduce.scoring import report_rows
from naic.train.validate import results_file


def images(store: FeatureStore, rows: Sequence[int]) -> Iterator[npt.NDArray[np.uint8]]:
    """uint8 (P, P, 3), one after the other."""
    for first in range(0, len(rows), BATCH):
        cells = torch.from_numpy(store.batch(rows[first : first + BATCH])[0])
        yield from put_together(cells).numpy()


def caption(captioner: Captioner, pixels: Path, split: str) -> bytes:
    """A results file."""
    store = FeatureStore(pixels)
    rows = report_rows(store, split)
    said = {}
    for row, found in zip(rows, captioner.each(images(store, rows)), strict=True):
        if not isinstance(found, Caption):
            raise found
        said[store.records[row].id] = found.text
    return results_file(said)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("model", type=Path)
    parser.add_argument("--pixels", type=Path, required=True, help="of naic prepare, as they are")
    parser.add_argument("--split", required=True)
    for name in ("device", "runtime", "precision"):
        parser.add_argument(f"--{name}", default="auto")
    parser.add_argument("--out", type=Path, required=True)
    own = parser.parse_args(arguments)
    try:
        how = {"device": own.device, "runtime": own.runtime, "precision": own.precision}
        write_atomically(own.out, caption(Captioner(own.model, **how), own.pixels, own.split))
    except NaicError as error:
        raise SystemExit(f"caption_pixels: {error}") from None


if __name__ == "__main__":
    main()
