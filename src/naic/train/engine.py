"""One optimiser step, run eagerly, compiled, or as one CUDA graph.

The noise of a step (dropout, sampling) is seeded from (seed, step, rank), like the order of the
batches: a run that goes on after a kill needs no saved generator to be the same run.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor, nn

from naic.errors import ConfigError
from naic.learn.losses import cross_entropy
from naic.train.batches import Batch, Draw, Feed
from naic.train.groups import freeze, parameter_groups, rates
from naic.train.settings import EngineSettings, OptimiserSettings
from naic.train.speed import compile_layers
from naic.train.stages import stage_of
from naic.train.tools import Logs, Tools


class TrainingEngine:
    """The model with its optimiser and moving average; `step` trains on one global batch."""

    def __init__(self, accelerator: Accelerator, tools: Tools, feed: Feed) -> None:
        settings = tools.settings
        check_engine(settings.engine, accelerator.device.type, accelerator.num_processes)
        self.tools = tools
        self.plain = tools.plain
        self._accelerator = accelerator
        self._feed = feed
        self._seed = settings.seed
        self._stage = stage_of(settings)
        self._clip = settings.optimiser.clip
        self._dtype = torch.bfloat16 if settings.engine.precision == "bfloat16" else None
        self._dropout = self._stage.dropout(settings)
        self._frozen = freeze(self.plain, settings.optimiser.frozen)
        named = {name: p for name, p in self.plain.named_parameters() if p.requires_grad}
        self._parameters: list[Tensor] = list(named.values())
        self.optimiser = make_optimiser(named, settings.optimiser, accelerator.device)
        decay = settings.optimiser.average
        self.average = [p.detach().clone() for p in self._parameters] if decay else []
        self._decay = decay
        self._model: nn.Module = accelerator.prepare_model(self.plain)
        self._run = self.update
        if settings.engine.graph:
            from naic.train.graph import Graph

            self._run = Graph(self).replay

    def step(self, number: int, learning_rate: float) -> Logs:
        """Train on the batches of step `number`; the logs are this process's share of it."""
        draws = self._feed.draw(number)
        seed_noise(self._seed, number, self._accelerator.process_index)
        self._set_learning_rate(learning_rate, number)
        self.plain.train(self._dropout)
        for part in self._frozen:
            part.eval()
        return self._run(draws)

    def update(self, draws: list[Draw]) -> Logs:
        """Forward and backward for each part, then one step of the optimiser."""
        self.optimiser.zero_grad(set_to_none=True)
        total: Logs = {}
        for number, draw in enumerate(draws, 1):
            last = number == len(draws)
            with contextlib.nullcontext() if last else self._accelerator.no_sync(self._model):
                for name, value in self._backward(draw).items():
                    total[name] = total[name] + value if name in total else value
        total["gradient"] = self._gradient()
        self.optimiser.step()
        if self.tools.moving is not None:  # only now: all parts of a step have the same baseline
            self.tools.moving.update(self._over_processes(total["reward"]))
        if self.average:
            with torch.no_grad():
                torch._foreach_lerp_(self.average, self._parameters, 1 - self._decay)
        return total

    def loss(self, batch: Batch) -> tuple[Tensor, Logs]:
        """What the stage makes of a batch."""
        with self.autocast():
            return self._stage.step(self._model, batch, self.tools)

    def _backward(self, draw: Draw) -> Logs:
        loss, logs = self.loss(self._feed.fetch(draw))
        # Several processes' gradients are averaged; their shares are meant to be added up.
        self._accelerator.backward(loss * self._accelerator.num_processes)
        return logs

    def _gradient(self) -> Tensor:
        """Its norm before clipping; known without clipping too: the guard looks at it."""
        if self._clip:
            return nn.utils.clip_grad_norm_(self._parameters, self._clip)
        return nn.utils.get_total_norm([p.grad for p in self._parameters if p.grad is not None])

    def _over_processes(self, share: Tensor) -> Tensor:
        """The sum of all processes' shares of a value."""
        if self._accelerator.num_processes == 1:
            return share
        total: Tensor = self._accelerator.reduce(share, "sum")
        return total

    def _set_learning_rate(self, learning_rate: float, step: int) -> None:
        for group in self.optimiser.param_groups:
            value = group["rate"].at(learning_rate, step, self.tools.settings.optimiser)
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(value)
            else:
                group["lr"] = value

    @contextlib.contextmanager
    def averaged(self) -> Iterator[None]:
        """The moving average in the model's place, where there is one: for validation."""
        if not self.average:
            yield
            return
        with torch.no_grad():
            own = [p.detach().clone() for p in self._parameters]
            torch._foreach_copy_(self._parameters, self.average)
            try:
                yield
            finally:
                torch._foreach_copy_(self._parameters, own)

    def autocast(self) -> contextlib.AbstractContextManager[None]:
        """The precision of training, for validation too.

        Without the cache of cast weights: it would hold on to tensors of a graph's memory.
        """
        kind = self._accelerator.device.type
        mixed = self._dtype is not None
        return torch.autocast(kind, self._dtype, enabled=mixed, cache_enabled=False)

    def tensors(self) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Tensor]]:
        """Weights, optimiser state and average by name, as a checkpoint keeps them.

        The baseline's memory of rewards is kept with the optimiser's state: it too goes on.
        """
        names = [name for name, p in self.plain.named_parameters() if p.requires_grad]
        state = self.optimiser.state
        moments = {
            f"{key}/{name}": state[p][key]
            for name, p in zip(names, self._parameters, strict=True)
            for key in ("exp_avg", "exp_avg_sq", "step")
            if p in state
        }
        average = dict(zip(names, self.average, strict=True)) if self.average else {}
        return dict(self.plain.state_dict()), moments | self.rewards_seen(), average

    def rewards_seen(self) -> dict[str, Tensor]:
        """What the moving-average baseline remembers; nothing under the other baselines."""
        return {} if self.tools.moving is None else {"moving/reward": self.tools.moving.state}

    def finite(self) -> bool:
        """Whether all that training changes are finite numbers; waits for the device."""
        _, moments, average = self.tensors()
        changed = [*self._parameters, *moments.values(), *average.values()]
        with torch.no_grad():  # the largest numbers: unlike sums of squares they cannot overflow
            largest = torch._foreach_norm([t for t in changed if t.numel()], float("inf"))
        return bool(torch.stack(largest).isfinite().all())

    def restore(
        self, model: dict[str, Tensor], moments: dict[str, Tensor], average: dict[str, Tensor]
    ) -> None:
        """Put a checkpoint's tensors where they were."""
        self.plain.load_state_dict(model)
        named = [(name, p) for name, p in self.plain.named_parameters() if p.requires_grad]
        for name, p in named:
            if f"step/{name}" in moments:
                saved = {key: moments[f"{key}/{name}"] for key in ("exp_avg", "exp_avg_sq", "step")}
                self.optimiser.state[p] = {
                    key: value.to(p.device if key != "step" else self._step_device(), copy=True)
                    for key, value in saved.items()
                }
        for (name, _), mine in zip(named, self.average, strict=False):
            mine.copy_(average[name])
        for name, mine in self.rewards_seen().items():
            mine.copy_(moments[name])

    def share(self) -> None:
        """All processes take over the tensors of process 0."""
        for p in self._parameters:
            if p not in self.optimiser.state:
                self.optimiser.state[p] = {
                    "step": torch.zeros((), device=self._step_device()),
                    "exp_avg": torch.zeros_like(p),
                    "exp_avg_sq": torch.zeros_like(p),
                }
        weights, moments, average = self.tensors()
        self._broadcast([*weights.values(), *moments.values(), *average.values()])

    def share_weights(self) -> None:
        """All processes take over the weights of process 0."""
        self._broadcast(list(self.plain.state_dict().values()))

    def _broadcast(self, tensors: list[Tensor]) -> None:
        if self._accelerator.num_processes > 1:
            for tensor in tensors:
                torch.distributed.broadcast(tensor, 0)

    def _step_device(self) -> torch.device:
        """Where Adam counts its steps: on the card if the card runs the whole update."""
        cuda = self._accelerator.device.type == "cuda"
        return self._accelerator.device if cuda else torch.device("cpu")


