"""Teachers that nobody trained: what they say makes no sense, but is always the same."""

from pathlib import Path

import torch

from naic.data.features import FeatureStore
from naic.models.captioners import CAPTIONERS
from naic.models.config import TransformerConfig
from naic.models.folder import ModelSettings, write_model
from naic.tasks.distil import Distilled, distil
from naic.tasks.options import DistilOptions
from naic.text import Vocabulary
from tests.train.runs import MODEL, make_learnable_store, make_vocabulary


def make_teacher(
    folder: Path,
    store: FeatureStore,
    *,
    captioner: str = "causal",
    seed: int = 0,
    vocabulary: Vocabulary | None = None,
    digest: str = "",
    **sizes: int,
) -> Path:
    """A model folder for the features of `store`; some of its captions end, and most never do."""
    config = TransformerConfig(**(MODEL | sizes))  # type: ignore[arg-type]
    words = vocabulary or make_vocabulary(store)
    torch.manual_seed(seed)
    model = CAPTIONERS[captioner].build(config, store.dim, len(words))
    settings = ModelSettings(
        captioner,
        store.dim,
        len(words),
        str(store.index["backbone"]),
        config,
        int(store.index["pixels"]),
        digest,
    )
    write_model(folder, model.state_dict(), settings, words, "")
    return folder


def make_home(folder: Path) -> Path:
    """A folder with a store and a teacher."""
    make_teacher(folder / "teacher", make_learnable_store(folder / "store"))
    return folder


def distil_options(home: Path, out: Path) -> DistilOptions:
    """Three shards of 12 images, and a last one of 4."""
    return DistilOptions(
        home / "teacher",
        out,
        features=(home / "store",),
        splits=("train",),
        keep=2,
        batch=3,
        device="cpu",
    )


def run(options: DistilOptions) -> Distilled:
    return distil(options)
