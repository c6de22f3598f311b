"""`--write exif` and its `--undo`, looked at with ExifTool itself."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from naic.images.formats import HAS_AVIF
from naic.tasks.caption.metadata.exiftool import find_exiftool
from naic.tasks.caption.metadata.mark import ALT_TEXT, DESCRIPTION, EXIF_DESCRIPTION
from tests.tasks.caption.metadata.packets import ALL
from tests.tasks.caption.metadata.photos import (
    SUFFIXES,
    all_tags,
    draw,
    exiftool,
    needs_exiftool,
    pixels,
    tags,
    tell,
)
from tests.tasks.caption.metadata.runs import undo
from tests.tasks.caption.small import Fake, run, says

pytestmark = needs_exiftool
PLACES = (DESCRIPTION, EXIF_DESCRIPTION, ALT_TEXT)
PLAIN, OWN, LATIN = "plain", "own", "latin"
# Not a line of text, not UTF-8, signs that ExifTool's arguments give a meaning.
ODD = b"l1 & &amp; $x @y \\n caf\xe9 \xff"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos of each format, with and without texts of a person; made once, as ExifTool is slow."""
    folder = tmp_path_factory.mktemp("made") / "100% p"
    for name in (PLAIN, OWN, LATIN):
        for suffix in SUFFIXES:
            draw(folder / f"{name}{suffix[1:]}{suffix}", seed=len(name))
    own = [*folder.glob("own*"), *folder.glob("latin*")]
    words = ["-q", "-overwrite_original", f"-{DESCRIPTION}=Ours", f"-{DESCRIPTION}-de=Unseres"]
    words += ["-XMP:XMPToolkit=Another program", "-IFD0:Make=A camera", "-XMP-dc:Subject=garden"]
    exiftool(*words, "-ExifIFD:ISO=100", *own)
    latin = [os.fsencode(path) for path in folder.glob("latin*")]
    lines = [
        b"-E",
        b"-q",
        b"-overwrite_original",
        b"-IFD0:ImageDescription=" + ODD + b"&#10;2",
        *latin,
    ]
    command = [find_exiftool(), "-@", "-"]
    subprocess.run(command, input=b"\n".join(lines) + b"\n", check=True)
    return folder


@pytest.fixture
def photos(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = Path("-p")
    folder.mkdir()
    for path in made.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


@pytest.mark.parametrize("existing", ["overwrite", pytest.param("skip", marks=pytest.mark.slow)])
def test_written_without_touching_a_pixel_and_taken_back(photos: Path, existing: str) -> None:
    folder = photos.rename("100% p")
    paths = sorted(folder.iterdir())
    for path in paths:
        path.chmod(0o640)
        os.utime(path, ns=(1, 10**18 + 7))
    before, seen = all_tags(paths), {path: pixels(path) for path in paths}
    done, heard = run("100% p", write="exif", existing=existing)
    assert (done.captions, done.bad, heard.problems) == (12, 0, [])
    after = all_tags(paths)
    for path in paths:
        status = path.stat()
        assert (status.st_mtime_ns, status.st_mode & 0o777) == (10**18 + 7, 0o640)
        assert pixels(path) == seen[path]
        found, own = after[path], not path.name.startswith(PLAIN)
        for place in PLACES:
            mine = place == ALT_TEXT or not own or existing == "overwrite"
            assert found.get(place) == (says(path.name).text if mine else before[path].get(place))
        assert found.get(f"{DESCRIPTION}-de") == ("Unseres" if own else None)
        assert found["XMP-naic:Confidence"] == 0.25
    fake = Fake()
    done, _ = run("100% p", write="exif", existing=existing, fake=fake)
    assert (done.kept, fake.seen) == (12, [])
    done, heard = undo("100% p")
    assert (done.captions, heard.problems) == (12, [])
    assert all_tags(paths) == before
    for path in paths:
        assert pixels(path) == seen[path]
        assert path.stat().st_mtime_ns == 10**18 + 7
    assert sorted(folder.iterdir()) == paths


def test_a_text_in_one_language_and_fields_without_text(photos: Path) -> None:
    (path,) = photos.glob("plainj*")
    tell(path, f"-{DESCRIPTION}-de=Unseres", f"-{EXIF_DESCRIPTION}^=", "-IFD0:Make=A camera")
    before = tags(path)
    assert before[EXIF_DESCRIPTION] == ""
    assert DESCRIPTION not in before
    run(path, write="exif")
    assert {*tags(path)} - {*before} >= {ALT_TEXT}
    assert DESCRIPTION not in tags(path)
    run(path, write="exif", existing="overwrite")
    after = tags(path)
    assert {after[place] for place in PLACES} == {says(path.name).text}
    assert after[f"{DESCRIPTION}-de"] == "Unseres"
    undo(path)
    assert tags(path) == before


def test_refreshed_and_edited(photos: Path) -> None:
    (path,) = photos.glob("plainj*")
    before = tags(path)
    run(path, write="exif")
    run(path, write="exif", max_words=2)
    found = tags(path)
    assert {found[place] for place in PLACES} == {says(path.name, 0, 2).text}
    tell(path, f"-{DESCRIPTION}=Edited")
    run(path, write="exif", max_words=3)
    found = tags(path)
    assert found[DESCRIPTION] == "Edited"
    assert found[ALT_TEXT] == says(path.name, 0, 3).text
    assert EXIF_DESCRIPTION not in found  # it goes with the person's description
    undo(path)
    assert tags(path) | before == tags(path)
    assert {*tags(path)} - {*before} == {DESCRIPTION}


def test_what_exiftool_cannot_write_is_a_problem_of_its_own(photos: Path) -> None:
    draw(photos / "a.bmp")
    draw(photos / "b.ppm")
    (photos / "c.jpg").write_bytes(b"\xff\xd8 torn")
    (photos / "line\nbreak.png").write_bytes(next(photos.glob("plainp*")).read_bytes())
    (photos / "d.jpg").symlink_to("plainjpg.jpg")
    names = ("a.bmp", "b.ppm", "c.jpg", "d.jpg", "line\nbreak.png")
    before = {name: (photos / name).read_bytes() for name in names}
    done, heard = run(photos, write="exif")
    assert (done.captions, done.bad) == (12, 5)
    why = {own.where: own.why for own in heard.problems}
    assert "Writing of BMP files is not yet supported" in why["-p/a.bmp"]
    assert "cannot write these fields into a file of this format" in why["-p/b.ppm"]
    assert "ExifTool says: " in why["-p/c.jpg"]
    assert "it is a link" in why["-p/d.jpg"]
    assert "its name has a line break" in why["-p/line\\nbreak.png"]
    assert {name: (photos / name).read_bytes() for name in names} != before  # the link's target
    del before["d.jpg"]
    assert {name: (photos / name).read_bytes() for name in before} == before
    assert not [*photos.glob(".naic*")]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "darwin", reason="its file names are UTF-8")
