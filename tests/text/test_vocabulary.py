import hashlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naic.errors import VocabularyError, WriteError
from naic.text import BOS, MAX_IDS, PAD, PERIOD, UNK, Vocabulary, tokenise
from naic.text.vocabulary import _join, _spell, spell

SPECIAL = (".", "<bos>", "<unk>", "<pad>")
# Marks that turn the direction of writing are among the formats, Cf.
WRITTEN = st.text(st.characters(exclude_categories=("Cc", "Cs", "Cf", "Zl", "Zp")), min_size=1)


def _of(*words: str) -> Vocabulary:
    return Vocabulary((*SPECIAL, *words))


def test_words_seen_more_than_five_times_by_count_then_alphabet() -> None:
    captions = ["the cat sat."] * 6 + ["the bat sat."] * 6 + ["the rat"] * 5 + ["the"]
    vocabulary = Vocabulary.build(captions)
    assert vocabulary.words == (*SPECIAL, "the", "sat", "bat", "cat")
    assert len(vocabulary) == 8
    assert Vocabulary.build(iter(reversed(captions))) == vocabulary
    assert "rat" in Vocabulary.build(captions, more_than=4)


def test_ids_of_the_special_tokens() -> None:
    vocabulary = _of("a")
    assert (PERIOD, BOS, UNK, PAD) == (0, 1, 2, 3)
    assert [vocabulary.word(i) for i in range(5)] == [*SPECIAL, "a"]
    assert [vocabulary.id(w) for w in (*SPECIAL, "a", "zebra")] == [0, 1, 2, 3, 4, UNK]


def test_special_tokens_spelled_out_in_captions_are_no_words() -> None:
    vocabulary = Vocabulary.build(["a <unk> <bos> <pad> cat"] * 6)
    assert vocabulary.words == (*SPECIAL, "a", "cat")
    assert vocabulary.encode("a <bos> <pad> cat", 6) == [4, UNK, UNK, 5, PERIOD, PAD]


def test_too_many_words_are_refused_with_a_threshold_that_fits() -> None:
    words = [f"w{i}" for i in range(MAX_IDS - 4)]
    assert len(Vocabulary.build([" ".join(words)], more_than=0)) == MAX_IDS
    with pytest.raises(VocabularyError, match=r"14 bits.*more_than=1 fits"):
        Vocabulary.build([" ".join(words), "bat bat"], more_than=0)
    assert Vocabulary.build(["x " * 2 + "y"], more_than=1).words == (*SPECIAL, "x")


def test_encode_pads_ends_and_cuts() -> None:
    v = _of("a", "bat")
    assert v.encode("A bat.", 5) == [4, 5, PERIOD, PAD, PAD]
    assert v.encode(["a", "x", "."], 4) == [4, UNK, PERIOD, PERIOD]
    assert v.encode("a a a bat", 5) == [4, 4, 4, 5, PERIOD]
    assert v.encode("a a a a bat", 5) == [4, 4, 4, 4, 5]  # full: no period
    assert v.encode("a a a a bat bat", 5) == [4, 4, 4, 4, 5]  # cut: no period
    assert v.encode("") == [PERIOD] + [PAD] * 15
    assert len(v.encode("a " * 40)) == 16


def test_decode_stops_at_the_period_and_skips_markers() -> None:
    v = _of("a", "b")
    assert v.decode([BOS, 4, PAD, 5, PERIOD, 4, 4]) == "a b"
    assert v.decode([4, UNK, 5]) == "a <unk> b"
    assert v.decode([]) == ""
    with pytest.raises(VocabularyError, match="id 6: the vocabulary has the ids 0 to 5"):
        v.decode([6])
    with pytest.raises(VocabularyError, match="id -1"):
        v.word(-1)


@pytest.mark.parametrize(
    ("caption", "sentence"),
    [
        ("The man's dog can't sit.", "the man's dog can't sit"),
        ("They're gonna leave, we cannot.", "they're gonna leave we cannot"),
        ("A sign (red) here", "a sign (red) here"),
        ("rock 'n' roll", "rock 'n' roll"),
        ("an AT&T shop in La. today", "an AT&T shop in La. today"),
        ("5 , 1/2", "5  1/2"),
        ("1 1/2 cups", "1\u00a01/2 cups"),
        ("a dog 's", "a dog's"),
    ],
)
def test_decode_is_readable(caption: str, sentence: str) -> None:
    tokens = tokenise(caption)
    v = _of(*dict.fromkeys(tokens))
    assert v.decode(v.encode(caption)) == sentence
    assert tokenise(sentence) == tokens


FRAGMENTS = [
    *("a man", "the dog's", "don't", "they're", "we'll", "can't", "gonna", "cannot", "and/or"),
    *("T.V.", "Main St.", "5 o'clock", "10:30", "1/2", "two", "(red)", "[x]", "AT&T", "$5", "'em"),
    *("'n'", "No sign", "Ave.", "etc.", "d'art", "50%", "U.S.", "stop!", '"go"', ", and", "; or"),
    *("3rd", "#1", "@home", ":-)", "tub/shower", "black-and-white", "caf\u00e9", "'90s", "x.jpg"),
]


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=9))
def test_round_trip_of_known_captions(fragments: list[str]) -> None:
    caption = " ".join(fragments)
    tokens = tokenise(caption)[:16]
    v = _of(*dict.fromkeys(tokens))
    assert tokenise(v.decode(v.encode(caption))) == tokens


