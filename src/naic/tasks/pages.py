"""What the pages that tasks write have in common: their look, tables, facts."""

import html
from collections.abc import Iterable
from pathlib import Path

from naic.tasks.evaluate.tables import Figures


def base_style() -> str:
    """The look of all of them, light and dark."""
    return Path(__file__).with_suffix(".css").read_text(encoding="utf-8")


def table(figures: Figures, name: str) -> str:
    """Rows of text; who cannot see that there is more to the right can scroll there by keyboard."""
    label = html.escape(name)
    head = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in figures.header)
    lines = [f'<div class="wide" role="region" aria-label="{label}" tabindex="0"><table>']
    lines.append(f"<thead><tr>{head}</tr></thead><tbody>")
    for first, *others in figures.rows:
        others += [""] * (len(figures.header) - 1 - len(others))
        cells = "".join(f"<td>{html.escape(cell)}</td>" for cell in others)
        lines.append(f'<tr><th scope="row">{html.escape(first)}</th>{cells}</tr>')
    lines.append("</tbody></table></div>")
    return "\n".join(lines)


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Names, and what is to be said of each."""
    lines = [
        f"<div><dt>{html.escape(name)}</dt><dd>{html.escape(text)}</dd></div>"
        for name, text in pairs
    ]
    return "\n".join(['<dl class="facts">', *lines, "</dl>"])
