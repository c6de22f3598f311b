from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from naic.cli.main import main
from naic.data.features import FeatureStore
from naic.errors import ConfigError, DataError, StoreError, VocabularyError
from naic.learn.cider.ngrams import BITS, Frequencies, buckets_of, count_frequencies, order_of, pack
from naic.learn.cider.references import OLD_NAME, References
from naic.text import MAX_IDS, PERIOD, UNK, Vocabulary
from tests.learn.cider.cases import make_world
from tests.train.runs import make_learnable_store

CAPTIONS = [["a red dog.", "a dog"], ["a cat."], []]
VOCABULARY = Vocabulary.build(["a red dog cat"], more_than=0)


def unpack(key: int) -> tuple[int, ...]:
    ids = []
    while key:
        ids.append((key & 2**BITS - 1) - 1)
        key >>= BITS
    return tuple(ids)


def ngrams(ids: list[int]) -> Counter[tuple[int, ...]]:
    return Counter(tuple(ids[i : i + n]) for n in range(1, 5) for i in range(len(ids) - n + 1))


@given(st.lists(st.lists(st.integers(0, MAX_IDS - 1), max_size=8), min_size=1, max_size=5))
def test_packing_loses_nothing_and_crosses_no_sentence(sentences: list[list[int]]) -> None:
    words = np.array([word for ids in sentences for word in ids], np.int64)
    owners = np.repeat(np.arange(len(sentences)), [len(ids) for ids in sentences])
    keys, places = pack(words, owners)
    found = Counter(zip(owners[places].tolist(), map(unpack, keys.tolist()), strict=True))
    expected = Counter(
        {(i, gram): n for i, ids in enumerate(sentences) for gram, n in ngrams(ids).items()}
    )
    assert found == expected
    assert order_of(keys).tolist() == [len(unpack(key)) for key in keys.tolist()]
    assert (keys > 0).all()


