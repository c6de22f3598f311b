"""serving.md: `naic serve` under load, beside `naic caption`, and what it withstands."""

import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from serving_faults_page import (  # type: ignore[import-not-found]
    tests_of_faults,
    wrong_requests,
)

Run = dict[str, Any]
FOLDER = Path(__file__).parent / "serving"
SHARE, MOST_GROWTH, END = 0.8, 1.05, 10.0  # of naic caption's rate; of its memory; seconds
LONG = {"seconds": 30.0, "memory": 600.0, "stops": 20, "mutations": 2000}


def serving_pages() -> dict[str, Callable[[], str]]:
    """The page, by its name."""
    return {"serving.md": lambda: serving(_run("load"), _run("faults"))}


def _run(name: str) -> Run:
    found: Run = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return found


def serving(load: Run, faults: Run) -> str:
    """serving.md."""
    plan, place = load["plan"], load["machine"]
    short = [name for name, least in LONG.items() if plan[name] < least]
    warning = (
        "**A short run, which proves only that the benchmark runs: its figures count for nothing.**"
        "\n\n"
    )
    return f"""# `naic serve` under load

Made by `make docs` from the files in `serving`, which are `{load["command"]}`
({place["processor"]}, {place["cores"]} cores, Python {place["python"]}): the shipped model and all
defaults, {plan["photos"]} photos of COCO whose captions by `naic caption` are known, clients on the
same machine in a process of their own. After a 429 they wait as long as `Retry-After` says. Why it
is built so: decision [042](../decisions/042-serve.md).

{warning if short else ""}{_asked(load, faults)}
{_levels(load)}
{_turns(load)}
{_memory(load)}
{_stops(faults)}
{wrong_requests(faults)}
{tests_of_faults()}"""


def _asked(load: Run, faults: Run) -> str:
    levels, memory, stops = load["levels"], load["memory"], faults["stops"]
    wrong = sum(row["wrong"] for row in (*levels, memory, *stops))
    answered = sum(row["statuses"].get("200", 0) for row in (*levels, memory, *stops))
    statuses = sorted({status for row in levels for status in row["statuses"]})
    broken = sum(row["broken"] for row in (*levels, memory, *stops))
    worst = max(levels, key=lambda row: row["p99, s"] / _bound(load, row))
    share = statistics.median(turn["naic serve"] / turn["naic caption"] for turn in load["turns"])
    growth = _growth(memory)
    ends = [row["seconds"] for row in stops]
    left = sum(_left(row) for row in stops)
    fives = _errors(faults)
    whole = all(
        faults[part][name]
        for part in ("mutations", "documented")
        for name in ("captions as before", "nothing is left to do", "well")
    )
    rows = [
        (
            f"every answer is the caption of its own photo ({answered:,} answers)",
            f"{wrong} are not",
            not wrong,
        ),
        ("only 200 and 429", ", ".join(statuses), {*statuses} <= {"200", "429"} and not broken),
        (
            "p99 of answers within queue / throughput + one batch, also at "
            f"{worst['clients']} clients",
            f"{worst['p99, s']:.2f} s of {_bound(load, worst):.2f} s",
            worst["p99, s"] <= _bound(load, worst),
        ),
        (
            f"64 clients: {SHARE} of `naic caption` on the same files",
            f"{share:.2f}",
            share >= SHARE,
        ),
        (
            f"memory is flat over {memory['seconds'] / 60:g} minutes of load",
            f"{100 * (growth - 1):+.1f} % from the second tenth to the last",
            growth <= MOST_GROWTH,
        ),
        (
            f"{len(stops)} times SIGTERM under load: all that was taken on is answered",
            f"{left} were not",
            not left and not any(row["broken"] for row in stops),
        ),
        (
            f"and it ends within {END:g} s, with exit code 0",
            f"{max(ends):.1f} s at most",
            max(ends) <= END and not any(row["code"] for row in stops),
        ),
        (
            f"{faults['mutations']['sent']:,} mutated uploads and {faults['documented']['sent']:,} "
            "requests from the OpenAPI document: no 5xx",
            f"{fives}",
            not fives,
        ),
        ("afterwards it captions, is well, and has nothing left to do", _yes(whole), whole),
        (
            "temporary files",
            f"{faults['temporary files']}",
            not faults["temporary files"],
        ),
        (
            "no batch above its limit",
            f"{sum(row['too large'] for row in levels):.0f} batches",
            not any(row["too large"] for row in levels),
        ),
    ]
    table = "\n".join(f"| {what} | {found} | {_verdict(held)} |" for what, found, held in rows)
    return f"""## What was asked for

| | found | |
|---|---|---|
{table}
"""


