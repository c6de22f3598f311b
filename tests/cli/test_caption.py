import contextlib
import fcntl
import json
import math
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from naic.cli.main import main
from naic.runtime import captioner, ready
from tests.images.images import encode, photo
from tests.runtime.small import LENGTH, NETWORK, WORDS, make_model

SURE = math.exp(2) / (math.exp(2) + len(WORDS) - 4)  # what `says` gives to its word
CATS = " ".join(["cat"] * LENGTH)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(
        tmp_path_factory.mktemp("model") / "cat", "causal", backbone=NETWORK, says="cat"
    )


@pytest.fixture
def home(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with an image; the model inside naic says cat, and nothing else."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ready, "SHIPPED", model)
    Path("a.png").write_bytes(encode(photo(), "PNG"))
    return tmp_path


def test_a_line_for_each_image(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("more").mkdir()
    for name in ("c.jpg", "b.jpg"):
        Path("more", name).write_bytes(encode(photo(), "JPEG"))
    assert main(["caption", "a.png", "more"]) == 0
    said = capsys.readouterr()
    assert said.out == f"a.png: {CATS}\nmore/b.jpg: {CATS}\nmore/c.jpg: {CATS}\n"
    assert said.err == ""


def test_another_model(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_model(home / "dogs", "causal", backbone=NETWORK, says="dogs")
    assert main(["caption", "--model", "dogs", "a.png", "--device", "cpu"]) == 0
    assert capsys.readouterr().out == f"a.png: {' '.join(['dogs'] * LENGTH)}\n"


def test_each_word_with_its_confidence(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["caption", "--confidence", "a.png"]) == 0
    words = " ".join([f"cat ({100 * SURE:.0f}%)"] * LENGTH)
    assert capsys.readouterr().out == f"a.png: {words}, {SURE**LENGTH:.1%} in all\n"


def test_objects(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["caption", "--format", "jsonl", "a.png", "a.png"]) == 0
    assert json.loads(capsys.readouterr().out) == {"path": "a.png", "caption": CATS}
    assert main(["caption", "--format", "json", "--confidence", "a.png"]) == 0
    word = {"word": "cat", "confidence": round(SURE, 4)}
    sure = float(f"{SURE**LENGTH:.4g}")
    assert json.loads(capsys.readouterr().out) == [
        {"path": "a.png", "caption": CATS, "confidence": sure, "words": [word] * LENGTH}
    ]


@pytest.mark.parametrize("kind", ["parallel", "causal"])
def test_alternatives_and_short_captions(
    home: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    make_model(home / "model", kind, backbone=NETWORK)
    words = ["caption", "a.png", "--model", "model", "--format", "jsonl"]
    assert main([*words, "--alternatives", "3", "--max-words", "2"]) == 0
    said = json.loads(capsys.readouterr().out)
    sentences = [other["caption"] for other in said["alternatives"]]
    assert sentences[0] == said["caption"]
    assert len(set(sentences)) == 3
    assert all(1 <= len(sentence.split()) <= 2 for sentence in sentences)
    assert all(0 < other["confidence"] <= 1 for other in said["alternatives"])


def test_words_under_control(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_model(home / "model", backbone=NETWORK)
    words = ["caption", "a.png", "--model", "model"]
    assert main(words) == 0
    first = capsys.readouterr().out.split()[1]
    assert main([*words, "--forbid", f"{first}, giraffe", "--max-chars", "20"]) == 0
    said = capsys.readouterr()
    assert first not in said.out.split()
    assert 0 < len(said.out.removeprefix("a.png: ").rstrip("\n")) <= 20
    assert said.err == (
        "naic caption: --forbid: the model never says giraffe. "
        "Forms of a word are words of their own: dog, dogs.\n"
    )


def test_captions_that_are_left_out_change_no_exit_code(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--min-confidence", "0.9"]
    assert main(["caption", "a.png", *words]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        f"naic caption: a.png: left out: its caption is only {SURE**LENGTH:.1%} sure. "
        "Lower --min-confidence to have it.\n"
    )
    assert main(["caption", "a.png", "none.jpg", *words, "--out", "all.txt"]) == 3
    assert capsys.readouterr().out == (
        "captions: 0 in all.txt; 1 left out, below --min-confidence; 1 could not be used\n"
    )


def test_bad_images_are_named_and_the_others_captioned(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("torn.png").write_bytes(Path("a.png").read_bytes()[:200])
    assert main(["caption", "torn.png", "a.png", "none.jpg"]) == 3
    said = capsys.readouterr()
    assert said.out == f"a.png: {CATS}\n"
    assert said.err == (
        "naic caption: torn.png: the PNG file is cut short. Copy or download it again.\n"
        "naic caption: none.jpg: there is no such file. Check the path.\n"
    )
    assert main(["caption", "none.jpg"]) == 1  # nothing was done
    assert capsys.readouterr().out == ""


def test_no_image_at_all_is_bad_usage(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["caption"]) == 2
    assert capsys.readouterr().err == (
        "naic caption: PATH: no image was named. "
        "Name images, or folders of them: naic caption photo.jpg\n"
    )
    Path("empty").mkdir()
    assert main(["caption", "empty"]) == 2
    assert "naic caption: empty: there is no image in it." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ([""], "PATH"),
        (["a.png", ""], "PATH"),
        (["a.png", "--out", ""], "--out"),
        (["a.png", "--format", "txt", "--out="], "--out"),
        (["a.png", "--model", ""], "--model"),
    ],
)
def test_an_empty_word_is_not_the_current_folder(
    home: Path, capsys: pytest.CaptureFixture[str], words: list[str], option: str
) -> None:
    assert main(["caption", *words]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        f"naic caption: {option}: it is empty. "
        "If it came from a variable of the shell, that is not set.\n"
    )
    assert list(Path().iterdir()) == [Path("a.png")]


def test_a_batch_that_no_machine_has_room_for(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["caption", "a.png", "--batch", "9" * 20]) == 2
    assert f"--batch: {'9' * 20} is above 4096" in capsys.readouterr().err


def test_without_a_model_inside_naic_asks_for_one(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ready, "SHIPPED", home / "nowhere")
    for words in ([], ["--out", "out"], ["--format", "txt"]):
        assert main(["caption", "a.png", *words]) == 1
        assert "this copy of naic has no model inside. Name a model" in capsys.readouterr().err
    assert list(Path().iterdir()) == [Path("a.png")]


@pytest.mark.skipif(sys.platform == "darwin", reason="its file names are UTF-8")
def test_odd_names_are_printed_and_kept(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = os.fsdecode(b"caf\xe9\n.png")
    Path("a.png").rename(name)
    assert main(["caption", name]) == 0
    assert capsys.readouterr().out == f"caf\\udce9\\n.png: {CATS}\n"
    assert main(["caption", "--format", "jsonl", name]) == 0
    assert json.loads(capsys.readouterr().out)["path"] == name
    assert main(["caption", "--format", "csv", name]) == 0
    assert capsys.readouterr().out == f'path,caption\n"caf\\udce9\n.png",{CATS}\n'


def test_a_file_and_what_is_said_of_it(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["caption", "a.png", "none.jpg", "--format", "jsonl", "--out", "out.jsonl"]
    assert main(words) == 3
    said = capsys.readouterr()
    assert said.out == "captions: 1 in out.jsonl; 1 could not be used\n"
    assert said.err.splitlines() == [
        "captions: 0/2",
        "naic caption: none.jpg: there is no such file. Check the path.",
        "captions: 2/2, 1 bad",
    ]
    assert Path("out.jsonl").read_text() == f'{{"path": "a.png", "caption": "{CATS}"}}\n'
    assert main(words) == 2
    assert "out.jsonl: there is such a file already. Add --existing" in capsys.readouterr().err
    assert main([*words[:2], *words[3:], "--existing", "skip"]) == 0
    assert capsys.readouterr().out == "captions: 0 new in out.jsonl; 1 were there already\n"


def test_texts_beside_the_images(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["caption", ".", "--format", "txt", "--prefix", "look: "]) == 0
    assert capsys.readouterr().out == "captions: 1 beside their images\n"
    assert Path("a.txt").read_text() == f"look: {CATS}\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--out out", " The same command goes on."),
        ("--format txt", " The same command goes on."),
        ("--format txt --existing append", " All files are whole; the same command begins again."),
        ("", ""),
    ],
)
def test_ctrl_c(
    home: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: str,
    told: str,
) -> None:
    def stop(*arguments: object, **settings: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(captioner.Captioner, "texts", stop)
    assert main(["caption", "a.png", *words.split()]) == 130
    assert capsys.readouterr().err.endswith(f"\nnaic caption: stopped.{told}\n")


def test_a_real_ctrl_c_leaves_no_traceback(home: Path, model: Path) -> None:
    Path("many").mkdir()
    for number in range(3_000):
        Path("many", f"{number:04d}.png").hardlink_to("a.png")
    command = [sys.executable, "-m", "naic", "caption", "many", "--model", str(model)]
    command += ["--out", "out", "--format", "jsonl", "--batch", "4"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        part = Path("out.part")
        while process.poll() is None and not (part.exists() and part.stat().st_size > 5_000):
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert process.returncode == 130
    assert err.endswith("\nnaic caption: stopped. The same command goes on.\n")
    assert "Traceback" not in err
    assert part.exists()
    assert not Path("out").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
def test_an_output_that_has_no_room(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Path("/dev/full").open("w") as full, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", full)
        assert main(["caption", "a.png"]) == 1
    assert capsys.readouterr().err == (
        "naic caption: standard output: it cannot be written to (No space left on device). "
        "Free some space, or use --out, which can go on afterwards.\n"
    )


def test_a_reader_that_went_away(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", pipe)
        assert main(["caption", "a.png"]) == 0
    assert capsys.readouterr().err == ""


def test_a_reader_of_one_line(home: Path, model: Path) -> None:
    """As `naic caption many | head -1`: through a pipe that is closed in the middle."""
    Path("many").mkdir()
    for number in range(500):
        Path("many", f"{number:03d}.png").hardlink_to("a.png")
    command = [sys.executable, "-m", "naic", "caption", "many", "--model", str(model)]
    pipe = subprocess.PIPE
    with subprocess.Popen([*command, "--batch", "4"], stdout=pipe, stderr=pipe) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline() == f"many/000.png: {CATS}\n".encode()
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (0, b"")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_files_that_were_made_keep_their_exit_code_whoever_reads(
    home: Path, model: Path, unbuffered: str
) -> None:
    """The last line finds nobody; that an image was bad is still so."""
    Path("bad.png").write_bytes(b"no image")
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "naic", "caption", "a.png", "bad.png", "--out", "o.csv"]
    done = subprocess.run(
        [*command, "--model", str(model)],
        stdout=writer,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        check=False,
    )
    os.close(writer)
    assert done.returncode == 3
    assert Path("o.csv").read_text("utf-8-sig") == f"path,caption\na.png,{CATS}\n"


def test_a_list_on_standard_input(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("list").write_bytes(b"a.png\0none.jpg\0")
    with Path("list").open() as listed:
        monkeypatch.setattr(sys, "stdin", listed)
        assert main(["caption", "-", "--null"]) == 3
    assert capsys.readouterr().out == f"a.png: {CATS}\n"
    monkeypatch.setattr(sys, "stdin", None)  # closed by who started us
    assert main(["caption", "-"]) == 2
    if sys.stdin:  # which main put in its place
        sys.stdin.close()
    assert "there is no name on standard input" in capsys.readouterr().err


def test_a_terminal_without_the_letters_of_a_name(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("a.png").rename("café.png")
    with Path("out").open("w", encoding="ascii") as out, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        assert main(["caption", "café.png"]) == 0
    assert Path("out").read_bytes() == f"caf\\xe9.png: {CATS}\n".encode()


@contextlib.contextmanager
def on_a_terminal(monkeypatch: pytest.MonkeyPatch, *streams: str) -> Iterator[bytearray]:
    """What a terminal shows that takes the place of these streams."""
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = pty.openpty()
    shown = bytearray()

    def watch() -> None:
        with contextlib.suppress(OSError):  # as Linux tells that the other end is closed
            while piece := os.read(ours, 4096):
                shown.extend(piece)

    watcher = threading.Thread(target=watch)
    watcher.start()
    with os.fdopen(theirs, "w") as terminal, monkeypatch.context() as patch:
        for stream in streams:
            patch.setattr(sys, stream, terminal)
        yield shown
    watcher.join()
    os.close(ours)


def test_a_bar_on_a_terminal_leaves_the_captions_alone(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Standard error is a terminal, standard output is a file."""
    with (
        on_a_terminal(monkeypatch, "stderr") as shown,
        Path("out").open("w") as out,
        monkeypatch.context() as patch,
    ):
        patch.setattr(sys, "stdout", out)
        assert main(["caption", "a.png", "none.jpg"]) == 3
    assert Path("out").read_text() == f"a.png: {CATS}\n"
    assert b"captions" in shown
    assert b"2/2" in shown
    assert b"none.jpg: there is no such file" in shown
    assert b"cat cat" not in shown


@pytest.mark.parametrize("words", ["--out out.csv", "--format txt"])
def test_a_bar_on_a_terminal_while_captions_go_to_files(
    home: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    with on_a_terminal(monkeypatch, "stdout", "stderr") as shown:
        assert main(["caption", "a.png", *words.split()]) == 0
    assert "━".encode() in shown
    assert b"1/1" in shown
    assert b"captions: 1 " in shown


def test_no_bar_between_captions_on_a_terminal(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with on_a_terminal(monkeypatch, "stdout", "stderr") as shown:
        assert main(["caption", "a.png"]) == 0
    assert bytes(shown) == f"a.png: {CATS}\r\n".encode()


def test_an_address_is_not_fetched(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["caption", "https://a.example/x.jpg?w=1"]) == 2
    assert capsys.readouterr().err == (
        "naic caption: https://a.example/x.jpg?w=1: naic fetches nothing. "
        "Download it, and name the file.\n"
    )


@pytest.mark.parametrize("words", ["", "--out captions.csv", "--format txt"])
def test_an_image_is_no_model(home: Path, capsys: pytest.CaptureFixture[str], words: str) -> None:
    assert main(["caption", "a.png", "--model", "a.png", *words.split()]) == 1
    assert "naic caption: a.png: is no model" in capsys.readouterr().err
    assert list(Path().iterdir()) == [Path("a.png")]


def test_the_format_is_that_of_the_file(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["caption", "a.png", "--out", "captions.csv"]) == 0
    assert Path("captions.csv").read_text("utf-8-sig") == f"path,caption\na.png,{CATS}\n"
    assert main(["caption", "a.png", "--out", "captions.csv", "--format", "json"]) == 2
    assert "its name says csv, and --format json was asked for" in capsys.readouterr().err


def test_the_help_names_no_none_among_the_choices(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["caption", "--help"])
    said = capsys.readouterr().out
    assert "--format {text,json,jsonl,csv,txt,coco}" in said
    assert "--existing {skip,overwrite,append}" in said


def test_raw_files_beside_their_images_are_counted(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("a.CR2").write_bytes(b"raw")
    assert main(["caption", ".", "--out", "captions.csv"]) == 0
    assert capsys.readouterr().out == (
        "captions: 1 in captions.csv; 1 not opened, in favour of an image of the same name "
        "in a format that naic can open\n"
    )


def test_another_run_is_told_of(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Path("out.part").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert main(["caption", "a.png", "--out", "out"]) == 1
    said = capsys.readouterr().err
    assert said == (
        "naic caption: out: another run is writing to it. "
        "Wait for it to end, or choose another --out.\n"
    )
