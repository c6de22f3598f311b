"""What is to be said of runs, in words: the same for a terminal and for a page."""

from collections.abc import Sequence
from typing import Any

from naic.files import printable
from naic.tasks.evaluate.tables import Figures
from naic.tasks.show.commands import board, goes_on, next_steps, use
from naic.tasks.show.find import Found, Whole, whole_around
from naic.tasks.show.journal import Row
from naic.tasks.show.view import RunView, latest
from naic.train.logs import FIRST, METRICS, TIMES, duration, number, plain

Pairs = list[tuple[str, str]]

MISSING = "–"
SHARES = ("repeats", "bad_endings", "facts", "sampled_repeats", "sampled_bad_endings", "shown")
_NAMES = {"cider": "CIDEr", "facts": "wholly true", "images_per_second": "images a second"}
_ELSEWHERE = ("step", "epoch", *TIMES)  # said in lines of their own


def named(key: str) -> str:
    """What a value is called."""
    return _NAMES.get(key, key.replace("_", " "))


def valued(key: str, value: object) -> str:
    """A value in words; shares in per cent."""
    if not isinstance(value, int | float):
        return MISSING
    if key == "cider":
        return f"{value:.4f}"  # as `naic train` says it
    return f"{value:.1%}" if key in SHARES else number(value)


def run_facts(run: RunView) -> Pairs:
    """Where a run stands, and what to do next."""
    facts = [
        ("run", str(run.folder)),
        ("stage", f"{run.stage}, {run.captioner} captioner"),
        ("state", _state(run)),
        ("step", _step(run)),
        ("time", _time(run)),
        ("training", _last(run.journal.training)),
        ("validation", _last(run.journal.validations)),
        ("best", _best(run)),
        *(("captions", text) for text in _reported(run)),
        *(("note", text) for text in _notes(run)),
        *next_steps(run, whole_around(run.folder)),
    ]
    return [(name, printable(text)) for name, text in facts if text]


def whole_facts(whole: Whole) -> Pairs:
    """Where a task of many runs stands."""
    facts = [(whole.kind, str(whole.folder)), ("state", whole.state)]
    for name in ("before", "after"):
        score = whole.report.get(name)
        if isinstance(score, dict):
            cider, loose = (100 * float(score.get(key, 0)) for key in ("cider", "bad_endings"))
            what = f"CIDEr {cider:.1f}, bad endings {loose:.1f}% on the images kept aside"
            facts.append((name, what))
    if "verdict" in whole.report:
        facts.append(("verdict", str(whole.report["verdict"])))
    facts += [("tables", str(path)) for path in sorted(whole.folder.glob("table*.md"))]
    if whole.state == "cut off":
        facts.append(("go on", goes_on(whole)))
    if whole.report:
        facts.append(("use it", use(whole.folder)))
    return [(name, printable(text)) for name, text in facts]


def together(found: Found) -> Pairs:
    """What is to be said of several runs at once."""
    logged = [run.folder for run in found.runs if run.board]
    return [("TensorBoard", printable(board(logged)))] if logged else []


def overview(runs: Sequence[RunView]) -> Figures:
    """A line for each run; what none of them has is left out."""
    header = ["run", "stage", "state", "step", "of all", "best CIDEr", "at step"]
    header += ["loss", "reward", "left"]
    rows = [_line(run) for run in runs]
    kept = [place for place in range(len(header)) if any(row[place] != MISSING for row in rows)]
    return Figures([header[i] for i in kept], [[row[i] for i in kept] for row in rows])


def differing(runs: Sequence[RunView]) -> Figures:
    """The settings in which the runs differ, but for their folders."""
    names = dict.fromkeys(name for run in runs for name in run.settings if name != "out")
    rows = [[name, *(_setting(run.settings.get(name)) for run in runs)] for name in names]
    return Figures(
        ["setting", *(printable(run.name) for run in runs)],
        [row for row in rows if len(set(row[1:])) > 1],
    )


