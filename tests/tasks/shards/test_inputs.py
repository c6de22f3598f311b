from pathlib import Path

import pytest

from naic.errors import ConfigError
from naic.tasks.shards.inputs import Shard, braces, find_shards, share


def touch(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def names(inputs: list[str], out: str = "/elsewhere") -> list[str]:
    return [shard.name for shard in find_shards(inputs, out)]


@pytest.mark.parametrize(
    ("word", "made"),
    [
        ("a.tar", ["a.tar"]),
        ("{08..11}.tar", ["08.tar", "09.tar", "10.tar", "11.tar"]),
        ("{8..10}.tar", ["8.tar", "9.tar", "10.tar"]),
        ("{0..1}{a,b}", ["0a", "0b", "1a", "1b"]),
    ],
)
def test_braces_are_those_of_a_shell(word: str, made: list[str]) -> None:
    assert list(braces(word)) == made


@pytest.mark.parametrize("word", ["{3..1}.tar", "{a}.tar", "{}.tar", "{0..999999999}.tar"])
def test_braces_that_mean_nothing_are_refused(word: str) -> None:
    with pytest.raises(ConfigError, match=r"Write \{000"):
        list(braces(word))


def test_files_folders_and_patterns(tmp_path: Path) -> None:
    touch(tmp_path, "b.tar", "a.tar", "c.parquet", "d.txt", "README.md", "deep/e.tar")
    assert names([str(tmp_path)]) == ["a", "b", "c", "d", "e"]
    assert names([str(tmp_path / "*.tar")]) == ["a", "b"]
    assert names([str(tmp_path / "**/*.tar")]) == ["a", "b", "e"]
    assert names([str(tmp_path / "{b,a}.tar"), str(tmp_path / "c.parquet")]) == ["b", "a", "c"]
    assert names([str(tmp_path / "not-looked-at.tar")]) == ["not-looked-at"]


def test_relative_names_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_shards(["a.tar"], "out") == [Shard(str(tmp_path / "a.tar"), "a")]


def test_urls_are_taken_as_they_are(tmp_path: Path) -> None:
    url = "https://host/in/{00..01}.tar?key=1"
    assert find_shards([url], "out") == [
        Shard("https://host/in/00.tar?key=1", "00"),
        Shard("https://host/in/01.tar?key=1", "01"),
    ]
    assert find_shards(["s3://b/in/{0..1}.tar"], "s3://b/out") == [
        Shard("s3://b/in/0.tar", "0"),
        Shard("s3://b/in/1.tar", "1"),
    ]


def test_outputs_among_the_inputs_are_no_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touch(tmp_path, "a.tar", "out/a.parquet")
    monkeypatch.chdir(tmp_path)
    assert names(["."], "out") == ["a"]


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("*.tar", "nothing fits"),
        ("*.md", "nothing that fits"),
        ("a.md", "no shard"),
        ("e", "in it"),
    ],
)
def test_what_gives_no_shard_is_refused(tmp_path: Path, word: str, why: str) -> None:
    touch(tmp_path, "a.md")
    (tmp_path / "e").mkdir()
    with pytest.raises(ConfigError, match=why):
        find_shards([str(tmp_path / word)], "out")


def test_two_shards_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"/b/1\.tar: its output.*/a/1\.tar"):
        find_shards(["/a/1.tar", "/b/1.tar"], "out")
    with pytest.raises(ConfigError, match="named twice"):
        find_shards(["/a/1.tar", "/a/1.tar"], "out")


def test_shares_are_all_shards_each_once() -> None:
    shards = [Shard(f"{n}.tar", f"{n}") for n in range(10)]
    parts = [share(f"{i}/3", shards) for i in (1, 2, 3)]
    assert sorted(shard.source for part in parts for shard in part) == sorted(
        shard.source for shard in shards
    )
    assert share("7/7", shards[:3]) == []
    assert share(None, shards) == shards


@pytest.mark.parametrize("part", ["0/3", "4/3", "1", "a/b", "1/0", "-1/3"])
def test_what_is_no_share_is_refused(part: str) -> None:
    with pytest.raises(ConfigError, match="first of eight"):
        share(part, [])


def test_the_name_of_the_current_folder_is_no_pattern(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touch(tmp_path, "[2023]/a.tar", "[2023]/b.tar", "2/c.tar", "{id}/{0..1}.tar")
    monkeypatch.chdir(tmp_path / "[2023]")
    assert names(["*.tar"]) == ["a", "b"]
    assert names(["later.tar"]) == ["later"]
    assert names([f"{tmp_path}/[2]/*.tar"]) == ["c"]
    assert names([f"{tmp_path}/{{id}}"]) == ["{0..1}"]  # nor is what is there as it is written
    assert names([f"{tmp_path}/{{id}}/{{0..1}}.tar"]) == ["{0..1}"]
