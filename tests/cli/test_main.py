import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

import pytest

import naic
import naic.cli.doctor
import naic.errors
from naic.cli.main import VERBS, main


def in_new_process(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_help_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for verb, (_, what) in VERBS.items():
        assert f"  {verb} " in text
        assert what in text


def test_no_verb_shows_the_help_and_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage: naic VERB" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"naic {naic.__version__}\n"


def test_an_unknown_verb_is_refused_with_the_nearest_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["prepaer"]) == 2
    assert capsys.readouterr().err == (
        "naic: unknown verb 'prepaer'. Did you mean `naic prepare`?\n"
    )
    assert main(["zzz"]) == 2
    assert "See `naic --help`" in capsys.readouterr().err


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_explains_itself_without_torch(verb: str) -> None:
    code = (
        "import sys; from naic.cli.main import main\n"
        f"try: main([{verb!r}, '--help'])\n"
        "except SystemExit as e: assert e.code == 0\n"
        "assert 'torch' not in sys.modules"
    )
    done = in_new_process(code)
    assert done.returncode == 0, done.stderr
    assert f"usage: naic {verb}" in done.stdout


def test_neither_import_nor_help_imports_torch() -> None:
    code = (
        "import sys, naic; from naic.cli.main import main; main(['--help'])\n"
        "heavy = {'torch', 'numpy', 'PIL', 'rich', 'tyro'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = in_new_process(code)
    assert done.returncode == 0, done.stderr


def test_help_takes_little_cpu_time() -> None:
    """The promise is half a second of CPU time; a loaded machine does not change that."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "naic", "--help"], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert used < 0.5


def test_errors_are_one_line_and_exit_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "no-such-folder"]) == 1
    assert capsys.readouterr().err == (
        "naic show: no-such-folder: there is no such folder. "
        "Name the folder of a training run (`naic train`) or a feature store (`naic prepare`).\n"
    )


def test_debugging_shows_where_it_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAIC_DEBUG", "1")
    with pytest.raises(naic.errors.StoreError):
        main(["show", "no-such-folder"])


@pytest.mark.parametrize("words", ["-m naic --help", "-u -m naic --help", "-m naic shapes --help"])
def test_a_closed_pipe_is_no_matter(words: str) -> None:
    """`sleep` makes sure that the reader is gone before anything is printed."""
    command = f"(sleep 0.3; {sys.executable} {words}; echo $? >&2) | true"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.stderr == "0\n"


def pipe(stack: ExitStack, *, broken: bool) -> TextIO:
    reader, writer = os.pipe()
    if broken:
        os.close(reader)
    else:
        stack.callback(os.close, reader)
    return stack.enter_context(os.fdopen(writer, "w"))


def test_work_that_a_broken_pipe_ended_is_not_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 0 is for one who reads no more results, not for news or for another pipe."""

    def broken(arguments: Sequence[str]) -> int:
        raise BrokenPipeError

    monkeypatch.setattr(naic.cli.doctor, "run", broken)
    for gone, code in (({"stdout"}, 0), ({"stderr"}, 1), ({"stdout", "stderr"}, 1), (set(), 1)):
        with ExitStack() as stack, monkeypatch.context() as patch:
            for stream in ("stdout", "stderr"):
                patch.setattr(sys, stream, pipe(stack, broken=stream in gone))
            assert main(["doctor"]) == code


@pytest.mark.parametrize("code", [0, 1, 2, 3])
def test_work_that_ended_keeps_its_code_whoever_reads(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """What was printed last breaks the pipe only when the work is over, well or not."""

    def ended(arguments: Sequence[str]) -> int:
        print("done")
        return code

    monkeypatch.setattr(naic.cli.doctor, "run", ended)
    with ExitStack() as stack, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", pipe(stack, broken=True))
        assert main(["doctor"]) == code


def test_the_public_surface_is_small() -> None:
    assert naic.__all__ == ["Captioner", "__version__"]


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_are_no_matter(closed: str, tmp_path: Path) -> None:
    """A daemon has none. What is written to a file meanwhile is written."""
    out = tmp_path / "scenes"
    command = f"{sys.executable} -m naic shapes {out} --count 2 {closed}"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(list((out / "images").iterdir())) == 2
