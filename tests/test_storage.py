"""Files of this machine, and of servers that the tests start: of S3, and of the web."""

import errno
import fcntl
import functools
import hashlib
import http.server
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from naic import storage
from naic.errors import MissingExtraError, StorageError, WriteError
from naic.files import TEMPORARY_SUFFIX
from tests.s3 import make_bucket, reach, serving_s3, unfinished

BROKEN = {"forbidden": 403, "broken": 500}


class Web(http.server.SimpleHTTPRequestHandler):
    """Files of a folder; some names are answered with an error, or with less than was promised."""

    def log_message(self, *_: object) -> None:
        """The tests' output is no log."""

    def do_GET(self) -> None:
        name = self.path.rpartition("/")[2]
        if name in BROKEN:
            self.send_error(BROKEN[name])
        elif name.startswith("short"):
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(b"ten bytes.")
        elif self.command == "GET":
            super().do_GET()
        else:
            super().do_HEAD()

    do_HEAD = do_GET  # noqa: N815  # the library's name


class RefusesKeys(http.server.BaseHTTPRequestHandler):
    """An object store that knows nobody."""

    def log_message(self, *_: object) -> None:
        """The tests' output is no log."""

    def do_GET(self) -> None:
        body = b"<Error><Code>SignatureDoesNotMatch</Code><Message>no</Message></Error>"
        self.send_response(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_PUT = do_POST = do_GET  # noqa: N815


def serve(handler: "functools.partial[Web] | type[RefusesKeys]") -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "a b.tar").write_bytes(b"shard" * 1000)
    yield from serve(functools.partial(Web, directory=str(tmp_path)))


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    with serving_s3() as environment:
        yield environment


