"""Plug-ins that are gone after the test."""

import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from naic import plugins
from naic.backbones import load
from naic.models import captioners

TEMPORARY = gettempdir()  # where modules lie that tests have written


@contextmanager
def unplugged() -> Iterator[None]:
    """All that plug-ins bring in here is forgotten at the end, and so are their modules."""
    tables: list[MutableMapping[str, Any]] = [captioners.CAPTIONERS, load.BACKBONES]
    tables += [captioners.BROUGHT, load.BROUGHT]
    lists = (plugins._USED, plugins.OPTION_WORDS, sys.path)
    before, modules = [set(table) for table in tables], {*sys.modules}
    words = [[*own] for own in lists]
    try:
        yield
    finally:
        for name in {*sys.modules} - modules:
            if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(TEMPORARY):
                del sys.modules[name]
        for table, names in zip(tables, before, strict=True):
            for name in set(table) - names:
                del table[name]
        for own, was in zip(lists, words, strict=True):
            own[:] = was


@contextmanager
def plugged(*names: str) -> Iterator[None]:
    """These are in use."""
    with unplugged():
        plugins.use_all(names)
        yield
