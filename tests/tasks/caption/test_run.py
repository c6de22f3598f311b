import csv
import errno
import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import tyro

import naic.tasks.caption.output
from naic.errors import CheckpointError, ConfigError, DataError, Problem, StoreError
from naic.progress import Progress
from naic.tasks.caption.options import CaptionOptions
from naic.tasks.caption.rows import columns_of
from tests.tasks.caption.small import NO_MODEL, Fake, run, says, touch

GUIDE = (Path(__file__).parents[3] / "docs" / "caption.md").read_text(encoding="utf-8")
NAMES = ("1.jpg", "2.jpg", "3bad.jpg", "4.jpg", "5.jpg")
GOOD = tuple(name for name in NAMES if "bad" not in name)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    touch(Path("p"), *NAMES)
    return tmp_path


def objects(*names: str) -> list[dict[str, str]]:
    return [{"path": f"p/{name}", "caption": says(name).text} for name in names]


def here() -> list[str]:
    return sorted(path.name for path in Path().iterdir())


def read_lines(path: str = "out") -> list[Any]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_captions_are_printed_and_problems_told_in_order(home: Path) -> None:
    touch(Path("notes"), "a.txt")
    done, heard = run("p", "notes", batch=2)
    assert heard.out == "".join(f"p/{name}: {says(name).text}\n" for name in GOOD)
    assert [problem.where for problem in heard.problems] == ["notes", "p/3bad.jpg"]
    assert heard.problems[1] == Problem("p/3bad.jpg", "it is torn", "Mend it.")
    assert (done.captions, done.kept, done.resumed, done.bad) == (4, 0, 0, 2)
    assert heard.reports[0] == Progress(0, 5, 1)
    assert heard.reports[-1] == Progress(5, 5, 2)


@pytest.mark.parametrize("kind", ["text", "json", "jsonl", "csv", "txt", "coco"])
def test_where_the_text_is_enough_nothing_else_is_asked_for(home: Path, kind: str) -> None:
    touch(Path("q"), "7.jpg")
    fake = Fake()
    run("q", fake=fake, format=kind, max_words=3)
    assert fake.texts_alone == 1
    details: list[dict[str, Any]] = [{"min_confidence": 0.01}]
    if kind in ("text", "json", "csv"):
        details += [{"confidence": True}, {"alternatives": 2}]
    for asked in details:
        run("q", fake=fake, format=kind, existing="overwrite" if kind == "txt" else None, **asked)
    assert fake.texts_alone == 1


def test_the_captioner_gets_what_was_asked_for(home: Path) -> None:
    fake = Fake()
    _, heard = run("p/1.jpg", fake=fake, format="jsonl", batch=7, alternatives=3, max_words=2)
    (said,) = map(json.loads, heard.out.splitlines())
    assert fake.batches == [7]
    assert len(said["alternatives"]) == 3
    assert said["alternatives"][0]["caption"] == said["caption"] == says("1.jpg", 0, 2).text


