import io
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

import pytest

from naic.errors import ImageError
from naic.images.opening import MAX_BYTES, ImageInput, open_image
from tests.images.images import encode, photo


def refusal(source: ImageInput, name: str | None = None) -> ImageError:
    with pytest.raises(ImageError) as caught:
        open_image(source, name=name)
    assert caught.value.hint
    return caught.value


@pytest.fixture
def jpeg() -> bytes:
    return encode(photo(), "JPEG")


def test_every_kind_of_source_gives_the_same_image(tmp_path: Path, jpeg: bytes) -> None:
    path = tmp_path / "photo.jpg"
    path.write_bytes(jpeg)
    expected = open_image(jpeg).tobytes()
    sources: list[ImageInput] = [
        str(path),
        path,
        bytearray(jpeg),
        memoryview(jpeg),
        io.BytesIO(jpeg),
    ]
    assert [open_image(source).tobytes() for source in sources] == [expected] * 5
    with path.open("rb") as file:
        assert open_image(file).tobytes() == expected


def test_no_file_stays_open(tmp_path: Path, jpeg: bytes) -> None:
    path = tmp_path / "photo.jpg"
    path.write_bytes(jpeg)
    before = len(list(Path("/dev/fd").iterdir()))
    images = [open_image(path) for _ in range(3)]
    assert len(list(Path("/dev/fd").iterdir())) == before
    path.unlink()
    assert [image.getpixel((0, 0)) for image in images] == [images[0].getpixel((0, 0))] * 3


def test_a_folder(tmp_path: Path) -> None:
    error = refusal(tmp_path)
    assert (error.what, error.why) == (str(tmp_path), "it is a folder")


def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "pipe.jpg"
    os.mkfifo(path)
    assert refusal(path).why == "it is a named pipe"


def test_a_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s.jpg")
        assert refusal("s.jpg").why == "it is a socket"


def test_a_device() -> None:
    assert refusal("/dev/zero").why == "it is a device"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert refusal(tmp_path / "no.jpg").why == "there is no such file"


def test_a_path_through_a_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    assert refusal(tmp_path / "a" / "b.jpg").why == "part of its path is a file, not a folder"


def test_a_dangling_link_names_its_target(tmp_path: Path) -> None:
    (tmp_path / "link.jpg").symlink_to("gone.jpg")
    why = refusal(tmp_path / "link.jpg").why
    assert why == "it is a link to a file that does not exist (gone.jpg)"


def test_a_link_to_itself(tmp_path: Path) -> None:
    (tmp_path / "loop.jpg").symlink_to("loop.jpg")
    assert refusal(tmp_path / "loop.jpg").why == "its symbolic links go round in a circle"


def test_a_file_one_may_not_read(
    tmp_path: Path, jpeg: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "secret.jpg"
    path.write_bytes(jpeg)
    path.chmod(0)
    if os.access(path, os.R_OK):  # root may read everything, so the refusal is played

        def denied(*_: object) -> int:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(os, "open", denied)
    assert refusal(path).why == "permission to read it is denied"


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "empty.jpg").touch()
    assert refusal(tmp_path / "empty.jpg").why == "it is empty"
    assert refusal(b"").why == "it is empty"


def test_names_no_system_accepts() -> None:
    assert refusal("x" * 5000).why == "its name is too long for this system"
    error = refusal("a\0b.jpg")
    assert error.what == "a\\x00b.jpg"
    assert error.why.startswith("it cannot be read (")


def test_a_name_that_cannot_be_printed_is_escaped(tmp_path: Path) -> None:
    error = refusal(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9\n.jpg"))
    assert error.what.endswith("/caf\\udce9\\n.jpg")
    str(error).encode()
    assert refusal(b"?", name="Screenshot 9.41\u202fAM.png").what == "Screenshot 9.41\u202fAM.png"


def test_the_given_name_is_used() -> None:
    assert refusal(b"?", name="photos.tar: 7.jpg").what == "photos.tar: 7.jpg"
    assert refusal(b"?").what == "image data"


def test_a_huge_file_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "huge.tif"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)  # takes no room on the disk
    monkeypatch.setattr(os, "open", None)
    assert refusal(path).why == "it is larger than 1 GiB"


class Broken(io.RawIOBase):
    """A stream whose other end fails; it must be asked for a bounded number of bytes."""

    def read(self, size: int = -1, /) -> bytes:
        assert 0 <= size <= MAX_BYTES + 1
        raise OSError(5, "Input/output error")


def failing_files() -> Iterator[tuple[BinaryIO, str]]:
    closed = io.BytesIO(b"x")
    closed.close()
    yield closed, "it cannot be read (I/O operation on closed file.)"
    yield cast(BinaryIO, io.StringIO("text")), "reading it gave str, not bytes"
    yield cast(BinaryIO, Broken()), "it cannot be read (Input/output error)"


@pytest.mark.parametrize(("file", "why"), list(failing_files()))
def test_file_objects_that_fail(file: BinaryIO, why: str) -> None:
    assert refusal(file).why == why
