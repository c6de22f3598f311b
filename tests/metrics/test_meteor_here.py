"""METEOR without Java gives the counts of the reference program."""

import gzip
import json
import random
import shutil
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from naic.data.readers.captions import read_captions
from naic.data.records import Problems
from naic.errors import MetricError, MissingExtraError
from naic.metrics import java, meteor
from naic.metrics.meteor import Scorer
from naic.metrics.meteor.aligner import align
from naic.metrics.meteor.data import Files, find_files
from naic.metrics.meteor.jar import by_java, counts_by_java
from naic.metrics.meteor.normalise import words
from naic.metrics.meteor.phrases import load_phrases
from naic.metrics.meteor.score import combine, score_of, shares
from naic.metrics.meteor.stages import EXACT, STEM, Match, java_hash
from naic.metrics.meteor.stemmer import stem
from naic.tasks.evaluate.run import tokenised
from tests.metrics.meteor_pairs import WORDS, images, installed_partners
from tests.metrics.meteor_tables import options_of_program, write_tables

STORED = Path(__file__).parent / "data" / "meteor.jsonl"


@dataclass
class Stored:
    """Made-up images and what the program counted, given the tables of `meteor_tables`."""

    captions: list[str]
    references: list[list[str]]
    counts: list[list[int]]


@pytest.fixture(scope="module")
def stored() -> Stored:
    rows = [json.loads(line) for line in STORED.read_text(encoding="utf-8").splitlines()]
    columns = zip(
        *((row["caption"], row["references"], row["counts"]) for row in rows), strict=True
    )
    return Stored(*map(list, columns))


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    monkeypatch.setenv("NAIC_CACHE", str(tmp_path / "cache"))
    return write_tables(tmp_path / "tables")


def test_all_counts_are_those_of_the_program(files: Files, stored: Stored) -> None:
    found = Scorer(files).statistics(stored.captions, stored.references)
    assert found.astype(int).tolist() == stored.counts
    matched = found.sum(axis=0)[4:20].reshape(4, 4).sum(axis=1)  # by stage
    assert matched.min() > 100


def test_the_score_of_counts_is_that_of_their_shares(stored: Stored) -> None:
    formula = combine(shares(np.array(stored.counts, dtype=np.float64)))
    ours = [score_of(row) for row in stored.counts]
    np.testing.assert_allclose(ours, formula, rtol=0, atol=1e-12)
    assert len(set(ours)) > 200


