"""A teacher that chooses among the agents' sentences, against one that looks at each alone."""

import itertools
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor

from naic.backbones.inside import PREFIX, backbone_digest, backbone_tensors
from naic.backbones.load import load_backbone
from naic.decode.best_first import Sentence, n_best
from naic.decode.decoding import READABLE, Decoding
from naic.decode.policy import log_policy, parallel
from naic.errors import CheckpointError, ConfigError, NaicError
from naic.images.converting import square_pixels
from naic.images.opening import open_image
from naic.models.folder import load_model
from naic.models.transformer import TransformerCaptioner
from naic.runtime.calibration import CALIBRATION, Calibration
from naic.runtime.captioner import Caption, Captioner, Rescoring
from naic.runtime.rescore import as_words, candidates, rescored
from naic.runtime.sentences import Proposals
from naic.text import Vocabulary
from naic.text.style import STYLE, Style
from naic.text.vocabulary import BOS, PAD, PERIOD
from tests.images.images import encode, photo
from tests.runtime.small import LENGTH, NETWORK, PIXELS, WORDS, make_model


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A student with a backbone, a teacher on its features, and three photos."""
    folder = tmp_path_factory.mktemp("home")
    make_model(folder / "student", backbone=NETWORK)
    own = backbone_digest(backbone_tensors(load_model(folder / "student").model.state_dict()))
    make_model(folder / "teacher", "causal", seed=5, digest=own)
    (folder / "photos").mkdir()
    for number in range(3):
        image = Image.fromarray(np.roll(np.asarray(photo(70, 60 + number)), number, axis=2))
        (folder / "photos" / f"{number}.png").write_bytes(encode(image, "PNG"))
    return folder


def photos(home: Path) -> list[Path]:
    return sorted((home / "photos").iterdir())


def forced(teacher: TransformerCaptioner, features: Tensor, words: list[int]) -> list[float]:
    """The log-probability of each word of one sentence, written word by word."""
    memory = teacher.encode(features)
    cache, before, found = teacher.empty_cache(memory), BOS, []
    for place, word in enumerate(words):
        heard = torch.tensor([[before]])
        logits = teacher.step(heard, torch.tensor(place), memory, cache)  # (1, 1, V)
        found.append(float(log_policy(logits)[0, 0, word]))
        before = word
    return found


@torch.no_grad()
def one_by_one(
    home: Path, count: int, weight: float, decoding: Decoding
) -> list[list[tuple[str, float]]]:
    """Texts and the teacher's log-probabilities in the new order, one sentence at a time."""
    student, teacher = load_model(home / "student"), load_model(home / "teacher")
    blind = student.spec.for_features(student.model, student.settings.model, len(WORDS))
    assert isinstance(teacher.model, TransformerCaptioner)
    ranked = []
    for path in photos(home):
        pixels = square_pixels(open_image(path, at_least=PIXELS), PIXELS)
        features = student.model.backbone(torch.from_numpy(pixels)[None])  # type: ignore[operator]
        words, log_probs = parallel(blind(features, None)[:, 0], 5)
        scored: dict[str, tuple[float, float]] = {}
        for sentence in n_best(words[0].tolist(), log_probs[0].tolist()):
            if any(one == other for one, other in itertools.pairwise(sentence.words)):
                continue
            ids = [*decoding.sentence(sentence.words, WORDS), PERIOD][:LENGTH]
            text = WORDS.decode(ids)
            if text and text not in scored:
                likely = sum(forced(teacher.model, features.half(), ids))
                scored[text] = (likely + weight * sentence.log_prob, likely)
            if len(scored) == count:
                break
        order = sorted(scored, key=lambda text: -scored[text][0])
        ranked.append([(text, scored[text][1]) for text in order])
    return ranked


@pytest.mark.parametrize(("count", "weight"), [(1, 0.0), (8, 0.0), (8, 4.0)])
def test_the_sentence_is_said_that_wins_when_each_is_scored_alone(
    home: Path, count: int, weight: float
) -> None:
    how = Rescoring(home / "teacher", count, weight)
    captioner = Captioner(home / "student", device="cpu", rescore=how)
    said = captioner.caption(photos(home), alternatives=count)
    for caption, wanted in zip(said, one_by_one(home, count, weight, READABLE), strict=True):
        assert [one.text for one in caption.alternatives] == [text for text, _ in wanted]
        likely = [math.exp(value) for _, value in wanted]
        assert [one.confidence for one in caption.alternatives] == pytest.approx(likely, rel=1e-4)
        assert caption.text == wanted[0][0]
        assert caption.confidence == pytest.approx(likely[0], rel=1e-4)


