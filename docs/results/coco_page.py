"""What the ladder's page says on MSCOCO alone: of what its figures are, targets, intervals.

Beside the run's files, docs/results/coco may hold two more: before.json, the calls that came before
the ladder, as a list of {"command", "seconds", "machine"}; shipped.json, what
`naic evaluate --json` says of the captions of the model that ships.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from naic.tasks.evaluate.options import NAMES
from naic.tasks.reproduce.tables import HEADS

Row = dict[str, Any]
Claim = tuple[str, str, str]  # what is expected, the figures, whether it holds
PACKAGE = "30b3ae10334ba8c37b1c16e9b32fabd76d7eed2f62ea713bb9a91609f9f6a81e"  # Lite2 as installed
STANDARD = 5000  # images of Karpathy's test split
# CIDEr of one and the same captions by the number of images over which df is counted. Measured
# outside this repository, where all 5,000 images were at hand.
CIDER_BY_IMAGES = {2407: 108.6, 4392: 107.5, 5000: 107.3}
# CIDEr; the paper's gap to its teacher with unlabelled images (without them it is 0.048)
TEACHER, STUDENT, GAP = 1.10, 1.07, 0.033
SHIPPED, REPEATS, ENDINGS = 0.005, 0.02, 0.01
SERVER = """## For COCO's server

`naic reproduce` writes `server/captions_test2014_SYSTEM_results.json` for the teacher and for the
best student, in the form that COCO's evaluation server takes. The server cannot score them: the
images of Karpathy's test split are of val2014, whose captions are public, and the server keeps 40
references of images of test2014 to itself. So its 40-reference figures cannot be had offline, and
none are given here.
"""


def about(run: dict[str, Any], log: Sequence[dict[str, Any]] = ()) -> str:
    """Of which images, seen by what: without it the figures would be taken for the paper's.

    `log`: the lines of test-evaluations.jsonl.
    """
    data, reported, people = run["data"], run["reported"], run["people"]
    side = round(data["regions"] ** 0.5)
    tuned = (
        "tuned on COCO's captions before" if data["weights"] != PACKAGE else "as ImageNet left it"
    )
    return f"""## Of what these figures are

- **Features**: an {side}×{side} grid of {data["backbone"]} at {data["pixels"]} pixels, {tuned};
  not the bottom-up regions that the paper has.
- **Images**: {reported["images"]:,} of the {STANDARD:,} of Karpathy's {reported["split"]} split,
  which is here less the images of val2017 and some others.{_also(run)}
{cider_by_images(reported["images"])}{_frequencies(run)}
- **Programs**: METEOR 1.5 and SPICE are the reference programs, the others exact ones of our own.
- **Human references**: of the {people["captions"]:,} captions that people wrote of these images
  {100 * people["bad_endings"]:.2f} % have a bad ending, {100 * people["repeats"]:.2f} % a word
  twice in a row.
- **Machine**: {run["latency"]["device"]}; {run["machine"]}.
- **Choices** were made by the figures of `val`. {test_evaluations(log)}
"""


def _also(run: dict[str, Any]) -> str:
    """Of the splits that were reported too."""
    return "".join(
        f" Of `{own['split']}`: {own['images']:,}." for own in run.get("also_reported", [])
    )


def _frequencies(run: dict[str, Any]) -> str:
    """Where df is counted; older runs do not say whether their images were mirrored."""
    if "mirrored" not in run["data"]:
        return ""
    twins = "mirrored or not" if run["data"]["mirrored"] else "none of them mirrored"
    return f"""
