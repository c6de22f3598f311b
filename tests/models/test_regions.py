"""Leaving regions out while training."""

from dataclasses import replace

import pytest
import torch

from naic.errors import ConfigError
from naic.models.config import TransformerConfig
from naic.models.transformer import Encoder, TransformerCaptioner, some_regions

CONFIG = TransformerConfig(
    width=16, heads=2, encoder_layers=1, decoder_layers=1, hidden=32, dropout=0.0, length=4
)


def test_each_image_keeps_regions_of_its_own_and_none_twice() -> None:
    torch.manual_seed(0)
    x = torch.arange(8 * 12).float().view(8, 12, 1)
    kept = some_regions(x, 0.75)[..., 0]
    assert kept.shape == (8, 9)
    chosen = [frozenset(row) for row in kept.long().tolist()]
    for number, own in enumerate(chosen):
        assert len(own) == 9
        assert own <= set(range(12 * number, 12 * number + 12))
    assert len({frozenset(i % 12 for i in own) for own in chosen}) > 1


@pytest.mark.parametrize(("share", "count"), [(1.0, 10), (0.5, 5), (0.01, 1)])
def test_at_least_one_is_kept(share: float, count: int) -> None:
    assert some_regions(torch.zeros(2, 10, 3), share).shape == (2, count, 3)


def test_all_are_seen_once_training_is_over() -> None:
    torch.manual_seed(0)
    model = TransformerCaptioner(replace(CONFIG, seen=0.5), 5, 20, causal=False)
    whole = TransformerCaptioner(CONFIG, 5, 20, causal=False)
    whole.load_state_dict(model.state_dict())
    features = torch.randn(3, 8, 5)
    assert not torch.equal(model(features), model(features))
    assert torch.equal(model.eval()(features), whole.eval()(features))


def test_places_are_told_before_any_is_left_out() -> None:
    """A grid's region keeps its row and column, whichever others are gone."""
    torch.manual_seed(0)
    config = replace(CONFIG, grid=True, seen=0.25, encoder_layers=1)
    encoder = Encoder(config, 5)
    features = torch.ones(1, 16, 5)  # only their places tell the regions apart
    first, _ = encoder(features, None)
    second, _ = encoder(features, None)
    assert first.shape == (1, 4, 16)
    assert not torch.allclose(first.sum(1), second.sum(1))


def test_a_share_that_cannot_be_is_refused() -> None:
    for share in (0.0, 1.5):
        with pytest.raises(ConfigError, match=r"model\.seen"):
            replace(CONFIG, seen=share)
    model = TransformerCaptioner(replace(CONFIG, seen=0.5), 5, 20, causal=False)
    with pytest.raises(ConfigError, match="different numbers of regions"):
        model(torch.zeros(1, 4, 5), torch.ones(1, 4, dtype=torch.bool))
