"""The training step as one CUDA graph."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from naic.train.batches import Draw
from naic.train.tools import Logs

if TYPE_CHECKING:
    from naic.train.engine import TrainingEngine

WARM_UP = 3  # steps before a graph is captured: libraries choose their kernels and working space


class Graph:
    """The whole step recorded once and replayed: launching its kernels costs more than they do."""

    def __init__(self, engine: "TrainingEngine") -> None:
        self._engine = engine
        self._graph: torch.cuda.CUDAGraph | None = None
        self._inputs: list[Draw] = []
        self._names: list[str] = []
        self._values = torch.empty(0)

    def replay(self, draws: list[Draw]) -> Logs:
        """The step on other batches; the first call records it."""
        if self._graph is None:
            self._capture(draws)
        assert self._graph is not None
        for own, new in zip(self._inputs, draws, strict=True):
            for to, value in zip(own, new, strict=True):
                if to is not None and value is not None:
                    to.copy_(value, non_blocking=True)
        self._graph.replay()
        # One copy for all of them: the next replay writes over the graph's own.
        return dict(zip(self._names, self._values.clone().unbind(), strict=True))

    def _capture(self, draws: list[Draw]) -> None:
        """Record a step; the steps that warm it up leave no trace."""
        engine = self._engine
        self._inputs = [_copy(draw) for draw in draws]
        # Detached: a copy with a history would keep nodes of the gradient on the wrong stream.
        kept = [part.detach().clone() for part in self._state()]
        fresh = not engine.optimiser.state
        noise = torch.cuda.get_rng_state()
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                engine.update(self._inputs)
        torch.cuda.current_stream().wait_stream(stream)
        engine.optimiser.zero_grad(set_to_none=True)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            logs = engine.update(self._inputs)
            self._names, self._values = list(logs), torch.stack(list(logs.values()))
        with torch.no_grad():
            if fresh:  # Adam made its state in the warm-up: it starts from zeros
                for state in engine.optimiser.state.values():
                    for part in state.values():
                        part.zero_()
            for part, value in zip(self._state(with_moments=not fresh), kept, strict=True):
                part.copy_(value)
        torch.cuda.set_rng_state(noise)

    def _state(self, *, with_moments: bool = True) -> list[Tensor]:
        engine = self._engine
        moments = [
            state[key]
            for state in (engine.optimiser.state.values() if with_moments else ())
            for key in ("exp_avg", "exp_avg_sq", "step")
        ]
        seen = engine.rewards_seen().values()
        return [*engine.plain.parameters(), *engine.average, *seen, *moments]


def _copy(draw: Draw) -> Draw:
    parts = {name: value.clone() for name, value in draw._asdict().items() if value is not None}
    return draw._replace(**parts)