@given(st.lists(st.integers(1, 2**56 - 1), min_size=1, max_size=300))
def test_frequencies_are_counted_and_found(keys: list[int]) -> None:
    several = keys + keys[: len(keys) // 2] + keys[:1] * 3
    frequencies = count_frequencies(np.array(several), images=1000)
    counts = Counter(several)
    for key, documents in zip(keys, frequencies.look_up(np.array(keys)).tolist(), strict=True):
        assert documents == (counts[key] if counts[key] > 1 else 0)
    absent = [key for key in range(1, 50) if key not in counts]
    assert not frequencies.look_up(np.array(absent, np.int64)).any()
    assert frequencies.widest <= len(keys)


def test_keys_spread_over_the_buckets() -> None:
    """N-grams are sums of ids at 14 bits each: that regularity must not show in the buckets."""
    ids = np.arange(1, 65)
    grams = (ids[:, None, None] + (ids[:, None] << BITS) + (ids << 2 * BITS)).ravel()
    filled = np.bincount(buckets_of(grams, 2**20), minlength=2**20)
    assert filled.max() <= 8


def test_an_unseen_ngram_weighs_as_much_as_one_of_one_image() -> None:
    frequencies = count_frequencies(np.array([5, 5, 5, 7, 7, 9]), images=3)
    weights = frequencies.squared_weights(frequencies.look_up(np.array([5, 7, 9, 11])))
    log = np.log
    assert weights == pytest.approx([0, (log(3) - log(2)) ** 2, log(3) ** 2, log(3) ** 2])
    assert weights[0] == 0


def test_the_tables_hold_what_was_said() -> None:
    references = References.build(CAPTIONS, VOCABULARY)
    assert len(references) == 3
    assert references.amounts.tolist() == [2, 1, 0]
    assert references.lengths.tolist() == [[4, 3], [3, 0], [0, 0]]  # the period is a word
    assert references.frequencies.images == 2  # the image without captions is no document
    first = {
        unpack(key): counts.tolist()
        for key, counts in zip(
            references.keys[: references.starts[1]].tolist(), references.counts, strict=False
        )
    }
    a, red, dog = (VOCABULARY.id(word) for word in ("a", "red", "dog"))
    assert first[(a,)] == [1, 1]
    assert first[(a, red)] == [1, 0]
    assert first[(dog, PERIOD)] == [1, 1]
    assert len(first) == len(ngrams([a, red, dog, PERIOD]) | ngrams([a, dog, PERIOD]))
    documents = dict(
        zip(map(unpack, references.keys.tolist()), references.documents.tolist(), strict=True)
    )
    assert documents[(a,)] == 2  # images, not captions
    assert documents[(PERIOD,)] == 2
    assert documents[(dog,)] == 0  # one image or none: the same


def test_norms_are_those_of_the_tf_idf_vectors() -> None:
    world = make_world(seed=3)
    references = world.references
    for image in (1, 7, 23):
        for number, ids in enumerate(world.encoded[image]):
            for order in range(1, 5):
                vector = [
                    n * (np.log(world.public.images) - np.log(max(1, frequency)))
                    for gram, n in ngrams(ids).items()
                    if len(gram) == order
                    for frequency in [world.public.frequencies.get(tuple(map(str, gram)), 0)]
                ]
                norm = np.linalg.norm(vector)
                expected = 1 / norm if norm else 0
                found = references.inverse_norms[image, number, order - 1]
                assert found == pytest.approx(expected, rel=1e-12)


def test_references_are_not_cut_and_unknown_words_are_unk() -> None:
    long = " ".join(["dog"] * 40) + " zebra"
    references = References.build([[long], ["a"]], VOCABULARY)
    assert references.lengths[0, 0] == 42
    assert UNK in {i for key in references.keys.tolist() for i in unpack(key)}


def test_many_images_are_built_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    world = make_world(seed=4)
    monkeypatch.setattr("naic.learn.cider.ngrams._IMAGES_AT_ONCE", 7)
    again = References.build(world.captions, world.vocabulary, world.training)
    for name in ("starts", "keys", "documents", "counts", "inverse_norms", "lengths"):
        assert np.array_equal(getattr(again, name), getattr(world.references, name)), name


def test_no_training_caption_is_an_error() -> None:
    with pytest.raises(DataError, match="no training image has a caption"):
        References.build(CAPTIONS, VOCABULARY, [False, False, True])


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / OLD_NAME
    References.build(CAPTIONS, VOCABULARY).save(path)
    return path


def test_saved_tables_come_back(saved: Path) -> None:
    built, loaded = References.build(CAPTIONS, VOCABULARY), References.load(saved, VOCABULARY)
    assert loaded.vocabulary == VOCABULARY.fingerprint
    assert loaded.origin == built.origin
    assert loaded.frequencies.images == built.frequencies.images
    for name in ("starts", "keys", "documents", "counts", "inverse_norms", "lengths", "amounts"):
        one, two = getattr(built, name), getattr(loaded, name)
        assert np.array_equal(one, two)
        assert one.dtype == two.dtype
    for name in ("first", "bucket_keys", "bucket_documents"):
        assert np.array_equal(getattr(built.frequencies, name), getattr(loaded.frequencies, name))


def test_another_vocabulary_is_refused(saved: Path) -> None:
    other = Vocabulary.build(["a red dog bird"], more_than=0)
    with pytest.raises(VocabularyError, match="another vocabulary") as refused:
        References.load(saved, other)
    assert str(saved) in str(refused.value)
    assert VOCABULARY.fingerprint[:12] in str(refused.value)


def test_damaged_tables_are_refused(saved: Path) -> None:
    whole = saved.read_bytes()
    for damaged in (b"", whole[:40], whole[: len(whole) // 2], b"\x80\x04pickle", whole + b"x"):
        saved.write_bytes(damaged)
        with pytest.raises(StoreError, match="Delete the file"):
            References.load(saved, VOCABULARY)


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("starts", 1, 10**6),
        ("starts", 1, -1),
        ("keys", 0, 2**60),
        ("keys", 3, -7),
        ("documents", 2, 10**6),
        ("documents", 2, -5),
        ("amounts", 0, 9),
        ("lengths", 0, -1),
        ("inverse_norms", 0, float("nan")),
        ("bucket_documents", 0, 1000),
        ("bucket_documents", 0, 0),
        ("first", 3, 10**6),
    ],
)
def test_tables_that_contradict_themselves_are_refused(
    saved: Path, name: str, place: int, value: float
) -> None:
    """A kernel would read past the end of an array, or give nonsense."""
    arrays = load_file(saved)
    with safe_open(saved, "numpy") as file:
        note = file.metadata()
    arrays[name].reshape(-1)[place] = value
    save_file(arrays, saved, note)
    with pytest.raises(StoreError, match="contradicts itself"):
        References.load(saved, VOCABULARY)


def test_other_kinds_of_files_are_refused(saved: Path) -> None:
    arrays = load_file(saved)
    with safe_open(saved, "numpy") as file:
        note = file.metadata()
    for name, changed in (
        ("starts", arrays["starts"].astype(np.float64)),
        ("keys", arrays["keys"].sum()[...]),
        ("counts", arrays["counts"][:, :1]),
    ):
        save_file(arrays | {name: np.ascontiguousarray(changed)}, saved, note)
        with pytest.raises(StoreError, match="contradicts itself"):
            References.load(saved, VOCABULARY)
    save_file(arrays, saved, note | {"format": "naic-references-9"})
    with pytest.raises(StoreError, match="is no naic-references-1"):
        References.load(saved, VOCABULARY)
    with pytest.raises(StoreError, match="no such file"):
        References.load(saved.with_name("other"), VOCABULARY)


def test_captions_that_are_no_lists_are_refused() -> None:
    with pytest.raises(DataError, match="one string where a list"):
        References.build(["a dog", "a cat"], VOCABULARY)
    with pytest.raises(DataError, match="3 images with captions, 1 said"):
        References.build(CAPTIONS, VOCABULARY, [True])


@pytest.mark.parametrize(
    "first", [[0, 1, 2, 3], [0, 2, 1], [1, 2, 2], [0, 1, 1], [0]], ids=lambda x: str(x)
)
def test_buckets_that_contradict_themselves_are_refused(first: list[int]) -> None:
    keys = np.array([5, 7])
    with pytest.raises(ValueError):
        Frequencies(np.array(first, np.int32), keys, np.array([2, 2], np.int32), 3)


def test_beside_a_store_the_tables_are_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "features"
    assert main(["prepare", "shapes", "30", "--out", str(folder), "--device", "cpu"]) == 0
    store = FeatureStore(folder)
    captions = [text for record in store.records for text in record.captions]
    vocabulary = Vocabulary.build(captions, more_than=0)
    built = References.beside(store, vocabulary, ["train"])
    [made] = folder.glob("references-*.safetensors")
    training = sum(record.split == "train" for record in store.records)
    assert built.frequencies.images == training < len(store)
    monkeypatch.setattr(References, "build", None)  # from now on it must be read
    assert np.array_equal(References.beside(store, vocabulary, ["train"]).keys, built.keys)
    with pytest.raises(ConfigError, match=r"there is no split 'tran'.*'train'"):
        References.beside(store, vocabulary, ["tran"])
    with pytest.raises(ConfigError, match="Give a list"):
        References.beside(store, vocabulary, "train")
    made.write_bytes(made.read_bytes()[:-9])
    with pytest.raises(StoreError, match="Delete the file"):
        References.beside(store, vocabulary, ["train"])


def test_each_vocabulary_and_choice_of_splits_has_tables_of_its_own(tmp_path: Path) -> None:
    """One run's tables once stood in the way of another's on the same store."""
    store = make_learnable_store(tmp_path / "store")
    captions = [text for record in store.records for text in record.captions]
    one, two = (Vocabulary.build(captions, more_than=least) for least in (0, 20))
    asked = [(one, ["train"]), (two, ["train"]), (one, ["train", "val"])]
    built = [References.beside(store, *which) for which in asked]
    assert len(list(store.folder.glob("references-*.safetensors"))) == 3
    for which, own in zip(asked, built, strict=True):
        again = References.beside(store, *which)
        assert (again.vocabulary, again.origin) == (own.vocabulary, own.origin)


@pytest.mark.parametrize("damage", [0, 9])
def test_tables_of_before_are_used_where_they_fit(
    damage: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_learnable_store(tmp_path / "store")
    captions = [record.captions for record in store.records]
    words = Vocabulary.build([text for texts in captions for text in texts], more_than=0)
    fewer = Vocabulary(words.words[:8])
    old = store.folder / OLD_NAME
    References.build(captions, words, [r.split == "train" for r in store.records]).save(old)
    before = old.read_bytes()
    if damage:  # one that no longer says what it is for is as good as none
        old.write_bytes(before[:damage])
    References.beside(store, fewer, ["train"])
    assert len(list(store.folder.glob("references-*.safetensors"))) == 1
    if not damage:
        monkeypatch.setattr(References, "build", None)
        assert References.beside(store, words, ["train"]).vocabulary == words.fingerprint
        assert old.read_bytes() == before


def test_an_image_counts_once_however_many_views_of_it_there_are(tmp_path: Path) -> None:
    """A store with further views: the same df and N as without, and references in all rows."""
    plain = make_learnable_store(tmp_path / "plain")
    twins = make_learnable_store(tmp_path / "twins", twins=True)
    train = sum(record.split == "train" for record in plain.records)
    assert len(twins) == len(plain) + 2 * train
    words = Vocabulary.build([t for r in plain.records for t in r.captions], more_than=0)
    one, two = (References.beside(store, words, ["train"]) for store in (plain, twins))
    assert two.frequencies.images == one.frequencies.images == train
    for name in ("first", "bucket_keys", "bucket_documents"):
        assert np.array_equal(getattr(two.frequencies, name), getattr(one.frequencies, name))
    assert np.array_equal(two.inverse_norms[: len(plain)], one.inverse_norms)
    both = np.concatenate([one.inverse_norms[:train]] * 2)
    assert np.array_equal(two.inverse_norms[len(plain) :], both)
