"""Files for COCO's server: which systems, under which names, in which form."""

import json
from pathlib import Path
from typing import Any

from naic.tasks.reproduce.gallery import write_server_files


def write_row(out: Path, system: str, stage: str) -> dict[str, Any]:
    (out / "captions").mkdir(exist_ok=True)
    path = out / "captions" / f"{stage}-{system}.json"
    path.write_text(json.dumps([{"image_id": 42, "caption": f"said by {system}"}]))
    return {"system": system, "stage": stage, "captions": [f"captions/{path.name}"]}


def test_the_teacher_and_the_student_that_is_best_on_validation(tmp_path: Path) -> None:
    named = {"AIC beam 1": "t", "AIC beam 3": "t", "+KD": "kd", "+CMAL": "cmal", "+unlabelled": "u"}
    rows = [write_row(tmp_path, system, stage) for system, stage in named.items()]
    best = {"t": 120.0, "kd": 99.0, "cmal": 104.0, "u": 103.0}
    teacher, student = write_server_files(tmp_path, rows, best)
    assert teacher.name == "captions_test2014_AIC-beam-3_results.json"
    assert student.name == "captions_test2014_CMAL_results.json"
    assert json.loads(student.read_bytes()) == [{"image_id": 42, "caption": "said by +CMAL"}]
    assert write_server_files(tmp_path, rows, {})[1].name.startswith("captions_test2014_unlabelled")
    assert len(write_server_files(tmp_path, rows[:2], best)) == 1
