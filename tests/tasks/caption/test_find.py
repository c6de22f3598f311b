import errno
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naic.errors import ConfigError, Problem
from naic.tasks.caption.find import Found, find_images, read_list
from tests.tasks.caption.small import touch


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def paths(*named: str, **settings: Any) -> list[str]:
    found, problems, _ = find_images([Path(name) for name in named], **settings)
    assert problems == []
    return [image.path for image in found]


def only_problem(*named: str, **settings: Any) -> Problem:
    found, (problem,), _ = find_images([Path(name) for name in named], **settings)
    assert found == []
    return problem


def test_a_folder_stands_for_all_images_in_it_and_beneath(home: Path) -> None:
    touch(home / "p", "b/c.png", "b-a.PNG", "a.heic", "a.txt", ".h.png", ".git/x.png", "z.png")
    assert paths("p/z.png", "p", "p/missing.jpg") == [
        *("p/z.png", "p/a.heic", "p/b/c.png", "p/b-a.PNG", "p/missing.jpg")
    ]
    assert paths("p", recursive=False) == ["p/a.heic", "p/b-a.PNG", "p/z.png"]


def test_names_are_those_beneath_the_folder_that_was_named(home: Path) -> None:
    touch(home / "p", "b/c.png", "z.png")
    found, _, _ = find_images([Path("p"), Path("p/b/c.png"), Path(str(home / "p" / "z.png"))])
    assert found == [
        Found("p/b/c.png", "b/c.png"),
        Found("p/z.png", "z.png"),
    ]
    assert find_images([Path("p/b/c.png")])[0] == [Found("p/b/c.png", "c.png")]
    os.chdir("p")
    assert find_images([Path()])[0] == [Found("b/c.png", "b/c.png"), Found("z.png", "z.png")]


def test_an_image_is_found_once_however_it_is_spelt(home: Path) -> None:
    touch(home / "p", "1.png", "b/2.png")
    Path("q").symlink_to("p")
    assert paths("p/b/../1.png", "p/1.png", f"{home}/p/1.png", "q/1.png") == ["p/b/../1.png"]
    assert paths("p", f"{home}/p", "q", "p/*.png", f"{home}/p/*.png") == ["p/1.png", "p/b/2.png"]
    assert paths(f"{home}/p/1.png", "p") == [f"{home}/p/1.png", "p/b/2.png"]
    Path("p/link.png").symlink_to("1.png")  # a name of its own
    assert paths("p", recursive=False) == ["p/1.png", "p/link.png"]


def test_a_current_folder_that_is_gone(home: Path) -> None:
    (home / "gone").mkdir()
    os.chdir("gone")
    (home / "gone").rmdir()
    try:
        assert paths("a.png", "b/a.png", "a.png") == ["a.png", "b/a.png"]
    finally:
        os.chdir(home)


def test_a_folder_without_images_is_a_problem(home: Path) -> None:
    touch(home, "notes/a.txt", "deep/er/a.png")
    problem = only_problem("notes")
    assert (problem.where, problem.why) == ("notes", "there is no image in it")
    assert ".jpg, " in problem.hint
    assert "were not looked into" not in problem.hint
    assert "were not looked into" in only_problem("deep", recursive=False).hint