def test_what_cannot_be_is_refused_before_the_model_is_loaded(home: Path) -> None:
    touch(Path("notes"), "a.txt")

    def load(options: CaptionOptions) -> Fake:
        raise AssertionError

    fake = Fake()
    fake.load = load  # type: ignore[method-assign]
    cases: list[tuple[tuple[str, ...], dict[str, Any], str]] = [
        ((), {}, "no image was named"),
        (("notes",), {}, "there is no image in it"),
        (("p",), {"batch": 0}, "0 is below 1"),
        (("p",), {"batch": 4097}, "4097 is above 4096"),
        (("p",), {"alternatives": -1}, "-1 is not from 0 to 100"),
        (("p",), {"max_words": 0}, "0 is below 1"),
        (("p",), {"max_chars": 0}, "0 characters leave no room for a caption"),
        (("p",), {"max_chars": 6, "prefix": "alt: ", "suffix": "."}, "beside the 6 of --prefix"),
        (("p",), {"min_confidence": 1.1}, "1.1 is not from 0 to 1"),
        (("p",), {"min_confidence": float("nan")}, "nan is not from 0 to 1"),
        (("p",), {"forbid": "hot-dog, dog's"}, "\"dog's\" is 2 words, dog and 's"),
        (("p",), {"prefer": "!"}, "'!' is no word"),
        (("p",), {"prefer": "dog", "forbid": "cat Dog"}, "dog cannot be forbidden and preferred"),
        (("p",), {"neutral": True, "forbid": "cat, Person"}, "person is what --neutral says"),
        (("p",), {"prefer": "dog", "rescore": NO_MODEL}, "with --rescore the teacher chooses"),
        (("p",), {"null": True}, "it is about a list on standard input, and none is read"),
        (("p",), {"existing": "skip"}, "it is about files, and the captions are printed"),
        (("p",), {"existing": "skip", "out": Path("o")}, "lines of text do not tell for sure"),
        (("p",), {"out": Path("-")}, "- is no file"),
        (("p",), {"out": Path("p")}, "it is a folder"),
        (("p",), {"out": Path("/dev/null")}, "is no regular file"),
        (("p",), {"out": Path("p/2.jpg")}, "it is one of the images"),
        (("p",), {"out": Path("nowhere/deep/o")}, "nowhere/deep: there is no such folder"),
        (("p",), {"out": Path("p/1.jpg/o")}, "p/1.jpg: there is no such folder"),
        (("p",), {"format": "txt", "out": Path("p/1.jpg")}, "it is no folder"),
        (("https://a.example/x.jpg",), {}, "naic fetches nothing"),
        (("p",), {"format": "txt", "confidence": True}, "--format txt has no place for it"),
        (("p",), {"format": "coco", "confidence": True}, "--format coco has no place for it"),
        (("p",), {"format": "coco", "alternatives": 2}, "has one caption for an image"),
        (("p",), {"format": "coco"}, "its name is not such a number"),
        (("p",), {"prefix": "\udce9"}, "it is not UTF-8 text"),
        (("p",), {"rescore_choices": 5}, "none is named. Name one: --rescore TEACHER"),
        (("p",), {"rescore_weight": 0.5}, "--rescore-weight: it is about sentences"),
        (("p",), {"rescore": NO_MODEL, "rescore_choices": 101}, "101 is not from 1 to 100"),
        (("p",), {"rescore": NO_MODEL, "rescore_weight": -1.0}, "-1.0 is no number from 0 on"),
        (("p",), {"rescore": NO_MODEL, "alternatives": 11}, "11 are more than the 10"),
    ]
    for paths, settings, why in cases:
        with pytest.raises(ConfigError, match=why):
            run(*paths, fake=fake, **settings)
    assert not Path("o").exists()


@pytest.mark.parametrize("kind", ["text", "json", "jsonl", "csv"])
def test_a_file_has_what_would_have_been_printed(home: Path, kind: str) -> None:
    settings: dict[str, Any] = {
        "format": kind,
        "confidence": True,
        "alternatives": 2,
        "prefix": "é ",
    }
    _, heard = run("p", **settings)
    done, silent = run("p", out=Path("out"), **settings)
    assert (
        Path("out").read_text(encoding="utf-8") == ("\ufeff" if kind == "csv" else "") + heard.out
    )
    assert silent.out == ""
    assert (done.captions, done.bad) == (4, 1)
    assert here() == ["out", "p"]


def test_coco(home: Path) -> None:
    touch(Path("c"), "000000000042.jpg", "COCO_val2014_000000000007.jpg")
    run("c", format="coco", out=Path("out"), prefix="")
    assert json.loads(Path("out").read_text()) == [
        {"image_id": 42, "caption": says("000000000042.jpg").text},
        {"image_id": 7, "caption": says("COCO_val2014_000000000007.jpg").text},
    ]


