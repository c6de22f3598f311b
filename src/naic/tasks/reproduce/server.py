"""Files for COCO's evaluation server: server/captions_test2014_SYSTEM_results.json.

The server knows an answer only for images whose captions it keeps to itself. Those of Karpathy's
splits are images of val2014, so that its figures, against 40 references, are not for them; the
files are what a submission looks like, and what other programs read.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from naic.files import remove_temporaries, write_atomically
from naic.tasks.reproduce.tables import TableRow

NAME = "captions_test2014_%s_results.json"


def write_server_files(out: Path, rows: Sequence[TableRow], best: dict[str, float]) -> list[Path]:
    """Write those of the teacher at its widest beam and of the best student; gives their paths.

    Args:
        out: the folder of the reproduction.
        rows: of the ladder.
        best: by stage, its best CIDEr on the images that models are chosen by: choosing by the
            figures of the table would be choosing by what is reported.
    """
    teachers = [row for row in rows if row["system"].startswith("AIC")]
    students = [row for row in rows if not row["system"].startswith("AIC")]
    chosen = teachers[-1:]
    if students:  # of equals the last: the ladder's highest rung
        chosen.append(max(reversed(students), key=lambda row: best.get(row["stage"], 0.0)))
    return [_write(out, row) for row in chosen]


def _write(out: Path, row: TableRow) -> Path:
    system = str(row["system"]).lstrip("+").replace(" ", "-")
    path = out / "server" / (NAME % system)
    path.parent.mkdir(exist_ok=True)
    remove_temporaries(path.parent, path.name)
    said = json.loads((out / row["captions"][0]).read_bytes())
    rows = [{"image_id": int(one["image_id"]), "caption": one["caption"]} for one in said]
    write_atomically(path, f"{json.dumps(rows)}\n".encode())
    return path
