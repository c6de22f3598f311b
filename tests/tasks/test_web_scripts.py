"""The page's own arithmetic and wording: the same as Python's, bit for bit and word for word."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL
import pytest
from PIL import Image

from naic.decode.decoding import READABLE, Decoding
from naic.files import VOCABULARY
from naic.images.converting import square_pixels
from naic.images.opening import open_image
from naic.runtime.ready import SHIPPED
from naic.runtime.sentences import Proposals, write
from naic.tasks.export_web import language
from naic.text.style import Style
from naic.text.vocabulary import SPECIAL, Vocabulary
from tests.tasks.javascript import needs_node, node

Pixels = npt.NDArray[np.uint8]
WORDS = Vocabulary((*SPECIAL, "a", "cat", "dog", "with", "on", "red", "'s", "-lrb-", "can", "not"))
TALL_FIRST = int(PIL.__version__.split(".")[0]) >= 13

pytestmark = needs_node


def noise(width: int, height: int, seed: int = 0) -> Pixels:
    """(height, width, 3) of black and white dots, where rounding and overshoot show most."""
    levels = np.array([0, 3, 252, 255], np.uint8)
    return np.random.default_rng(seed).choice(levels, (height, width, 3))


def rgba(pixels: Pixels) -> str:
    opaque = np.full((*pixels.shape[:2], 1), 255, np.uint8)
    return np.concatenate([pixels, opaque], axis=2).tobytes().hex()


def squares(folder: Path, sizes: list[tuple[int, int, int]]) -> list[tuple[str, str]]:
    """Images of (width, height) squashed to a side by the page, and by naic."""
    images = [noise(width, height, seed) for seed, (width, height, _) in enumerate(sizes)]
    data = [(rgba(image), *size) for image, size in zip(images, sizes, strict=True)]
    code = """data.map(([image, ...size]) =>
        Buffer.from(page.squared(Buffer.from(image, "hex"), ...size)).toString("hex"))"""
    own = [
        square_pixels(Image.fromarray(image), side).tobytes().hex()
        for image, (_, _, side) in zip(images, sizes, strict=True)
    ]
    return list(zip(node(folder, "resize.js", code, data), own, strict=True))


def test_images_are_squashed_bit_for_bit(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    sizes = [(int(w), int(h), int(s)) for w, h, s in random.integers(1, 90, (60, 3))]
    sizes = [(w, h, s) for w, h, s in sizes if not (h > s and h - s > 2 * (w - s))]
    sizes += [(1, 1, 5), (64, 64, 64), (64, 40, 64), (40, 64, 64), (300, 9, 8), (640, 480, 64)]
    for found, own in squares(tmp_path, sizes):
        assert found == own


@pytest.mark.skipif(not TALL_FIRST, reason="Pillow before 13 shrinks the width first, as of others")
def test_tall_images_too(tmp_path: Path) -> None:
    sizes = [(9, 300, 8), (30, 60, 40), (20, 33, 10), (20, 30, 10), (20, 31, 10), (480, 900, 64)]
    for found, own in squares(tmp_path, sizes):
        assert found == own


def test_a_jpeg_is_shrunk_as_its_decoder_would(tmp_path: Path) -> None:
    """But for rounding, and for chroma, which the decoder does not enlarge before."""
    y, x = np.mgrid[:203, :301]
    waves = np.stack([128 + 90 * np.sin(x / 9), 128 + 90 * np.cos(y / 7), (x + y) / 2], axis=-1)
    file = io.BytesIO()
    Image.fromarray(waves.astype(np.uint8)).save(file, "JPEG", quality=95)
    whole = np.asarray(open_image(file.getvalue()))
    for side in (20, 40, 80, 150):
        drafted = np.asarray(open_image(file.getvalue(), at_least=side))
        code = """(() => {
            const [width, height] = data.size, bytes = Buffer.from(data.image, "hex");
            const factor = page.reduction(width, height, data.side);
            const small = page.averaged(bytes, width, height, factor);
            return [factor, small.height, small.width, ...small.pixels];
        })()"""
        data = {"image": rgba(whole), "size": (301, 203), "side": side}
        factor, height, width, *found = node(tmp_path, "resize.js", code, data)
        assert factor == {20: 8, 40: 4, 80: 2, 150: 1}[side]
        assert (height, width) == drafted.shape[:2]
        small = np.array(found).reshape(height, width, 4)[..., :3]
        assert np.abs(small - drafted.astype(int)).mean() < 2


def proposals(random: np.random.Generator) -> Proposals:
    """What a network might propose to say of one image: few words, so that they come twice."""
    agents, top = int(random.integers(1, 9)), int(random.integers(1, 6))
    ids = np.array([0, *range(len(SPECIAL), len(WORDS))])
    ids = ids[: top + 1] if random.random() < 0.3 else ids
    words = np.stack([random.permutation(ids)[:top] for _ in range(agents)])
    sure = random.dirichlet(np.full(top, random.choice([0.1, 1, 5])), agents)
    if random.random() < 0.3:  # ties, and words of no probability
        sure = np.round(sure * 8) / 8
    best_first = -np.sort(-sure.astype(np.float32), axis=1)
    pairs = random.normal(0, 2, (agents - 1, top, top)).astype(np.float32)
    log_probs = np.log(np.maximum(best_first, np.finfo(np.float32).tiny))
    paired = top > 1 and random.random() < 0.5
    return Proposals(words[None], log_probs[None], pairs[None] if paired else None)


def test_sentences_are_those_of_naic_caption(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    asked = [proposals(random) for _ in range(1000)]
    data: dict[str, Any] = {"language": language(WORDS)}
    data["said"] = [
        {
            "agents": said.words.shape[1],
            "top": said.words.shape[2],
            "words": said.words.ravel().tolist(),
            "confidences": np.exp(said.log_probs.astype(float)).ravel().tolist(),
            "pairs": None if said.pairs is None else said.pairs.ravel().tolist(),
        }
        for said in asked
    ]
    code = "data.said.map((said) => page.caption(said, data.language))"
    changed = 0
    for said, found in zip(asked, node(tmp_path, "sentence.js", code, data), strict=True):
        (own,) = write(said, None, WORDS, READABLE)
        assert found["text"] == own.text
        assert found["confidence"] == pytest.approx(own.confidence, rel=1e-4, abs=1e-30)
        (plain,) = write(said, None, WORDS, Decoding())
        changed += plain.text != own.text
    assert changed > 100  # repeats and loose endings there were


def test_styles_are_those_of_naic_caption(tmp_path: Path) -> None:
    words = ("an", "apple", "photo", "of", "3", "indoors", "orange")
    vocabulary = Vocabulary((*WORDS.words, *words))
    styles = [
        Style(),
        Style(("photo", "of"), (",", "indoors"), case="sentence", end="."),
        Style(("TOK", ","), without=("red", "a"), end="..."),
        Style(("Photo", ":"), instead=(("dog", ("old", "animal")), ("red", ("orange",)))),
        Style(("photo", "of"), without=("cat", "'s"), case="title"),
        Style(("(ohne)",), ("größe",), case="words", end="!"),
        Style(case="upper", end="…"),
    ]
    random = np.random.default_rng(0)
    start = [vocabulary.id("photo"), vocabulary.id("of")]
    last = [vocabulary.id("indoors")]
    rows = [
        [*start[: random.integers(3)], *ids[: random.integers(7)], *last[: random.integers(2)]]
        for ids in random.integers(len(SPECIAL), len(vocabulary), (100, 7)).tolist()
    ]
    code = "data.styles.map((own) => data.rows.map((row) => page.styled(row, own)))"
    data = {"rows": rows, "styles": [language(vocabulary, style) for style in styles]}
    for style, found in zip(styles, node(tmp_path, "sentence.js", code, data), strict=True):
        own = [style.text([vocabulary.word(id_) for id_ in row]) for row in rows]
        assert [text.split() for text in found] == [text.split() for text in own], style


def test_broken_graphs_say_nothing(tmp_path: Path) -> None:
    good = {"agents": 2, "top": 1, "words": [4, 0], "confidences": [0.5, 0.5], "pairs": None}
    bad = [{**good, "words": [99, 0]}, {**good, "confidences": [-1, 1]}, {**good, "words": [4]}]
    code = """data.said.map((said) => {
        try {
            return page.caption(said, data.language).text;
        } catch (error) {
            return error.message;
        }
    })"""
    data = {"said": [good, *bad], "language": language(WORDS)}
    first, *others = node(tmp_path, "sentence.js", code, data)
    assert first == "a"
    assert all(said.startswith("the model gives no words") for said in others)


def test_words_are_written_as_the_vocabulary_writes_them(tmp_path: Path) -> None:
    """Of the vocabulary that ships, with the words of which two are written as one."""
    vocabulary = Vocabulary.load(SHIPPED / VOCABULARY)
    random = np.random.default_rng(0)
    rare = [vocabulary.id(word) for word in ("'s", "n't", "'re", "can", "not", "-lrb-", "-rrb-")]
    rows = [
        [int(random.choice(rare)) if random.random() < 0.3 else int(id_) for id_ in ids]
        for ids in random.integers(len(SPECIAL), len(vocabulary), (400, 8))
    ]
    few = sorted({id_ for row in rows for id_ in row})
    part = Vocabulary((*SPECIAL, *(vocabulary.word(id_) for id_ in few)))
    rows = [[len(SPECIAL) + few.index(id_) for id_ in row] for row in rows]
    code = "data.rows.map((row) => page.written(row, data.language))"
    found = node(tmp_path, "sentence.js", code, {"rows": rows, "language": language(part)})
    for text, row in zip(found, rows, strict=True):
        own = part.decode(row)
        # What cannot be read back naic writes with more spaces: the words are the same.
        assert text == own or text.replace(" ", "") == own.replace(" ", "")
    assert sum(text == part.decode(row) for text, row in zip(found, rows, strict=True)) > 200