def validations(run: RunView, most: int) -> Figures:
    """What each validation found; of more than `most` some in between are left out."""
    rows = run.journal.validations
    step = -(-len(rows) // most) if rows else 1
    shown = [row for row in rows[::step] if row["step"] not in (run.best_step, rows[-1]["step"])]
    shown += [row for row in rows if row["step"] in (run.best_step, rows[-1]["step"])]
    shown.sort(key=lambda row: row["step"])
    keys = list(dict.fromkeys(key for row in rows for key in row if key not in _ELSEWHERE))
    return Figures(
        ["step", "epoch", *map(named, keys)],
        [
            [
                f"{row['step']:,.0f}" + (" (best)" if row["step"] == run.best_step else ""),
                valued("epoch", row.get("epoch")),
                *(valued(key, row.get(key)) for key in keys),
            ]
            for row in shown
        ],
    )


def as_json(found: Found) -> dict[str, Any]:
    """The same for programs."""
    tasks = [
        {"task": own.kind, "folder": str(own.folder), "state": own.state, "command": own.command}
        for own in found.wholes
    ]
    return {"runs": [_run_json(run) for run in found.runs], "tasks": tasks}


def _run_json(run: RunView) -> dict[str, Any]:
    said = ("name", "stage", "captioner", "state", "why", "step", "steps", "epoch", "epochs")
    times = ("seconds", "left", "age", "checkpoint")
    rows = {"training": run.journal.training, "validation": run.journal.validations}
    return {
        "folder": str(run.folder),
        **{name: getattr(run, name) for name in (*said, *times)},
        **{name: _plain(found[-1]) if found else None for name, found in rows.items()},
        "best": {
            "step": run.best_step,
            "validation": _plain(run.best_validation) or None,
            "model": None if run.best is None else str(run.best),
        },
        "next": dict(next_steps(run, whole_around(run.folder))),
    }


def _plain(row: Row) -> dict[str, float | str]:
    whole = {"step": int(row["step"])} if row else {}
    return {name: plain(value) for name, value in (row | whole).items()}


def _state(run: RunView) -> str:
    said: str = run.state
    if run.state == "cut off":
        said += " (by a kill, Ctrl-C or an error)"
    elif run.state == "stopped":
        said += " by its guard"
    if run.age is None:
        said += ", nothing was logged"
    elif run.state != "finished":
        said += f", {duration(run.age)} since {METRICS} was written"
    return f"{said}: {run.why}" if run.why else said


def _step(run: RunView) -> str:
    if run.step is None:
        return ""
    said = f"{run.step:,}"
    if run.steps:
        said += f" of {run.steps:,} ({run.step / run.steps:.0%})"
    if run.epoch is not None:
        said += f", epoch {run.epoch:.2f}"
        said += f" of {run.epochs:g}" if run.epochs is not None else ""
    if run.state == "cut off":
        begin = "the beginning" if run.checkpoint is None else f"step {run.checkpoint:,}"
        said += f"; would go on from {begin}"
    return said


def _time(run: RunView) -> str:
    said = [] if run.seconds is None else [f"{duration(run.seconds)} so far"]
    if run.report:
        said = [text.removesuffix(" so far") for text in said]
    if run.left and run.state != "stopped":
        said.append(f"about {duration(run.left)} left")
    speed = latest(run.journal.training, "images_per_second")
    if speed is not None:
        said.append(f"{number(speed['images_per_second'])} images a second")
    return ", ".join(said)


def _last(rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    return f"{_values(rows[-1])} (step {rows[-1]['step']:,.0f})"


def _values(row: Row) -> str:
    shown = [key for key in (*FIRST, *row) if key in row and key not in _ELSEWHERE]
    shown = list(dict.fromkeys(shown))
    return ", ".join(f"{named(key)} {valued(key, row[key])}" for key in shown)


def _best(run: RunView) -> str:
    if run.best_step is None:
        return ""
    said = f"step {run.best_step:,}"
    if "cider" in run.best_validation:
        said = f"CIDEr {valued('cider', run.best_validation['cider'])} at {said}"
    if run.best_step == 0:
        said += ", which is the model that the run began with"
    return said if run.best is None else f"{said}: {run.best}"


def _reported(run: RunView) -> list[str]:
    """The scores at the end of a run, by the best weights."""
    rows = run.report.get("scores")
    kept = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return [
        f"beam {row.get('beam', '?')}: {_values({k: v for k, v in row.items() if k != 'beam'})}"
        for row in kept
    ]


def _notes(run: RunView) -> list[str]:
    notes = list(run.problems)
    if run.journal.again:
        notes.append(
            f"{METRICS} goes back: {run.journal.again:,} lines of steps that were made again "
            "are left out"
        )
    return notes


def _setting(value: object) -> str:
    match value:
        case None:
            return MISSING
        case list():
            return printable(", ".join(map(str, value))) or "none"
        case "":
            return "none"
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}"
    return printable(str(value))


def _line(run: RunView) -> list[str]:
    training = run.journal.training
    last = {name: (latest(training, name) or {}).get(name) for name in ("loss", "reward")}
    left = run.left is not None and run.left > 0 and run.state != "stopped"
    return [
        printable(run.name),
        printable(run.stage),
        run.state,
        MISSING if run.step is None else f"{run.step:,}",
        f"{run.step / run.steps:.0%}" if run.step is not None and run.steps else MISSING,
        valued("cider", run.best_validation.get("cider")),
        MISSING if run.best_step is None else f"{run.best_step:,}",
        valued("loss", last["loss"]),
        valued("reward", last["reward"]),
        duration(run.left) if left and run.left is not None else MISSING,
    ]
