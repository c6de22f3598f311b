"""The count of operations is the one that PyTorch makes while it runs."""

import runpy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from naic.models.config import TransformerConfig
from naic.models.transformer import TransformerCaptioner

TRAINING = Path(__file__).parents[1] / "benchmarks" / "training.py"
flops: Callable[..., int] = runpy.run_path(str(TRAINING))["flops"]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("captions", [1, 5])
def test_as_counted(causal: bool, captions: int) -> None:
    config = TransformerConfig(16, 2, encoder_layers=3, decoder_layers=2, hidden=24, length=6)
    model = TransformerCaptioner(config, 10, 13, causal=causal).eval()
    words = torch.zeros(4, captions, 6, dtype=torch.int64)
    # The counter does not know the CPU's own attention kernel; it does know plain products.
    counter = FlopCounterMode(display=False)
    with counter, sdpa_kernel(SDPBackend.MATH), torch.no_grad():
        model(torch.zeros(4, 7, 10), None, words)
    expected = flops(config, 10, 13, regions=7, captions=captions, causal=causal)
    assert counter.get_total_flops() == 4 * expected


def test_agents_cost_the_same_for_any_number_of_captions() -> None:
    sizes = (TransformerConfig(), 1408, 9107, 64)
    assert flops(*sizes, 5, False) == flops(*sizes, 1, False) == flops(*sizes, 1, True)
