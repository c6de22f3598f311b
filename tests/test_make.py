"""How the tests are run, and what `make` installs: on machines that are not like this one."""

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.conftest import LONG

ROOT = Path(__file__).parent.parent
OPTIONS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]
SIGNALS = """
import signal
handlers = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGHUP)]
assert handlers == [signal.default_int_handler, signal.SIG_DFL], handlers
"""
HANGS = "import time\n\ndef test_that_hangs():\n    time.sleep(60)\n"


def test_programs_that_tests_start_can_be_interrupted() -> None:
    subprocess.run([sys.executable, "-c", SIGNALS], check=True)


def test_even_when_the_tests_run_in_the_background() -> None:
    """A shell's background job ignores SIGINT, under `nohup` SIGHUP; and so do its children."""
    test = f"{Path(__file__).name}::{test_programs_that_tests_start_can_be_interrupted.__name__}"
    command = f"trap '' INT HUP; exec {sys.executable} -m pytest tests/{test} -n 1"
    ran = subprocess.run(
        ["/bin/sh", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("words", [[], ["-n", "1"]], ids=["alone", "in a worker"])
def test_a_test_that_hangs_is_named(words: list[str], tmp_path: Path) -> None:
    assert 0 < OPTIONS["ini_options"]["timeout"] <= 600
    (tmp_path / "test_it.py").write_text(HANGS)
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "--timeout", "1"]
    ran = subprocess.run(
        [*command, *words, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert ran.returncode != 0
    assert "test_that_hangs" in ran.stdout + ran.stderr


def test_the_files_that_tests_begin_with_are_there() -> None:
    assert len({*LONG}) == len(LONG)
    for name in LONG:
        path = ROOT / "tests" / name
        assert path.is_dir() if name.endswith("/") else path.is_file(), name
    assert "--no-loadscope-reorder" in told_by_make("test")  # or their number would decide


def wheel(folder: Path, name: str, version: str, needs: str = "") -> None:
    """An empty package with a name, a version and what it requires."""
    about = f"{name.replace('-', '_')}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{about.removesuffix('.dist-info')}-py3-none-any.whl", "w") as z:
        required = f"Requires-Dist: {needs}\n" if needs else ""
        z.writestr(
            f"{about}/METADATA",
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{required}",
        )
        z.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        z.writestr(f"{about}/RECORD", "")


def told_by_make(*words: str) -> str:
    """What `make` would do, on a machine whose pip is not set up in any way."""
    if shutil.which("make") is None:
        pytest.skip("there is no make here")
    command = ["make", "--no-print-directory", "--dry-run", "--always-make", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("builds", [("2.13.0",), ("2.13.0", "2.13.0+cpu")], ids=["CUDA", "both"])
def test_make_takes_the_torch_that_there_is(builds: tuple[str, ...], tmp_path: Path) -> None:
    """The small build where the package index has one, or else the one with CUDA."""
    for version in builds:
        wheel(tmp_path, "torch", version, "" if "+cpu" in version else "cuda-toolkit")
    wheel(tmp_path, "cuda-toolkit", "13.0.2")
    words = re.search(r"pip .*install --quiet (.*torch==\S+)$", told_by_make(".venv/ready"), re.M)
    assert words is not None
    pip = [sys.executable, "-m", "pip", "--isolated", "install", "--dry-run", "--ignore-installed"]
    pip += ["--no-index", "--find-links", str(tmp_path), *words[1].split()]
    ran = subprocess.run(pip, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    expected = (
        ["torch-2.13.0+cpu"] if "2.13.0+cpu" in builds else ["cuda-toolkit-13.0.2", "torch-2.13.0"]
    )
    assert ran.stdout.splitlines()[-1].split()[2:] == expected


def test_the_small_torch_can_be_asked_for() -> None:
    told = told_by_make("wheel", "TORCH_INDEX=ADDRESS").replace("\\\n", " ")
    asked = [line for line in told.splitlines() if "torch==" in line]
    assert len(asked) == 1  # into .venv; the empty environment of the wheel has no torch
    assert all("--extra-index-url ADDRESS " in line for line in asked)


@pytest.mark.parametrize(
    "name", ["Makefile", "Dockerfile", "docs/install.md", "src/naic/tasks/doctor.py"]
)
def test_no_server_is_named(name: str) -> None:
    """Addresses change, and not every machine may ask them."""
    text = (ROOT / name).read_text(encoding="utf-8")
    assert re.findall(r"\b[\w-]+\.(?:org|com|io|net)\b|://", text) == []
