"""Without a cache the same is said, more slowly."""

import pytest
import torch
from torch.testing import assert_close

from naic.decode.stepwise import beam_search, greedy
from naic.models.transformer import TransformerCaptioner
from naic.tasks.benchmark.other_models import search_again
from naic.text.vocabulary import PERIOD
from tests.models.small import images, small


def endless(seed: int) -> TransformerCaptioner:
    model = small(causal=True, seed=seed)
    with torch.no_grad():
        model.decoder.output.bias[PERIOD] = -1e4
    return model


@pytest.mark.parametrize("seed", range(5))
def test_it_finds_what_the_cached_ones_find(seed: int) -> None:
    model = endless(seed)
    memory = model.encode(images(4, seed=seed))
    assert torch.equal(search_again(model, memory, 1)[0], greedy(model, memory).words)
    words, scores = search_again(model, memory, 3)
    expected = beam_search(model, memory, 3)
    assert torch.equal(words, expected.words[:, 0])
    assert_close(scores, expected.scores[:, 0].to(scores.dtype))
    assert not (words == PERIOD).any()
