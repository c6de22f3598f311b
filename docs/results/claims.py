"""What is expected of the rows of a ladder, and whether it holds."""

import math
from typing import Any

Rows = dict[str, dict[str, Any]]
Claim = tuple[str, str, str]  # what is expected, the figures, whether it holds
ORDER = (("NAIC-base", "+KD"), ("+KD", "+CMAL"), ("+CMAL", "+unlabelled"))
SHARE, REPEATS = 0.97, 0.01  # of the teacher's CIDEr; of the captions: what we set ourselves


def by_system(rows: list[dict[str, Any]]) -> Rows:
    """The rows by their names."""
    return {row["system"]: row for row in rows}


def ladder_claims(rows: Rows) -> list[Claim]:
    """Of table 1."""
    claims = [order(rows, *pair) for pair in ORDER if {*pair} <= rows.keys()]
    if {"AIC beam 3", "+CMAL"} <= rows.keys():
        share = rows["+CMAL"]["CIDEr"] / rows["AIC beam 3"]["CIDEr"]
        what = f"+CMAL has {SHARE:.0%} of the teacher's CIDEr or more"
        claims.append((what, f"{100 * share:.1f} %", _verdict(share >= SHARE)))
        repeats = rows["+CMAL"]["repeats"]
        what = f"+CMAL repeats a word in less than {REPEATS:.0%} of its captions"
        claims.append((what, f"{100 * repeats:.1f} %", _verdict(repeats < REPEATS)))
    return claims


def baseline_claims(rows: Rows) -> list[Claim]:
    """Of table 3."""
    claims = []
    for start in ("scratch", "weight-init"):
        for low, high in (("XE", "sc"), ("sc", "cf"), ("none", "sc"), ("ma", "sc")):
            pair = (f"{start}, {low}", f"{start}, {high}")
            if {*pair} <= rows.keys():
                claims.append(order(rows, *pair))
    return claims


def order(rows: Rows, low: str, high: str) -> Claim:
    """That one row has a higher CIDEr than another."""
    one, other = rows[low], rows[high]
    verdict = _verdict(one["CIDEr"] < other["CIDEr"])
    if abs(one["CIDEr"] - other["CIDEr"]) < _doubt(one, other):
        verdict += ", too close to tell"
    return f"{low} < {high}", f"{_cider(one)} and {_cider(other)}", verdict


def _verdict(holds: bool) -> str:
    return "yes" if holds else "**no**"


def _doubt(one: dict[str, Any], other: dict[str, Any]) -> float:
    """How far apart two rows must be to be told apart.

    By the standard deviation of the difference of two seeds, or of one seed each by that of the
    images: an interval is four of them wide.
    """
    if one["spread"] and other["spread"]:
        return math.hypot(one["spread"]["CIDEr"], other["spread"]["CIDEr"])
    ends = [row["intervals"].get("CIDEr") for row in (one, other)]
    return math.hypot(*((high - low) / 4 for low, high in filter(None, ends)))


def _cider(row: dict[str, Any]) -> str:
    spread = row["spread"].get("CIDEr")
    return f"{100 * row['CIDEr']:.1f}" + ("" if spread is None else f" ± {100 * spread:.1f}")
