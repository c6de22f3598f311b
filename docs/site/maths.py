"""Equations as MathML, which browsers draw by themselves: nothing is fetched, and no script runs.

In the Markdown they are as GitHub and GitLab have them: a block ```math, or $`...`$ in a line.
"""

import html
import re

from latex2mathml.converter import convert

TAG = re.compile(r"\s*\\tag\{([^}]*)\}")
# What the converter passes on as it is: it knows neither the command nor the environment.
UNKNOWN = re.compile(r"<m[io]>(\\[^<]*|&)</m[io]>")


def block(latex: str) -> str:
    """An equation by itself, with the number that its tag gives it; one line of HTML."""
    tag = TAG.search(latex)
    number = f'<span class="number">({html.escape(tag[1])})</span>' if tag else ""
    math = _mathml(TAG.sub("", latex), "block")
    return f'<div class="equation">{math}{number}</div>'


def inline(latex: str) -> str:
    """An equation in a line of text."""
    return _mathml(latex, "inline")


def _mathml(latex: str, display: str) -> str:
    """MathML in which no sign means anything in Markdown."""
    math = convert(" ".join(latex.split()), display=display)
    if unknown := UNKNOWN.search(math):
        raise ValueError(f"{unknown[1]} is not known to the converter to MathML")
    math = math.replace("<mi>;</mi>", '<mo separator="true">;</mo>')
    math = re.sub(r"(<mi>log</mi>)(?!<mo)", r'\1<mspace width="0.167em" />', math)
    return re.sub(r"[*_`\\\[\]]", lambda sign: f"&#{ord(sign[0])};", math)