def test_odd_names(photos: Path) -> None:
    plain = next(photos.glob("plainj*")).read_bytes()
    names = [os.fsdecode(b"caf\xe9"), "a&amp;b", "#c", "@d", " e ", "$f%d", "[g]", "x" * 250]
    paths = [Path("odd") / f"{name}.jpg" for name in names]
    Path("odd").mkdir()
    for path in paths:
        path.write_bytes(plain)
    done, heard = run("odd", write="exif")
    assert (done.captions, heard.problems) == (len(names), [])
    assert run("odd", write="exif")[0].kept == len(names)
    assert undo("odd")[0].captions == len(names)
    assert sorted(Path("odd").iterdir()) == sorted(paths)
    assert {path.read_bytes() for path in paths} == {plain}


@pytest.mark.slow
def test_other_formats(photos: Path) -> None:
    suffixes = [".gif", *([".avif"] if HAS_AVIF else [])]
    paths = [draw(photos / f"x{suffix}") for suffix in suffixes]
    before = [(tags(path), pixels(path)) for path in paths]
    run(*paths, write="exif")
    assert run(*paths, write="exif")[0].kept == len(paths)
    for path in paths:
        assert tags(path)[ALT_TEXT] == says(path.name).text
    assert undo(*paths)[0].captions == len(paths)
    for path, (fields, seen) in zip(paths, before, strict=True):
        assert pixels(path) == seen
        # Where the pixels lie in an AVIF, and the version that GIF needs for XMP, may differ.
        differ = {name for name, value in tags(path).items() if fields.get(name) != value}
        assert differ <= {"QuickTime:MediaDataOffset", "Meta:MediaDataOffset", "GIF:GIFVersion"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_in_an_xmp_file_all_other_tags_are_unchanged(tmp_path: Path, name: str) -> None:
    draw(tmp_path / "a.png")
    path = tmp_path / "a.xmp"
    path.write_bytes(ALL[name])
    before = tags(path)
    for existing in ("skip", "overwrite"):
        run(tmp_path, write="xmp", existing=existing)
        after = tags(path)
        assert after[ALT_TEXT] == before.get(ALT_TEXT, says("a.png").text) or existing != "skip"
        ours = {key for key in after if key.startswith(("XMP-naic:", *PLACES))}
        assert {k: v for k, v in after.items() if k not in ours} == {
            k: v for k, v in before.items() if k not in ours
        }
    undo(tmp_path)
    assert path.read_bytes() == ALL[name]


def test_undo_takes_back_both(photos: Path) -> None:
    (path,) = photos.glob("plainj*")
    before = path.read_bytes()
    run(path, write="exif")
    run(path, write="xmp")
    assert path.with_suffix(".xmp").exists()
    assert undo(path, write="xmp")[0].captions == 1
    assert not path.with_suffix(".xmp").exists()
    assert undo(path, write="xmp")[0].kept == 1
    assert undo(path)[0].captions == 1
    assert path.read_bytes() == before
