import threading
from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from naic.data.batches import Targets
from naic.data.features import FeatureStore, read_features
from naic.errors import ConfigError, StoreError
from naic.text import PAD, Vocabulary
from naic.train import batches as batches_module
from naic.train.batches import Batch, Draw, Feed
from tests.data.stores import make_store

VOCABULARY = Vocabulary((".", "<bos>", "<unk>", "<pad>", "a", "cat", "dog", "sits"))
WORDS = ["a cat", "a dog", "a cat sits", "a dog sits", "cat", "dog", "a a a a a a a a"]
LENGTH = 6
SPLITS = ["val", *["train"] * 11]
AMOUNTS = [3, 5, 1, 7, 2, 6, 5, 1, 7, 3, 5, 4]  # captions of each image
RAGGED = [2, 3, 1, 4, 4, 2, 3, 1, 2, 2, 4, 3]
Keep = Literal["device", "host"]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, FeatureStore]:
    captions = [(WORDS[i % 7 :] + WORDS)[:amount] for i, amount in enumerate(AMOUNTS)]
    folder = tmp_path_factory.mktemp("stores")
    return {
        "even": make_store(folder / "even", captions, splits=SPLITS),
        "ragged": make_store(folder / "ragged", captions, splits=SPLITS, regions=RAGGED),
    }


def make_feed(
    store: FeatureStore,
    *,
    batch: int = 8,
    captions: int = 5,
    rank: int = 0,
    world: int = 1,
    accumulate: int = 1,
    spread: int = 1,
    keep: Keep = "device",
    fill: bool = False,
    device: str = "cpu",
) -> Feed:
    targets = Targets.build(store, ["train"], VOCABULARY, LENGTH)
    return Feed(
        store,
        targets,
        batch=batch,
        captions=captions,
        seed=5,
        rank=rank,
        world=world,
        accumulate=accumulate,
        spread=spread,
        device=device,
        keep=keep,
        fill=fill,
    )


def same(a: Draw | Batch, b: Draw | Batch) -> bool:
    """Whether all tensors are equal, of one dtype, and missing in both or neither."""
    return len(a) == len(b) and all(
        x is y is None
        or (x is not None and y is not None and x.dtype == y.dtype and torch.equal(x, y))
        for x, y in zip(a, b, strict=True)
    )


def test_a_batch_is_what_the_store_and_the_captions_say(stores: dict[str, FeatureStore]) -> None:
    store = stores["ragged"]
    feed = make_feed(store)
    batch = feed.fetch(feed.draw(3)[0])
    assert batch.features.shape == (8, 4, 3)
    assert batch.features.dtype == torch.float16
    assert batch.words.shape == (8, 5, LENGTH)
    assert batch.words.dtype == batch.rows.dtype == torch.int64
    assert batch.mask is not None
    assert float(batch.images) == 8.0
    for i, row in enumerate(batch.rows.tolist()):
        own = torch.from_numpy(np.array(store[row]))
        assert torch.equal(batch.features[i, : len(own)], own)
        assert not batch.features[i, len(own) :].any()
        assert batch.mask[i].tolist() == [True] * len(own) + [False] * (4 - len(own))
        said = [words for words in batch.words[i].tolist() if words != [PAD] * LENGTH]
        captions = [VOCABULARY.encode(text, LENGTH) for text in store.records[row].captions]
        assert len(said) == min(5, len(captions))
        assert all(words in captions for words in said)
        assert SPLITS[row] == "train"


def test_an_image_with_few_captions_is_all_padding_after_them(
    stores: dict[str, FeatureStore],
) -> None:
    feed = make_feed(stores["even"], batch=11)
    draw = feed.draw(0)[0]
    batch = feed.fetch(draw)
    place = batch.rows.tolist().index(7)  # one caption
    assert draw.columns[place].tolist() == [0, -1, -1, -1, -1]
    assert (batch.words[place, 1:] == PAD).all()
    assert (batch.words[place, 0] != PAD).any()


def test_there_is_no_mask_where_all_images_have_as_many_regions(
    stores: dict[str, FeatureStore],
) -> None:
    for keep in ("device", "host"):
        feed = make_feed(stores["even"], keep=keep)
        assert feed.fetch(feed.draw(0)[0]).mask is None


