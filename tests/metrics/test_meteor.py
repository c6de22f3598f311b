"""METEOR by the program equals the public evaluation's, and its formula here the program's."""

import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from naic.errors import MetricError, MissingExtraError
from naic.metrics import java
from naic.metrics.meteor import meteor, program
from naic.metrics.meteor.jar import by_java
from naic.metrics.score import Floats, Score
from tests.metrics.fake_java import FakeJava

# Stems, synonyms and paraphrases of one another, and function words.
WORDS = ["a", "the", "of", "on", "near", "next", "to", "in", "front", "top", "it's"]
WORDS += ["large", "big", "small", "dog", "dogs", "hound", "run", "runs", "running"]
WORDS += ["street", "road", "couch", "sofa", "sits", "sitting", "man", "person", "people"]
WORDS += ["photo", "image", "bike", "bicycle"]


def sentences(random_: random.Random, count: int) -> list[str]:
    return [" ".join(random_.choices(WORDS, k=random_.randint(1, 12))) for _ in range(count)]


@dataclass
class Both:
    """The same images by us and by the public wrapper, whose program stays up for more."""

    ours: Score
    value: float
    per_image: Floats
    hypotheses: list[str]
    references: list[list[str]]
    public: Any

    def public_value(self, images: list[int]) -> float:
        value, _ = self.public.compute_score(
            {place: self.references[image] for place, image in enumerate(images)},
            {place: [self.hypotheses[image]] for place, image in enumerate(images)},
        )
        return float(value)


@pytest.fixture(scope="module")
def both() -> Iterator[Both]:
    if shutil.which("java") is None:
        pytest.skip("no Java")
    public = pytest.importorskip("pycocoevalcap.meteor.meteor").Meteor()
    chance = random.Random(3)
    hypotheses = sentences(chance, 300)
    references = [sentences(chance, chance.randint(1, 7)) for _ in hypotheses]
    hypotheses[10:15] = ["", "", "dog", "zebra zebra", "dog dog dog dog"]
    references[11:13] = [[""], ["", "dog"]]
    hypotheses[20] = references[20][0]  # one whole match
    hypotheses[21], references[21] = "a | dog || ran", ["a | dog || ran . !"]
    hypotheses[22], references[22] = "été 日本 ñ 🐕 dog", ["un été 日本 🐕 ñ"]
    hypotheses[23] = "a ||| dog"
    with pytest.MonkeyPatch.context() as patch:
        # A comma for the decimal sign, and a charset without most letters: it must not matter.
        foreign = "-Duser.language=de -Duser.country=DE -Dfile.encoding=US-ASCII"
        patch.setenv("JAVA_TOOL_OPTIONS", foreign)
        patch.setenv("_JAVA_OPTIONS", foreign)
        # What no public evaluation takes is added at the end; the rest must not shift.
        ours = by_java(
            [*hypotheses, "a\ndog\r\nruns", "a dog"],
            [*references, ["a dog runs"], ["a\n|||dog"]],
        )
    value, per_image = public.compute_score(
        dict(enumerate(references)), {image: [one] for image, one in enumerate(hypotheses)}
    )
    yield Both(ours, value, np.array(per_image), hypotheses, references, public)
    public.meteor_p.kill()
    public.meteor_p.wait()
    for pipe in (public.meteor_p.stdin, public.meteor_p.stdout, public.meteor_p.stderr):
        pipe.close()


@pytest.mark.slow
def test_every_image_scores_as_in_the_public_evaluation(both: Both) -> None:
    assert both.ours.name == "METEOR"
    np.testing.assert_allclose(both.ours.per_image[:-2], both.per_image, rtol=0, atol=1e-12)
    assert both.ours.per_image[10:13].tolist()[:2] == [0.0, 0.0]
    assert both.ours.per_image[12] == 1.0
    assert both.ours.per_image[20] == 1.0
    assert len(set(both.per_image)) > 200


@pytest.mark.slow
def test_line_ends_and_bars_are_no_words_and_shift_nothing(both: Both) -> None:
    assert both.ours.per_image[-2:].tolist() == [1.0, 1.0]


