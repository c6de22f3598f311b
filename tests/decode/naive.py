"""Decoding as one would write it down: no batch, no cache, every prefix read again."""

import math
from itertools import product

import torch
from torch import Tensor

from naic.models.transformer import TransformerCaptioner
from naic.text.vocabulary import NEVER, PAD, PERIOD

Sentence = tuple[int, ...]


@torch.no_grad()
def log_probs_after(
    model: TransformerCaptioner, image: Tensor, said: Sentence
) -> list[dict[int, float]]:
    """For every place up to the one after `said`: the words that may stand there."""
    row = [*said, *[0] * (model.length - len(said))]
    logits = model(image[None], None, torch.tensor([[row]]))[0, 0].tolist()
    return [_normalised(scores) for scores in logits[: len(said) + 1]]


def _normalised(scores: list[float]) -> dict[int, float]:
    words = [word for word in range(len(scores)) if word not in NEVER]
    largest = max(scores[word] for word in words)
    total = sum(math.exp(scores[word] - largest) for word in words)
    return {word: scores[word] - largest - math.log(total) for word in words}


def ended(sentence: Sentence) -> bool:
    return bool(sentence) and sentence[-1] == PERIOD


def naive_greedy(
    model: TransformerCaptioner,
    image: Tensor,
) -> list[int]:
    sentence: Sentence = ()
    while len(sentence) < model.length and not ended(sentence):
        choices = log_probs_after(model, image, sentence)[-1]
        sentence += (max(choices, key=choices.__getitem__),)
    return padded(sentence, model.length)


def naive_beam(
    model: TransformerCaptioner, image: Tensor, width: int
) -> list[tuple[Sentence, float]]:
    beams: list[tuple[Sentence, float]] = [((), 0.0)]
    for _ in range(model.length):
        candidates = []
        for sentence, score in beams:
            if ended(sentence):
                candidates.append((sentence, score))
                continue
            for word, log_prob in log_probs_after(model, image, sentence)[-1].items():
                candidates.append(((*sentence, word), score + log_prob))
        beams = sorted(candidates, key=lambda beam: -beam[1])[:width]
    return beams


def sentences(words: int, length: int) -> list[Sentence]:
    """All there are: some words and a period, or as many words as fit."""
    plain = [word for word in range(words) if word not in (*NEVER, PERIOD)]
    short = [(*said, PERIOD) for count in range(length) for said in product(plain, repeat=count)]
    return [*short, *product(plain, repeat=length)]


def score(
    model: TransformerCaptioner,
    image: Tensor,
    sentence: Sentence,
) -> float:
    places = log_probs_after(model, image, sentence)
    return sum(place[word] for place, word in zip(places, sentence, strict=False))


def padded(sentence: Sentence, length: int) -> list[int]:
    return [*sentence, *[PAD] * (length - len(sentence))]
