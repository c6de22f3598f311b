"""One HTML file of runs and their curves, to be looked at without a server, network or script."""

import html
from collections.abc import Sequence
from pathlib import Path

from naic.files import printable
from naic.tasks.drawing import spell
from naic.tasks.evaluate.tables import Figures
from naic.tasks.pages import base_style, facts, table
from naic.tasks.show.curves import Chart, Curve, make_charts
from naic.tasks.show.draw import draw_chart
from naic.tasks.show.facts import (
    differing,
    overview,
    run_facts,
    together,
    validations,
    whole_facts,
)
from naic.tasks.show.find import Found

MOST_VALIDATIONS = 40  # rows of a table
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_NO_CURVES = "<p>Nothing was logged yet, so there are no curves.</p>"


def make_page(found: Found, command: str) -> str:
    """The whole page; `command` is what made it."""
    title = ", ".join(printable(run.name) for run in found.runs[:3])
    title += f" and {len(found.runs) - 3} more" if len(found.runs) > 3 else ""
    charts = make_charts(found.runs)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{html.escape(title)}</title>
<style>{base_style()}{Path(__file__).with_name("page.css").read_text(encoding="utf-8")}</style>
</head>
<body>
<header>
<h1>{html.escape(title)}</h1>
{_standing(found)}
</header>
<main>
<section aria-labelledby="curves"><h2 id="curves">Curves</h2>
{_figures(charts)}
</section>
{_tables(found, charts)}
</main>
<footer><p>Made by <code>{html.escape(printable(command))}</code></p></footer>
</body>
</html>
"""


def _standing(found: Found) -> str:
    """Where the runs stand."""
    parts = [facts(whole_facts(whole)) for whole in found.wholes]
    if len(found.runs) == 1:
        parts.append(facts(run_facts(found.runs[0])))
    else:
        parts.append(table(overview(found.runs), "Runs"))
        parts.append(facts(together(found)))
    return "\n".join(parts)


def _figures(charts: Sequence[Chart]) -> str:
    if not charts:
        return _NO_CURVES
    images = (f"<figure>{draw_chart(chart)}</figure>" for chart in charts)
    return "\n".join(['<div class="charts">', *images, "</div>"])


def _tables(found: Found, charts: Sequence[Chart]) -> str:
    """What the curves show, in numbers; and in which settings the runs differ."""
    parts = list[str]()

    def section(name: str, figures: Figures) -> None:
        if figures.rows:
            parts.append(f"<section><h2>{name}</h2>\n{table(figures, name)}\n</section>")

    if len(found.runs) > 1:
        section("Settings that differ", differing(found.runs))
    for run in found.runs if len(found.runs) == 1 else ():
        section("Validations", validations(run, MOST_VALIDATIONS))
    section("The curves in numbers", in_numbers(charts))
    return "\n".join(parts)


def in_numbers(charts: Sequence[Chart]) -> Figures:
    """Where each curve begins and ends, and its extremes, each with its place on the other axis."""
    header = ["curve", "points", "first", "last", "lowest", "highest", "not finite"]
    rows = [_row(chart, curve) for chart in charts for curve in chart.curves]
    if not any(curve.broken for chart in charts for curve in chart.curves):
        header, rows = header[:-1], [row[:-1] for row in rows]
    return Figures(header, rows)


def _row(chart: Chart, curve: Curve) -> list[str]:
    name = f"{chart.title}, {curve.label}" if chart.legend else chart.title
    ends = (curve.first, curve.last, curve.lowest, curve.highest)
    places = [f"{spell(y)} at {spell(x)}" for x, y in ends]
    return [name, f"{curve.count:,}", *places, str(curve.broken)]