@given(st.lists(st.integers(0, 7), max_size=20))
def test_decode_of_any_row_has_its_words(ids: list[int]) -> None:
    v = _of("a", "'s", "n't", "-lrb-")
    end = ids.index(PERIOD) if PERIOD in ids else len(ids)
    assert tokenise(v.decode(ids)) == [v.word(i) for i in ids[:end] if i not in (BOS, PAD)]


PLAIN = ("a", "man", "can", "not", "cannot", "gon", "na", "gonna", "lem", "me", "got", "ta", "st")


@given(st.lists(st.sampled_from((*PLAIN, "'s", "5", "la", "-lrb-", "caf\u00e9")), max_size=6))
def test_plain_words_are_spelt_by_the_rules_of_others(tokens: list[str]) -> None:
    """They go a short way, which knows that there is nothing to be joined."""
    spelled = [_spell(token) for token in tokens]
    tried = (_join(tokens, spelled), " ".join(spelled), "  ".join(spelled))
    by_rule = next((text for text in tried if tokenise(text) == tokens), tried[0])
    assert spell(tokens) == by_rule


@settings(max_examples=30)
@given(st.lists(WRITTEN.filter(lambda w: w not in SPECIAL), unique=True, max_size=20))
def test_save_and_load(tmp_path_factory: pytest.TempPathFactory, words: list[str]) -> None:
    path = tmp_path_factory.mktemp("v") / "vocab.json"
    v = _of(*words)
    v.save(path)
    loaded = Vocabulary.load(path)
    assert loaded == v
    assert loaded.fingerprint == v.fingerprint
    assert [f.name for f in path.parent.iterdir()] == ["vocab.json"]


def test_fingerprint_is_that_of_the_words_in_order() -> None:
    expected = hashlib.sha256(b'[".", "<bos>", "<unk>", "<pad>", "a", "b"]').hexdigest()
    assert _of("a", "b").fingerprint == expected
    assert _of("b", "a").fingerprint != expected


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "not valid JSON"),
        ("\udcff", "not valid JSON"),
        ("[1]", 'no "format"'),
        ('{"format": "other"}', 'no "format"'),
        (
            '{"format": "naic-vocabulary", "version": 2, "words": []}',
            "version is 2, and 1 is known",
        ),
        ('{"format": "naic-vocabulary", "version": 1}', "its keys are format, version"),
        ('{"format": "naic-vocabulary", "version": 1, "words": "abc"}', "not a list of strings"),
        ('{"format": "naic-vocabulary", "version": 1, "words": [1]}', "not a list of strings"),
        ('{"format": "naic-vocabulary", "version": 1, "words": []}', "the first words are not"),
        (
            '{"format": "naic-vocabulary", "version": 1, "words": '
            '[".", "<unk>", "<bos>", "<pad>", "a"]}',
            "the first words are not",
        ),
        (
            '{"format": "naic-vocabulary", "version": 1, "words": '
            '[".", "<bos>", "<unk>", "<pad>", "a", "b", "a"]}',
            "'a' occurs twice",
        ),
        (
            '{"format": "naic-vocabulary", "version": 1, "words": '
            '[".", "<bos>", "<unk>", "<pad>", ""]}',
            "one of the words is empty",
        ),
    ],
)
def test_load_refuses(tmp_path: Path, content: str, why: str) -> None:
    path = tmp_path / "vocab.json"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(VocabularyError) as caught:
        Vocabulary.load(path)
    assert why in caught.value.why
    assert caught.value.what == str(path)
    assert caught.value.hint


def test_files_that_cannot_be_had(tmp_path: Path) -> None:
    with pytest.raises(VocabularyError, match="cannot be read"):
        Vocabulary.load(tmp_path / "missing.json")
    with pytest.raises(WriteError, match="cannot be written"):
        _of("a").save(tmp_path / "no folder" / "vocab.json")


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "vocab.json"
    _of("old").save(path)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(WriteError, match="the disk is full"):
        _of("new").save(path)
    assert Vocabulary.load(path) == _of("old")
    assert [f.name for f in tmp_path.iterdir()] == ["vocab.json"]


@pytest.mark.parametrize("word", ["a\x1b]0;b", "a\nb", "a\ud800", "a\u202eb", "a\u2028b"])
def test_words_that_steer_a_terminal_or_a_text_are_refused(word: str) -> None:
    with pytest.raises(VocabularyError, match="signs that steer"):
        Vocabulary((*SPECIAL, "cat", word))


def test_such_words_of_captions_are_unknown() -> None:
    built = Vocabulary.build(["a \u202ecat sits"] * 9)
    assert "a" in built
    assert not any("\u202e" in word for word in built.words)