def test_the_way_without_java_is_the_usual_one(
    files: Files, stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(meteor, "find_files", lambda: files)
    found = meteor.meteor(stored.captions, stored.references)
    expected = shares(np.array(stored.counts, dtype=np.float64))
    np.testing.assert_array_equal(found.shares, expected)
    np.testing.assert_array_equal(found.per_image, combine(expected))
    assert found.value == combine(expected.sum(axis=0))
    assert (found.name, meteor.program()) == ("METEOR", "meteor-1.5")
    assert meteor.meteor([], []).per_image.shape == (0,)
    with pytest.raises(ValueError, match=r"shorter"):
        meteor.meteor(["a", "b"], [["a"]])


def test_the_best_reference_counts_and_of_equal_ones_the_first(files: Files) -> None:
    scorer = Scorer(files)
    one = scorer.statistics(["a dog runs"], [["cats", "a dog ran", "a dog runs", "a dog runs"]])
    assert one.tolist() == scorer.statistics(["a dog runs"], [["a dog runs"]]).tolist()
    two = scorer.statistics(["dog"], [["dog red", "red dog"]])[0]
    assert two.tolist() == scorer.statistics(["dog"], [["dog red"]])[0].tolist()
    none = scorer.statistics(["", "zebra"], [["dog", "a dog on a couch"], ["", "red dog"]])
    assert none[:, 0:2].tolist() == [[0, 1], [1, 0]]  # no match: the first of them
    assert not none[:, 4:].any()


def test_endless_sentences_end(files: Files) -> None:
    many = "the dog " * 500
    found = Scorer(files).statistics([many, "dog the"], [["a cat", "dog the"], [many]])
    assert found[:, 0:2].tolist() == [[1000, 2], [2, 1000]]
    assert found[:, 20].tolist() == [1, 1]


STEMS = {
    **{"running": "run", "runs": "run", "ran": "ran", "skies": "sky", "dying": "die"},
    **{"ties": "tie", "cries": "cri", "dogs": "dog", "gas": "gas", "this": "this", "kiwis": "kiwi"},
    **{"bus": "bus", "grass": "grass", "classes": "class", "hopping": "hop", "hoping": "hope"},
    **{"falling": "fall", "sized": "size", "agreed": "agre", "feed": "feed", "exceed": "exceed"},
    **{"happy": "happi", "say": "say", "by": "by", "youth": "youth", "saying": "say"},
    **{"generally": "general", "communities": "communiti", "arsenal": "arsenal"},
    **{"relational": "relat", "conditional": "condit", "fully": "fulli", "hopefulness": "hope"},
    **{"apologist": "apologist", "apology": "apolog", "geology": "geolog", "kindly": "kind"},
    **{"electrical": "electr", "formative": "format", "goodness": "good", "adoption": "adopt"},
    **{"replacement": "replac", "controlling": "control", "roll": "roll", "rate": "rate"},
    **{"probate": "probat", "cease": "ceas", "news": "news", "'tis": "tis", "dog's": "dog"},
    **{"dogs'": "dog", "y": "y", "is": "is", "inning": "inning", "innings": "inning"},
    **{"only": "onli", "bed": "bed", "bing": "bing", "été": "été", "sayyed": "sayi"},
}


@pytest.mark.parametrize(("word", "expected"), STEMS.items())
def test_stems(word: str, expected: str) -> None:
    assert stem(word) == expected


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("A dog's T-shirt", "a dog 's t shirt"),
        ("wait ... what?!", "wait ... what ? !"),
        ("1,000 men,women, 3.5", "1,000 men , women , 3.5"),
        ("Mr. Smith saw No. 5 and No. Yes.", "mr. smith saw no. 5 and no . yes ."),
        ("the u.s.a. flag at St. Paul", "the usa flag at st. paul"),
        ("``quoted'' “text” ‘one’", '" quoted " " text " \' one \''),
        ("a--b a–b a-b-c", "a b a - b a b-c"),
        ("90's kids' 'tis o'clock", "90 's kids ' ' tis o 'clock"),
        ("été 日本 🐕🐕", "été 日 本 🐕 🐕"),
        ("x\u00a0y x\u2003y x\u000by", "x y x y x\u000by"),
        ("  \t ", ""),
    ],
)
def test_sentences_are_cut_as_by_the_program(sentence: str, expected: str) -> None:
    prefixes = {"Mr": False, "St": False, "No": True}
    assert words(sentence, prefixes) == [word for word in expected.split(" ") if word]


def test_words_are_compared_by_their_hash(files: Files) -> None:
    """Two different words match where their hashes do, as in the program."""
    assert java_hash("p0") == java_hash("nn")
    assert java_hash("dog") == 99644
    found = Scorer(files).statistics(["red p0"], [["red nn"]])[0]
    assert found[4:8].tolist() == [2, 2, 0, 0]


def test_a_match_that_is_not_exact_is_worth_half() -> None:
    """Rounded down: a stem is worth nothing to the search, but is taken where it costs no chunk."""
    both = [[Match(0, 1, 0, 1, EXACT), Match(0, 1, 1, 1, STEM)], [Match(1, 1, 1, 1, EXACT)]]
    assert align(both, 2) == [both[0][0], both[1][0]]
    assert align([[Match(0, 1, 0, 1, STEM)]], 1) == [Match(0, 1, 0, 1, STEM)]
    assert align([], 3) == []
    assert align([[], []], 0) == []