@pytest.fixture
def bucket(
    s3: dict[str, str], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> str:
    reach(s3, monkeypatch)
    return make_bucket(s3, hashlib.sha256(request.node.name.encode()).hexdigest()[:20])


@pytest.fixture(params=["folder", "memory", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where files can be written: the same holds for all of these."""
    if request.param == "bucket":
        return str(request.getfixturevalue("bucket"))
    return f"memory://{tmp_path.name}" if request.param == "memory" else str(tmp_path)


def test_what_is_written_is_read_listed_and_copied(place: str, tmp_path: Path) -> None:
    source = tmp_path.with_name(f"{tmp_path.name}-source")
    source.write_bytes(b"second")
    first, second = (storage.join(place, "out", name) for name in ("b.parquet", "a.parquet"))
    assert storage.list_under(storage.join(place, "out"), [".parquet"]) == []
    storage.write_whole(first, b"first")
    storage.write_whole(second, source)
    storage.write_whole(storage.join(place, "out", "c.json"), b"{}")
    storage.write_whole(storage.join(place, "output.parquet"), b"not beneath out/")
    assert storage.list_under(storage.join(place, "out"), [".parquet", ".arrow"]) == [second, first]
    assert len(storage.list_under(place, [""])) >= 4
    assert storage.read_bytes(first) == b"first"
    assert storage.size(first) == 5
    assert storage.exists(second)
    assert not storage.exists(storage.join(place, "out"))  # a folder is no file
    assert not storage.exists(storage.join(place, "nothing"))
    with storage.open_read(second) as file:
        assert file.read(3) == b"sec"
        file.seek(1)
        assert file.read() == b"econd"
    with storage.local_copy(second) as path:
        assert (path.name, path.read_bytes()) == ("a.parquet", b"second")
    assert path.exists() is not storage.is_remote(place)
    storage.write_whole(first, b"")
    assert storage.read_bytes(first) == b""


def test_a_name_that_is_not_there_is_told_so(place: str) -> None:
    gone = storage.join(place, "gone.tar")
    for read in (storage.read_bytes, storage.size, storage.open_read):
        with pytest.raises(StorageError, match=r"gone\.tar: is not there\. Check its name\."):
            read(gone)
    with pytest.raises(StorageError, match="is not there"), storage.local_copy(gone):
        pass


def test_a_path_and_a_file_url_are_files_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "a b.txt").write_bytes(b"x")
    url = (tmp_path / "a b.txt").as_uri()
    assert "%20" in url
    assert not storage.is_remote(url)
    assert storage.read_bytes(url) == b"x"
    assert storage.name_of(url) == "a b.txt"
    assert storage.join(str(tmp_path), "a", "b") == f"{tmp_path}/a/b"
    with pytest.raises(StorageError, match=r"is a folder\. Name a file"):
        storage.read_bytes(str(tmp_path))
    with pytest.raises(WriteError, match="no regular file"):
        storage.write_whole(str(tmp_path), b"")


def test_names_of_urls() -> None:
    assert storage.join("s3://b/", "x", "y.tar") == "s3://b/x/y.tar"
    assert storage.name_of("https://host/a/b.tar?token=1/2") == "b.tar"
    assert storage.name_of("s3://b/c?d.tar") == "c?d.tar"  # in a store that is part of the key


def test_files_of_this_machine_take_no_fsspec(tmp_path: Path) -> None:
    program = f"""
import sys
from naic import storage
where = {str(tmp_path / "new" / "a.tar")!r}
storage.write_whole(where, b"a")
with storage.local_copy(where) as path:
    print(storage.list_under({str(tmp_path)!r}, [".tar"]) == [str(path)], storage.exists(where))
print([name for name in ("fsspec", "numpy", "torch") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "True True\n[]\n", done.stderr


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(MissingExtraError, match=r"s3://b/k takes it\. Run: pip install 'naic\["):
        storage.read_bytes("s3://b/k")
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(MissingExtraError, match=r"gcsfs.*Run: pip install 'naic\[remote\]', or"):
        storage.read_bytes("gs://b/k")


@pytest.mark.parametrize("url", ["https://host/a.tar", "sftp://host/a.tar", "zip::s3://b/a.tar"])
def test_where_half_a_file_would_be_seen_nothing_is_written(url: str) -> None:
    with pytest.raises(WriteError, match=r"half a file could be seen .* an s3:// bucket\."):
        storage.write_whole(url, b"a")


def test_the_web(web: str, tmp_path: Path) -> None:
    url = f"{web}/a%20b.tar"
    assert storage.size(url) == 5000
    with storage.local_copy(url, tmp_path) as copy:
        assert copy.read_bytes() == b"shard" * 1000
    assert not copy.parent.exists()
    assert storage.exists(url)
    assert not storage.exists(f"{web}/none")
    for ask in (storage.read_bytes, storage.size, storage.exists):
        with pytest.raises(StorageError, match=r"forbidden: access is refused\. Check the cred"):
            ask(f"{web}/forbidden")
        with pytest.raises(StorageError, match=r"broken: .* the server answers 500\. Run the same"):
            ask(f"{web}/broken")
    with pytest.raises(StorageError, match="received 10 of 100 bytes"):
        storage.read_bytes(f"{web}/short")
    with pytest.raises(StorageError, match=r"has no listing\. Name each file's URL\."):
        storage.list_under(web, [".tar"])
    with pytest.raises(StorageError, match="the server cannot be reached"):
        storage.exists("http://127.0.0.1:1/a.tar")
    for url in (f"{web}/none?sign=hidden", f"{web}/short?sign=hidden"):
        with pytest.raises(StorageError) as told:
            storage.read_bytes(url.replace("://", "://me:hidden@"))
        assert str(told.value).startswith(f"{url.partition('?')[0]}: ")
        assert "hidden" not in str(told.value)


def test_a_copy_that_is_too_short_is_refused(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.write_whole(f"{bucket}/a.tar", b"12345")
    monkeypatch.setattr(storage, "size", lambda _: 6)
    with (
        pytest.raises(StorageError, match=r"a\.tar: 5 of its 6 bytes came\. Run the same"),
        storage.local_copy(f"{bucket}/a.tar"),
    ):
        pytest.fail("half a file was handed out")


def test_copies_of_killed_processes_are_removed_and_no_others(bucket: str, tmp_path: Path) -> None:
    storage.write_whole(f"{bucket}/a.tar", b"1")
    left = Path(tempfile.mkdtemp(prefix="naic-shard-", dir=tmp_path))
    (left / "half.tar").write_bytes(b"0")
    kept = [Path(tempfile.mkdtemp(prefix=name, dir=tmp_path)) for name in ("naic-shard-", "other-")]
    held = os.open(kept[0], os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)  # by a process that lives
    with storage.local_copy(f"{bucket}/a.tar", tmp_path):
        assert not left.exists()
    os.close(held)
    assert sorted(tmp_path.iterdir()) == sorted(kept)


def test_a_folder_for_copies_that_another_process_removed_at_once_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.write_whole("memory://scratch/a.tar", b"1")
    os.mkfifo(tmp_path / "naic-shard-fifo")  # nobody writes to it: who opens it waits
    made: list[str] = []

    def mkdtemp(**where: Any) -> str:
        made.append(make(**where))
        if len(made) == 1:
            Path(made[0]).rmdir()
        return made[-1]

    make = tempfile.mkdtemp
    monkeypatch.setattr(tempfile, "mkdtemp", mkdtemp)
    with storage.local_copy("memory://scratch/a.tar", tmp_path) as path:
        assert path == Path(made[1], "a.tar")


def test_a_disk_without_room_for_a_copy_is_no_fault_of_the_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    storage.write_whole("memory://full/a.tar", b"1")
    monkeypatch.setattr("fsspec.implementations.memory.MemoryFileSystem.get_file", full)
    with (
        pytest.raises(WriteError, match=r"the disk is full\. .*TMPDIR"),
        storage.local_copy("memory://full/a.tar", tmp_path),
    ):
        pass


def test_a_bucket_that_is_not_there(bucket: str) -> None:
    nowhere = f"{bucket}-not/a.tar"
    why = "there is no such bucket. Check its name, and AWS_ENDPOINT_URL"
    with pytest.raises(StorageError, match=why):
        storage.read_bytes(nowhere)
    with pytest.raises(StorageError, match=why):
        storage.list_under(nowhere, [".tar"])
    with pytest.raises(WriteError, match=why):
        storage.write_whole(nowhere, b"")


def test_who_may_not(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for address in serve(RefusesKeys):
        reach({"AWS_ENDPOINT_URL": address}, monkeypatch)
        with pytest.raises(StorageError, match=r"access is refused\. Check the credentials"):
            storage.read_bytes(f"{bucket}/a.tar")
        with pytest.raises(StorageError, match="access is refused"):
            storage.exists(f"{bucket}/a.tar")
        with pytest.raises(WriteError, match="access is refused"):
            storage.write_whole(f"{bucket}/a.tar", b"")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    reach({}, monkeypatch)
    with pytest.raises(StorageError, match=r"there are no credentials for it\. Set AWS_ACCESS"):
        storage.read_bytes(f"{bucket}/a.tar")


def test_an_upload_that_the_store_refuses_leaves_nothing(
    s3: dict[str, str], bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.write_whole(f"{bucket}/a.tar", b"old")
    (tmp_path / "new.tar").write_bytes(bytes(3 * 2**18))
    monkeypatch.setattr(storage, "_PART", 2**18)  # S3 takes none so small, and says so at the end
    for data in (tmp_path / "new.tar", bytes(3 * 2**18)):
        with pytest.raises(WriteError, match=r"a\.tar: cannot be written \(.*smaller than"):
            storage.write_whole(f"{bucket}/a.tar", data)
    assert storage.read_bytes(f"{bucket}/a.tar") == b"old"
    assert unfinished(s3, bucket.removeprefix("s3://")) == []


def test_a_failed_write_on_this_machine_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = str(tmp_path / "a.tar")
    storage.write_whole(where, b"old")
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(WriteError, match="the disk is full"):
        storage.write_whole(where, b"new")
    assert storage.read_bytes(where) == b"old"
    assert not list(tmp_path.glob(f"*{TEMPORARY_SUFFIX}"))


WRITER = """
import sys
from pathlib import Path
from naic import storage
bucket, source = sys.argv[1:]
for n in range(4):
    where = f"{bucket}/{n}.tar"
    if not storage.exists(where):
        storage.write_whole(where, Path(source))
        print(n, flush=True)
"""


@pytest.mark.slow
def test_uploads_in_parts_that_are_killed_ten_times(
    s3: dict[str, str], bucket: str, tmp_path: Path
) -> None:
    """Each file goes in four parts; a kill leaves parts at most, never an object of some."""
    source = tmp_path / "source"
    source.write_bytes(random.Random(0).randbytes(60 * 2**20))
    rng, name, kills, hit = random.Random(1), bucket.removeprefix("s3://"), 0, 0
    while kills < 10:
        writer = subprocess.Popen([sys.executable, "-c", WRITER, bucket, str(source)])
        before, struck = len(unfinished(s3, name)), False
        strike_at = time.monotonic() + rng.uniform(0.3, 3)
        while writer.poll() is None and not struck:
            in_an_upload = len(unfinished(s3, name)) > before
            if time.monotonic() > strike_at or (kills % 2 and in_an_upload):
                writer.kill()
                struck = True
        if writer.wait() == -signal.SIGKILL:
            kills += 1
        hit += len(unfinished(s3, name)) > before
        for where in storage.list_under(bucket, [""]):
            assert storage.read_bytes(where) == source.read_bytes()
        if writer.returncode == 0:
            for n in range(4):  # all are there: begin again
                assert storage.exists(f"{bucket}/{n}.tar")
            name = f"{name}-{kills}"
            bucket = make_bucket(s3, name)
    assert hit >= 3  # some kills were in the middle of an upload
    subprocess.run([sys.executable, "-c", WRITER, bucket, str(source)], check=True)
    assert [storage.size(f"{bucket}/{n}.tar") for n in range(4)] == [60 * 2**20] * 4
