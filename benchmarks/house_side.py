"""One side of benchmarks/house.py: run by a process that has the old or the new sources.

python -P benchmarks/house_side.py SOURCES entered OUT.json naic-arguments...
python -P benchmarks/house_side.py SOURCES clock IMAGE
python -P benchmarks/house_side.py SOURCES naic naic-arguments...

It knows only what both sides have: the command line and `from naic import Captioner`.
"""

import json
import statistics
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

CAPTIONS = 20  # in one turn of the clock, after a first that wakes the threads


def entered(sources: Path, out: Path, words: list[str]) -> int:
    """Run a command, and list the files in which a function is entered (a class body is one).

    A module that is only imported, without a class in it, does not count: its reader may skip it.
    Programs that the command starts are not followed.
    """
    package = f"{sources}/naic/"
    found: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:  # noqa: ANN401
        code = frame.f_code
        if event == "call" and code.co_name != "<module>" and code.co_filename.startswith(package):
            found.add(code.co_filename.removeprefix(package))

    threading.setprofile(note)
    sys.setprofile(note)
    code = naic(words)
    sys.setprofile(None)
    out.write_text(json.dumps(sorted(found)), encoding="utf-8")
    return code


def clock(image: str) -> None:
    """Caption an image again and again whenever a line comes in, and say the milliseconds."""
    from naic import Captioner

    captioner = Captioner()
    for _ in sys.stdin:
        times = []
        for _ in range(CAPTIONS + 1):
            began = time.perf_counter()
            captioner(image)
            times.append(1000 * (time.perf_counter() - began))
        print(statistics.median(times[1:]), flush=True)


def naic(words: list[str]) -> int:
    """The command itself, in this process."""
    from naic.cli.main import main

    try:
        return main(words)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1


def run(sources: Path, what: str, words: list[str]) -> int:
    import naic as package

    where = Path(package.__file__).parent.parent
    if where != sources:
        raise SystemExit(f"this is naic of {where}, not of {sources}")
    match what:
        case "entered":
            return entered(sources, Path(words[0]), words[1:])
        case "clock":
            clock(words[0])
            return 0
        case _:
            return naic(words)


if __name__ == "__main__":
    raise SystemExit(run(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
