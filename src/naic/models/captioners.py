"""The captioners there are, and how one starts from another's weights.

A new one is a module beside this one, and one line here; or a plug-in's (`naic.plugins`).
"""

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from importlib import import_module
from typing import NamedTuple

import torch
from torch import Tensor, nn

from naic.errors import CheckpointError, ConfigError
from naic.importing import asks_for
from naic.models.chain import TRANSITIONS
from naic.models.contract import CaptionerSpec


class Captioners(MutableMapping[str, CaptionerSpec]):
    """Captioners by name. The module of one is imported when it is asked for: a run needs one."""

    def __init__(self, places: Mapping[str, str]) -> None:
        """`places`: for each name the module in `naic.models`, and what the captioner is there."""
        self._known: dict[str, str | CaptionerSpec] = {**places}

    def __getitem__(self, name: str) -> CaptionerSpec:
        """The captioner of this name."""
        known = self._known[name]
        if isinstance(known, str):
            module, _, own = known.partition(":")
            spec: CaptionerSpec = getattr(import_module(f"naic.models.{module}"), own)
            self._known[name] = known = spec
        return known

    def __setitem__(self, name: str, spec: CaptionerSpec) -> None:
        """One more, or another one."""
        self._known[name] = spec

    def __delitem__(self, name: str) -> None:
        """One less."""
        del self._known[name]

    def __iter__(self) -> Iterator[str]:
        """Their names."""
        return iter(self._known)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._known)


CAPTIONERS = Captioners(
    {
        "causal": "transformer:CAUSAL",
        "parallel": "transformer:PARALLEL",
        "nic": "nic:NIC",
        "updown": "updown:UPDOWN",
        "ort": "ort:ORT",
        "eta": "eta:ETA",
        "vsua": "vsua:VSUA",
        "mnic": "mnic:MNIC",
        "fnic": "fnic:FNIC",
        "satic": "satic:SATIC",
        "ctc": "ctc:CTC",
    }
)
BROUGHT: dict[str, str] = {}  # of those that a plug-in brought, by name, its module


def captioner_spec(
    name: str, where: str = "captioner", made_with: Sequence[str] | None = None
) -> CaptionerSpec:
    """The captioner of this name.

    For the error if there is none: `where` it was named, and what the file was `made_with`.
    """
    if name not in CAPTIONERS:
        hint = f"There are: {', '.join(CAPTIONERS)}. {asks_for(made_with)}"
        raise ConfigError(where, f"there is no captioner {name!r}", hint)
    return CAPTIONERS[name]


class Taken(NamedTuple):
    """What became of the weights.

    Attributes:
        taken: names that were copied.
        reset: names that kept their first values, each with the reason.
        unused: names among the given weights that this model has no place for.
        fresh: names among those reset whose first values change nothing: transitions, where the
            model whose weights are given had none.
    """

    taken: tuple[str, ...]
    reset: tuple[str, ...]
    unused: tuple[str, ...]
    fresh: tuple[str, ...] = ()

    def describe(self) -> str:
        """The same in a few lines for people."""
        whole = len(self.taken) + len(self.reset)
        lines = [f"{len(self.taken)} of {whole} tensors taken"]
        lines += [f"not taken: {reason}" for reason in self.reset]
        lines += [f"not used: {name}" for name in self.unused]
        return "\n".join(lines)


@torch.no_grad()
def take_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> Taken:
    """Copy into the model, in place, every tensor whose name and shape it has.

    A student takes all of its teacher but the word embedding, which it does not have.
    """
    taken, reset = [], []
    own = model.state_dict()
    for name, tensor in own.items():
        given = weights.get(name)
        if given is None:
            reset.append(f"{name}: the weights given have none")
        elif given.shape != tensor.shape:
            shapes = f"{tuple(given.shape)}, not {tuple(tensor.shape)}"
            reset.append(f"{name}: the one given is {shapes}")
        else:
            tensor.copy_(given)
            taken.append(name)
    unused = tuple(name for name in weights if name not in own)
    if not taken:
        raise CheckpointError(
            "weights",
            f"none of the {len(weights)} tensors fits this model",
            "Give the weights of a captioner of the same size, or change [model] to theirs.",
        )
    deaf = not any(name.startswith(TRANSITIONS) for name in weights)
    fresh = tuple(name for name in own if deaf and name.startswith(TRANSITIONS))
    return Taken(tuple(taken), tuple(reset), unused, fresh)
