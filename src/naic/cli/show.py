"""`naic show PATH ...`: a feature store, or training runs."""

import json
import shlex
from collections.abc import Sequence

from naic.cli.main import parse
from naic.cli.screen import print_figures
from naic.cli.show_store import show_store
from naic.files import printable
from naic.tasks.evaluate.tables import Figures
from naic.tasks.show.facts import as_json, differing, overview, run_facts, together, whole_facts
from naic.tasks.show.find import find, is_store
from naic.tasks.show.options import ShowOptions
from naic.tasks.show.write import write_all

HELP = """Say what is in a feature store, or where training runs stand.

Of runs of naic train, finetune and reproduce: whether they are running, how far they are, their
latest values and their best validation, and what to do next. Folders are searched for runs. --html
draws their curves on a page, those of several runs over each other. Nothing in a run is changed,
and it may be running."""
OPTIONS = ShowOptions  # what the verb takes: shell completion finds it here

MOST_RUNS, MOST_SETTINGS = 5, 15  # of a table of settings on a terminal


def run(arguments: Sequence[str]) -> int:
    """Parse, look, tell."""
    options = parse(ShowOptions, "show", HELP, arguments)
    options.check()
    if any(map(is_store, options.paths)):
        options.check_store()
        show_store(options.paths[0], options.examples)
        return 0
    found = find(options.paths)
    written = write_all(found, options, f"naic show {shlex.join(arguments)}")
    if options.json:
        print(json.dumps(as_json(found), indent=1))
        return 0
    for whole in found.wholes:
        _print_pairs(whole_facts(whole))
    if len(found.runs) == 1:
        _print_pairs(run_facts(found.runs[0]))
    else:
        print_figures(overview(found.runs))
        _print_differing(differing(found.runs))
        _print_pairs(together(found))
    _print_pairs([("written", printable(str(path))) for path in written])
    return 0


def _print_differing(figures: Figures) -> None:
    """As much as can be read: of many runs, or of quite other ones, it would be a wall."""
    if len(figures.header) <= MOST_RUNS + 1 and len(figures.rows) <= MOST_SETTINGS:
        print_figures(figures)
    elif figures.rows:
        print(f"they differ in {len(figures.rows)} settings: --html FILE has a table of them")


def _print_pairs(pairs: Sequence[tuple[str, str]]) -> None:
    for name, text in pairs:
        print(f"{name + ':':<12} {text}")
