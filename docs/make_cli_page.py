"""Writes docs/cli.md from what the commands themselves say; `--check` tells whether it is current.

python docs/make_cli_page.py [--check]
"""

import contextlib
import importlib
import io
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from naic.cli.main import VERBS, main

PAGE = Path(__file__).parent / "cli.md"


def said(*words: str) -> str:
    """What `naic WORDS` prints, as on a terminal of 100 columns."""
    buffer = io.StringIO()
    with contextlib.redirect_stdout(buffer), contextlib.suppress(SystemExit):
        main(words)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines())


def page() -> str:
    """The whole page."""
    parts = ["# The `naic` command\n\nMade by `make docs` from the commands' own help.\n"]
    parts.append(f"```\n{said('--help')}\n```\n")
    for verb in VERBS:
        parts.append(f"## naic {verb}\n\n```\n{said(verb, '--help')}\n```\n")
        options = importlib.import_module(VERBS[verb][0]).OPTIONS
        tasks = options if isinstance(options, Mapping) else {}
        parts += [
            f"### naic {verb} {task}\n\n```\n{said(verb, task, '--help')}\n```\n" for task in tasks
        ]
    return "\n".join(parts)


if __name__ == "__main__":
    os.environ |= {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    text = page()
    if "--check" in sys.argv:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
            sys.exit("docs/cli.md is not what the commands say: run `make docs`.")
    else:
        PAGE.write_text(text, encoding="utf-8")
