"""Several stages at the same time give what they give one after the other."""

import shutil
from pathlib import Path

import pytest

from naic.errors import CheckpointError, ConfigError
from naic.tasks.reproduce.run import reproduce
from tests.plugging import plugged
from tests.tasks.reproduce.micro import Heard, make_options
from tests.tasks.reproduce.test_going_on import figures, read


@pytest.fixture
def one_thread_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other numbers of threads add up in another order."""
    monkeypatch.setattr("naic.tasks.reproduce.parallel_stages.os.cpu_count", lambda: 2)


# A plug-in that leaves the number of each process that imports it.
NOTING = """
import os
from pathlib import Path
from tests.toy import CAPTIONERS

Path(__file__).with_name(f"{os.getpid()}.seen").touch()
"""


@pytest.mark.usefixtures("one_thread_each")
def test_the_figures_are_the_same(
    short: Path, preset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard, out = Heard(), tmp_path / "out"
    options = make_options(preset, out, quick=True, jobs=2)
    (tmp_path / "noting.py").write_text(NOTING)
    monkeypatch.syspath_prepend(tmp_path)
    with plugged("noting"):
        reproduce(options, heard.callbacks, "naic reproduce --jobs 2")
    assert figures(out) == figures(short)
    alone, together = (read(folder / "run.json")["stages"] for folder in (short, out))
    assert together.keys() == alone.keys()
    for name, stage in together.items():
        assert stage["made_from"] == alone[name]["made_from"]
        assert stage["seconds"] >= 0
    # Base needs the features alone, so it does not wait for the teacher to caption them.
    assert heard.lines.index("naic-base: done") > heard.lines.index("features: done")
    assert sum(line.endswith(": done") for line in heard.lines) == len(together)
    # Each stage has a process of its own (the pool may begin one more), which knows the plug-ins.
    assert len([*tmp_path.glob("*.seen")]) >= 1 + len(together)


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread_each")
def test_a_stage_that_fails_is_raised_and_the_others_are_kept(preset: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    reproduce(make_options(preset, out, quick=True), Heard().callbacks)
    for name in ("naic-base", "naic-cmal"):
        shutil.rmtree(out / name)
    (out / "table1.json").unlink()
    weights = out / "naic-kd" / "best" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4])  # what naic-cmal begins with is damaged
    with pytest.raises(CheckpointError, match=r"model\.safetensors"):
        reproduce(make_options(preset, out, quick=True, jobs=2), Heard().callbacks)
    assert (out / "naic-base" / "report.json").is_file()


def test_how_many(preset: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--jobs"):
        reproduce(make_options(preset, tmp_path / "out", jobs=0), Heard().callbacks)