@pytest.mark.parametrize("kind", ["text", "json", "jsonl", "csv"])
@pytest.mark.parametrize("batch", [1, 2, 16])
def test_a_run_cut_off_anywhere_ends_with_the_same_bytes(home: Path, kind: str, batch: int) -> None:
    settings: dict[str, Any] = {"format": kind, "batch": batch}
    run("p", out=Path("whole"), **settings)
    for at in range(6):
        fake, out = Fake(breaks_at=at), Path(f"out{at}")
        if at < 5:
            with pytest.raises(KeyboardInterrupt):
                run("p", out=out, fake=fake, **settings)
            assert not out.exists()
        on = Fake()
        done, heard = run("p", out=out, fake=on, **settings)
        assert out.read_bytes() == Path("whole").read_bytes()
        assert [problem.where for problem in heard.problems] == ["p/3bad.jpg"]
        taken = at - at % batch if at < 5 else 0
        assert len(on.seen) == 5 - taken
        assert (done.captions, done.bad) == (4, 1)
        assert done.resumed == sum("bad" not in name for name in NAMES[:taken])


def test_another_command_does_not_go_on(home: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run("p", out=Path("out"), format="jsonl", fake=Fake(breaks_at=2), batch=1)
    changes: list[tuple[dict[str, Any], str]] = [
        ({"format": "csv"}, r"begun with format = 'jsonl' \(now 'csv'\)"),
        ({"prefix": "x", "suffix": "y"}, r"prefix = '' \(now 'x'\), suffix = '' \(now 'y'\)"),
        (
            {"max_words": 3, "confidence": True},
            r"confidence = False \(now True\), no max_words \(now 3\)",
        ),
        ({"runtime": "onnx"}, r"runtime = 'auto' \(now 'onnx'\)"),
        ({"existing": "overwrite"}, r"no existing \(now 'overwrite'\)"),
    ]
    for change, which in changes:
        with pytest.raises(ConfigError, match=which):
            run("p", out=Path("out"), **{"format": "jsonl", **change})
    with pytest.raises(ConfigError, match=r"a caption of p/1\.jpg, which this command does not"):
        run("p/2.jpg", out=Path("out"), format="jsonl")
    fake = Fake()
    run("p", out=Path("out"), format="jsonl", fake=fake, device="cpu", batch=2)  # these may change
    assert len(fake.seen) == 3


def test_the_same_names_elsewhere_are_other_images(home: Path) -> None:
    out = home / "out"
    with pytest.raises(KeyboardInterrupt):
        run("1.jpg", "2.jpg", out=out, fake=Fake(breaks_at=1), batch=1)
    os.chdir("p")
    with pytest.raises(ConfigError, match="begun with another current folder"):
        run("1.jpg", "2.jpg", out=out)
    os.chdir(home)
    assert run("1.jpg", "2.jpg", out=out, batch=1)[0].resumed == 1
    with pytest.raises(KeyboardInterrupt):
        run(home / "p", out=home / "full", fake=Fake(breaks_at=1), batch=1)
    os.chdir("p")
    assert run(home / "p", out=home / "full", batch=1)[0].resumed == 1


@pytest.mark.parametrize("kind", ["text", "json", "jsonl", "csv"])
@pytest.mark.parametrize("at", [0, 1, 2, 3, 4])
def test_a_folder_that_changed_while_the_run_was_cut_off(home: Path, kind: str, at: int) -> None:
    settings: dict[str, Any] = {"out": Path("out"), "format": kind, "batch": 2}
    with pytest.raises(KeyboardInterrupt):
        run("p", fake=Fake(breaks_at=at), **settings)
    touch(Path("p"), "0.jpg", "2a.jpg", "6.jpg")
    Path("p/1.jpg").unlink()
    Path("p/5.jpg").unlink()
    fake = Fake()
    done, heard = run("p", fake=fake, **settings)
    taken = at - at % 2
    kept = {f"p/{name}" for name in NAMES[:taken] if name != "1.jpg"}
    names = ["0.jpg", "2.jpg", "2a.jpg", "3bad.jpg", "4.jpg", "6.jpg"]
    assert fake.seen == [f"p/{name}" for name in names if f"p/{name}" not in kept]
    assert [problem.where for problem in heard.problems] == ["p/3bad.jpg"]
    assert (done.captions, done.bad) == (5, 1)
    run("p", **settings | {"out": Path("whole")})
    assert Path("out").read_bytes() == Path("whole").read_bytes()
    assert here() == ["out", "p", "whole"]


def test_another_model_does_not_go_on(home: Path) -> None:
    NO_MODEL.mkdir()
    (NO_MODEL / "model.safetensors").write_bytes(b"weights")
    with pytest.raises(KeyboardInterrupt):
        run("p", out=Path("out"), fake=Fake(breaks_at=1))
    (NO_MODEL / "README.md").write_text("no weights")
    (NO_MODEL / "model.safetensors").write_bytes(b"other weights")
    with pytest.raises(ConfigError, match="begun with another model"):
        run("p", out=Path("out"))


def test_another_rescoring_does_not_go_on(home: Path) -> None:
    """Neither another teacher, nor with one or without one where the first command was not so."""
    teacher = Path("teacher")
    teacher.mkdir()
    (teacher / "model.safetensors").write_bytes(b"weights")
    how: dict[str, Any] = {"out": Path("out"), "batch": 1, "rescore": teacher}
    with pytest.raises(KeyboardInterrupt):
        run("p", fake=Fake(breaks_at=1), **how)
    changes: list[tuple[dict[str, Any], str]] = [
        ({"rescore": None}, "begun with another rescore, rescore_choices = 10"),
        ({"rescore_choices": 5}, r"begun with rescore_choices = 10 \(now 5\)"),
        ({"rescore_weight": 0.5}, r"begun with rescore_weight = 0\.0 \(now 0\.5\)"),
    ]
    for change, which in changes:
        with pytest.raises(ConfigError, match=which):
            run("p", **how | change)
    (teacher / "model.safetensors").write_bytes(b"other weights")
    with pytest.raises(ConfigError, match="begun with another rescore"):
        run("p", **how)
    (teacher / "model.safetensors").write_bytes(b"weights")
    assert run("p", **how)[0].resumed == 1
    with pytest.raises(KeyboardInterrupt):
        run("p", out=Path("plain"), batch=1, fake=Fake(breaks_at=1))
    with pytest.raises(ConfigError, match="begun with another rescore, no rescore_choices"):
        run("p", **how | {"out": Path("plain")})
    # A run that was begun by a naic that could not rescore goes on.
    part = Path("plain.part")
    begun = part.read_text().replace(
        ', "rescore": null, "rescore_choices": null, "rescore_weight": null', ""
    )
    assert "rescore" not in begun
    part.write_text(begun)
    assert run("p", out=Path("plain"), batch=1)[0].resumed == 1


@pytest.mark.parametrize("name", ["config.toml", "vocab.json", "config.json"])
def test_a_model_with_other_settings_does_not_go_on(home: Path, name: str) -> None:
    NO_MODEL.mkdir()
    (NO_MODEL / "model.safetensors").write_bytes(b"weights")
    (NO_MODEL / name).write_text("some")
    with pytest.raises(KeyboardInterrupt):
        run("p", out=Path("out"), batch=1, fake=Fake(breaks_at=1))
    (NO_MODEL / name).write_text("others")
    with pytest.raises(ConfigError, match="begun with another model"):
        run("p", out=Path("out"), batch=1)
    (NO_MODEL / name).write_text("some")
    done, _ = run("p", out=Path("out"), batch=1)
    assert done.resumed == 1


def test_only_files_of_a_model_are_read(home: Path) -> None:
    (NO_MODEL / "x.onnx").mkdir(parents=True)
    os.mkfifo(NO_MODEL / "model.onnx")
    os.mkfifo(NO_MODEL / "config.toml")
    done, _ = run("p", out=Path("out"))
    assert done.captions == 4


def test_a_model_that_cannot_be_read(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    NO_MODEL.mkdir()
    (NO_MODEL / "model.safetensors").touch()
    monkeypatch.setattr(naic.tasks.caption.output, "digest_of", refuse)  # root may read anything
    with pytest.raises(CheckpointError, match=r"it cannot be read \(Permission denied\)"):
        run("p", out=Path("out"))


@pytest.mark.parametrize(
    ("out", "kind"),
    [
        ("o.json", "json"),
        ("o.JSONL", "jsonl"),
        ("o.csv", "csv"),
        ("o.txt", "text"),
        ("o", "text"),
        ("o.md", "text"),
        (".csv", "text"),
    ],
)
def test_the_format_is_that_of_the_name(home: Path, out: str, kind: str) -> None:
    run("p", out=Path(out))
    run("p", out=Path("expected"), format=kind)
    assert Path(out).read_bytes() == Path("expected").read_bytes()
    Path(out).unlink()
    with pytest.raises(KeyboardInterrupt):  # said or not: it is the same run
        run("p", out=Path(out), fake=Fake(breaks_at=2), batch=1)
    assert run("p", out=Path(out), format=kind, batch=1)[0].resumed == 2


@pytest.mark.parametrize(
    ("out", "kind", "why"),
    [
        ("o.json", "csv", "its name says json, and --format csv was asked for"),
        ("o.json", "jsonl", "its name says json, and --format jsonl was asked for"),
        ("o.Csv", "text", "its name says csv, and --format text was asked for"),
        ("o.jsonl", "coco", "its name says jsonl, and --format coco was asked for"),
        ("o.txt", "txt", r"--format txt makes a folder of texts, and \.txt is the end of a file"),
        ("o.csv", "txt", r"--format txt makes a folder of texts, and \.csv is the end of a file"),
    ],
)
def test_a_name_that_contradicts_the_format_is_refused(
    home: Path, out: str, kind: str, why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        run("p", out=Path(out), format=kind)
    assert here() == ["p"]


@pytest.mark.parametrize(
    ("out", "kind"), [("o.json", "coco"), ("o.txt", "csv"), ("o.x", "json"), ("o.d", "txt")]
)
def test_a_name_that_says_nothing_else_is_fine(home: Path, out: str, kind: str) -> None:
    touch(Path("c"), "1.jpg")
    run("c", out=Path(out), format=kind)
    assert Path(out).exists()


def test_raw_files_beside_their_images_are_no_problem(home: Path) -> None:
    touch(Path("raw"), "1.CR2", "1.jpg", "2.heic", "2.jpg")
    for settings in ({}, {"out": Path("out")}, {"format": "txt"}):
        done, heard = run("raw", **settings)
        assert heard.problems == []
        assert (done.captions, done.bad, done.skipped) == (2, 0, 2)


def test_a_file_that_is_there_is_refused_by_default(home: Path) -> None:
    Path("out").write_text("precious")
    with pytest.raises(ConfigError) as caught:
        run("p", out=Path("out"))
    assert str(caught.value) == (
        "out: there is such a file already. "
        "Add --existing skip, overwrite or append, or choose another --out."
    )
    assert here() == ["out", "p"]
    assert Path("out").read_text() == "precious"


def test_overwrite_keeps_the_old_file_until_the_new_one_is_whole(home: Path) -> None:
    Path("out").write_text("old")
    settings: dict[str, Any] = {"out": Path("out"), "format": "jsonl", "existing": "overwrite"}
    with pytest.raises(KeyboardInterrupt):
        run("p", fake=Fake(breaks_at=3), **settings)
    assert Path("out").read_text() == "old"
    run("p", **settings)
    assert read_lines() == objects(*GOOD)


@pytest.mark.parametrize("kind", ["json", "jsonl", "csv", "coco"])
def test_skip_captions_only_the_new_ones(home: Path, kind: str) -> None:
    touch(Path("c"), "1.jpg", "3.jpg")
    settings: dict[str, Any] = {"out": Path("out"), "format": kind, "existing": "skip"}
    run("c", **settings)
    before = Path("out").read_text()
    touch(Path("c"), "2.jpg", "4.jpg", "5.jpg")
    with pytest.raises(KeyboardInterrupt):
        run("c", fake=Fake(breaks_at=2), batch=1, **settings)
    assert Path("out").read_text() == before
    fake = Fake()
    done, _ = run("c", fake=fake, batch=1, **settings)
    assert fake.seen == ["c/5.jpg"]
    assert (done.captions, done.resumed, done.kept) == (3, 2, 2)
    run(*(f"c/{n}.jpg" for n in (1, 3, 2, 4, 5)), **settings | {"out": Path("at once")})
    assert Path("out").read_text() == Path("at once").read_text()
    again = Fake()
    done, _ = run("c", fake=again, **settings)
    assert (again.batches, done.captions, done.kept) == ([], 0, 5)
    assert Path("out").read_text() == Path("at once").read_text()
    assert not Path("out.part").exists()


def test_skip_tries_bad_images_again(home: Path) -> None:
    settings: dict[str, Any] = {"out": Path("out"), "format": "jsonl", "existing": "skip"}
    run("p", **settings)
    fake = Fake()
    done, _ = run("p", fake=fake, **settings)
    assert fake.seen == ["p/3bad.jpg"]
    assert (done.kept, done.bad) == (4, 1)
    assert read_lines() == objects(*GOOD)


def test_append_adds_to_what_is_there(home: Path) -> None:
    Path("out").write_bytes(b"caf\xe9, by hand")  # no UTF-8, and no end of line
    settings: dict[str, Any] = {"out": Path("out"), "existing": "append"}
    with pytest.raises(KeyboardInterrupt):
        run("p", fake=Fake(breaks_at=4), batch=2, **settings)
    run("p", batch=2, **settings)
    rows = [f"p/{name}: {says(name).text}" for name in GOOD]
    assert Path("out").read_bytes().decode("latin-1") == "\n".join(["café, by hand", *rows, ""])


@pytest.mark.parametrize("kind", ["text", "json", "jsonl", "csv"])
def test_append_given_again_after_the_end_adds_nothing_twice(home: Path, kind: str) -> None:
    settings: dict[str, Any] = {"out": Path("out"), "format": kind, "alternatives": 2}
    run("p/1.jpg", "p/2.jpg", **settings)
    run("p", **settings | {"out": Path("whole")})
    done, _ = run("p", existing="append", **settings)
    assert (done.captions, done.kept, done.bad) == (2, 2, 1)
    assert Path("out").read_bytes() == Path("whole").read_bytes()
    done, _ = run("p", existing="append", **settings)
    assert (done.captions, done.kept, done.bad) == (0, 4, 1)
    assert Path("out").read_bytes() == Path("whole").read_bytes()
    done, _ = run("p", existing="append", suffix="!", **settings)  # says otherwise: it is added
    assert (done.captions, done.kept) == (4, 0)
    assert Path("out").read_text().count("p/1.jpg") == 2


def test_append_counts_rightly_after_it_was_cut_off(home: Path) -> None:
    settings: dict[str, Any] = {"out": Path("out"), "format": "jsonl", "batch": 1}
    run("p/1.jpg", "p/2.jpg", **settings)
    with pytest.raises(KeyboardInterrupt):
        run("p", existing="append", fake=Fake(breaks_at=4), **settings)
    done, _ = run("p", existing="append", **settings)
    assert (done.captions, done.kept) == (2, 2)
    assert done.resumed <= done.captions
    assert read_lines() == objects(*GOOD)


def test_a_file_of_another_kind_is_not_added_to(home: Path) -> None:
    Path("out").write_text("by hand")
    for kind in ("json", "jsonl", "csv"):
        with pytest.raises(DataError, match="out"):
            run("p", out=Path("out"), format=kind, existing="append")
    with pytest.raises(DataError, match="row 1"):
        run("p", out=Path("out"), format="jsonl", existing="skip")
    assert Path("out").read_text() == "by hand"
    assert here() == ["out", "p"]


def test_no_file_is_made_when_no_image_could_be_used(home: Path) -> None:
    done, heard = run("p/3bad.jpg", "p/x bad.jpg", out=Path("out"))
    assert (done.captions, done.kept, done.bad) == (0, 0, 2)
    assert len(heard.problems) == 2
    assert here() == ["p"]


def test_two_runs_into_one_file(home: Path) -> None:
    class Inside(Fake):
        def load(self, options: CaptionOptions) -> Fake:
            with pytest.raises(StoreError, match="out: another run is writing to it"):
                run("p", out=Path("out"))
            return self

    run("p", out=Path("out"), fake=Inside())
    assert Path("out").exists()


def test_a_list_and_the_same_name_twice(home: Path) -> None:
    listed = b"p/2.jpg\np/1.jpg\n./p/2.jpg\n"
    _, heard = run("-", "p/1.jpg", listed=listed, format="jsonl")
    assert [json.loads(line)["path"] for line in heard.out.splitlines()] == ["p/2.jpg", "p/1.jpg"]
    _, heard = run("-", listed=b"p/2.jpg\0p\0", null=True, format="jsonl", recursive=False)
    assert [json.loads(line)["path"] for line in heard.out.splitlines()] == [
        *("p/2.jpg", "p/1.jpg", "p/4.jpg", "p/5.jpg")
    ]


def test_a_table_for_a_spreadsheet(home: Path) -> None:
    touch(Path(), "=cmd.jpg", 'say "x", y.jpg')
    run("=cmd.jpg", 'say "x", y.jpg', format="csv", out=Path("out"), confidence=True)
    with Path("out").open(newline="", encoding="utf-8-sig") as file:
        table = list(csv.DictReader(file))
    assert [row["path"] for row in table] == ["./=cmd.jpg", 'say "x", y.jpg']
    assert all(Path(row["path"]).exists() for row in table)
    assert table[0]["words"].startswith("a (0.5000) ")
    assert [row["confidence"] for row in table] == ["0.25", "0.25"]


def marks(data: bytes) -> int:
    return data.count(b"\xef\xbb\xbf")


@pytest.mark.parametrize("existing", ["skip", "append"])
def test_a_table_has_one_mark_whoever_began_it(home: Path, existing: str) -> None:
    run("p", out=Path("whole.csv"))
    whole = Path("whole.csv").read_bytes()
    assert whole.startswith(b"\xef\xbb\xbfpath,caption\n")
    run("p/1.jpg", "p/2.jpg", out=Path("out.csv"))
    began = Path("out.csv").read_bytes()
    for before in (began, began.removeprefix(b"\xef\xbb\xbf")):  # earlier versions wrote none
        Path("out.csv").write_bytes(before)
        with pytest.raises(KeyboardInterrupt):
            run("p", out=Path("out.csv"), existing=existing, fake=Fake(breaks_at=2), batch=1)
        done, _ = run("p", out=Path("out.csv"), existing=existing, batch=1)
        assert (done.kept, marks(Path("out.csv").read_bytes())) == (2, 1)
        assert Path("out.csv").read_bytes() == whole


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_table_that_was_in_a_spreadsheet_goes_on(
    home: Path, delimiter: str, encoding: str, newline: str
) -> None:
    """Corrected there, and saved as that program does: the rest is added, the corrections stay."""
    rows = [["path", "caption"], ["p/1.jpg", 'Käse; "alt", ein Stück'], ["p/2.jpg", "'-)"]]
    with Path("out.csv").open("w", newline="", encoding=encoding) as file:
        csv.writer(file, delimiter=delimiter, lineterminator=newline).writerows(rows)
    for kept in (2, 4):
        done, heard = run("p", out=Path("out.csv"), existing="skip")
        assert done.kept == kept
        data = Path("out.csv").read_bytes()
        with Path("out.csv").open(newline="", encoding="utf-8-sig") as file:
            table = list(csv.reader(file, strict=True))
        said = [[f"p/{name}", says(name).text] for name in GOOD if name not in ("1.jpg", "2.jpg")]
        assert table == [*rows, *said]
        assert marks(data) == 1
        told = [problem.why for problem in heard.problems if "Windows-1252" in problem.why]
        assert len(told) == (encoding == "cp1252" and kept == 2)


def test_a_workbook_is_not_added_to(home: Path) -> None:
    Path("out.csv").write_bytes(b"PK\x03\x04 xl/workbook.xml")
    with pytest.raises(DataError, match=r"it is an Excel workbook\. Save it as CSV"):
        run("p", out=Path("out.csv"), existing="skip")


@pytest.mark.parametrize(
    ("made", "given", "hint"),
    [
        ({"confidence": True}, {}, "Add --confidence, or"),
        ({}, {"confidence": True}, "Leave out --confidence, or"),
        ({"alternatives": 3}, {}, "Add --alternatives 3, or"),
        ({"alternatives": 3}, {"alternatives": 5}, "Give --alternatives 3, or"),
        ({}, {"alternatives": 2}, "Leave out --alternatives, or"),
        (
            {"confidence": True},
            {"alternatives": 2},
            "Add --confidence and leave out --alternatives, or",
        ),
        (
            {"alternatives": 2},
            {"confidence": True},
            "Leave out --confidence and add --alternatives 2, or",
        ),
    ],
)
@pytest.mark.parametrize("existing", ["skip", "append"])
def test_a_table_with_other_columns_says_what_to_change(
    home: Path, made: dict[str, Any], given: dict[str, Any], hint: str, existing: str
) -> None:
    run("p", out=Path("out.csv"), **made)
    with pytest.raises(DataError) as caught:
        run("p", out=Path("out.csv"), existing=existing, **given)
    theirs, ours = (
        ", ".join(columns_of(own.get("alternatives", 0), confidence=own.get("confidence", False)))
        for own in (made, given)
    )
    assert caught.value.why == f"its columns are {theirs}; those of this command are {ours}"
    assert caught.value.hint == f"{hint} choose another --out."
    run("p", out=Path("out.csv"), existing=existing, **made)


@pytest.mark.parametrize(
    ("header", "hint"),
    [
        ("path,caption,notes\n", "What naic caption writes has no notes: change that in"),
        ("caption,path\n", "What naic caption writes has another order: change that in"),
        ("path;caption;my notes;split\n", "What naic caption writes has no my notes, split:"),
    ],
)
def test_a_table_with_columns_of_its_own(home: Path, header: str, hint: str) -> None:
    Path("out.csv").write_text(header)
    with pytest.raises(DataError, match=hint):
        run("p", out=Path("out.csv"), existing="skip")


def test_a_mark_before_json_is_no_matter(home: Path) -> None:
    """As an editor may put it there."""
    for kind in ("json", "jsonl"):
        run("p/1.jpg", out=Path("out"), format=kind, existing="overwrite")
        Path("out").write_bytes(b"\xef\xbb\xbf" + Path("out").read_bytes())
        done, _ = run("p", out=Path("out"), format=kind, existing="skip")
        assert (done.kept, marks(Path("out").read_bytes())) == (1, 0)


def test_ten_thousand_images(home: Path) -> None:
    names = [f"{number:05d}.jpg" for number in range(10_000)]
    touch(Path("many"), *names)
    with pytest.raises(KeyboardInterrupt):
        run("many", out=Path("out"), format="jsonl", fake=Fake(breaks_at=9_000))
    done, _ = run("many", out=Path("out"), format="jsonl")
    assert done.captions == 10_000
    assert [line["path"] for line in read_lines()] == [f"many/{name}" for name in names]


def commands() -> list[list[str]]:
    blocks = re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL)
    lines = [line.partition("|")[2].strip() or line for b in blocks for line in b.splitlines()]
    return [shlex.split(line, comments=True) for line in lines if line.startswith("naic ")]


def test_the_commands_of_the_guide_can_be_given() -> None:
    assert len(commands()) >= 8
    for words in commands():
        assert words[1] == "caption"
        tyro.cli(CaptionOptions, args=words[2:]).check()


def test_the_guide_shows_every_option() -> None:
    rows = re.findall(r"^\| .* \| `(--[^`]+)`", GUIDE, re.MULTILINE)
    plain = CaptionOptions((Path("a.jpg"),))
    changed = [tyro.cli(CaptionOptions, args=["a.jpg", *shlex.split(row)]) for row in rows]
    assert all(options != plain for options in changed)
    shown = {word for row in rows for word in shlex.split(row) if word.startswith("--")}
    fields = CaptionOptions.__dataclass_fields__
    named = {f"--{name.replace('_', '-')}" for name in fields if name != "paths"}
    assert {word.replace("--no-", "--") for word in shown} == named
