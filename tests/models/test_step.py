"""Writing word by word with a cache is the same as reading the whole sentence again."""

import random
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, fx
from torch.testing import assert_close

from naic.errors import ConfigError
from naic.models.transformer import TransformerCaptioner
from naic.text.vocabulary import BOS
from tests.models.small import images, small


@torch.no_grad()
def stepwise(
    model: TransformerCaptioner, features: Tensor, mask: Tensor | None, words: Tensor
) -> Tensor:
    """(B, W, N, V) logits of the sentences, one step at a time."""
    memory = model.encode(features, mask)
    cache = model.empty_cache(memory, words.shape[1])
    heard = torch.full(words.shape[:2], BOS)
    logits = []
    for place in range(model.length):
        logits.append(model.step(heard, torch.tensor(place), memory, cache))
        heard = words[:, :, place]
    return torch.stack(logits, dim=2)


@pytest.mark.parametrize(("dtype", "near"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
@pytest.mark.parametrize("seed", range(8))
def test_steps_equal_the_whole_sentence(seed: int, dtype: torch.dtype, near: float) -> None:
    model = small(causal=True, seed=seed, dtype=dtype)
    words = torch.randint(model.words, (3, 4, model.length))
    features = images(3, seed=seed, dtype=dtype)
    mask = torch.arange(4) < torch.tensor([4, 1, 3])[:, None]
    for seen in (mask, None):
        with torch.no_grad():
            whole = model(features, seen, words)
        assert_close(stepwise(model, features, seen, words), whole, rtol=near, atol=near)


@torch.no_grad()
@settings(max_examples=25)
@given(seed=st.integers(0, 1000), width=st.integers(1, 5))
def test_sentences_that_go_on_from_others(seed: int, width: int) -> None:
    """Any beam may go on from any other; the keys and values stay where they were written."""
    chance = random.Random(seed)
    model = small(causal=True, seed=seed % 7)
    memory = model.encode(images(2, seed=seed))
    cache = model.empty_cache(memory, width)
    past = cache.past
    sentences: list[list[list[int]]] = [[[] for _ in range(width)] for _ in range(2)]
    for place in range(model.length):
        heard = torch.tensor([[s[-1] if s else BOS for s in image] for image in sentences])
        logits = model.step(heard, torch.tensor(place), memory, cache)
        rows = [[s + [0] * (model.length - len(s)) for s in image] for image in sentences]
        whole = model(images(2, seed=seed), None, torch.tensor(rows))
        assert_close(logits, whole[:, :, place], rtol=0, atol=1e-10)
        parents = [[chance.randrange(width) for _ in range(width)] for _ in range(2)]
        sentences = [
            [[*image[parent], chance.randrange(model.words)] for parent in chosen]
            for image, chosen in zip(sentences, parents, strict=True)
        ]
        cache = model.follow(cache, torch.tensor(parents), torch.tensor(place))
        assert cache.past is past


def test_one_graph_serves_all_steps() -> None:
    """A step compiles as a whole, once: nothing in it depends on the position."""
    graphs = 0

    def count(graph: fx.GraphModule, _: list[Tensor]) -> Callable[..., object]:
        nonlocal graphs
        graphs += 1
        return graph.forward

    model = small(causal=True)
    step = torch.compile(model.step, backend=count, fullgraph=True)
    with torch.no_grad():
        memory = model.encode(images(2))
        cache = model.empty_cache(memory, 3)
        fresh = model.empty_cache(memory, 3)
        words = torch.full((2, 3), BOS)
        parents = torch.tensor([[1, 0, 0], [2, 2, 1]])
        for position in torch.arange(model.length).unbind(0):
            eager = model.step(words, position, memory, fresh)
            assert_close(step(words, position, memory, cache), eager, rtol=0, atol=1e-12)
            cache = model.follow(cache, parents, position)
            fresh = model.follow(fresh, parents, position)
            words = eager.argmax(-1)
    assert graphs == 1


def test_a_parallel_captioner_takes_no_steps() -> None:
    model = small(causal=False)
    with pytest.raises(ConfigError, match="all words at once"):
        model.empty_cache(model.encode(images(1)))
