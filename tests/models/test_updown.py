"""Up-Down against its equations, written down number by number, and what is compiled of it."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, fx
from torch.testing import assert_close

from naic.text.vocabulary import BOS
from tests.models.small import FEATURES, images
from tests.models.writers import writer

WIDTH, REGIONS = 16, 3
Vector = list[float]


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def product(weight: Tensor, x: Vector) -> Vector:
    return [sum(w * v for w, v in zip(row, x, strict=True)) for row in weight.tolist()]


def total(*vectors: Vector) -> Vector:
    return [sum(parts) for parts in zip(*vectors, strict=True)]


def lstm(gates: Vector, cell: Vector) -> tuple[Vector, Vector]:
    enter, keep, new, tell = (gates[k : k + WIDTH] for k in range(0, 4 * WIDTH, WIDTH))
    cell = [
        sigmoid(f) * c + sigmoid(i) * math.tanh(g)
        for f, c, i, g in zip(keep, cell, enter, new, strict=True)
    ]
    return [sigmoid(o) * math.tanh(c) for o, c in zip(tell, cell, strict=True)], cell


@torch.no_grad()
def test_as_the_papers_equations_say() -> None:
    """Each matrix of the paper is put together of the parts that the model has of it."""
    model, features = writer("updown"), images(1, regions=REGIONS)
    words = torch.tensor([7, 4, 9, 5, 11, 6])
    decoder, step = model.decoder, model.decoder.layers[0]
    regions = features[0].tolist()
    mean = [sum(column) / REGIONS for column in zip(*regions, strict=True)]
    of_h2, of_h1 = step.heard.weight.split(WIDTH, dim=1)
    first = torch.cat((of_h2, model.image.weight, decoder.word.weight), dim=1)  # of x1
    h1 = c1 = h2 = c2 = [0.0] * WIDTH
    expected = []
    for word in (BOS, *words[:-1].tolist()):
        x1 = [*h2, *mean, *decoder.embedding.weight[word].tolist()]
        gates = total(product(first, x1), product(of_h1, h1), step.heard.bias.tolist())
        h1, c1 = lstm(gates, c1)
        scores = []
        for region in regions:
            sums = total(product(model.keys.weight, region), product(step.query.weight, h1))
            (score,) = product(step.score.weight, [math.tanh(x) for x in sums])
            scores.append(math.exp(score))
        weights = [score / sum(scores) for score in scores]
        seen = [
            sum(w * region[k] for w, region in zip(weights, regions, strict=True))
            for k in range(FEATURES)
        ]
        gates = total(product(step.speak.weight, [*seen, *h1, *h2]), step.speak.bias.tolist())
        h2, c2 = lstm(gates, c2)
        said = product(decoder.output.weight, h2)
        expected.append(total(said, decoder.output.bias.tolist()))
    found = model(features, None, words[None, None])[0, 0]
    assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-10)


def graphs_of(compile_it: Callable[[Callable[..., object]], None]) -> list[int]:
    """One number for each graph that is made by what `compile_it` is given the backend of."""
    made: list[int] = []

    def count(graph: fx.GraphModule, _: list[Tensor]) -> Callable[..., object]:
        made.append(len(graph.graph.nodes))
        return graph.forward

    compile_it(count)
    return made


@pytest.mark.filterwarnings("ignore")  # torch's own, while it compiles
def test_all_words_of_a_training_step_share_one_graph() -> None:
    """As `engine.compile` does it: what is in a list is compiled, once for all N words."""
    model, plain = writer("updown"), writer("updown")
    layer = model.decoder.layers[0]
    made = graphs_of(lambda backend: layer.compile(backend=backend, fullgraph=True))
    features, words = images(2), torch.randint(12, (2, 3, 6))
    found, expected = model(features, None, words), plain(features, None, words)
    assert_close(found, expected, rtol=0, atol=1e-12)
    torch.autograd.backward(found.sum())
    torch.autograd.backward(expected.sum())
    for own, other in zip(model.parameters(), plain.parameters(), strict=True):
        assert_close(own.grad, other.grad, rtol=0, atol=1e-10)
    assert len(made) == 2  # the first word finds states without a gradient


@torch.no_grad()
def test_one_graph_serves_all_steps_of_a_beam() -> None:
    model = writer("updown")
    compiled: list[Callable[..., Tensor]] = []
    made = graphs_of(
        lambda count: compiled.append(torch.compile(model.step, backend=count, fullgraph=True))
    )
    memory = model.encode(images(2))
    cache, fresh = model.empty_cache(memory, 3), model.empty_cache(memory, 3)
    words, parents = torch.full((2, 3), BOS), torch.tensor([[1, 0, 0], [2, 2, 1]])
    for position in torch.arange(model.length).unbind(0):
        eager = model.step(words, position, memory, fresh)
        assert_close(compiled[0](words, position, memory, cache), eager, rtol=0, atol=1e-12)
        cache = model.follow(cache, parents, position)
        fresh = model.follow(fresh, parents, position)
        words = eager.argmax(-1)
    assert len(made) == 1
