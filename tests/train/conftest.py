"""Runs are tested on small captioners, and on one thread as well."""

from tests.models.conftest import one_thread

__all__ = ["one_thread"]
