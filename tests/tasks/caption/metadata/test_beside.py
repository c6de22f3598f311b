"""`--write xmp` and its `--undo`, from the options to the files."""

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from naic.errors import ConfigError, StoreError
from naic.resume import locked
from naic.tasks.caption.find import Found
from naic.tasks.caption.metadata.beside import XmpFiles
from naic.tasks.caption.metadata.mark import ALT_TEXT, DESCRIPTION, NAMESPACE
from naic.tasks.caption.metadata.sidecar import held
from tests.tasks.caption.metadata.packets import DARKTABLE, LIGHTROOM
from tests.tasks.caption.metadata.photos import draw
from tests.tasks.caption.metadata.runs import undo
from tests.tasks.caption.small import Fake, run, says, touch


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    touch(Path("p"), "1.jpg", "b/2.png", "b/3bad.jpg", "b/4.jpg")
    Path("p/b/4.xmp").write_bytes(LIGHTROOM)
    return Path("p")


def files(folder: Path = Path("p")) -> dict[str, bytes]:
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def texts(path: str) -> list[str | None]:
    return [*held(Path(path).read_bytes(), path).texts.values()]


def test_written_once_and_taken_back(photos: Path) -> None:
    before = files()
    done, heard = run("p", write="xmp", prefix="Shown: ", suffix=".")
    assert (done.captions, done.kept, done.bad) == (3, 0, 1)
    assert heard.out == ""
    said = f"Shown: {says('1.jpg').text}."
    assert texts("p/1.xmp") == [said, said]
    assert texts("p/b/4.xmp") == ["Ours & theirs", f"Shown: {says('4.jpg').text}."]
    mark = held(Path("p/1.xmp").read_bytes(), "").mark
    assert mark is not None
    assert (mark.confidence, mark.model) == ("0.25", "no-such-model")
    assert {*files()} == {*before, "1.xmp", "b/2.xmp"}
    written = files()
    fake = Fake()
    done, _ = run("p", write="xmp", prefix="Shown: ", suffix=".", fake=fake)
    assert (done.captions, done.kept, fake.seen) == (0, 3, ["p/b/3bad.jpg"])
    assert files() == written
    done, heard = undo("p")
    assert (done.captions, done.kept, done.bad, heard.problems) == (3, 1, 0, [])
    assert files() == before
    assert undo("p")[0].kept == 4


def test_what_a_person_wrote_is_overwritten_only_when_asked(photos: Path) -> None:
    before = files()
    run("p", write="xmp")
    done, _ = run("p", write="xmp", existing="overwrite")
    assert (done.captions, done.kept) == (1, 2)
    assert texts("p/b/4.xmp") == [says("4.jpg").text] * 2
    assert run("p", write="xmp")[0].kept == 3
    undo("p")
    assert files() == before


def test_another_request_refreshes_what_naic_wrote(photos: Path) -> None:
    before = files()
    run("p", write="xmp")
    done, _ = run("p", write="xmp", max_words=2)
    assert (done.captions, done.kept) == (3, 0)
    assert texts("p/b/4.xmp") == ["Ours & theirs", says("4.jpg", 0, 2).text]
    undo("p", write="xmp")
    assert files() == before


