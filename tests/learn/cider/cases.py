"""Random captions and references that meet every way a sentence can end or change."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from naic.learn.cider.ngrams import encode_reference
from naic.learn.cider.references import References
from naic.text import PERIOD, UNK, Vocabulary
from tests.learn.cider.public import PublicCider

# Few words, so that n-grams repeat, within a sentence and among the references.
WORDS = [f"w{i}" for i in range(30)]
LENGTH = 16


@dataclass(frozen=True, eq=False)
class World:
    """A corpus with its tables and the oracle for them."""

    vocabulary: Vocabulary
    captions: list[list[str]]
    training: list[bool]
    references: References
    encoded: list[list[list[int]]]
    public: PublicCider


def make_world(seed: int, images: int = 60) -> World:
    """Images with 0 to 7 references of 0 to 24 words, unknown words among them."""
    random = np.random.default_rng(seed)
    vocabulary = Vocabulary.build([" ".join(WORDS)], more_than=0)
    frequency = 1 / np.arange(1, len(WORDS) + 3)  # the last two are not in the vocabulary
    captions = []
    for image in range(images):
        amount = int(random.integers(1, 8)) if image % 10 else 0
        lengths = random.integers(0, 25 if image % 3 else 9, amount)
        words = [*WORDS, "strange", "unheard"]
        chances = frequency / frequency.sum()
        captions.append([" ".join(random.choice(words, n, p=chances)) + "." for n in lengths])
    training = [bool(image % 4) for image in range(images)]
    encoded = [[encode_reference(text, vocabulary) for text in texts] for texts in captions]
    references = References.build(captions, vocabulary, training)
    return World(
        vocabulary, captions, training, references, encoded, PublicCider(encoded, training)
    )


def make_rows(world: World, seed: int, rows: int, choices: int) -> tuple[Tensor, Tensor, Tensor]:
    """Words (B, N), alternatives (B, N, k) and images (B,), from near a reference to nonsense."""
    random = np.random.default_rng(seed)
    size = len(world.vocabulary)
    labelled = [i for i, texts in enumerate(world.captions) if texts]
    images = random.choice(labelled, rows)
    words = np.zeros((rows, LENGTH), np.int64)
    for row, image in enumerate(images):
        words[row] = _row(world.encoded[image], random, size)
    alternatives = random.integers(0, size, (rows, LENGTH, choices))
    alternatives[random.random(alternatives.shape) < 0.15] = PERIOD
    same = random.random(alternatives.shape) < 0.25
    alternatives = np.where(same, words[..., None], alternatives)
    return torch.from_numpy(words), torch.from_numpy(alternatives), torch.from_numpy(images)


def _row(references: Sequence[Sequence[int]], random: np.random.Generator, size: int) -> list[int]:
    kind = random.integers(6)
    ids: list[int]
    if kind == 0:  # a period at once, or none at all
        ids = [PERIOD] * int(random.integers(2)) + [UNK + 2] * LENGTH
    elif kind == 1:  # one word again and again
        ids = [int(random.integers(size))] * int(random.integers(1, LENGTH + 1))
    else:
        ids = list(references[int(random.integers(len(references)))])
        changed = random.random(len(ids)) < 0.2
        ids = [
            int(random.integers(size)) if new else w for new, w in zip(changed, ids, strict=True)
        ]
    ids = ids[:LENGTH]
    tail = random.integers(0, size, LENGTH - len(ids))  # what agents after the period say
    tail[random.random(len(tail)) < 0.2] = PERIOD
    return [*ids, *tail.tolist()]
