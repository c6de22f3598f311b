"""`naic show DIR`: what is in a feature store."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import tyro

from naic.data.features import FeatureStore

HELP = """Say what is in a feature store: images, splits, captions, and a few examples."""


def run(arguments: Sequence[str]) -> int:
    """Print the store's facts, then some of its rows."""
    tyro.cli(show, prog="naic show", description=HELP, args=list(arguments))
    return 0


def show(store: tyro.conf.Positional[Path], examples: int = 3) -> None:
    """Describe a store.

    Args:
        store: The folder that `naic prepare` wrote.
        examples: How many of its images to show.
    """
    opened = FeatureStore(store)
    splits = Counter(record.split or "no split" for record in opened.records)
    captions = sum(len(record.captions) for record in opened.records)
    print(f"features: {opened.describe()}")
    print(f"splits:   {', '.join(f'{name} {count:,}' for name, count in splits.items())}")
    print(f"captions: {captions:,}")
    print(f"errors:   {opened.index['errors']:,}")
    step = max(1, len(opened) // max(1, examples))
    for row in range(0, len(opened), step)[:examples]:
        record, features = opened.records[row], opened[row].astype("float32")
        print(f"\n{record.id} ({record.split or 'no split'}): {record.image}")
        print(f"  {features.shape[0]} x {features.shape[1]}, mean {features.mean():.4f}")
        for caption in record.captions:
            print(f"  - {caption}")


OPTIONS = show  # what the verb takes: shell completion finds it here