def test_the_teacher_changes_what_is_said_and_the_weight_takes_it_back(home: Path) -> None:
    plain = Captioner(home / "student", device="cpu")(photos(home))
    said = [
        Captioner(home / "student", device="cpu", rescore=how)(photos(home))
        for how in (home / "teacher", Rescoring(home / "teacher", 20, 1000.0))
    ]
    student = Captioner(home / "student", device="cpu")
    first = [
        max(own.alternatives[:2], key=lambda one: one.confidence).text
        for own in student.caption(photos(home), alternatives=3)
    ]
    assert said[0] != plain
    assert said[1] == first


def test_images_do_not_depend_on_their_neighbours(home: Path) -> None:
    captioner = Captioner(home / "student", device="cpu", rescore=home / "teacher")
    alone = [captioner(path, details=True) for path in photos(home)]
    together = captioner(photos(home), details=True)
    for one, other in zip(alone, together, strict=True):
        assert one.text == other.text
        assert one.confidence == pytest.approx(other.confidence, rel=1e-4)


def test_each_word_has_the_probability_that_the_teacher_gives_it(home: Path) -> None:
    captioner = Captioner(home / "student", device="cpu", rescore=home / "teacher")
    said = captioner(photos(home)[0], details=True)
    assert isinstance(said, Caption)
    assert " ".join(word.text for word in said.words) == said.text
    assert all(word.alternatives == ((word.text, word.confidence),) for word in said.words)
    product = math.prod(word.confidence for word in said.words)
    assert said.confidence <= product * (1 + 1e-6)  # the rest is the period's
    short = captioner(photos(home)[0], details=True, max_words=2, alternatives=4)
    assert all(1 <= len(one.text.split()) <= 2 for one in short.alternatives)
    assert short.confidence == short.alternatives[0].confidence


def test_the_map_of_the_student_is_not_for_the_probabilities_of_a_teacher(
    home: Path, tmp_path: Path
) -> None:
    student = shutil.copytree(home / "student", tmp_path / "student")
    (student / CALIBRATION).write_text(Calibration(0.5, -1.0).as_json())
    captioner = Captioner(student, device="cpu", rescore=home / "teacher")
    said = captioner(photos(home)[0], details=True)
    assert isinstance(said, Caption)
    assert captioner.calibration is None
    assert not said.calibrated
    assert said.confidence == said.probability
    assert Captioner(student, device="cpu").calibration == Calibration(0.5, -1.0)


def test_what_a_teacher_chooses_is_in_the_style_of_the_student(home: Path, tmp_path: Path) -> None:
    student = shutil.copytree(home / "student", tmp_path / "student")
    (student / STYLE).write_text(Style(("photo", "of"), case="upper").as_json())
    captioner = Captioner(student, device="cpu", rescore=home / "teacher")
    plain = captioner.caption(photos(home), alternatives=2, style=False)
    styled = captioner.caption(photos(home), alternatives=2)
    assert [own.text for own in styled] == [f"photo of {own.text}".upper() for own in plain]
    for own, other in zip(styled, plain, strict=True):
        assert own.alternatives[1].text == f"photo of {other.alternatives[1].text}".upper()
        assert own.words == other.words


def test_a_teacher_with_the_same_backbone_inside(home: Path, tmp_path: Path) -> None:
    """The backbone of the student is used, which is the same to the bit."""
    teacher = make_model(tmp_path / "teacher", "causal", backbone=NETWORK)
    with pytest.raises(ConfigError, match="with other weights"):
        Captioner(home / "student", device="cpu", rescore=teacher)
    student = load_file(home / "student" / "model.safetensors")
    own = {name: value for name, value in student.items() if name.startswith(PREFIX)}
    save_file(load_file(teacher / "model.safetensors") | own, teacher / "model.safetensors")
    said = Captioner(home / "student", device="cpu", rescore=teacher).caption(photos(home))
    assert all(0 < caption.confidence < 1 for caption in said)


