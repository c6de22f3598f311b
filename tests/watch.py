"""Callbacks for tests: what hears of the progress of a task, or of its lines."""

from contextlib import nullcontext

from naic.progress import Callbacks, Update


def watch(update: Update) -> Callbacks:
    """Callbacks that pass on each step, whatever it is a step of."""
    return Callbacks(progress=lambda _: nullcontext(update))
