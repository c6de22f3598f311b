"""Places that may be silent: both ways to words, against all paths one by one."""

import math
from itertools import product

import pytest
import torch
from torch import Tensor

from naic.decode.policy import log_policy
from naic.decode.prefixes import BLANK, NONE, Prefixes, collapse, search
from naic.text.vocabulary import NEVER, PAD

WORDS, PLACES, LENGTH = 7, 5, 3
Sentence = tuple[int, ...]


def collapsed(path: Sentence) -> Sentence:
    """By the two rules: the same side by side is one, then blanks are left out."""
    runs = [word for n, word in enumerate(path) if n == 0 or path[n - 1] != word]
    return tuple(word for word in runs if word != BLANK)


def all_sentences(log_probs: Tensor) -> dict[Sentence, float]:
    """Every sentence of places (T, V), and the logarithm of the sum of its paths."""
    allowed = [word for word in range(log_probs.shape[1]) if word not in NEVER]
    sums: dict[Sentence, float] = {}
    for path in product(allowed, repeat=len(log_probs)):
        chance = math.exp(sum(float(log_probs[n, word]) for n, word in enumerate(path)))
        sums[collapsed(path)] = sums.get(collapsed(path), 0.0) + chance
    return {sentence: math.log(chance) for sentence, chance in sums.items()}


def places(seed: int, batch: int = 2, spread: float = 1.5) -> Tensor:
    """(B, T, V) a random policy."""
    generator = torch.Generator().manual_seed(seed)
    logits = spread * torch.randn(batch, PLACES, WORDS, dtype=torch.float64, generator=generator)
    return log_policy(logits)


def path_of(*words: int) -> Tensor:
    """(1, T, V) places that are sure of these words, each a little less than the one before."""
    chances = torch.full((1, len(words), WORDS), 1e-3, dtype=torch.float64)
    for place, word in enumerate(words):
        chances[0, place, word] = 0.9 - 0.01 * place
    return chances.log()


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ((4, 4, 0, 4, 5), [4, 4, 5]),  # a blank between makes it two words
        ((4, 4, 4, 5, 5), [4, 5, 0]),
        ((0, 0, 0, 0, 0), [0, 0, 0]),
        ((0, 4, 0, 0, 6), [4, 6, 0]),
        ((4, 5, 6, 5, 4), [4, 5, 6]),  # there is no more room
    ],
)
def test_the_likeliest_path_is_collapsed(path: Sentence, words: list[int]) -> None:
    found, log_probs = collapse(path_of(*path), LENGTH, 2)
    assert found[0, :, 0].tolist() == words
    assert collapsed(path)[:LENGTH] == tuple(word for word in words if word)
    said = found[0, :, 0] != BLANK
    assert not (found[0, said] == BLANK).any()  # nor is it another choice
    assert (log_probs[0, ~said, 1] == -math.inf).all()


def test_how_sure_it_is() -> None:
    """Of a word where a place is the surest of it; of the end that all places after it are."""
    _, log_probs = collapse(path_of(4, 4, 0, 5, 0), LENGTH, 1)
    assert log_probs[0, :, 0].exp().tolist() == pytest.approx([0.9, 0.87, 0.86])
    _, log_probs = collapse(path_of(4, 0, 0, 0, 0), LENGTH, 1)
    assert log_probs[0, :, 0].exp().tolist() == pytest.approx([0.9, 0.89 * 0.88 * 0.87 * 0.86, 1])


@pytest.mark.parametrize("seed", range(4))
def test_collapsing_random_places(seed: int) -> None:
    log_probs = places(seed, 20)
    words, sure = collapse(log_probs, LENGTH, 9)
    assert words.shape == sure.shape == (20, LENGTH, WORDS - len(NEVER) - 1)
    assert not torch.isin(words, torch.tensor(NEVER)).any()
    assert (sure[..., 1:] <= sure[..., :-1]).all()
    for own, path in zip(words[..., 0].tolist(), log_probs.argmax(-1).tolist(), strict=True):
        expected = [*collapsed(tuple(path)), 0, 0, 0][:LENGTH]
        assert own == expected
    alone = [collapse(log_probs[n : n + 1], LENGTH, 9) for n in range(20)]
    assert torch.equal(torch.cat([one.words for one in alone]), words)


def followed(found: Prefixes, row: int) -> dict[Sentence, float]:
    """The sentences of one image that have a path."""
    alive = found.total[row] > NONE / 2
    rows = (found.words[row, alive].tolist(), found.counts[row, alive], found.total[row, alive])
    own = {tuple(words[:count]): float(total) for words, count, total in zip(*rows, strict=True)}
    assert len(own) == int(alive.sum())  # each once
    return own


@pytest.mark.parametrize("seed", range(3))
def test_wide_enough_a_search_finds_all_sentences_and_their_probabilities(seed: int) -> None:
    log_probs = places(seed)
    found = search(log_probs, LENGTH, 60)
    for row in range(2):
        there = all_sentences(log_probs[row])
        expected = {key: value for key, value in there.items() if len(key) <= LENGTH}
        own = followed(found, row)
        assert len(own) == len(expected) < 60
        assert own == pytest.approx(expected)


def simple_search(log_probs: Tensor, width: int) -> dict[Sentence, float]:
    """The same by a dictionary of prefixes: of each, its paths that end silent, and spoken."""
    beams: dict[Sentence, tuple[float, float]] = {(): (1.0, 0.0)}
    for chances in log_probs.exp().tolist():
        new: dict[Sentence, list[float]] = {}
        for prefix, (silent, spoken) in beams.items():
            own = new.setdefault(prefix, [0.0, 0.0])
            own[0] += (silent + spoken) * chances[BLANK]
            if prefix:
                own[1] += spoken * chances[prefix[-1]]
            for word in range(4, WORDS):
                if len(prefix) < LENGTH:
                    comes = silent if prefix and word == prefix[-1] else silent + spoken
                    new.setdefault((*prefix, word), [0.0, 0.0])[1] += comes * chances[word]
        best = sorted(new, key=lambda prefix: -sum(new[prefix]))[:width]
        beams = {prefix: (new[prefix][0], new[prefix][1]) for prefix in best}
    return {prefix: math.log(sum(both)) for prefix, both in beams.items()}


@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_a_narrow_search_is_that_of_a_dictionary(width: int) -> None:
    for seed in range(5):
        log_probs = places(seed)
        found = search(log_probs, LENGTH, width)
        for row in range(2):
            assert followed(found, row) == pytest.approx(simple_search(log_probs[row], width))


def test_the_likeliest_sentence_is_not_that_of_the_likeliest_path() -> None:
    """A word has many paths, each less likely than silence alone."""
    chances = torch.full((1, 3, WORDS), 0.0, dtype=torch.float64)
    chances[..., BLANK], chances[..., 4] = 0.55, 0.45
    assert collapse(chances.log(), LENGTH, 1).words[0, 0, 0] == BLANK
    found = search(chances.log(), LENGTH, 2)
    best = int(found.total[0].argmax())
    assert found.words[0, best].tolist() == [4, PAD, PAD]