@pytest.mark.parametrize("keep", ["device", "host"])
@pytest.mark.parametrize("kind", ["even", "ragged"])
def test_processes_and_parts_share_the_very_step_of_one_process(
    kind: str, keep: Keep, stores: dict[str, FeatureStore]
) -> None:
    whole = make_feed(stores[kind], keep=keep)
    for world, accumulate in ((2, 1), (1, 4), (2, 2), (4, 2)):
        feeds = [
            make_feed(stores[kind], keep=keep, rank=rank, world=world, accumulate=accumulate)
            for rank in range(world)
        ]
        for step in (0, 1, 7):
            expected = whole.fetch(whole.draw(step)[0])
            parts = [feed.fetch(part) for feed in feeds for part in feed.draw(step)]
            assert len(parts) == world * accumulate
            for name in ("features", "mask", "words", "rows"):
                pieces = [part._asdict()[name] for part in parts]
                one = expected._asdict()[name]
                assert (one is None) == (pieces[0] is None)
                assert one is None or torch.equal(torch.cat(pieces), one)
            for part in parts:
                assert torch.equal(part.normaliser, expected.normaliser)
                assert torch.equal(part.images, expected.images)


@pytest.mark.parametrize("captions", [1, 3, 5, 8])
def test_the_normaliser_counts_the_target_words_of_the_whole_step(
    captions: int, stores: dict[str, FeatureStore]
) -> None:
    for step in range(6):
        feed = make_feed(stores["even"], captions=captions)
        batch = feed.fetch(feed.draw(step)[0])
        assert batch.normaliser.dtype == torch.float32
        assert batch.normaliser.shape == ()
        assert float(batch.normaliser) == int((batch.words != PAD).sum())
        filled = make_feed(stores["even"], captions=captions, fill=True).draw(step)[0]
        present = (batch.words != PAD).any(-1).sum()
        assert float(filled.normaliser) == LENGTH * int(present)


@pytest.mark.parametrize("kind", ["even", "ragged"])
def test_host_and_device_give_the_same(kind: str, stores: dict[str, FeatureStore]) -> None:
    on_device, on_host = (
        make_feed(stores[kind], keep=keep, accumulate=2) for keep in ("device", "host")
    )
    for step in (0, 1, 2, 9, 4, 4, 5, 0):  # forward, a leap, back, again
        pairs = zip(on_device.draw(step), on_host.draw(step), strict=True)
        for a, b in pairs:
            assert a.features is None
            assert b.features is not None
            assert same(on_device.fetch(a), on_host.fetch(b))
    on_host.close()


