"""What the paper reports, table by table, as fractions: 1.24 is its CIDEr of 124.0.

Guo et al., "Non-Autoregressive Image Captioning with Counterfactuals-Critical Multi-Agent
Learning", IJCAI 2020: MSCOCO, Karpathy's test split, bottom-up features; latency of one image on a
GTX 1080 Ti.
"""

Numbers = dict[str, float]
_COLUMNS = ("Bleu_1", "Bleu_4", "METEOR", "ROUGE_L", "SPICE", "CIDEr")


def _row(*values: float, latency_ms: float | None = None, speedup: float | None = None) -> Numbers:
    row = {name: round(value / 100, 4) for name, value in zip(_COLUMNS, values, strict=True)}
    if latency_ms is not None and speedup is not None:
        row |= {"latency_ms": latency_ms, "speedup": speedup}
    return row


_BASE = _row(60.7, 15.9, 18.2, 45.9, 11.9, 60.6, latency_ms=16, speedup=13.9)
_INIT = _row(62.3, 17.1, 19.0, 46.8, 12.6, 64.6, latency_ms=16, speedup=13.9)
_KD = _row(78.5, 35.3, 27.3, 56.9, 20.8, 115.5, latency_ms=16, speedup=13.9)
_CMAL = _row(80.3, 37.3, 28.1, 58.0, 21.8, 124.0, latency_ms=16, speedup=13.9)
_UNLABELLED = _row(80.5, 38.0, 28.3, 58.2, 22.0, 125.5, latency_ms=16, speedup=13.9)

TABLE_1 = {
    "AIC beam 1": _row(79.8, 38.4, 29.0, 58.7, 22.8, 126.6, latency_ms=134, speedup=1.66),
    "AIC beam 3": _row(80.3, 38.9, 29.1, 58.9, 22.9, 128.8, latency_ms=222, speedup=1.0),
    "NAIC-base": _BASE,
    "+weight-init": _INIT,
    "+KD": _KD,
    "+CMAL": _CMAL,
    "+unlabelled": _UNLABELLED,
}
TABLE_3 = {  # baselines of the policy gradient, without and with the teacher's weights
    "scratch, XE": _row(77.7, 34.8, 26.9, 56.3, 20.3, 113.9),
    "scratch, none": _row(65.6, 19.4, 22.7, 48.9, 15.8, 91.4),
    "scratch, ma": _row(75.6, 28.7, 24.4, 53.6, 17.9, 103.3),
    "scratch, sc": _row(79.0, 34.6, 26.9, 56.2, 20.6, 118.1),
    "scratch, cf": _row(79.9, 36.5, 27.7, 57.4, 21.4, 122.1),
    "weight-init, XE": _row(78.5, 35.3, 27.3, 56.9, 20.8, 115.5),
    "weight-init, none": _row(78.6, 33.7, 26.5, 56.1, 20.2, 115.2),
    "weight-init, ma": _row(79.0, 34.1, 26.6, 56.3, 20.2, 116.1),
    "weight-init, sc": _row(79.6, 36.5, 27.6, 57.4, 21.4, 121.2),
    "weight-init, cf": _row(80.3, 37.3, 28.1, 58.0, 21.8, 124.0),
}
TABLE_4 = {  # the counterfactuals' top-k
    "k = 1": _row(80.1, 37.4, 28.0, 57.9, 21.7, 123.7),
    "k = 2": _row(80.3, 37.3, 28.1, 58.0, 21.8, 124.0),
    "k = 5": _row(80.1, 37.3, 28.0, 58.0, 21.7, 123.7),
}
TABLE_5 = {  # shares of 100,000 unlabelled images
    "0 %, XE": _row(78.5, 35.3, 27.3, 56.9, 20.8, 115.5),
    "0 %, CMAL": _row(80.3, 37.3, 28.1, 58.0, 21.8, 124.0),
    "50 %, XE": _row(78.8, 36.2, 27.6, 57.2, 21.1, 118.1),
    "50 %, CMAL": _row(80.2, 37.6, 28.1, 58.1, 21.9, 124.8),
    "100 %, XE": _row(79.0, 36.2, 27.7, 57.3, 21.2, 118.3),
    "100 %, CMAL": _row(80.5, 38.0, 28.3, 58.2, 22.0, 125.5),
}
