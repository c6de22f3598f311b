"""Writes what was asked for: a page, images."""

from pathlib import Path

from naic.errors import ConfigError
from naic.files import printable, what_is, write_atomically, writing
from naic.tasks.show.curves import make_charts
from naic.tasks.show.draw import draw_chart, draw_sheet
from naic.tasks.show.find import Found
from naic.tasks.show.options import ShowOptions
from naic.tasks.show.page import make_page


def write_all(found: Found, options: ShowOptions, command: str) -> list[Path]:
    """Write the files that were asked for; gives their names."""
    written = []
    if options.html is not None:
        _write(options.html, make_page(found, command))
        written.append(options.html)
    if options.svg is not None:
        written.append(options.svg)
        _draw(found, options.svg)
    return written


def _draw(found: Found, path: Path) -> None:
    charts = make_charts(found.runs)
    if not charts:
        why = "nothing was logged yet, so there are no curves"
        raise ConfigError("--svg", why, "Leave it out, or wait for the first lines of the log.")
    if path.suffix.lower() == ".svg" and what_is(path) != "folder":
        title = ", ".join(printable(run.name) for run in found.runs)
        _write(path, draw_sheet(title, charts))
        return
    for chart in charts:
        _write(path / f"{chart.name}.svg", draw_chart(chart))


def _write(path: Path, text: str) -> None:
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.encode())
