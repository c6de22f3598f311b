import json
import random
import shutil
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from benchmarks.text_parity import PUNCTUATION, compare, read_captions, run_java
from hypothesis import given
from hypothesis import strategies as st

from naic.text import tokenise
from naic.text.tokeniser import _lex

GOLDEN = Path(__file__).parent / "ptb_golden.jsonl"
JAVA_IS_MISSING = shutil.which("java") is None or find_spec("pycocoevalcap") is None
needs_java = pytest.mark.skipif(JAVA_IS_MISSING, reason="needs java and the extra `metrics`")

Golden = list[tuple[str, list[str]]]


@pytest.fixture(scope="module")
def golden() -> Golden:
    rows = [json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").splitlines()]
    return [(row["text"], row["tokens"]) for row in rows]


def test_golden_sentences(golden: Golden) -> None:
    assert len(golden) > 600
    wrong = {text: (tokens, tokenise(text)) for text, tokens in golden if tokenise(text) != tokens}
    assert wrong == {}


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", []),
        (" \n\t ", []),
        ("...", []),
        ("A man's hat.", ["a", "man", "'s", "hat"]),
        ("They can't stop", ["they", "ca", "n't", "stop"]),
        ("one\ntwo.\n", ["one", "two"]),
        ("Main St.", ["main", "st."]),
        ("(left)", ["-lrb-", "left", "-rrb-"]),
        ("1 1/2 cups", ["1\u00a01/2", "cups"]),
        ("\ud800a\udfff \x00b", ["a", "b"]),
        ("We cannot.", ["we", "can", "not"]),
    ],
)
def test_by_hand(text: str, tokens: list[str]) -> None:
    assert tokenise(text) == tokens


@given(st.text())
def test_any_text_gives_clean_tokens(text: str) -> None:
    for token in tokenise(text):
        assert token
        assert " " not in token
        assert "\n" not in token
        assert token not in PUNCTUATION


PLAIN = [*"aAbnstINST .,\n", "cannot ", "gonna", " st", "etc."]


@given(st.lists(st.sampled_from(PLAIN), max_size=20))
def test_the_short_way_gives_what_the_long_way_gives(pieces: list[str]) -> None:
    assert tokenise("".join(pieces)) == _lex("".join(pieces))


@given(st.lists(st.sampled_from(["a", "dog's", "don't", "and/or", "well-known", "5:30"])))
def test_words_apart_are_tokenised_apart(words: list[str]) -> None:
    assert tokenise(" ".join(words)) == [token for word in words for token in tokenise(word)]


@pytest.mark.parametrize(
    "unit", ["a", "a,", "a@", "www.a.", "<!a", "&", "~.", "a'", "1.", "\x00", "a-", "<a b='"]
)
def test_long_hostile_text_takes_no_quadratic_time(unit: str) -> None:
    start = time.process_time()
    tokenise(unit * (20_000 // len(unit)))
    assert time.process_time() - start < 2.0  # a quadratic rule takes minutes


def _generated(count: int) -> list[str]:
    """Hostile strings: letters, digits, punctuation, quotes and words that rules care about."""
    rng = random.Random(20)
    pieces = [*"aadnstABIST0159 '''..,,--/!?:;&$%#@()<>\"`_*+=~^", *[" "] * 18, "\u2019", "\u201c"]
    pieces += ["dog", "can't", "it's", "Inc.", "St.", "U.S.", "e.g.", "The", "cannot", "'em", "1/2"]
    pieces += ["10:30", "and/or", "AT&T", "foo.com", ":-)", "o'clock", "no.", "'90s", "\u00e9"]
    return ["".join(rng.choices(pieces, k=rng.randint(1, 14))) for _ in range(count)]


@needs_java
def test_java_agrees(golden: Golden) -> None:
    rows = [(text, tokens) for text, tokens in golden if "\n" not in text]
    generated = _generated(4_000)
    answers, _ = run_java([*(text for text, _ in rows), *generated], apart=True)
    assert answers[: len(rows)] == [tokens for _, tokens in rows]
    pairs = zip(generated, answers[len(rows) :], strict=True)
    wrong = {text: (java, tokenise(text)) for text, java in pairs if tokenise(text) != java}
    assert wrong == {}


@pytest.mark.slow
@needs_java
def test_java_agrees_on_every_caption_of_coco(coco: Path) -> None:
    captions = [caption for _, caption in read_captions(coco / "dataset_coco.json.xz")]
    assert len(captions) == 581_751
    assert compare(captions, apart=True).differing == []


def test_import_is_light() -> None:
    code = "import sys, naic.text; print('torch' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