def check_engine(settings: EngineSettings, device: str, processes: int) -> None:
    """What this kind of device or number of processes cannot do."""
    if settings.graph and device != "cuda":
        why = f"CUDA graphs need a CUDA device, and this run is on {device}"
        raise ConfigError("engine.graph", why, "Set it to false.")
    if settings.graph and processes > 1:
        why = f"a graph holds one process's step, and there are {processes}"
        raise ConfigError("engine.graph", why, "Set it to false, or run one process.")
    if settings.precision == "tf32" and device != "cuda":
        why = f"there is no TF32 on {device}"
        raise ConfigError("engine.precision", why, 'Choose "float32" or "bfloat16".')


def prepare_speed(model: nn.Module, settings: EngineSettings) -> Callable[..., Tensor]:
    """Compile layers, set the precision of matrix products; gives the cross-entropy to use."""
    high = settings.precision in ("tf32", "bfloat16")
    torch.set_float32_matmul_precision("high" if high else "highest")
    if not settings.compile:
        return cross_entropy
    compile_layers(model)
    compiled: Callable[..., Tensor] = torch.compile(cross_entropy)
    return compiled


def make_optimiser(
    named: Mapping[str, Tensor], settings: OptimiserSettings, device: torch.device
) -> torch.optim.Optimizer:
    """Adam; on a CUDA device in the form that a graph can hold."""
    cuda = device.type == "cuda"
    return torch.optim.AdamW(
        parameter_groups(named.values(), rates(list(named), settings), device),
        betas=(settings.beta1, settings.beta2),
        eps=settings.epsilon,
        weight_decay=settings.weight_decay,
        fused=cuda or None,
        capturable=cuda,
    )


def seed_noise(seed: int, step: int, rank: int) -> None:
    """The generators as they are at the start of this step, whatever came before it."""
    state = np.random.SeedSequence([seed, step, rank]).generate_state(1, np.uint64)
    torch.manual_seed(int(state[0]))