def test_a_student_and_a_teacher_on_features_of_a_package(home: Path, tmp_path: Path) -> None:
    student = make_model(tmp_path / "student")
    digest = load_backbone(NETWORK, pixels=PIXELS, device="cpu").digest
    teacher = make_model(tmp_path / "teacher", "causal", digest=digest)
    said = Captioner(student, device="cpu", rescore=teacher).caption(photos(home))
    plain = Captioner(student, device="cpu").caption(photos(home), alternatives=20)
    for one, likely in zip(said, plain, strict=True):
        assert one.text in [sentence.text for sentence in likely.alternatives]
    other = make_model(tmp_path / "other", "causal", digest="0" * 64)
    known = make_model(tmp_path / "known", digest=digest)
    with pytest.raises(ConfigError, match=f"other learnt from {NETWORK} with other weights"):
        Captioner(known, device="cpu", rescore=other)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"captioner": "parallel"}, r"--rescore: .*says all words at once.*Name a causal model"),
    ({"pixels": 96}, r"--rescore: .*sees 1280 .* at 96 pixels, and the model .* at 64"),
    ({"source": "efficientnet-lite1"}, r"--rescore: .*from efficientnet-lite1"),
    ({"digest": "f" * 64}, r"--rescore: .*with other weights.*naic prepare"),
]


@pytest.mark.parametrize(("change", "why"), REFUSED)
def test_another_teacher_is_refused(
    home: Path, tmp_path: Path, change: dict[str, Any], why: str
) -> None:
    teacher = make_model(tmp_path / "teacher", **{"captioner": "causal", **change})
    with pytest.raises(ConfigError, match=why):
        Captioner(home / "student", device="cpu", rescore=teacher)


