"""Greedy decoding equals reading every prefix again and taking the likeliest word."""

import math

import pytest
import torch
from torch.testing import assert_close

from naic.decode.policy import log_policy, spoken
from naic.decode.stepwise import greedy
from naic.text.vocabulary import NEVER, PAD, PERIOD
from tests.decode.naive import naive_greedy
from tests.models.small import images, small


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("seed", range(15))
def test_token_for_token(seed: int, dtype: torch.dtype) -> None:
    model = small(causal=True, seed=seed, dtype=dtype)
    features = images(4, seed=seed, dtype=dtype)
    said = greedy(model, model.encode(features))
    assert said.words.tolist() == [naive_greedy(model, image) for image in features]
    assert not said.log_probs.requires_grad
    with torch.no_grad():
        whole = log_policy(model(features, None, said.words[:, None]))[:, 0]
    own = spoken(said.words)
    # PAD has no probability: outside the sentence any other word stands in for it
    expected = whole.gather(-1, said.words.where(own, PERIOD)[..., None])[..., 0].where(own, 0.0)
    near = 1e-10 if dtype == torch.float64 else 1e-4
    assert_close(said.log_probs, expected, rtol=near, atol=near)


def test_sentences_end_and_run_on() -> None:
    """Both kinds must be among the random cases, or the test above would prove little."""
    lengths = set()
    for seed in range(15):
        model = small(causal=True, seed=seed)
        words = greedy(model, model.encode(images(4, seed=seed))).words
        lengths |= set((words != PAD).sum(-1).tolist())
        assert bool((words[:, 1:] == PAD)[~spoken(words)[:, 1:]].all())
    assert model.length in lengths
    assert len(lengths) >= 3


def test_with_padded_regions() -> None:
    model = small(causal=True, seed=3)
    features = images(3, seed=3)
    mask = torch.arange(4) < torch.tensor([4, 2, 1])[:, None]
    words = greedy(model, model.encode(features, mask)).words
    for row, count in enumerate((4, 2, 1)):
        alone = greedy(model, model.encode(features[row : row + 1, :count])).words
        assert torch.equal(words[row], alone[0])


def test_special_words_are_never_said() -> None:
    model = small(causal=True)
    with torch.no_grad():
        model.decoder.output.bias[list(NEVER)] += 100
    said = greedy(model, model.encode(images(5)))
    assert not bool(torch.isin(said.words[spoken(said.words)], torch.tensor(NEVER)).any())
    assert bool(said.log_probs.isfinite().all())


def test_stops_when_all_have_ended() -> None:
    """On a CPU; the rest is padding, as if it had gone on."""
    model = small(causal=True)
    with torch.no_grad():
        model.decoder.output.bias[PERIOD] += 100
    steps = 0
    step = model.step

    def counted(*inputs: object) -> torch.Tensor:
        nonlocal steps
        steps += 1
        return step(*inputs)  # type: ignore[arg-type]

    model.step = counted  # type: ignore[method-assign, assignment]
    said = greedy(model, model.encode(images(2)))
    assert steps == 1
    assert said.words.tolist() == [[PERIOD, PAD, PAD, PAD, PAD, PAD]] * 2
    assert said.log_probs.shape == (2, 6)
    assert math.isclose(float(said.log_probs.sum()), 0, abs_tol=1e-9)
