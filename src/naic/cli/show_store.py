"""What `naic show` says of a feature store."""

from collections import Counter
from pathlib import Path

from naic.data.features import FeatureStore


def show_store(store: Path, examples: int) -> None:
    """Print the store's facts, then some of its rows."""
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
