"""NIC against its equations, written down number by number."""

import math

import torch
from torch import Tensor
from torch.testing import assert_close

from naic.text.vocabulary import BOS
from tests.models.small import images
from tests.models.writers import writer


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def product(weight: Tensor, x: list[float], bias: Tensor) -> list[float]:
    rows = zip(weight.tolist(), bias.tolist(), strict=True)
    return [sum(w * v for w, v in zip(row, x, strict=True)) + b for row, b in rows]


@torch.no_grad()
def test_as_the_papers_equations_say() -> None:
    model, features = writer("nic"), images(1, regions=3)
    words = torch.tensor([7, 4, 9, 5, 11, 6])
    lstm = model.decoder.lstm
    mean = [sum(column) / 3 for column in zip(*features[0].tolist(), strict=True)]
    inputs = [product(model.image.weight, mean, model.image.bias)]
    inputs += [model.decoder.embedding.weight[w].tolist() for w in (BOS, *words[:-1].tolist())]
    hidden = cell = [0.0] * 16
    expected = []
    for x in inputs:
        told = product(lstm.weight_ih_l0, x, lstm.bias_ih_l0)
        kept = product(lstm.weight_hh_l0, hidden, lstm.bias_hh_l0)
        gates = [a + b for a, b in zip(told, kept, strict=True)]
        enter, keep, new, out = (gates[k : k + 16] for k in (0, 16, 32, 48))
        cell = [
            sigmoid(f) * c + sigmoid(i) * math.tanh(g)
            for f, c, i, g in zip(keep, cell, enter, new, strict=True)
        ]
        hidden = [sigmoid(o) * math.tanh(c) for o, c in zip(out, cell, strict=True)]
        expected.append(product(model.decoder.output.weight, hidden, model.decoder.output.bias))
    found = model(features, None, words[None, None])[0, 0]
    assert_close(found, torch.tensor(expected[1:], dtype=torch.float64), rtol=0, atol=1e-10)


def test_the_image_is_told_once_to_all_captions_of_it() -> None:
    """One call of the LSTM, over all places of all captions, whatever their number."""
    model = writer("nic")
    calls = []
    model.decoder.lstm.register_forward_hook(lambda _, given, __: calls.append(given[0].shape))
    model(images(2), None, torch.randint(12, (2, 5, 6)))
    assert calls == [(10, 7, 16)]


def test_a_gpu_gives_gradients_without_dropout_too() -> None:
    """Its LSTM refuses to in the mode of evaluation, in which self-critical training is."""
    model = writer("nic").eval()
    assert not model.training
    assert not model.decoder.dropout.training
    assert model.decoder.lstm.training