def test_a_folder_that_cannot_be_listed_is_a_problem(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touch(home, "p/shut/a.png", "p/b.png")
    scan = os.scandir

    def refuse(path: str) -> Any:
        if Path(path).name == "shut":  # not by its permissions, which root may pass over
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    found, problems, _ = find_images([Path("p")])
    assert found == [Found("p/b.png", "b.png")]
    why = "the folder cannot be listed (Permission denied)"
    assert problems == [Problem("p/shut", why, "Check its permissions.")]
    assert only_problem("p/shut").why == why  # and not also: there is no image in it


def test_loops_of_links_end(home: Path) -> None:
    touch(home, "p/a/1.png")
    Path("p/a/loop").symlink_to(home / "p")
    Path("p/self").symlink_to("self")
    assert paths("p") == ["p/a/1.png"]
    assert paths("p/**/*.png") == ["p/a/1.png"]


def test_patterns(home: Path) -> None:
    touch(home, "p/b.png", "p/a.png", "p/a.txt", "p/c/d.jpg", "p/.e.png", "p/.f/g.png", "q/h.png")
    assert paths("p/*.png") == ["p/a.png", "p/b.png"]
    assert paths("p/?.png", "p/[ab].png") == ["p/a.png", "p/b.png"]
    assert paths("p/**") == ["p/a.png", "p/b.png", "p/c/d.jpg"]
    assert paths("**/*.jpg") == ["p/c/d.jpg"]
    assert paths("p/.*") == ["p/.e.png", "p/.f/g.png"]
    assert paths("[pq]") == ["p/a.png", "p/b.png", "p/c/d.jpg", "q/h.png"]  # folders, as they are
    assert paths(f"{home}/p/a*") == [f"{home}/p/a.png"]
    assert find_images([Path("p/c/*.jpg")])[0] == [Found("p/c/d.jpg", "d.jpg")]


def test_a_pattern_that_fits_nothing_is_a_problem(home: Path) -> None:
    touch(home, "p/a.txt")
    for pattern in ("p/*", "nowhere/*.png", "p/*.jpg"):
        problem = only_problem(pattern)
        assert problem.where == pattern
        assert problem.why == "there is no such file, and as a pattern it fits no image"
    assert "**" in only_problem("p/a**b/*.png").why


def test_a_file_with_brackets_in_its_name_wins_over_the_pattern(home: Path) -> None:
    touch(home, "photo[1].jpg", "photo1.jpg", "*.png")
    assert paths("photo[1].jpg", "*.png") == ["photo[1].jpg", "*.png"]
    Path("photo[1].jpg").unlink()
    assert paths("photo[1].jpg") == ["photo1.jpg"]


def test_a_list_on_standard_input(home: Path) -> None:
    touch(home, "p/1.png", "p/2.png", "a b.png")
    (home / "-").touch()
    lines = b"\xef\xbb\xbfa b.png\r\n\np\nnone.jpg\n*.png\n-"
    found = paths("-", "p/2.png", listed=lambda: lines)
    assert found == ["a b.png", "p/1.png", "p/2.png", "none.jpg", "*.png", "-"]
    names = b"p/1.png\0two\nlines.png\0"
    assert paths("-", listed=lambda: names, null=True) == ["p/1.png", "two\nlines.png"]
    with pytest.raises(ConfigError, match="the names in the list end in NUL"):
        find_images([Path("-")], listed=lambda: names)
    assert only_problem("-", listed=lambda: b"\n\n").why == "there is no name on standard input"


def test_standard_input_is_read_once(home: Path) -> None:
    lists = [b"a.png\n"]
    assert paths("-", "-", listed=lists.pop) == ["a.png"]


@given(st.lists(st.binary(min_size=1).filter(lambda name: b"\0" not in name)))
def test_any_name_can_be_listed(names: list[bytes]) -> None:
    expected = [Path(os.fsdecode(name)) for name in names]
    assert read_list(b"\0".join(names), null=True) == expected
    plain = [name for name in names if not set(name) & set(b"\r\n")]
    listed = b"".join(name + b"\n" for name in plain)
    if not listed.startswith(b"\xef\xbb\xbf"):
        assert read_list(listed, null=False) == [Path(os.fsdecode(name)) for name in plain]


@pytest.mark.skipif(sys.platform == "darwin", reason="its file names are UTF-8")
def test_odd_names_are_found_as_they_are(home: Path) -> None:
    odd = [os.fsdecode(b"caf\xe9.png"), "new\nline.png", "-x.png", "=1.png"]
    touch(home / "p", *odd)
    assert sorted(paths("p")) == sorted(f"p/{name}" for name in odd)
    assert sorted(paths("p/*")) == sorted(f"p/{name}" for name in odd)


def test_ten_thousand_files_each_once(home: Path) -> None:
    (home / "p").mkdir()
    names = [f"p/{number:05d}.jpg" for number in range(10_000)]
    for name in names:
        os.close(os.open(name, os.O_CREAT))
    assert paths("p", "p/*.jpg", "p") == names


def test_a_file_that_cannot_be_opened_is_left_to_the_image_beside_it(home: Path) -> None:
    touch(home / "p", "1.CR2", "1.jpg", "2.heic", "b/1.cr2", "b/2.HEIC", "b/2.PNG", "b/2.svg")
    expected = ["p/1.jpg", "p/2.heic", "p/b/1.cr2", "p/b/2.PNG"]
    for named in ("p", "p/**", "p/**/*.*", f"{home}/p"):
        found, problems, passed_over = find_images([Path(named)])
        assert [os.path.relpath(image.path, home) for image in found] == expected
        assert (problems, passed_over) == ([], 3)
    assert paths("-", listed=lambda: b"p\n") == expected
    # A pattern that leaves the image out asks for the file itself; so does its name.
    assert paths("p/*.CR2") == ["p/1.CR2"]
    assert paths("p/b/2.svg", "p") == ["p/b/2.svg", *expected]
    assert paths("p", "p/1.CR2") == ["p/1.CR2", *expected]
    assert paths("p/1.CR2", "p/1.jpg") == ["p/1.CR2", "p/1.jpg"]
    assert paths("-", listed=lambda: b"p/1.CR2\np/1.jpg\n") == ["p/1.CR2", "p/1.jpg"]


@pytest.mark.parametrize("address", ["http://a.example/x.jpg", "https://a.example/x.jpg?w=[1]&h=*"])
def test_an_address_is_not_fetched(home: Path, address: str) -> None:
    touch(home, "a.jpg")
    expected = Problem(address, "naic fetches nothing", "Download it, and name the file.")
    assert only_problem(address) == expected
    assert only_problem("-", listed=lambda: address.encode()) == expected
    found, problems, _ = find_images([Path("a.jpg"), Path(address)])
    assert (found, problems) == ([Found("a.jpg", "a.jpg")], [expected])
    touch(home, "http:/x.jpg")
    assert paths("http:/x.jpg") == ["http:/x.jpg"]  # a folder may be called so


@pytest.mark.parametrize("name", ["nosuch/", "nosuch", "no/such", "nosuch.folder/"])
def test_what_may_have_been_a_folder_is_not_called_a_file(home: Path, name: str) -> None:
    problem = only_problem(name)
    assert (problem.where, problem.why) == (name.rstrip("/"), "there is no such file or folder")
