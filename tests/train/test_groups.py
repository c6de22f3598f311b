"""Learning rates by part of the model."""

import pytest
import torch

from naic.errors import ConfigError
from naic.train.groups import Rate, freeze, parameter_groups, rates
from naic.train.settings import OptimiserSettings

NAMES = [
    "encoder.project.weight",
    "backbone.networks.0.positions",
    "backbone.networks.0.patch.weight",
    "backbone.networks.0.blocks.0.qkv.weight",
    "backbone.networks.0.blocks.1.qkv.weight",
    "backbone.networks.0.norm.weight",
    "backbone.networks.1.patch.weight",
    "backbone.networks.1.blocks.0.qkv.weight",
    "backbone.networks.1.norm.weight",
    "decoder.output.weight",
]


def test_each_block_learns_more_slowly_than_the_one_after_it() -> None:
    given = rates(NAMES, OptimiserSettings(backbone_rate=0.1, block_rate=0.5))
    shares = [0.025, 0.025, 0.05, 0.1, 0.1, 0.05, 0.1, 0.1]
    assert [rate.share for rate in given] == pytest.approx([1.0, *shares, 1.0])
    assert [rate.inside for rate in given] == [False, *[True] * 8, False]


def test_without_blocks_a_backbone_has_one_rate() -> None:
    names = ["backbone.stem.weight", "backbone.head.bias", "decoder.norm.bias"]
    given = rates(names, OptimiserSettings(backbone_rate=0.1, block_rate=0.5))
    assert [rate.share for rate in given] == [0.1, 0.1, 1.0]


def test_blocks_of_the_captioner_are_no_backbone_s() -> None:
    given = rates(["blocks.0.weight", "backbone.stem.weight"], OptimiserSettings(block_rate=0.5))
    assert given == [Rate(1.0, inside=False), Rate(0.1, inside=True)]


def test_a_backbone_is_frozen_for_the_steps_asked_for() -> None:
    settings = OptimiserSettings(frozen_steps=2)
    inside, outside = Rate(0.1, inside=True), Rate(1.0, inside=False)
    assert [inside.at(1e-3, step, settings) for step in range(4)] == [0, 0, 1e-4, 1e-4]
    assert [outside.at(1e-3, step, settings) for step in range(4)] == [1e-3] * 4


def test_weights_of_one_rate_are_one_group() -> None:
    weights = [torch.zeros(i) for i in range(len(NAMES))]
    given = rates(NAMES, OptimiserSettings(backbone_rate=0.1, block_rate=0.5))
    groups = parameter_groups(weights, given, torch.device("cpu"))
    found = sorted(len(parameter) for group in groups for parameter in group["params"])
    assert found == list(range(len(NAMES)))
    assert len(groups) == 4


def test_what_is_frozen_learns_nothing_and_names_what_is_there() -> None:
    model = torch.nn.ModuleDict(
        {"encoder": torch.nn.Linear(2, 2), "decoder": torch.nn.Linear(2, 2)}
    )
    assert freeze(model, ["encoder"]) == [model["encoder"]]
    learning = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    assert learning == ["decoder.weight", "decoder.bias"]
    with pytest.raises(ConfigError, match=r"no part 'eyes'.*\n?.*It has: encoder, decoder"):
        freeze(model, ["eyes"])
    with pytest.raises(ConfigError, match="nothing is left to learn"):
        freeze(model, ["encoder", "decoder"])
