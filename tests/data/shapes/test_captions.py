import re
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from naic.data.shapes.phrasing import captions, phrasings
from naic.data.shapes.scenes import facts, make_scene
from naic.data.shapes.truth import check
from naic.data.shapes.words import split_words


def test_captions_are_pinned_so_that_a_seed_means_the_same_everywhere() -> None:
    assert captions(make_scene(7, 0)) == (
        "A square around a triangle.",
        "This image shows a green triangle inside a red square.",
        "Two shapes: one large red square and one tiny green triangle.",
        "The large red square is around the green triangle.",
        "A red square with a small green triangle within it on a grey background.",
    )
    assert captions(make_scene(7, 25)) == (
        "A picture of a pair of tiny orange triangles.",
        "The two triangles are small and orange.",
        "Two small triangles are on a grey background.",
        "The image shows two tiny orange triangles.",
        "There are two little orange triangles.",
    )


@settings(deadline=None)  # a busy machine is no failure
@given(st.integers(0, 2**40), st.integers(0, 10**9))
def test_five_different_true_captions_of_at_most_15_words(seed: int, index: int) -> None:
    scene = make_scene(seed, index)
    built = phrasings(scene)
    assert captions(scene) == tuple(text for _, text in built)
    assert len({name for name, _ in built}) == 5
    assert len({text for _, text in built}) == 5
    for _, text in built:
        assert re.fullmatch(r"[A-Z][a-z]*([,:]? [a-z]+)*\.", text)
        assert len(text.split()) <= 15
        assert check(text, facts(scene)).ok


def test_all_captions_of_2000_scenes_are_true_raw_and_tokenised() -> None:
    for index in range(2000):
        scene = make_scene(1, index)
        told = facts(scene)
        for number, text in enumerate(captions(scene)):
            given_text = text if number % 2 else " ".join(split_words(text))
            verdict = check(given_text, told)
            assert verdict.ok, (text, verdict.reason)
            assert verdict.reason == ""
            assert verdict.false_claims == ()
            assert verdict.claims


def test_the_vocabulary_is_small_and_every_word_is_frequent() -> None:
    texts = [text for index in range(1000) for text in captions(make_scene(0, index))]
    words = Counter(word for text in texts for word in split_words(text))
    assert len(words) == 74
    assert min(words.values()) > 10, words.most_common()[-3:]
    assert len(set(texts)) > 0.9 * len(texts)


def test_all_templates_are_in_use_and_the_two_orders_of_a_pair_too() -> None:
    names: Counter[str] = Counter()
    orders = set()
    for index in range(1000):
        scene = make_scene(0, index)
        for name, text in phrasings(scene):
            names[name] += 1
            if name == "related" and len(scene.objects) == 2:
                first = split_words(text)[1:4]
                orders.add(scene.objects[0].shape in first)
    assert len(names) == 8 + 10 + 8  # for one look, for two, and for three without the shared two
    assert min(names.values()) > 15, names
    assert orders == {True, False}
