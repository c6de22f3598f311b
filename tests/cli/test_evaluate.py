"""What `naic evaluate` prints, and its exit codes."""

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from naic.cli.main import main
from naic.data.shapes import dataset
from naic.errors import MetricError, MissingExtraError
from naic.tasks.evaluate import run as task
from tests.tasks.evaluate.evaluations import broken


@pytest.fixture
def results(tmp_path: Path) -> str:
    rows = [{"image_id": r.id, "caption": r.captions[0]} for r in dataset.records(60, 0)]
    path = tmp_path / "results.json"
    path.write_text(json.dumps(rows), encoding="utf-8")
    return str(path)


def test_the_tables(results: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "o.json"
    words = ["evaluate", results, "--references", "60", "--fast", "--json", str(out)]
    assert main(words) == 0
    said = capsys.readouterr()
    lines = [line.split() for line in said.out.splitlines()]
    assert lines[0][:2] == ["60", "images;"]
    assert ["Bleu_4", "100.0", "100.0", "to", "100.0"] in lines
    assert ["habit", "captions", "references"] in lines
    assert ["empty", "captions", "0", "0"] in lines
    value = json.loads(out.read_text(encoding="utf-8"))
    low, high = value["intervals"]["CIDEr"]
    shown = [f"{100 * number:.1f}" for number in (value["CIDEr"], low, high)]
    assert ["CIDEr", shown[0], shown[1], "to", shown[2]] in lines
    assert said.out.splitlines()[-1] == f"signature: {value['signature_line']}"
    assert said.err == ""
    assert said.out.isascii()


def test_two_systems(results: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["evaluate", results, "--references", "60", "--fast", "--against", results]
    assert main([*words, "--bootstrap", "100"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["habit", "captions", "against", "references"] in lines
    (rouge,) = (line for line in lines if line[:1] == ["ROUGE_L"])
    assert rouge[-6:] == ["100.0", "+0.0", "+0.0", "to", "+0.0", "1.000"]


def test_a_page(results: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page, photos = tmp_path / "page.html", tmp_path / "photos"
    photos.mkdir()
    record = dataset.records(1)[0]
    record.image.load().save(photos / f"{record.id}.png")
    odd = tmp_path / "[red]x.json"
    odd.write_bytes(Path(results).read_bytes())
    words = ["evaluate", results, "--references", "60", "--fast", "--bootstrap", "0"]
    words += ["--also", str(odd), "--html", str(page), "--images", str(photos), "--embed"]
    assert main(words) == 0
    said = capsys.readouterr()
    assert said.err == "naic evaluate: 59 of 60 images have no picture in --images\n"
    lines = [line.split() for line in said.out.splitlines()]
    assert ["also", "[red]x"] in lines
    assert ["habit", "captions", "[red]x", "references"] in lines
    text = page.read_text(encoding="utf-8")
    assert '<th scope="col">[red]x</th>' in text
    (copies,) = re.findall(r'id="copies-0">([^<]*)<', text)
    assert [copy is not None for copy in json.loads(copies)] == [True] + [False] * 59


def test_a_page_is_whole_or_not_there(
    results: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    page = tmp_path / "page.html"
    page.write_text("the old one")
    words = ["evaluate", results, "--references", "60", "--fast", "--html", str(page)]
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert main(words) == 1
    assert capsys.readouterr().err.endswith("page.html: the disk is full. Free some space and run "
                                            "the same command again.\n")  # fmt: skip
    assert page.read_text() == "the old one"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html", "results.json"]
    assert main([*words, "--images", str(tmp_path)]) == 2
    assert "has none of the 60 images, such as shapes-0-000000." in capsys.readouterr().err


def test_few_images(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = [{"image_id": r.id, "caption": r.captions[0]} for r in dataset.records(49, 0)]
    path = tmp_path / "few.json"
    path.write_text(json.dumps(rows), encoding="utf-8")
    words = ["evaluate", str(path), "--references", "49", "--fast", "--against", str(path)]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "fewer than 50 images: no intervals\n" in said
    assert "95 %" not in said
    lines = [line.split() for line in said.splitlines()]
    assert ["metric", "score", "against", "difference"] in lines
    assert ["ROUGE_L", "100.0", "100.0", "+0.0"] in lines


def test_a_narrow_terminal_cuts_no_figure(
    results: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    words = ["evaluate", results, "--references", "60", "--fast", "--against", results]
    assert main([*words, "--bootstrap", "100"]) == 0
    said = capsys.readouterr().out
    (rouge,) = (line for line in said.splitlines() if line.strip().startswith("ROUGE_L"))
    assert rouge.split()[1:5] == ["100.0", "100.0", "to", "100.0"]
    assert rouge.split()[5:] == ["100.0", "+0.0", "+0.0", "to", "+0.0", "1.000"]


def test_figures_are_printed_even_if_a_file_cannot_be_written(
    results: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["evaluate", results, "--references", "60", "--fast", "--bootstrap", "0"]
    table = tmp_path / "o.csv"
    assert main([*words, "--json", str(tmp_path / ("x" * 255)), "--csv", str(table)]) == 1
    said = capsys.readouterr()
    assert ["ROUGE_L", "100.0"] in [line.split() for line in said.out.splitlines()]
    assert said.err.endswith(
        "xxx: cannot be written (File name too long). "
        "Check the name, and the folder's permissions.\n"
    )
    assert table.exists()


def test_files_are_written_even_if_nobody_reads_what_is_printed(
    results: str, tmp_path: Path
) -> None:
    code = "import sys; from naic.cli.main import main; sys.exit(main(sys.argv[1:]))"
    words = ["evaluate", results, "--references", "60", "--fast", "--json", str(tmp_path / "o")]
    reader, writer = os.pipe()
    os.close(reader)
    run = subprocess.run(
        [sys.executable, "-c", code, *words], stdout=writer, stderr=subprocess.PIPE, check=False
    )
    os.close(writer)
    assert (run.returncode, run.stderr) == (0, b"")
    assert json.loads((tmp_path / "o").read_text(encoding="utf-8"))["Bleu_4"] == pytest.approx(1)


def test_a_terminal_that_knows_ascii_only(results: str, tmp_path: Path) -> None:
    table = tmp_path / "caf\u00e9.csv"
    rows = json.loads(Path(results).read_text(encoding="utf-8"))
    lines = [f"{row['image_id']}.jpg,a dog,\u00e9\n" for row in rows]
    table.write_text("image,caption,split\n" + "".join(lines), encoding="utf-8")
    code = "import sys; from naic.cli.main import main; sys.exit(main(sys.argv[1:]))"
    words = ["evaluate", results, "--references", str(table), "--fast", "--split", "\u00e9"]
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "1"}
    command = [sys.executable, "-c", code, *words, "--df", str(table)]
    run = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert (run.returncode, run.stderr) == (0, b"")


def test_stopped(
    results: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "rouge_l", broken(KeyboardInterrupt()))
    assert main(["evaluate", results, "--references", "60", "--fast"]) == 130
    assert capsys.readouterr().err == "\nnaic evaluate: stopped.\n"


def test_paths_that_are_empty(results: str, capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--json", "--csv"):
        assert main(["evaluate", results, "--references", "60", option, ""]) == 2
        assert f"naic evaluate: {option}: the path is empty." in capsys.readouterr().err
    assert main(["evaluate", results, "--references", ""]) == 2
    assert "--references: the path is empty" in capsys.readouterr().err


def test_without_intervals(results: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", results, "--references", "60", "--fast", "--bootstrap", "0"]) == 0
    said = capsys.readouterr().out
    assert ["ROUGE_L", "100.0"] in [line.split() for line in said.splitlines()]
    assert "95 %" not in said


def test_what_is_not_installed_is_one_line(
    results: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    error = MissingExtraError("Java", "is missing", "Install Java.")
    monkeypatch.setattr("naic.metrics.meteor.meteor", broken(error))
    monkeypatch.setattr("naic.metrics.spice.spice", broken(error))
    assert main(["evaluate", results, "--references", "60"]) == 0
    said = "naic evaluate: left out METEOR and SPICE: Java: is missing. Install Java.\n"
    assert capsys.readouterr().err == said
    assert main(["evaluate", results, "--references", "60", "--metrics", "METEOR"]) == 1
    assert capsys.readouterr().err == "naic evaluate: Java: is missing. Install Java.\n"


def test_what_fails_is_reported_and_the_rest_kept(
    results: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "naic.metrics.meteor.meteor", broken(MetricError("METEOR", "died", "Look."))
    )
    assert main(["evaluate", results, "--references", "60", "--metrics", "METEOR", "Bleu"]) == 3
    said = capsys.readouterr()
    assert said.err == "naic evaluate: METEOR failed: METEOR: died. Look.\n"
    assert "Bleu_4" in said.out
    assert main(["evaluate", results, "--references", "60", "--metrics", "METEOR"]) == 1


def test_errors(results: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", results, "--references", "62", "--fast"]) == 1
    assert "2 of the 62 images to be scored have no caption" in capsys.readouterr().err
    assert main(["evaluate", results, "--references", "60", "--bootstrap", "3"]) == 2
    assert main(["evaluate", results, "--references", "60", "--split", "nosuch"]) == 2


def test_bad_rows_that_were_left_out_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "t.csv"
    table.write_text("image,caption\n1.jpg,a dog\n2.jpg,a cat\n2.jpg,...\n", encoding="utf-8")
    results = tmp_path / "r.json"
    rows = [{"image_id": n, "caption": "a dog"} for n in (1, 2)]
    results.write_text(json.dumps(rows), encoding="utf-8")
    words = ["evaluate", str(results), "--references", str(table), "--fast", "--skip-bad"]
    assert main(words) == 3
    assert "1 rows were left out, such as t.csv, row 4" in capsys.readouterr().err
