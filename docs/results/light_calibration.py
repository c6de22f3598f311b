"""The part of light.md about confidences, and its chart: from light/calibration.json.

That is a file of benchmarks/calibrate.py.
"""

from typing import Any

from naic.tasks.charts import Line, lines

RUN, CHART = "light/calibration.json", "light/calibration.svg"
MOST = 0.05  # of the expected calibration error, on the half that a map was not fitted on
WHEN = {"before": "probability", "after": "confidence"}
Run = dict[str, Any]


def calibration_part(run: Run) -> str:
    """What `benchmarks/calibrate.py` measured, as text."""
    return "\n".join([_head(run), _errors(run), _checks(run), _diagram(run)])


def calibration_chart(run: Run) -> str:
    """The reliability diagram as SVG: both halves, before and after, and where they should be."""
    curves = [Line("as it should be", ((0.0, 0.0), (1.0, 1.0)))]
    for name, half in run["captions"]["halves"].items():
        for when, what in WHEN.items():
            points = tuple((one["confidence"], one["right"]) for one in half[when]["bins"])
            curves.append(Line(f"{what}, {name}", points))
    title = "Captions that are right, by what was said of them"
    return lines(title, "confidence", "share that is right", curves)


def _head(run: Run) -> str:
    halves = run["captions"]["halves"].values()
    errors = [half["after"]["ece"] for half in halves]
    holds = "yes" if max(errors) <= MOST else "**no**"
    told = " and ".join(f"{error:.3f}" for error in errors)
    wrong = " and from ".join(
        " to ".join(_share(half[when]["above_of_wrong"]) for when in WHEN) for half in halves
    )
    reach = _share(1 - run["quantile"])
    return f"""## Confidence

From `{RUN.rpartition("/")[2]}`, which is `{run["command"]}`:
{run["captions"]["images"]:,} images of COCO's `val`, by even and odd numbers.
A caption is right if its CIDEr-D is at least {run["threshold"]:.2f}, which {reach} of people's
captions of {run["scored_images"]:,} training images reach against the other people's, and every
noun in it ({run["nouns"]:,} are known) is mentioned by at least one person. Both were fixed before
anything was fitted ([decision 030](../decisions/030-confidence.md)). By the same rule
{_share(run["people_right"])} of people's own captions of `val` are right, each judged by one person
less: what nobody else mentions counts as wrong.

| what was set beforehand | found | holds |
|---|---|---|
| expected calibration error on the half that was not fitted on: at most {MOST} \
| {told} | {holds} |

Of the wrong captions, so many have more than {run["sure"]}, before and after: from {wrong}
(even, odd).
"""


def _errors(run: Run) -> str:
    rows = "\n".join(
        _row(f"{name}, {what}", half, half[when])
        for name, half in run["captions"]["halves"].items()
        for when, what in WHEN.items()
    )
    found = run["map"]
    bins = max(len(half["after"]["bins"]) for half in run["captions"]["halves"].values())
    return f"""Each half with the map that was fitted on the other. The model has the map of both:
1 / (1 + exp(-({found["slope"]:.4f} · logit p {found["intercept"]:+.4f}))).

{_titles(run)}
{rows}

ECE: the expected calibration error in {bins} bins of as many images each. By chance: what is left
of it on so many images if every confidence holds exactly. Wide: in bins of one width. Order: how
often a right caption has more confidence than a wrong one (AUROC; 50 % is a coin). No monotone map
changes that: how sure the model is tells little of whether it is right, so honest confidences lie
close together.
"""


def _checks(run: Run) -> str:
    if not run["checks"]:
        return ""
    rows = "\n".join(
        _row(f"{check}: {name}, {what}", half, half[when])
        for check, found in run["checks"].items()
        for name, half in found["halves"].items()
        for when, what in WHEN.items()
    )
    return f"""The same maps on captions of the same images that were made otherwise: nothing was
fitted to these.

{_titles(run)}
{rows}
"""


def _titles(run: Run) -> str:
    titles = ["half", "right", "ECE", "by chance", "wide", "Brier", f"above {run['sure']}"]
    titles += ["wrong of these", "of wrong ones above", "order"]
    return f"| {' | '.join(titles)} |\n{'|---' * len(titles)}|"


def _row(name: str, half: Run, found: Run) -> str:
    cells = [
        name,
        _share(half["right"]),
        *(f"{found[key]:.3f}" for key in ("ece", "ece_by_chance", "ece_equal_width", "brier")),
        *(_share(found[key]) for key in ("above", "wrong_of_above", "above_of_wrong")),
        _share(found["discrimination"]),
    ]
    return f"| {' | '.join(cells)} |"


def _diagram(run: Run) -> str:
    halves = run["captions"]["halves"]
    heads = " | ".join(f"{name}: {what} | right" for name in halves for what in WHEN.values())
    bins = zip(*(half[when]["bins"] for half in halves.values() for when in WHEN), strict=True)
    cells = [
        " | ".join(f"{one['confidence']:.3f} | {one['right']:.3f}" for one in row) for row in bins
    ]
    rows = "\n".join(f"| {number} | {row} |" for number, row in enumerate(cells, 1))
    return f"""![reliability diagram]({CHART})

| bin | {heads} |
{"|---" * (1 + 4 * len(halves))}|
{rows}
"""


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}".replace("%", " %")