def _bound(load: Run, row: Run) -> float:
    """Seconds that the last of a full queue waits, and its own batch."""
    rate: float = (load["queue"] + load["batch"]) / max(row["captions a second"], 1e-9)
    return rate


def _growth(memory: Run) -> float:
    tenths = memory["MiB, the most of each tenth"]
    return float(tenths[-1] / tenths[1])


def _left(stop: Run) -> int:
    """Requests that were taken on and not captioned."""
    return sum(times for why, times in stop["why"].items() if "before this was answered" in why)


def _errors(faults: Run) -> int:
    statuses = [*faults["mutations"]["kinds"].values(), *faults["documented"]["routes"].values()]
    return sum(times for own in statuses for status, times in own.items() if int(status) >= 500)


def _levels(load: Run) -> str:
    rows = "\n".join(
        f"| {row['clients']} | {row['captions a second']:.1f} | {row['p50, s']:.2f} "
        f"| {row['p99, s']:.2f} | {_bound(load, row):.2f} | {row['images of a batch']:.1f} "
        f"| {row['statuses'].get('200', 0):,} | {row['statuses'].get('429', 0):,} "
        f"| {_waits(row)} |"
        for row in load["levels"]
    )
    return f"""## Clients

{load["plan"]["seconds"]:g} seconds each; the bound is that of a queue of {load["queue"]} and a
batch of {load["batch"]}. A client that has its answer asks again at once.

| clients | images/s | p50, s | p99, s | bound, s | in a batch | 200 | 429 | told to wait, s |
|---|---|---|---|---|---|---|---|---|
{rows}
"""


def _waits(row: Run) -> str:
    least, _, most = row["told to wait, s"]
    return f"{least:g} to {most:g}" if most else "–"


def _turns(load: Run) -> str:
    rows = "\n".join(
        f"| {number} | {turn['naic caption']:.1f} | {turn['naic serve']:.1f} "
        f"| {turn['naic serve'] / turn['naic caption']:.2f} |"
        for number, turn in enumerate(load["turns"], 1)
    )
    return f"""## Beside `naic caption`

The same {load["plan"]["photos"]} files, in turns: the command from its second batch on, without its
start; and 64 clients of the server for {load["plan"]["seconds"]:g} seconds.

| turn | `naic caption`, images/s | `naic serve`, images/s | |
|---|---|---|---|
{rows}
"""


def _memory(load: Run) -> str:
    found = load["memory"]
    minutes = " | ".join(f"{(n + 1) * found['seconds'] / 600:g}" for n in range(10))
    values = " | ".join(f"{mib:.0f}" for mib in found["MiB, the most of each tenth"])
    return f"""## Memory

64 clients without a pause, {found["statuses"].get("200", 0):,} captions, {found["wrong"]} of them
another's; the most resident memory in each tenth of the time:

| minutes | {minutes} |
|---|{"---|" * 10}
| MiB | {values} |
"""


def _stops(faults: Run) -> str:
    rows = "\n".join(
        f"| {row['clients']} | {row['statuses'].get('200', 0)} | {row['statuses'].get('429', 0)} "
        f"| {row['statuses'].get('503', 0) - _left(row)} | {_left(row)} | {row['broken']} "
        f"| {row['seconds']:.1f} | {row['code']} |"
        for row in faults["stops"]
    )
    return f"""## Stopped under load

SIGTERM one and a half to five seconds after the clients began. Those who come then are told 503;
left is what was taken on and not captioned; cut off an answer that ended in the middle, or never
came.

| clients | captions | 429 | came then: 503 | left | cut off | s to its end | exit code |
|---|---|---|---|---|---|---|---|
{rows}
"""


def _verdict(held: bool) -> str:
    return "yes" if held else "**no**"


def _yes(held: bool) -> str:
    return "yes" if held else "no"
