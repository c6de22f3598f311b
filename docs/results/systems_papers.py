"""What papers say of the systems of systems.md, if it could be checked, and what differs here."""

from typing import NamedTuple

from naic.tasks.reproduce.tables import TABLE_1, Numbers

COMPARED = ("Bleu_1", "Bleu_4", "METEOR", "ROUGE_L", "CIDEr", "SPICE")


class Theirs(NamedTuple):
    """What a paper says of its system.

    Attributes:
        figures: fractions, and milliseconds where it has them.
        how: how it was trained and decoded there, as far as it is known to us.
        source: where the figures stand.
        why: what is different here.
    """

    figures: Numbers
    how: str
    source: str
    why: str


def _figures(*values: float | None, **more: float) -> Numbers:
    pairs = zip(COMPARED, values, strict=True)
    return {name: round(own / 100, 4) for name, own in pairs if own is not None} | more


TABLE = "table 1 of the CMAL paper"
ORT = "the authors' [repository](https://github.com/yahoo/object_relation_transformer)"
GRID = "a grid of cells, no detector"
XE = "cross-entropy alone, eight epochs"
PAPERS = {  # by our row; a paper's row that we could not read anywhere is left out
    "NIC, beam 3": Theirs(
        _figures(None, 32.1, 25.7, None, 99.8, None),
        "its second version, whose image network is tuned on captions",
        TABLE,
        "the mean of another, frozen backbone's grid; no ensemble",
    ),
    "Up-Down + RL, beam 3": Theirs(
        _figures(79.8, 36.3, 27.7, 56.9, 120.1, 21.4),
        "bottom-up regions, RL",
        TABLE,
        f"{GRID}; samples of all words; beam 3",
    ),
    "VSUA, beam 3": Theirs(
        _figures(None, 38.4, 28.5, 58.4, 128.6, 22.0),
        "bottom-up regions, a scene graph of the image, RL",
        TABLE,
        f"{XE}; {GRID}; units learnt from captions alone",
    ),
    "ETA, beam 3": Theirs(
        _figures(81.5, 39.3, 28.8, 58.9, 126.6, 22.7),
        "a detector's regions and attributes",
        TABLE,
        f"{XE}; {GRID}; attributes learnt beside the words",
    ),
    "ORT, beam 3": Theirs(
        _figures(76.6, 35.5, 28.0, 56.6, 115.4, 21.2),
        "bottom-up regions, cross-entropy for 30 epochs, beam 2",
        ORT,
        f"{GRID}; eight epochs; beam 3",
    ),
    "ORT + RL, beam 3": Theirs(
        _figures(80.5, 38.6, 28.7, 58.4, 128.3, 22.6),
        "bottom-up regions, RL, beam 5",
        ORT,
        f"{GRID}; beam 3",
    ),
    "AIC + RL": Theirs(
        TABLE_1["AIC beam 1"], "bottom-up regions; GTX 1080 Ti", TABLE, f"{GRID}; a cache"
    ),
    "AIC + RL, beam 3": Theirs(
        TABLE_1["AIC beam 3"], "bottom-up regions; GTX 1080 Ti", TABLE, f"{GRID}; a cache"
    ),
    "NAIC-base": Theirs(TABLE_1["NAIC-base"], "bottom-up regions; GTX 1080 Ti", TABLE, GRID),
    "NAIC (KD)": Theirs(TABLE_1["+KD"], "bottom-up regions; GTX 1080 Ti", TABLE, GRID),
    "NAIC (CMAL)": Theirs(TABLE_1["+CMAL"], "bottom-up regions; GTX 1080 Ti", TABLE, GRID),
    "MNIC": Theirs(
        _figures(75.4, 30.9, 27.5, 55.6, 108.1, 21.0, latency_ms=61.0, speedup=2.8),
        "time as its own paper has it",
        TABLE,
        f"{GRID}; decoder of our kind, four passes; one length is tried",
    ),
    "FNIC": Theirs(
        _figures(None, 36.2, 27.1, 55.3, 115.7, 20.2, speedup=8.15),
        "speedup as its own paper has it",
        TABLE,
        f"{GRID}; words of the captions in place of a detector's; one order is tried",
    ),
}