def test_other_words_are_refused(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Vocabulary.build(["one red bus beside its stop and seven more of them"], more_than=0)
    monkeypatch.setattr("tests.runtime.small.WORDS", other)
    make_model(tmp_path / "teacher", "causal")
    with pytest.raises(ConfigError, match="has other words than the model"):
        Captioner(home / "student", device="cpu", rescore=tmp_path / "teacher")


def test_a_short_teacher_is_refused(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.runtime.small.LENGTH", LENGTH - 1)
    make_model(tmp_path / "teacher", "causal")
    with pytest.raises(ConfigError, match=f"of {LENGTH - 1} words, and the model says up to"):
        Captioner(home / "student", device="cpu", rescore=tmp_path / "teacher")


def test_a_longer_teacher_hears_the_same(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.runtime.small.LENGTH", LENGTH + 2)
    digest = load_model(home / "teacher").settings.digest
    make_model(tmp_path / "teacher", "causal", seed=5, digest=digest)
    said = Captioner(home / "student", device="cpu", rescore=tmp_path / "teacher")(photos(home))
    assert all(said)


def test_what_cannot_be_rescored(home: Path, tmp_path: Path) -> None:
    causal = make_model(tmp_path / "causal", "causal", backbone=NETWORK)
    with pytest.raises(ConfigError, match="the model writes word by word itself"):
        Captioner(causal, device="cpu", rescore=home / "teacher")
    with pytest.raises(ConfigError, match="--rescore: an exported graph keeps nothing"):
        Captioner(home / "student", device="cpu", runtime="onnx", rescore=home / "teacher")
    graph = tmp_path / "model.onnx"
    graph.touch()
    with pytest.raises(ConfigError, match="--rescore: an exported graph keeps nothing"):
        Captioner(graph, device="cpu", rescore=home / "teacher")
    with pytest.raises(ConfigError, match=r"model\.onnx is an exported graph"):
        Captioner(home / "student", device="cpu", rescore=graph)
    with pytest.raises(NaicError, match="there is no such model"):
        Captioner(home / "student", device="cpu", rescore=tmp_path / "nowhere")
    captioner = Captioner(home / "student", device="cpu", rescore=Rescoring(home / "teacher", 3))
    with pytest.raises(ConfigError, match="4 are more than the 3 that are rescored"):
        captioner(photos(home)[0], details=True, alternatives=4)
    for choices, weight in ((0, 0.0), (101, 0.0), (5, -0.1), (5, math.inf), (5, math.nan)):
        with pytest.raises(ConfigError):
            Rescoring("teacher", choices, weight)


def test_a_spoilt_teacher_is_named(home: Path, tmp_path: Path) -> None:
    digest = load_model(home / "teacher").settings.digest
    spoilt = make_model(tmp_path / "spoilt", "causal", digest=digest, spoilt=True)
    with pytest.raises(CheckpointError, match="spoilt: it gives no probability to any word"):
        Captioner(home / "student", device="cpu", rescore=spoilt)(photos(home)[0])


def test_the_words_of_a_teacher() -> None:
    found = [[Sentence((7, 8), -1.0), Sentence((7, 8, 9), -2.0)], [Sentence((5,), -1.0)]]
    assert as_words(found, 3, 2, 3).tolist() == [
        [[7, 8, PERIOD], [7, 8, 9]],  # no place for a period
        [[5, PERIOD, PAD], [PAD] * 3],
        [[PAD] * 3] * 2,  # an image that fills a batch up
    ]


def test_the_order_is_that_of_both_opinions() -> None:
    found = [[Sentence((7,), -1.0), Sentence((8,), -3.0), Sentence((9,), -4.0)]]
    likely = np.array([[[-4.0, -1.0], [-2.0, -1.0], [-2.0, -1.0]]], np.float32)
    for weight, order in ((0.0, [8, 9, 7]), (0.5, [8, 9, 7]), (1.1, [7, 8, 9])):
        (ranked,) = rescored(found, likely, weight)
        assert [one.words[0] for one in ranked] == order
        assert [one.teacher for one in ranked] == [-5.0 if i == 7 else -3.0 for i in order]


def test_plain_candidates_are_the_likeliest_sentences_that_say_something() -> None:
    a, the, cat = (WORDS.id(word) for word in ("a", "the", "cat"))
    words = np.array([[[a, PERIOD], [a, cat], [the, PERIOD]]])
    sure = np.log(np.array([[[0.6, 0.4], [0.7, 0.3], [0.8, 0.2]]], np.float32))
    own = Proposals(words, sure)
    (found,) = candidates(own, 10, Decoding(), WORDS)
    assert [one.words for one in found] == [(a, a, the), (a, cat, the), (a, a), (a, cat)]
    (found,) = candidates(own, 10, READABLE, WORDS)  # "a cat the" is cut, and is likelier so
    assert [one.words for one in found] == [(a, cat)]
    assert found[0].log_prob == pytest.approx(math.log(0.6 * 0.3 * 0.8))
    (found,) = candidates(own, 10, Decoding(max_words=1), WORDS)
    assert [one.words for one in found] == [(a,)]
    (found,) = candidates(own, 2, Decoding(), WORDS)
    assert len(found) == 2


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("runtime", "precision"),
    [("eager", "float32"), ("graph", "float16"), ("graph", "float32"), ("compile", "float16")],
)
def test_on_a_gpu_it_says_what_it_says_on_a_cpu(home: Path, runtime: str, precision: str) -> None:
    how: dict[str, Any] = {"runtime": runtime, "precision": precision}
    near = Captioner(home / "student", device="cpu", rescore=home / "teacher")
    far = Captioner(home / "student", device="cuda", rescore=home / "teacher", **how)
    # In nats. A GPU's convolutions take float32 as TF32, of 10 bits: features, and with them the
    # log-probability of each word, differ by some 1e-4, and those of a sentence are added up.
    close = 0.01 if precision == "float32" else 0.05
    for batch in (1, 3, 1, 3):  # graphs of several sizes, each replayed
        wanted = list(near.each(photos(home), batch=batch, alternatives=10))
        found = list(far.each(photos(home), batch=batch, alternatives=10))
        for one, other in zip(wanted, found, strict=True):
            assert isinstance(one, Caption)
            assert isinstance(other, Caption)
            likely = {own.text: math.log(own.confidence) for own in one.alternatives}
            shared = [own for own in other.alternatives if own.text in likely]
            assert len(shared) >= 8  # the last ones may be others, by rounding
            found_likely = [math.log(own.confidence) for own in shared]
            assert found_likely == pytest.approx([likely[own.text] for own in shared], abs=close)
