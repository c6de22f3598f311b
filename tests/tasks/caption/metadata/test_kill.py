from pathlib import Path

import pytest
from benchmarks.write_kills import PHASES, make_home, trials

from tests.tasks.caption.metadata.photos import needs_exiftool


@needs_exiftool
@pytest.mark.slow
def test_eight_kills_lose_nothing(tmp_path: Path) -> None:
    """Thirty over 300 photos: benchmarks/write_kills.py. Each begins naic anew: seconds."""
    make_home(tmp_path, 60)
    struck = list(trials(tmp_path, 8, seed=1, count=60))
    assert {(kill.kind, kill.doing) for kill in struck} == {*PHASES}
    assert len(struck) == 8
