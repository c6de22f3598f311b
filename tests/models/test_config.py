"""The sizes of a captioner: the paper's by default, impossible ones refused."""

from typing import Any

import pytest

from naic.errors import ConfigError
from naic.models.config import TransformerConfig


def test_transformer_base_by_default() -> None:
    config = TransformerConfig()
    assert (config.width, config.heads, config.hidden) == (512, 8, 2048)
    assert (config.encoder_layers, config.decoder_layers, config.length) == (6, 6, 16)
    assert config.dropout == 0.1


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"width": 0}, "model.width"),
        ({"width": 20, "heads": 8}, "model.width"),
        ({"width": 9, "heads": 3}, "model.width"),
        ({"heads": 0}, "model.heads"),
        ({"encoder_layers": 0}, "model.encoder_layers"),
        ({"decoder_layers": -1}, "model.decoder_layers"),
        ({"hidden": 0}, "model.hidden"),
        ({"length": 0}, "model.length"),
        ({"length": 1025}, "model.length"),
        ({"encoder_layers": 10**9}, "model.encoder_layers"),
        ({"decoder_layers": 1025}, "model.decoder_layers"),
        ({"dropout": 1.0}, "model.dropout"),
        ({"dropout": -0.1}, "model.dropout"),
        ({"dropout": float("nan")}, "model.dropout"),
    ],
)
def test_impossible_sizes_are_refused_by_name(settings: dict[str, Any], what: str) -> None:
    with pytest.raises(ConfigError) as caught:
        TransformerConfig(**settings)
    assert caught.value.what == what
    assert caught.value.hint