def test_the_features_come_to_the_device_in_pieces(
    stores: dict[str, FeatureStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = make_feed(stores["ragged"])
    monkeypatch.setattr(batches_module, "_IMAGES_AT_ONCE", 3)
    pieces = make_feed(stores["ragged"])
    assert same(whole.fetch(whole.draw(0)[0]), pieces.fetch(pieces.draw(0)[0]))


@given(steps=st.lists(st.integers(0, 30), min_size=1, max_size=6))
@settings(max_examples=20)
def test_a_draw_depends_on_the_step_alone(
    steps: list[int], stores: dict[str, FeatureStore]
) -> None:
    feed = make_feed(stores["even"], keep="host")
    for step in steps:
        fresh = make_feed(stores["even"], keep="host")
        assert same(feed.draw(step)[0], fresh.draw(step)[0])
        fresh.close()
    feed.close()


def test_the_next_step_is_read_meanwhile(
    stores: dict[str, FeatureStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = make_feed(stores["even"], keep="host")
    readers: list[str] = []
    reads = threading.Semaphore(0)
    original = read_features

    def spy(store: FeatureStore, rows: np.ndarray, regions: int) -> object:
        readers.append(threading.current_thread().name)
        reads.release()
        return original(store, rows, regions)

    monkeypatch.setattr(batches_module, "read_features", spy)
    feed.draw(0)
    for _ in range(2):  # steps 0 and 1, though only 0 was drawn
        assert reads.acquire(timeout=10)
    assert all(name.startswith("naic-feed") for name in readers)
    feed.draw(1)
    assert reads.acquire(timeout=10)
    feed.close()
    assert len(readers) == 3  # 1 was not read a second time


def test_what_goes_wrong_while_reading_ahead_is_raised_by_the_draw_it_belongs_to(
    stores: dict[str, FeatureStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = make_feed(stores["even"], keep="host")
    good = make_feed(stores["even"]).fetch(make_feed(stores["even"]).draw(2)[0])
    bad_rows = feed.draw(1)[0].rows.tolist()
    feed.draw(5)  # so that step 1 is not held any more
    original = read_features

    def broken(store: FeatureStore, rows: np.ndarray, regions: int) -> object:
        if rows.tolist() == bad_rows:
            raise StoreError("shard-00001.safetensors", "is not a whole shard", "Delete it.")
        return original(store, rows, regions)

    monkeypatch.setattr(batches_module, "read_features", broken)
    feed.draw(0)
    with pytest.raises(StoreError, match="shard-00001"):
        feed.draw(1)
    assert same(feed.fetch(feed.draw(2)[0]), good)  # the others are not harmed
    feed.close()


def test_a_batch_that_cannot_be_shared_is_refused(stores: dict[str, FeatureStore]) -> None:
    with pytest.raises(ConfigError, match=r"8 images .* 3 processes in 1 parts.*multiple of 3"):
        make_feed(stores["even"], world=3)
    with pytest.raises(ConfigError, match="multiple of 6"):
        make_feed(stores["even"], world=2, accumulate=3)


@pytest.mark.parametrize("keep", ["device", "host"])
def test_spread_features_are_read_by_those_who_learn_from_them(
    keep: Keep, stores: dict[str, FeatureStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes draw what one draws, and neither ever reads a row of the other's."""
    reads = list[int]()

    def counted(store: FeatureStore, rows: np.ndarray, regions: int) -> object:
        reads.extend(rows.tolist())
        return read_features(store, rows, regions)

    store = stores["ragged"]
    one = make_feed(store, keep="device", spread=2)
    whole = [one.fetch(one.draw(step)[0]) for step in range(8)]
    monkeypatch.setattr(batches_module, "read_features", counted)
    read = list[set[int]]()
    for rank in (0, 1):
        reads.clear()
        feed = make_feed(store, rank=rank, world=2, spread=2, keep=keep)
        for step, batch in enumerate(whole):
            own = feed.fetch(feed.draw(step)[0])
            half = slice(rank * 4, rank * 4 + 4)
            totals = (batch.normaliser, batch.images, batch.judged)
            assert batch.mask is not None
            features, mask = batch.features[half], batch.mask[half]
            cut = Batch(features, mask, batch.words[half], batch.rows[half], *totals)
            assert same(own, cut)
        feed.close()
        read.append({*reads})
    rows = Targets.build(store, ["train"], VOCABULARY, LENGTH).rows.tolist()
    assert read == [{*rows[:5]}, {*rows[5:]}]  # 11 images


def test_the_share_can_be_cut_anew_before_the_first_draw(stores: dict[str, FeatureStore]) -> None:
    feed = make_feed(stores["even"])
    feed.cut(4)
    assert [
        same(a, b)
        for a, b in zip(feed.draw(2), make_feed(stores["even"], accumulate=4).draw(2), strict=True)
    ] == [True] * 4
    with pytest.raises(ConfigError, match="in 3 parts"):
        feed.cut(3)


def test_epochs_are_those_of_the_training_images(stores: dict[str, FeatureStore]) -> None:
    feed = make_feed(stores["even"], batch=4)
    assert [feed.epoch(step) for step in (0, 11)] == [0.0, 4.0]


def test_features_too_large_for_the_device_say_what_to_do(
    stores: dict[str, FeatureStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*shape: object, **kinds: object) -> None:
        raise torch.OutOfMemoryError("out of memory")

    monkeypatch.setattr(torch, "empty", full)
    with pytest.raises(ConfigError, match=r"GB of features do not fit.*keep = \"host\""):
        make_feed(stores["even"])


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["even", "ragged"])
def test_fetching_can_be_captured_in_a_cuda_graph(
    kind: str, stores: dict[str, FeatureStore]
) -> None:
    on_cpu, on_gpu = (make_feed(stores[kind], device=device) for device in ("cpu", "cuda"))
    static = on_gpu.draw(0)[0]
    on_gpu.fetch(static)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = on_gpu.fetch(static)
    for step in (4, 5):
        drawn = on_gpu.draw(step)[0]
        for name in ("rows", "places", "columns", "normaliser"):
            static._asdict()[name].copy_(drawn._asdict()[name])
        graph.replay()
        on_host = Batch(*(None if x is None else x.cpu() for x in captured))  # type: ignore[arg-type]
        assert same(on_host, on_cpu.fetch(on_cpu.draw(step)[0]))


@pytest.mark.gpu
def test_host_features_reach_the_gpu_unharmed(stores: dict[str, FeatureStore]) -> None:
    on_cpu = make_feed(stores["ragged"], accumulate=2)
    on_gpu = make_feed(stores["ragged"], accumulate=2, keep="host", device="cuda")
    for step in range(20):
        for a, b in zip(on_cpu.draw(step), on_gpu.draw(step), strict=True):
            fetched = on_gpu.fetch(b)
            on_host = Batch(*(None if x is None else x.cpu() for x in fetched))  # type: ignore[arg-type]
            assert same(on_host, on_cpu.fetch(a))
    on_gpu.close()
