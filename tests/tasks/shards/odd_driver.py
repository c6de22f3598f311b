"""In the place of the process that speaks with Ray: it makes nothing, and may end as that may."""

import json
import os
import signal
import sys
import time
from dataclasses import asdict

from naic.errors import WriteError
from naic.tasks.shards.folder import Statistics
from naic.tasks.shards.inputs import Shard
from naic.tasks.shards.making import Outcome
from naic.tasks.shards.process import as_line, error_line, open_answers, outcome_line, read_asked


def main() -> None:
    answer, given = open_answers(), sys.stdin.buffer
    asked, _ = read_asked(given.readline())
    shards = [Shard(**json.loads(line)) for line in iter(given.readline, b"\n")]
    if shards[0].name == "silent":
        time.sleep(60)
    answer(as_line({"cluster": f"a cluster for {asked.out}"}))
    for shard in shards:
        if shard.name == "lost":
            print("a long story\nFailed to connect to GCS.", flush=True)
            os._exit(1)
        if shard.name == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if shard.name == "full":
            answer(error_line(WriteError("out", "the disk is full", "Free some space.")))
            return
        if shard.name == "deadly":
            answer(as_line({"given up": asdict(shard)}))
            continue
        if shard.name == "again":
            answer(as_line({"replaced": asdict(shard)}))
        problem = {"where": "--forbid", "why": "the model never says cat", "hint": "", "kind": ""}
        answer(as_line({"told": problem}))
        answer(outcome_line(Outcome(shard, Statistics(shard.source, 3, 1, 0.5))))
    given.read()  # until nobody wants more
    print("ended", file=sys.stderr)


if __name__ == "__main__":
    main()