def test_tables_are_kept_whole_and_read_once(
    files: Files, stored: Stored, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    load_phrases(files.paraphrases)
    (kept,) = (tmp_path / "cache" / "meteor").iterdir()
    whole = kept.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(gzip, "open", lambda *_: pytest.fail("reads again"))
        found = Scorer(files).statistics(stored.captions, stored.references)
    assert found.astype(int).tolist() == stored.counts
    for damaged in (whole[:-100], b"", whole[:2000] + bytes(100) + whole[2100:]):
        kept.write_bytes(damaged)
        load_phrases(files.paraphrases)
        assert kept.read_bytes() == whole
    write_tables(files.jar.parent, "dog : puppy")  # another table: nothing of this one is taken
    assert sorted(load_phrases(files.paraphrases).words) == ["dog", "puppy"]
    monkeypatch.setenv("NAIC_CACHE", str(kept))  # a file: nothing can be kept there
    assert sorted(load_phrases(files.paraphrases).words) == ["dog", "puppy"]


def test_damaged_data_is_named(files: Files) -> None:
    packed = files.paraphrases.read_bytes()
    unpacked = gzip.decompress(packed)
    for damaged in (packed[:-20], b"", b"no gzip at all", gzip.compress(unpacked[:-1] + b"\nx\n")):
        files.paraphrases.write_bytes(damaged)
        with pytest.raises(MetricError, match=r"METEOR: paraphrase-en\.gz .*pip install"):
            load_phrases(files.paraphrases)
    files.jar.write_bytes(b"no zip")
    with pytest.raises(MetricError, match=r"METEOR: meteor-1\.5\.jar cannot be read"):
        Scorer(files)
    with zipfile.ZipFile(files.jar, "w"):
        pass
    with pytest.raises(MetricError, match=r"function/english\.words"):
        Scorer(files)


def test_missing_data_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (None, tmp_path):
        monkeypatch.setattr(java, "package_folder", lambda _, folder=folder: folder)
        with pytest.raises(MissingExtraError, match=r"METEOR: its data .*'naic\[metrics\]'"):
            meteor.meteor(["a"], [["a"]])


@pytest.fixture
def program() -> Files:
    if shutil.which("java") is None:
        pytest.skip("no Java")
    pytest.importorskip("pycocoevalcap")
    return find_files()


def test_the_stored_counts_are_the_programs(program: Files, tmp_path: Path, stored: Stored) -> None:
    write_tables(tmp_path)
    found = counts_by_java(stored.captions, stored.references, options_of_program(tmp_path))
    assert found.astype(int).tolist() == stored.counts


# What follows needs the installed tables and minutes.


def compare(captions: list[str], references: list[list[str]]) -> None:
    ours = meteor.meteor(captions, references)
    theirs = by_java(captions, references)
    np.testing.assert_array_equal(ours.shares, theirs.shares)
    np.testing.assert_allclose(ours.per_image, theirs.per_image, rtol=0, atol=1e-9)
    assert ours.value == pytest.approx(theirs.value, rel=0, abs=1e-9)


@pytest.mark.slow
def test_people_on_all_of_val_score_as_by_the_program(program: Files, coco: Path) -> None:
    """One caption of each image against the others, then in an order of chance."""
    source, problems = str(coco / "dataset_coco.json.xz"), Problems(skip=False)
    read = read_captions(source, reader=None, splits=["val"], seed=0, problems=problems)
    sentences = tokenised([image.captions for image in read.images])
    assert len(sentences) > 4000
    compare([own[0] for own in sentences], [own[1:] for own in sentences])
    others = random.Random(1).sample(sentences, len(sentences))
    compare([own[-1] for own in others], sentences)


@pytest.mark.slow
def test_100_000_made_up_pairs_score_as_by_the_program(program: Files) -> None:
    captions, references = images(7, 100_000, installed_partners(program, every=1000))
    assert sum(map(len, references)) >= 100_000
    compare(captions, references)


@pytest.mark.slow
def test_signs_by_chance_are_cut_as_by_the_program(program: Files) -> None:
    """Each sentence against its words as we cut them: all of them must match."""
    chance = random.Random(5)
    signs = [
        *"abz.,'-`“”‘’ 09AZ|\"\t\u00a0\u2009\u000b\u001f\u0085éЯ日🐕½&",
        *WORDS[:40],
        "...",
        "--",
    ]
    captions = ["".join(chance.choices(signs, k=chance.randint(1, 25))) for _ in range(20_000)]
    references = [["".join(chance.choices(signs, k=12)), caption] for caption in captions]
    compare(captions, references)