- **Document frequencies** of the reward are those of the training images, each image counted once,
  {twins}; vocabularies are counted in the same way. In the scores of this
  page they are those of the split that is scored, where no image is mirrored."""


def cider_by_images(images: int) -> str:
    """That CIDEr on fewer images is higher, and by how much."""
    scores = CIDER_BY_IMAGES
    if images not in scores:
        return "- **CIDEr** is higher on fewer images: do not compare it with the standard split's."
    counts = ", ".join(f"{count:,}" for count in scores)
    found = ", ".join(f"{score:.1f}" for score in scores.values())
    more = scores[images] - scores[STANDARD]
    return f"""- **CIDEr** depends on how many images its document frequencies (df) are counted
  over. The same captions, with df of {counts} images, score {found}
  (measured outside this repository). So CIDEr is here about {more:.1f} above what {STANDARD:,}
  images would give: take that off before you compare it with the paper's. Rows of this page can be
  compared with each other."""


def test_evaluations(log: Sequence[dict[str, Any]]) -> str:
    """How often `test` was scored, and how much of it before the last settings were chosen."""
    link = "[test-evaluations.jsonl](test-evaluations.jsonl)"
    if not log:
        return f"{link} has a line for each time that captions of `test` were scored."
    last = {line["captions"]: line["sha256"] for line in log}  # the file that stands in the tables
    files = {line["sha256"] for line in log}
    earlier = len(files - {*last.values()})
    told = f"""But `test` was scored more than once:
  {link} has a line for each of the {len(log)} times, of {len(files)}
  different files of captions."""
    if earlier:
        told += f""" {earlier} of these were of an earlier ladder; they were scored
  before the settings of this one were chosen. So `test` is not untouched."""
    return told


def best_student(rows: Sequence[Row], curves: Mapping[str, Any]) -> Row:
    """The student with the best validation CIDEr: not the one that the table flatters."""

    def best(row: Row) -> float:
        return max(float(cider) for _, cider in curves[row["stage"]][0])

    students = [row for row in rows if not row["system"].startswith("AIC")]
    return max(reversed(students), key=best)  # of equals the last, as in naic's own choice


def targets(
    rows: Sequence[Row], best: Row, people: dict[str, Any], shipped: dict[str, Any] | None
) -> list[Claim]:
    """What we had set ourselves beforehand."""
    teacher = {row["system"]: row for row in rows}["AIC beam 3"]["CIDEr"]
    name = best["system"]
    gap, limit = teacher - best["CIDEr"], people["bad_endings"] + ENDINGS
    claims = [
        _claim(f"AIC beam 3: {100 * TEACHER:.0f} or more", teacher, teacher >= TEACHER),
        _claim(
            f"{name}, the best on val: {100 * STUDENT:.0f} or more",
            best["CIDEr"],
            best["CIDEr"] >= STUDENT,
        ),
        _claim(
            f"at most {100 * GAP:.1f} behind the teacher, as the paper's with unlabelled images",
            gap,
            gap <= GAP,
        ),
        _claim(
            f"less than {REPEATS:.0%} repeat a word", best["repeats"], best["repeats"] < REPEATS
        ),
        _claim(
            f"bad endings: at most {100 * limit:.1f} %, that of human captions and one point",
            best["bad_endings"],
            best["bad_endings"] <= limit,
        ),
    ]
    if shipped is not None:
        lost = best["CIDEr"] - shipped["CIDEr"]
        what = f"packed: at most {100 * SHIPPED:.1f} behind {name}"
        claims.append(_claim(what, lost, lost <= SHIPPED))
        own = shipped["habits"]["captions"]
        what = f"packed: less than {REPEATS:.0%} repeat a word"
        claims.append(_claim(what, own["repeats"], own["repeats"] < REPEATS))
    return claims


def _claim(what: str, value: float, holds: bool) -> Claim:
    return what, f"{100 * value:.1f}", "yes" if holds else "**no**"


def intervals(rows: Sequence[Row], shipped: dict[str, Any] | None) -> str:
    """Every score with its interval; the table before has CIDEr's only, to be readable."""
    heads = " | ".join(HEADS[name] for name in NAMES)
    lines = [f"| {row['system']} | {_ends(row)} |" for row in rows]
    if shipped is not None:
        lines.append(f"| packed | {_ends(shipped)} |")
    text = "\n".join(lines)
    return f"""### Intervals

95 % intervals over the images, by bootstrap; score, then low to high.

| | {heads} |
|---{"|---" * len(NAMES)}|
{text}
"""


def _ends(row: Row) -> str:
    cells = []
    for name in NAMES:
        ends = row["intervals"].get(name)
        score = "n/a" if row[name] is None else f"{100 * row[name]:.1f}"
        cells.append(f"{score}, {100 * ends[0]:.1f} to {100 * ends[1]:.1f}" if ends else score)
    return " | ".join(cells)


def ship(shipped: dict[str, Any], best: Row) -> str:
    """The packed model beside the one it was made of."""
    heads = " | ".join(HEADS[name] for name in NAMES)
    ours, theirs = (
        " | ".join("n/a" if row[name] is None else f"{100 * row[name]:.1f}" for name in NAMES)
        for row in (shipped, best)
    )
    own = shipped["habits"]["captions"]
    return f"""## Packed

`naic pack` makes it of {best["system"]}: fewer bits for each weight, its backbone inside. It reads
pixels where the rows above read features. And it speaks as `naic caption` does: where two
neighbours name the same word, the likeliest sentence without a repeat is taken
([decision 017](../decisions/017-no-word-twice.md)). The tables allow repeats, as the paper does.
The row was measured before `naic caption` began to cut loose endings ("... with a"): the share of
bad endings is not today's, and the scores may differ a little.

| | {heads} | repeats % | bad endings % |
|---{"|---" * (len(NAMES) + 2)}|
| {best["system"]} | {theirs} | {100 * best["repeats"]:.1f} | {100 * best["bad_endings"]:.1f} |
| packed | {ours} | {100 * own["repeats"]:.1f} | {100 * own["bad_endings"]:.1f} |
"""


def before(calls: Sequence[dict[str, Any]]) -> str:
    """What was done before the ladder: data, a first teacher, the backbone."""
    rows = "\n".join(
        f"| `{call['command']}` | {call['seconds'] / 60:.1f} min | {call['machine']} |"
        for call in calls
    )
    return f"""## Before the ladder

[docs/coco.md](../coco.md) tells what each is for.

| call | wall clock | on |
|---|---|---|
{rows}
"""
