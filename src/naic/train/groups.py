"""Which weights learn, and how fast: a backbone inside a captioner slower than the rest, by block.

What a backbone knows comes from far more images than it is trained on here. At the rate of the
captioner's own weights it forgets that faster than it learns what captions speak of.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from naic.backbones.inside import PREFIX
from naic.errors import ConfigError
from naic.train.settings import OptimiserSettings

# Of backbone.networks.0.blocks.3.qkv.weight: the network, and the number of its block.
_BLOCK = re.compile(rf"^({re.escape(PREFIX)}(?:.+\.)?)blocks\.(\d+)\.")


def freeze(model: nn.Module, parts: Sequence[str]) -> list[nn.Module]:
    """Parts of a model stay as they are (`optimiser.frozen`): no gradients, no optimiser's state.

    Raises:
        ConfigError: the model has no such part, or no other one.
    """
    frozen = []
    for part in parts:
        try:
            frozen.append(model.get_submodule(part).requires_grad_(False))
        except AttributeError as error:
            there = ", ".join(name for name, _ in model.named_children())
            why = f"the model has no part {part!r}"
            raise ConfigError("optimiser.frozen", why, f"It has: {there}.") from error
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ConfigError("optimiser.frozen", "nothing is left to learn", "Name fewer parts.")
    return frozen


class Rate(NamedTuple):
    """The learning rate of some weights.

    Attributes:
        share: of the schedule's rate.
        inside: whether they are a backbone's, which may stay frozen at first.
    """

    share: float
    inside: bool

    def at(self, learning_rate: float, step: int, settings: OptimiserSettings) -> float:
        """The rate of a step; they are counted from 0."""
        return 0.0 if self.inside and step < settings.frozen_steps else learning_rate * self.share


def rates(names: Sequence[str], settings: OptimiserSettings) -> list[Rate]:
    """The rate of each weight of a model, by their names in the order of the model.

    The last block of a backbone, and what comes after it, learn at the backbone's rate; each block
    before it at `block_rate` of the one after; what comes before the first block is one more.
    """
    blocks = [_BLOCK.match(name) for name in names]
    depths: dict[str, int] = {}  # of each network, where several are joined
    for found in blocks:
        if found:
            depths[found[1]] = max(depths.get(found[1], 0), int(found[2]) + 1)
    begun: set[str] = set()
    given = []
    for name, found in zip(names, blocks, strict=True):
        if not name.startswith(PREFIX):
            given.append(Rate(1.0, inside=False))
            continue
        network = found[1] if found else next((n for n in depths if name.startswith(n)), "")
        if found:
            begun.add(network)
            before = depths[network] - 1 - int(found[2])
        else:
            before = 0 if network in begun else depths.get(network, 0)
        given.append(Rate(settings.backbone_rate * settings.block_rate**before, inside=True))
    return given


def parameter_groups(
    parameters: Iterable[Tensor], given: Sequence[Rate], device: torch.device
) -> list[dict[str, Any]]:
    """The optimiser's groups: all weights of one rate together; a card has the rate in memory."""
    groups: dict[Rate, dict[str, Any]] = {}
    for parameter, rate in zip(parameters, given, strict=True):
        if rate not in groups:
            lr = torch.tensor(0.0, device=device) if device.type == "cuda" else 0.0
            groups[rate] = {"params": [], "lr": lr, "rate": rate}
        groups[rate]["params"].append(parameter)
    return list(groups.values())
