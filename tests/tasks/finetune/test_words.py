"""New words: what they stand in for, the sentences that they are learnt in, their first weights."""

import pytest
import torch

from naic.tasks.finetune.words import grow, pairs_of, stand_ins, with_new_words
from naic.text import UNK

SAID = {
    "1": "a man riding a bike on a street",
    "2": "a man with a bike next to a wall",
    "3": "a motorcycle in a field",
    "4": "a bike on a street",
    "5": "a man on a street",
    "6": "a dog in a field",
    "7": "a group of people in the air",
    "8": "a bike and a dog",
    "9": "two motorcycle",
}
CAPTIONS = {
    "1": ("A velo is ridden by a man.", "Someone on a street"),
    "2": ("A velo leans on a wall.",),
    "3": ("Two people and a velo.",),
    "4": ("My velo",),
    "5": ("A man walks.",),
    "6": ("A dog runs.",),
    "7": ("He jumps with his velo, high up.", "The velo flies."),
    "8": ("A bike beside a dog",),
    "9": ("Another velo", "A velo"),
}


def test_what_people_never_say_of_it_stands_in_for_a_new_word() -> None:
    """Not "a man", whom they speak of too, nor "street", which is said without a velo as well."""
    pairs = pairs_of(SAID, CAPTIONS)
    assert stand_ins("velo", [*pairs.values()])[:2] == ("bike", "motorcycle")
    assert "man" not in stand_ins("velo", [*pairs.values()])
    alone = pairs_of({"7": "a man"}, {"7": ("A man and his velo",)})
    assert stand_ins("velo", [*alone.values()]) == ()


def test_a_new_word_is_learnt_inside_the_model_s_own_sentence() -> None:
    pairs = pairs_of(SAID, CAPTIONS)
    found = {"velo": ("bike", "motorcycle")}
    known = {"the", "velo", "flies", "two", "people", "and", "a"}
    sentences = with_new_words(pairs, CAPTIONS, found, known)
    assert sentences["1"] == "a man riding a velo on a street"
    assert sentences["3"] == "a velo in a field"
    assert sentences["7"] == "the velo flies"  # nothing stands in for it, and its words are known
    unsaid = with_new_words(pairs, CAPTIONS, found, known - {"flies"})
    assert unsaid["7"] == SAID["7"]  # what cannot be said is no sentence to learn
    assert sentences["6"] == SAID["6"]
    assert sentences["8"] == SAID["8"]  # a bike is a bike where nobody calls it a velo
    assert sentences.keys() == SAID.keys()


def test_several_new_words_stand_in_one_sentence() -> None:
    pairs = pairs_of({"1": "a man on a bike"}, {"1": ("Opa on his velo",)})
    found = {"velo": ("bike",), "opa": ("man",)}
    assert with_new_words(pairs, {"1": ("Opa on his velo",)}, found, ())["1"] == "a opa on a velo"


def test_only_photos_that_the_model_was_asked_of_count() -> None:
    assert pairs_of({"1": SAID["1"]}, CAPTIONS).keys() == {"1"}


@pytest.mark.parametrize("transitions", [False, True])
def test_a_new_word_begins_like_those_it_stands_in_for_but_rarer(transitions: bool) -> None:
    torch.manual_seed(0)
    weights = {"decoder.output.weight": torch.randn(9, 4), "decoder.output.bias": torch.randn(9)}
    sides = [f"decoder.transitions.{side}.weight" for side in ("before", "after")]
    if transitions:
        weights |= {name: torch.randn(9, 2) for name in sides}
    grown = grow(weights, [[5, 7], [6], []], UNK)
    seen = torch.randn(4)
    logits = grown["decoder.output.weight"] @ seen + grown["decoder.output.bias"]
    old = weights["decoder.output.weight"] @ seen + weights["decoder.output.bias"]
    torch.testing.assert_close(logits[:9], old)
    torch.testing.assert_close(logits[9:], torch.stack([old[[5, 7]].mean(), old[6], old[UNK]]) - 2)
    for name in sides if transitions else ():
        torch.testing.assert_close(grown[name][9], weights[name][[5, 7]].mean(0))
    assert set(grown) == set(weights)
    assert torch.equal(
        grow(weights, [], UNK)["decoder.output.bias"], weights["decoder.output.bias"]
    )