@pytest.mark.slow
def test_any_subset_is_combined_as_the_program_does(both: Both) -> None:
    images = range(len(both.hypotheses))
    everything = both.ours.combine(both.ours.shares[:-2].sum(axis=0))
    assert everything == pytest.approx(both.value, rel=0, abs=1e-12)
    chance = random.Random(4)
    for size in (1, 1, 2, 3, 10, 50, 300, 1000):
        subset = chance.choices(images, k=size)  # some of them more than once
        ours = both.ours.combine(both.ours.shares[subset].sum(axis=0))
        assert ours == pytest.approx(both.public_value(subset), rel=0, abs=1e-12)
    for subset in ([10], [11], [10, 11], [20], [20, 20, 12], [13]):
        ours = both.ours.combine(both.ours.shares[subset].sum(axis=0))
        assert ours == pytest.approx(both.public_value(subset), rel=0, abs=1e-12)


@pytest.mark.slow
def test_many_sets_are_combined_at_once(both: Both) -> None:
    sums = both.ours.shares[:6].reshape(2, 3, -1)
    expected = [[float(both.ours.combine(one)) for one in row] for row in sums]
    np.testing.assert_array_equal(both.ours.combine(sums), expected)


ANSWERS = """
for line in sys.stdin:
    count = line.count("|||")
    if line.startswith("SCORE"):
        print(" ".join(["0.0"] * 23))
    else:
        for _ in range(count + 1):
            print({score})
    sys.stdout.flush()
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeJava:
    pytest.importorskip("pycocoevalcap")
    return FakeJava(tmp_path, monkeypatch)


def score(images: int = 3, seconds: float | None = None) -> Score:
    sentences = ["a dog"] * images, [["a cat", "a dog"]] * images
    return meteor(*sentences, seconds=seconds, way="java")


def test_a_program_that_talks_much_aside_is_heard_out(fake: FakeJava) -> None:
    fake.does("sys.stderr.write('x' * 3_000_000)" + ANSWERS.format(score=0.0))
    assert score().per_image.tolist() == [0.0, 0.0, 0.0]
    assert fake.left() == []


def test_scores_that_are_not_of_the_statistics_are_refused(fake: FakeJava) -> None:
    fake.does(ANSWERS.format(score=0.25))
    with pytest.raises(MetricError, match=r"not those of METEOR 1.5"):
        score()
    assert fake.left() == []


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("time.sleep(1000)", r"METEOR of 3000 images: was stopped after 1 seconds.*--java-seconds"),
        ("print('hello\\n' * 3000)", r"printed what is no result: 'hello'"),
        ("print(' '.join(['0.0'] * 23))", r"printed 1 of 3000 lines"),
        ("print('\\n'.join([' '.join(['0.0'] * 22)] * 3000))", r"printed what is no result: '0.0"),
        ("print('\\n'.join([' '.join(['NaN'] * 23)] * 3000))", r"printed what is no result: 'NaN"),
        ("sys.exit('Error: Invalid or corrupt jarfile')", r"status 1\). It said: .*corrupt jar"),
    ],
)
def test_a_program_that_fails_is_an_error_and_leaves_nothing(
    fake: FakeJava, body: str, message: str
) -> None:
    fake.does(body)
    with pytest.raises(MetricError, match=message):
        score(images=3000, seconds=1.0)
    assert fake.left() == []


def test_one_endless_caption_is_named_when_the_memory_is_too_little(fake: FakeJava) -> None:
    fake.does("os._exit(3)")
    with pytest.raises(MetricError, match=r"memory.* a caption of 10,000 words.* image 2 of 3"):
        by_java(["a", "dog " * 10_000, "b"], [["a"]] * 3)


def test_the_build_is_said_without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert program() == "meteor-1.5"


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "package_folder", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'naic\[metrics\]'"):
        score()


def test_lists_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match=r"shorter"):
        by_java(["a", "b"], [["a"]])
