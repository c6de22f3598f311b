import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naic.data.batches import Targets
from naic.data.features import FeatureStore
from naic.data.joined import JoinedStore
from naic.data.pseudo import FORMAT, PseudoStore, PseudoWriter, Taught, look_up, remove_halves
from naic.errors import ConfigError, DataError, StoreError
from naic.text import PAD, PERIOD, Vocabulary
from tests.data.pseudos import PER_SHARD, WORDS, make_pseudo, settings_of, taught
from tests.data.stores import make_store

A, CAT, DOG, SITS = range(4, 8)
SAID = {f"r{i}": taught(f"a {'cat' if i % 2 else 'dog'}", "a") for i in range(5)}


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


words = st.lists(st.sampled_from(["a", "cat", "dog", "n't", "5\u00a01/2", "é"]), max_size=4)
sentence = st.tuples(words, st.floats(-50, 0), st.booleans())


@given(said=st.lists(st.lists(sentence, min_size=1, max_size=3), max_size=6))
def test_what_goes_in_comes_out(
    said: list[list[tuple[list[str], float, bool]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    rows = {
        f"ï{i}": Taught(
            tuple(" ".join(words) for words, _, _ in own),
            tuple(score for _, score, _ in own),
            tuple(ended for _, _, ended in own),
        )
        for i, own in enumerate(said)
    }
    store = make_pseudo(tmp_path_factory.mktemp("p") / "p", rows)
    assert store.taught == rows
    assert list(store.taught) == list(rows)
    assert store.captions == {id_: own.captions for id_, own in rows.items()}
    assert store.scores == {id_: own.scores for id_, own in rows.items()}
    assert len(store) == len(rows)
    assert store.index["captions"] == sum(map(len, said))
    for own, sentences in zip(said, (row.sentences() for row in rows.values()), strict=True):
        assert sentences == [(words, ended) for words, _, ended in own]


def test_the_files_are_as_documented(tmp_path: Path) -> None:
    store = make_pseudo(tmp_path / "p", {"r0": taught("a cat", "a dog sits", ended=False)})
    line = (tmp_path / "p" / "shard-00000.jsonl").read_text()
    assert line == (
        '{"id": "r0", "captions": ["a cat", "a dog sits"], "scores": [-1.0, -2.0], '
        '"ended": [false, false]}\n'
    )
    assert sorted(files(tmp_path / "p")) == [
        "index.json",
        "plan.json",
        "shard-00000.jsonl",
        "vocab.json",
    ]
    assert store.vocabulary == WORDS
    assert store.describe() == "2 captions of 1 images by t/best, beam 3"


def test_only_missing_or_damaged_shards_are_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "p"
    make_pseudo(folder, SAID)
    whole = files(folder)
    shard = folder / "shard-00001.jsonl"
    # The last is a whole shard that says something else: its checksum in the index tells.
    own = whole[shard.name]
    for damaged in (b"", own[:-5], b"\xff\xfe", own.replace(b'"ended"', b'"x"'), own[::-1],
                    own.splitlines()[0], own.replace(b"dog", b"cat")):  # fmt: skip
        shard.write_bytes(damaged)
        writer = PseudoWriter(folder, list(SAID), settings_of(), PER_SHARD)
        assert [writer.is_whole(n) for n in writer.shards] == [True, False, True], damaged
        make_pseudo(folder, SAID)
        assert files(folder) == whole


def test_a_damaged_store_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "p"
    make_pseudo(folder, SAID)
    shard = folder / "shard-00001.jsonl"
    own = shard.read_bytes()
    shard.write_bytes(own.replace(b"dog", b"cat"))
    with pytest.raises(StoreError, match=r"shard-00001.jsonl: is not the shard that index.json"):
        _ = PseudoStore(folder).taught
    shard.unlink()
    with pytest.raises(StoreError, match=r"shard-00001.jsonl: cannot be read \(No such file"):
        _ = PseudoStore(folder).taught
    shard.write_bytes(own)
    Vocabulary((*WORDS.words, "zebra")).save(folder / "vocab.json")
    with pytest.raises(StoreError, match="its words are not the teacher's"):
        _ = PseudoStore(folder).vocabulary
    assert make_pseudo(folder, SAID).vocabulary == WORDS  # as the hint says
    (folder / "index.json").write_bytes(b"{")
    with pytest.raises(StoreError, match=r"index.json: cannot be read"):
        PseudoStore(folder)
    (folder / "index.json").write_text(json.dumps({"format": FORMAT, "shards": []}))
    with pytest.raises(StoreError, match=r"it has no beam, captions, features, images, teacher"):
        PseudoStore(folder)
    (folder / "index.json").unlink()
    with pytest.raises(
        StoreError, match=r"store in this folder is unfinished. Run the same `naic distil` again"
    ):
        PseudoStore(folder)


def test_other_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        StoreError,
        match=r"no pseudo-caption store in this folder. Make a .* with `naic distil",
    ):
        PseudoStore(tmp_path)
    make_store(tmp_path / "features", [["a cat"]])
    with pytest.raises(StoreError, match="has format 1, and pseudo captions are"):
        PseudoStore(tmp_path / "features")
    make_pseudo(tmp_path / "p", SAID)
    with pytest.raises(StoreError, match="holds pseudo captions of `naic distil`"):
        FeatureStore(tmp_path / "p")


def test_a_store_is_never_of_two_things(tmp_path: Path) -> None:
    folder = tmp_path / "p"
    make_pseudo(folder, SAID)
    with pytest.raises(ConfigError, match="begun with beam"):
        PseudoWriter(folder, list(SAID), settings_of() | {"beam": 5}, PER_SHARD)
    with pytest.raises(ConfigError, match="another list of images"):
        PseudoWriter(folder, ["r9", *list(SAID)[1:]], settings_of(), PER_SHARD)
    with pytest.raises(ConfigError, match="begun with per_shard"):
        PseudoWriter(folder, list(SAID), settings_of(), PER_SHARD + 1)


def test_a_finished_store_keeps_its_description(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_pseudo(tmp_path / "p", SAID)
    before = files(tmp_path / "p")
    monkeypatch.setattr("naic.data.pseudo.__version__", "99")
    make_pseudo(tmp_path / "p", SAID)
    assert files(tmp_path / "p") == before
    (tmp_path / "p" / "shard-00000.jsonl").unlink()
    (tmp_path / "p" / "index.json").unlink()
    make_pseudo(tmp_path / "p", SAID)
    assert json.loads((tmp_path / "p" / "index.json").read_bytes())["naic"] == "99"


def test_halves_are_swept_and_nothing_else(tmp_path: Path) -> None:
    make_pseudo(tmp_path / "p", SAID)
    before = files(tmp_path / "p")
    for name in ("plan.json", "index.json", "vocab.json", "shard-00003.jsonl"):
        (tmp_path / "p" / f"{name}.12-34.part").write_bytes(b"half")
    remove_halves(tmp_path / "p")
    assert files(tmp_path / "p") == before


def labelled(folder: Path) -> FeatureStore:
    return make_store(folder, [["a cat"]] * 5, splits=["train"] * 3 + ["val"] * 2)


def unlabelled(folder: Path, first: int = 100, count: int = 2) -> FeatureStore:
    make_store(folder, [[]] * count, splits=["web"] * count)
    text = (folder / "records.jsonl").read_text()
    for i in range(count):
        text = text.replace(f'"r{i}"', f'"r{first + i}"')
    (folder / "records.jsonl").write_text(text)
    return FeatureStore(folder)


def test_captions_are_looked_up_by_id_in_all_stores(tmp_path: Path) -> None:
    stores = [labelled(tmp_path / "l"), unlabelled(tmp_path / "u")]
    one = make_pseudo(tmp_path / "a", {"r2": taught("a cat"), "r0": taught("a dog")}, stores[0])
    two = make_pseudo(tmp_path / "b", {"r101": taught("cat sits")}, stores[1])
    found = look_up([one, two], JoinedStore(stores), ["val"])
    assert list(found.items()) == [
        (0, taught("a dog")),
        (2, taught("a cat")),
        (6, taught("cat sits")),
    ]


def test_images_that_cannot_be_told_are_refused(tmp_path: Path) -> None:
    store, further = labelled(tmp_path / "l"), unlabelled(tmp_path / "u")
    one = make_pseudo(tmp_path / "a", {"r0": taught("a cat"), "r100": taught("a cat")}, store)
    with pytest.raises(StoreError, match=r"a: its image 'r100' is in none of the feature stores"):
        look_up([one], store, ["val"])
    again = unlabelled(tmp_path / "again")
    with pytest.raises(StoreError, match="'r100' is in two of the feature stores"):
        look_up([one], JoinedStore([store, further, again]), ["val"])
    two = make_pseudo(tmp_path / "b", {"r0": taught("a dog")}, store)
    with pytest.raises(StoreError, match=r"b: the image 'r0' has pseudo captions in another"):
        look_up([one, two], JoinedStore([store, further]), ["val"])


def test_an_image_that_is_captioned_twice_is_refused(tmp_path: Path) -> None:
    store = make_pseudo(tmp_path / "p", SAID)
    path = tmp_path / "p" / "index.json"
    index = json.loads(path.read_bytes())
    index["shards"].append(index["shards"][0])
    path.write_text(json.dumps(index))
    with pytest.raises(StoreError, match="it captions the image 'r0' twice"):
        _ = PseudoStore(store.folder).taught


def test_what_is_validated_on_is_not_learnt(tmp_path: Path) -> None:
    store = labelled(tmp_path / "l")
    one = make_pseudo(tmp_path / "a", {"r0": taught("a cat"), "r3": taught("a cat")}, store)
    with pytest.raises(ConfigError, match=r"captions the image 'r3' of val, .*--splits train"):
        look_up([one], store, ["val"])
    assert list(look_up([one], store, ["test"])) == [0, 3]


@pytest.mark.parametrize(("key", "value"), [("backbone", "c"), ("weights", "1f"), ("pixels", 9)])
def test_features_of_another_backbone_are_refused(tmp_path: Path, key: str, value: object) -> None:
    store = labelled(tmp_path / "l")
    one = make_pseudo(tmp_path / "a", {"r0": taught("a cat")}, store)
    store.index[key] = value
    with pytest.raises(StoreError, match=f"{key} was .* and here is {value!r}"):
        look_up([one], store, ["val"])


def test_targets_are_what_the_teacher_said(tmp_path: Path) -> None:
    said = {
        4: taught("a cat sits"),
        1: Taught(("a dog", "", "a cat a"), (-1.0, -2.0, -3.0), (False, True, True)),
    }
    targets = Targets.build_pseudo(said, WORDS, 5)
    assert targets.rows.tolist() == [1, 4]
    assert targets.counts.tolist() == [3, 1]
    nothing = [PAD] * 5
    assert targets.ids.tolist() == [
        [[A, DOG, PAD, PAD, PAD], [PERIOD, PAD, PAD, PAD, PAD], [A, CAT, A, PERIOD, PAD]],
        [[A, CAT, SITS, PERIOD, PAD], nothing, nothing],
    ]


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("length", [2, 3, 4, 5])
def test_no_period_is_made_up(length: int, ended: bool) -> None:
    """Three words of a teacher with places for three, learnt by students with fewer or more."""
    targets = Targets.build_pseudo({0: taught("a cat sits", ended=ended)}, WORDS, length)
    ids = targets.ids[0, 0].tolist()
    assert ids[:3] == [A, CAT, SITS][:length]
    assert (PERIOD in ids) == (ended and length > 3)
    assert ids[4:] == [PAD] * (length - 4)


def test_words_that_are_not_known_are_refused() -> None:
    with pytest.raises(DataError, match="the word 'zebra' is not in the vocabulary of this run"):
        Targets.build_pseudo({0: taught("a zebra")}, WORDS, 5)
    with pytest.raises(DataError, match="there is not one caption in them"):
        Targets.build_pseudo({}, WORDS, 5)


def test_importing_it_does_not_import_torch() -> None:
    code = "import sys, naic.data.pseudo; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