@pytest.mark.parametrize("at", [0, 1, 2, 3])
def test_a_run_that_was_cut_off_goes_on(photos: Path, at: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        run("p", write="xmp", fake=Fake(breaks_at=at))
    touch(photos, "b/4.xmp.1-2.part", "b/other.xmp.1-2.part", "b/.naic-caption-7")
    fake = Fake()
    run("p", write="xmp", fake=fake)
    there = ["p/1.jpg", "p/b/2.png", "p/b/3bad.jpg", "p/b/4.jpg"]
    assert fake.seen == [path for path in there[:at] if "bad" in path] + there[at:]
    assert "b/4.xmp.1-2.part" not in files()
    assert "b/.naic-caption-7" not in files()
    assert "b/other.xmp.1-2.part" in files()  # not of a file that we write


@pytest.mark.parametrize(
    ("names", "image", "file"),
    [
        (["a.jpg"], "a.jpg", "a.xmp"),
        (["a.jpg", "a.xmp"], "a.jpg", "a.xmp"),
        (["a.jpg", "a.jpg.xmp"], "a.jpg", "a.jpg.xmp"),
        (["a.jpg", "a.jpg.xmp", "a.xmp"], "a.jpg", "a.jpg.xmp"),
        (["a.jpg", "a.png"], "a.jpg", "a.jpg.xmp"),
        (["a.jpg", "a.png", "a.xmp"], "a.png", "a.png.xmp"),  # it may be of either
        (["a.jpg", "a.CR2"], "a.jpg", "a.xmp"),  # one photo, twice
        (["a.b.JPG"], "a.b.JPG", "a.b.xmp"),
    ],
)
def test_which_file_is_whose(tmp_path: Path, names: list[str], image: str, file: str) -> None:
    touch(tmp_path, *names)
    found = XmpFiles().file(Found(str(tmp_path / image), image))
    assert found == tmp_path / file


def test_two_photos_of_one_name_have_a_file_each(photos: Path) -> None:
    run("p/1.jpg", write="xmp")
    touch(photos, "1.png")
    run("p", write="xmp")
    assert {"1.xmp", "1.jpg.xmp", "1.png.xmp"} < {*files()}
    undo("p")
    assert not {"1.xmp", "1.jpg.xmp", "1.png.xmp"} & {*files()}


def test_one_that_cannot_be_written_is_a_problem_of_its_own(photos: Path) -> None:
    Path("p/1.xmp").write_bytes(b"no xmp")
    Path("p/b/2.xmp").symlink_to("4.xmp")
    before = files()
    done, heard = run("p", write="xmp")
    assert [(own.where, own.why.partition(" (")[0]) for own in heard.problems] == [
        ("p/1.xmp", "it is no well-formed XML"),
        ("p/b/2.xmp", "it is a link, and what it leads to is not written over"),
        ("p/b/3bad.jpg", "it is torn"),
    ]
    assert (done.captions, done.bad) == (1, 3)
    assert files()["1.xmp"] == b"no xmp"
    done, heard = undo("p")
    assert (done.captions, done.bad) == (1, 2)
    assert files() == before


def test_a_file_keeps_its_permissions(photos: Path) -> None:
    path = Path("p/b/4.xmp")
    path.chmod(0o640)
    run("p", write="xmp")
    assert path.stat().st_mode & 0o777 == 0o640
    undo("p")
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_file_that_changes_meanwhile_is_left_alone(
    photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.write_bytes

    def write(self: Path, data: bytes) -> int:
        real(Path("p/b/4.xmp"), DARKTABLE)  # another program, at the worst moment
        return real(self, data)

    monkeypatch.setattr(Path, "write_bytes", write)
    _, heard = run("p/b/4.jpg", write="xmp")
    assert [own.why for own in heard.problems] == ["another program has changed it meanwhile"]
    assert files()["b/4.xmp"] == DARKTABLE
    assert not [name for name in files() if ".naic" in name]


def test_what_a_person_wrote_into_the_photo_itself_counts(photos: Path) -> None:
    """Programs would show the XMP file's words in their place."""
    made = Path("made")
    with Image.open(draw(Path("plain.png"))) as image:
        exif = Image.Exif()
        exif[270] = "Ours"
        made.mkdir()
        for suffix in (".jpg", ".png", ".tif", ".webp"):
            image.save(made / f"exif{suffix[1:]}{suffix}", exif=exif)
        info = PngInfo()
        info.add_text("Description", "Ours")
        image.save(made / "text.png", pnginfo=info)
        image.save(made / "xmp.webp", xmp=LIGHTROOM)
        image.save(made / "plain.jpg")
    Path("made/iptc.jpg").write_bytes(
        Path("made/plain.jpg").read_bytes() + b"8BIM\x04\x04\0\0\0\0\0\x09\x1c\x02\x78\0\x04Ours"
    )
    done, heard = run("made", write="xmp")
    assert (done.captions, heard.problems) == (8, [])
    for path in made.glob("*.xmp"):
        there = held(path.read_bytes(), str(path))
        described = there.texts[DESCRIPTION] is not None
        assert described == (path.stem == "plain"), path
        assert there.own(ALT_TEXT)


def test_senseless_commands_are_refused(photos: Path) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"write": "xmp", "out": Path("o")}, "--out: --write puts the captions"),
        ({"write": "xmp", "format": "csv"}, "--format: --write puts the captions"),
        ({"write": "xmp", "alternatives": 2}, "--alternatives: --write puts the captions"),
        ({"write": "xmp", "confidence": True}, "--confidence: --write puts the captions"),
        ({"write": "xmp", "existing": "append"}, "a photo has one description"),
        ({"write": "xmp", "prefix": "\x01"}, "--prefix: it has a character"),
        ({"write": "exif"}, "ExifTool: it is not installed. Debian, Ubuntu: apt install"),
    ]
    for settings, why in cases:
        with pytest.raises(ConfigError, match=why):
            run("p", **settings)
    for settings in ({"existing": "skip"}, {"model": Path("m")}, {"max_words": 3}, {"batch": 2}):
        with pytest.raises(ConfigError, match="--undo takes captions back, and makes none"):
            undo("p", **settings)
    with pytest.raises(ConfigError, match="it is not installed"):
        undo("p", write="exif")


def test_without_exiftool_photos_that_naic_wrote_into_are_told_of(photos: Path) -> None:
    run("p", write="xmp")
    Path("p/1.jpg").write_bytes(b"... " + NAMESPACE.encode())
    done, heard = undo("p")
    (problem,) = heard.problems
    assert problem.where == "p/1.jpg"
    assert problem.why == "naic has written into it, and ExifTool is not installed to take it out"
    assert (done.captions, done.bad) == (2, 1)
    assert not Path("p/1.xmp").exists()


def test_a_folder_that_is_gone_keeps_no_other_from_being_undone(photos: Path) -> None:
    before = files()
    run("p", write="xmp")
    done, heard = undo("gone/1.jpg", "p", write="xmp")
    (problem,) = heard.problems
    assert problem.where == "gone"
    assert (done.captions, done.bad) == (3, 1)
    assert files() == before


def test_two_runs_do_not_write_to_one_folder(photos: Path) -> None:
    with locked(photos), pytest.raises(StoreError, match="another run is writing"):
        run("p/1.jpg", write="xmp")
    with locked(photos), pytest.raises(StoreError, match="another run is writing"):
        undo("p/1.jpg")


@pytest.mark.skipif(sys.platform == "darwin", reason="its file names are UTF-8")
def test_odd_names(photos: Path) -> None:
    odd = [os.fsdecode(b"caf\xe9"), "new\nline", "[x]", "=1", "x" * 250]
    touch(Path("odd"), *(f"{name}.jpg" for name in odd))
    done, heard = run("odd", write="xmp")
    assert (done.captions, heard.problems) == (5, [])
    assert {path.stem for path in Path("odd").glob("*.xmp")} == set(odd)
    run("odd", write="xmp", max_words=2)
    assert undo("odd")[0].captions == 5
    assert not [*Path("odd").glob("*.xmp")]
