"""Captions with wishes about their words, out of words that are chosen here, without a model."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naic.decode.decoding import READABLE
from naic.errors import ConfigError
from naic.runtime.rescore import as_said, candidates
from naic.runtime.sentences import Caption, Proposals, found_sentences, texts, write
from naic.text import Vocabulary
from naic.text.neutral import SAID
from naic.text.style import Style
from naic.text.vocabulary import BAD_ENDINGS, PERIOD

WORDS = Vocabulary.build(
    ["a man and a woman with her dog sit on the red sofa", "two people"], more_than=0
)
Place = list[tuple[str, float]]


def said(*places: Place) -> Proposals:
    """One image; for each agent its words and their probabilities."""
    ids = [[WORDS.id(word) for word, _ in place] for place in places]
    log_probs = [[math.log(prob) for _, prob in place] for place in places]
    return Proposals(np.array([ids]), np.array([log_probs], np.float32))


def chain(*places: Place) -> Proposals:
    """The same with transitions of no weight: nothing is likelier or less likely by them."""
    ids, log_probs, _ = said(*places)
    return Proposals(ids, log_probs, np.zeros((1, len(places) - 1, *[len(places[0])] * 2), "f"))


def sure(sentence: str) -> list[Place]:
    return [[(word, 0.9), ("two", 0.05)] for word in sentence.split()]


def one(what: Proposals, **wishes: Any) -> Caption:
    (caption,) = write(what, None, WORDS, replace(READABLE, **wishes))
    return caption


def texts_of(what: Proposals, **wishes: Any) -> str:
    (text,) = texts(what, WORDS, replace(READABLE, **wishes))
    return text


MAN: list[Place] = [
    [("a", 0.8), ("the", 0.2)],
    [("man", 0.5), ("woman", 0.45)],
    [(".", 0.9), ("with", 0.1)],
    [("dog", 0.7), ("sofa", 0.3)],
]


@pytest.mark.parametrize("make", [said, chain])
def test_a_forbidden_word_is_nowhere(make: Any) -> None:
    caption = one(make(*MAN), forbid=("man", "giraffe"), alternatives=4)
    assert caption.text == "a woman"
    share = 1 if make is said else 1 / 0.95  # a chain is sure of what it considers, in all
    assert caption.confidence == pytest.approx(0.8 * 0.45 * 0.9 * share)  # the model's own
    assert [text for text, _ in caption.words[1].alternatives] == ["woman"]
    texts = [sentence.text for sentence in caption.alternatives]
    assert texts == ["a woman", "the woman", "a woman with dog", "a woman with sofa"]
    assert caption.alternatives[1].confidence == pytest.approx(0.2 * 0.45 * 0.9 * share)


@pytest.mark.parametrize("make", [said, chain])
def test_a_preferred_word_keeps_its_own_confidence(make: Any) -> None:
    caption = one(make(*MAN), prefer=("woman", "sofa"), alternatives=2)
    assert caption.text == "a woman"  # "with" and "sofa" are too unlikely together
    share = 1 if make is said else 1 / 0.95
    assert caption.words[1].confidence == pytest.approx(0.45 * share)
    assert caption.confidence == pytest.approx(0.8 * 0.45 * 0.9 * share)
    assert caption.alternatives[1].text == "a man"


@pytest.mark.parametrize("make", [said, chain])
def test_where_all_is_forbidden_the_sentence_is_cut(make: Any) -> None:
    what = make(*sure("a dog on"), [("sofa", 0.6), ("red", 0.4)], *sure("."))
    caption = one(what, forbid=("sofa", "red"), alternatives=3)
    assert caption.text == "a dog"  # "on" ends no sentence
    assert len(caption.words) == 2
    share = 1 if make is said else 1 / 0.95**3
    # That it ends there is less likely than all that the agent thinks of: 0.4 is the least.
    assert caption.confidence == pytest.approx(0.9**3 * share * 0.4, rel=1e-4)
    assert [other.text for other in caption.alternatives][:2] == ["a dog", "a dog two"]
    nothing = one(what, forbid=("a", "two"), alternatives=2)
    assert (nothing.text, nothing.words) == ("", ())
    assert [other.text for other in nothing.alternatives] == [""]


def test_a_causal_model_stops_before_a_forbidden_word() -> None:
    places = [[own[0]] for own in sure("a man on the sofa .")]
    scores = [math.log(0.5), math.log(0.3), math.log(0.1)]
    rows = [
        [WORDS.id(word) for word in text.split()] for text in ("a man .", "a dog .", "two dog .")
    ]
    decoding = replace(READABLE, alternatives=3, forbid=("sofa", "man"))
    found = found_sentences([rows], [scores])
    (caption,) = write(said(*places), found, WORDS, decoding)
    assert [other.text for other in caption.alternatives] == ["a", "a dog", "two dog"]


@pytest.mark.parametrize("known", ["dog", "giraffe"])
def test_a_causal_model_has_no_word_to_prefer(known: str) -> None:
    with pytest.raises(ConfigError, match="the model has one word for each place"):
        one(said(*[[own[0]] for own in sure("a man .")]), prefer=(known,))


LONG = "a man with a red dog on the sofa ."


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (100, "a man with a red dog on the sofa"),
        (32, "a man with a red dog on the sofa"),
        (31, "a man with a red dog"),
        (20, "a man with a red dog"),
        (19, "a man with a red"),
        (13, "a man"),
        (5, "a man"),
        (4, "a"),
    ],
)
def test_a_text_of_so_many_characters(most: int, expected: str) -> None:
    caption = one(said(*sure(LONG)), max_chars=most, alternatives=5)
    assert caption.text == expected
    assert [word.text for word in caption.words] == expected.split()
    assert caption.confidence == pytest.approx(0.9 ** len(LONG.split()), rel=1e-5)
    assert all(0 < len(other.text) <= most for other in caption.alternatives)
    assert one(said(*sure(LONG)), max_chars=most, max_words=2).text == expected[:5]


def test_not_even_a_word_may_fit() -> None:
    what = said(*sure("people sit ."))
    caption = one(what, max_chars=5, alternatives=9)
    assert (caption.text, caption.words) == ("", ())
    assert [other.text for other in caption.alternatives] == ["", "two"]
    assert one(what, max_chars=5, neutral=True).text == ""


def test_words_that_read_the_same_count_together() -> None:
    caption = one(said(*MAN), neutral=True, alternatives=3)
    assert caption.text == "a person"
    ((text, prob),) = caption.words[1].alternatives
    assert (text, prob) == ("person", caption.words[1].confidence)
    assert prob == pytest.approx(0.95)
    assert caption.confidence == pytest.approx(0.8 * 0.95 * 0.9)
    texts = [other.text for other in caption.alternatives]
    assert texts == ["a person", "the person", "a person with dog"]
    found = [other.confidence for other in caption.alternatives]
    assert found == pytest.approx([0.8 * 0.95 * 0.9, 0.2 * 0.95 * 0.9, 0.8 * 0.95 * 0.1 * 0.7])


def test_with_transitions_they_count_together_after_the_word_before() -> None:
    caption = one(chain(*MAN), neutral=True, alternatives=2)
    assert caption.text == "a person"
    assert caption.words[1].confidence == pytest.approx(1)  # of the two words that it considers
    assert caption.confidence == pytest.approx(0.8 * 0.9)
    assert caption.alternatives[1].text == "the person"
    assert caption.alternatives[1].confidence == pytest.approx(0.2 * 0.9)


def test_several_agents_may_say_one_thing() -> None:
    what = said(*sure("a man and"), [("a", 0.8), ("her", 0.1)], *MAN[1:3], *sure("dog"))
    caption = one(what, neutral=True)
    assert caption.text == "two people"
    (both,) = caption.words
    assert both.text == "two people"
    assert both.confidence == pytest.approx(0.9**3 * 0.8 * 0.95)
    assert both.alternatives == ((both.text, both.confidence),)
    assert caption.confidence == pytest.approx(both.confidence * 0.9)
    cut = one(what, neutral=True, max_words=2)
    assert cut.text == "a person"
    shorter = one(said(*sure("a man and a woman .")), neutral=True, max_chars=10)
    assert shorter.text == "two people"  # it fits, though the words before were longer
    assert one(said(*sure("a man and a woman .")), neutral=True, max_chars=9).text == "a person"


def test_grammar_brings_back_nothing_that_is_forbidden() -> None:
    caption = one(said(*sure("a man and a woman .")), neutral=True, forbid=("two",))
    assert caption.text == "a person"  # where it would have been "two people"


def test_a_period_that_cannot_be_is_no_error_when_words_count_together() -> None:
    words = np.array([[[WORDS.id("man"), WORDS.id("woman")], [PERIOD, WORDS.id("dog")]]])
    log_probs = np.array([[[-1.0, -1.0], [-np.inf, -np.inf]]], np.float32)
    assert one(Proposals(words, log_probs), neutral=True).confidence == 0


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.sampled_from(WORDS.words[4:]), max_size=3, unique=True),
    st.integers(1, 30),
    st.booleans(),
    st.booleans(),
)
def test_all_wishes_come_true_at_once(
    seed: int, forbid: list[str], most: int, neutral: bool, chained: bool
) -> None:
    if neutral:
        forbid = [word for word in forbid if word not in SAID]
    random = np.random.default_rng(seed)
    ids = [PERIOD, *range(4, len(WORDS))]
    words = np.array([random.permutation(ids)[:4] for _ in range(6)])[None]
    log_probs = np.log(-np.sort(-random.dirichlet(np.ones(4), (1, 6)))).astype(np.float32)
    pairs = random.normal(0, 1, (1, 5, 4, 4)).astype(np.float32) if chained else None
    what = Proposals(words, log_probs, pairs)
    wishes: dict[str, Any] = {"forbid": tuple(forbid), "max_chars": most, "neutral": neutral}
    caption = one(what, alternatives=4, **wishes)
    assert caption.text == one(what, **wishes).text
    assert 0 <= caption.confidence <= 1 + 1e-6
    texts = [other.text for other in caption.alternatives]
    assert texts[0] == caption.text == " ".join(word.text for word in caption.words)
    assert len(set(texts)) == len(texts)
    for text in texts:
        own = text.split()
        assert len(text) <= most
        assert set(forbid).isdisjoint(own)
        if neutral:
            assert {"man", "woman", "her"}.isdisjoint(own)
        assert len(own) <= 1 or own[-1] not in BAD_ENDINGS


def test_what_a_teacher_chooses_from_obeys() -> None:
    decoding = replace(READABLE, forbid=("man",), max_chars=8, neutral=True)
    what = said(*MAN)
    (found,) = candidates(what, 10, decoding, WORDS)
    texts = {WORDS.decode(own.words) for own in found}
    assert texts == {"a woman", "the"}  # "the person" is too long
    (found,) = candidates(what, 10, replace(decoding, max_chars=None, forbid=("a", "the")), WORDS)
    assert found == [((), 0.0)]
    assert as_said(decoding).forbid == ("man",)


TELEGRAM = Style(("photo", "of"), without=("a", "the"), case="sentence", end=".")


@pytest.mark.parametrize("make", [said, chain])
def test_a_style_changes_the_text_and_no_confidence(make: Any) -> None:
    what = make(*MAN[:3])
    plain, caption = one(what, alternatives=4), one(what, style=TELEGRAM, alternatives=4)
    assert (plain.text, caption.text) == ("a man", "Photo of man.")
    assert caption.probability == plain.probability
    assert caption.words == plain.words[1:]  # of what is put in, and left out, nothing is told
    others = [sentence.text for sentence in caption.alternatives]
    assert others == ["Photo of man.", "Photo of woman."]  # "the man" reads the same
    assert caption.alternatives[1].confidence == plain.alternatives[1].confidence
    assert texts_of(what, style=TELEGRAM) == "Photo of man."


def test_a_word_that_is_replaced_keeps_what_its_agent_thinks_of() -> None:
    style = Style(instead=(("man", ("old", "fellow")),))
    caption = one(said(*MAN[:3]), style=style)
    assert caption.text == "an old fellow"
    assert [word.text for word in caption.words] == ["an", "old fellow"]
    fellow = caption.words[1]
    assert fellow.confidence == pytest.approx(0.5)
    assert [text for text, _ in fellow.alternatives] == ["old fellow", "woman"]


def test_a_style_comes_after_neutral_words() -> None:
    caption = one(said(*MAN[:3]), neutral=True, style=Style(without=("a",), case="upper"))
    assert caption.text == "PERSON"
    (person,) = caption.words
    assert (person.text, person.confidence) == ("person", pytest.approx(0.95))


def test_a_limit_counts_the_letters_of_the_style_and_the_words_that_are_said() -> None:
    what = said(*sure("a dog with her sofa ."))
    assert one(what, style=TELEGRAM).text == "Photo of dog with her sofa."
    assert one(what, style=TELEGRAM, max_words=2).text == "Photo of dog."
    fits = len("Photo of dog with her sofa.")
    assert one(what, style=TELEGRAM, max_chars=fits).text == "Photo of dog with her sofa."
    for most in range(len("Photo of dog."), fits):
        shorter = one(what, style=TELEGRAM, max_chars=most).text
        assert shorter in ("Photo of dog.", "Photo of dog with her.")
        assert len(shorter) <= most
    assert one(what, style=TELEGRAM, max_chars=len("Photo of dog.") - 1).text == ""


def test_a_style_brings_back_nothing_that_is_forbidden() -> None:
    with pytest.raises(ConfigError, match=r"forbid: 'of' is what the model's style puts in"):
        one(said(*MAN), style=TELEGRAM, forbid=("of", "dog"))
    apple = Style(instead=(("man", ("old", "man")),))
    assert one(said(*sure("a man .")), style=apple).text == "an old man"
    assert one(said(*sure("a man .")), style=apple, forbid=("an",)).text == "a"


@given(
    places=st.lists(st.permutations(("a", "man", "her", "the", ".")), min_size=1),
    style=st.sampled_from([TELEGRAM, Style(case="upper"), None]),
)
@settings(max_examples=50)
def test_texts_are_those_of_captions(places: list[list[str]], style: Style | None) -> None:
    what = said(*([(word, 0.5 / place) for place, word in enumerate(own, 1)] for own in places))
    assert texts_of(what, style=style, neutral=True) == one(what, style=style, neutral=True).text
