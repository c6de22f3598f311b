from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from naic.errors import DataError, ImageError, StorageError
from naic.tasks.shards.rows import Columns, open_rows
from tests.tasks.bad_files import jpeg
from tests.tasks.shards.made import keys, make_parquet, make_tar


def test_a_webdataset_has_images_and_what_lies_beside_them_is_passed_over(tmp_path: Path) -> None:
    assert keys(make_tar(tmp_path / "a.tar", range(3))) == ["0000", "0001", "0002"]


def test_names_that_differ_in_their_suffix_alone_stay_apart(tmp_path: Path) -> None:
    names = ["in/a.jpg", "in/a.jpeg", "in/b.2020.jpg", "in/b.2021.jpg", "in/._b.jpg"]
    tar = make_tar(tmp_path / "a.tar", dict.fromkeys(names, jpeg(1)))
    assert keys(tar) == ["in/a.jpg", "in/a.jpeg", "in/b.2020", "in/b.2021"]


def test_a_format_that_cannot_be_opened_is_a_row_and_not_forgotten(tmp_path: Path) -> None:
    tar = make_tar(tmp_path / "a.tar", {"a.heic": b"\0\0\0\x18ftypheic", "b.jpg": jpeg(1)})
    with open_rows(str(tar), Columns()) as rows:
        first, second = rows
        with pytest.raises(ImageError):
            first.image.load()
        assert second.image.load().size == (48, 48)


@pytest.mark.parametrize("kept", [700, 1024, 4096, 5000])
def test_a_tar_that_was_cut_off_is_found_before_any_image(tmp_path: Path, kept: int) -> None:
    tar = make_tar(tmp_path / "a.tar", range(9))
    whole = tar.read_bytes()
    assert len(whole) > 2 * kept
    tar.write_bytes(whole[:kept])
    with pytest.raises(DataError, match=r"a\.tar"), open_rows(str(tar), Columns()) as rows:
        next(rows)


def test_a_tar_that_was_cut_off_between_two_files_is_found_too(tmp_path: Path) -> None:
    tar = make_tar(tmp_path / "a.tar", {"a.jpg": jpeg(1), "b.jpg": jpeg(2)})
    first = 512 + -(-len(jpeg(1)) // 512) * 512  # its header, and its bytes in whole blocks
    tar.write_bytes(tar.read_bytes()[:first])
    with pytest.raises(DataError, match="cut off"), open_rows(str(tar), Columns()) as rows:
        next(rows)


def test_a_tar_without_images_is_named(tmp_path: Path) -> None:
    tar = make_tar(tmp_path / "a.tar", {"a.txt": b"a"})
    with pytest.raises(DataError, match="none of its 1 files"), open_rows(str(tar), Columns()) as r:
        next(r)


def test_parquet_has_bytes_structs_or_paths(tmp_path: Path) -> None:
    (tmp_path / "7.jpg").write_bytes(jpeg(7))
    data = [jpeg(n) for n in range(3)]
    plain = make_parquet(tmp_path / "a.parquet", id=[5, 6, 7], jpg=data)
    assert keys(plain) == ["5", "6", "7"]
    structs: list[dict[str, Any]] = [
        {"bytes": one, "path": f"{n}.jpg"} for n, one in enumerate(data)
    ]
    structs.append({"bytes": None, "path": "7.jpg"})
    assert keys(make_parquet(tmp_path / "b.parquet", image=structs)) == [
        *("0.jpg", "1.jpg", "2.jpg", "7.jpg"),
    ]
    assert keys(make_parquet(tmp_path / "c.parquet", path=["7.jpg"])) == ["7.jpg"]
    other = make_parquet(tmp_path / "d.parquet", photo=data[:1], image=["x"], name=["n"])
    assert keys(other, image="photo", key="name") == ["n"]
    assert keys(other, image="photo") == ["0"]


def test_more_rows_than_are_read_at_once_are_counted_on(tmp_path: Path) -> None:
    path = make_parquet(tmp_path / "a.parquet", image=[jpeg(1)] * 150)
    assert keys(path) == [str(n) for n in range(150)]


def test_a_row_without_an_image_is_an_error_in_its_place(tmp_path: Path) -> None:
    path = make_parquet(tmp_path / "a.parquet", image=[None, jpeg(1)])
    with open_rows(str(path), Columns()) as rows:
        first, second = rows
        with pytest.raises(ImageError, match="has no image"):
            first.image.load()
        second.image.load()


@pytest.mark.parametrize(
    ("columns", "why"),
    [(Columns("photo"), "no column 'photo'"), (Columns(), "none of its columns is known")],
)
def test_columns_that_are_not_there_are_told_with_those_that_are(
    tmp_path: Path, columns: Columns, why: str
) -> None:
    path = make_parquet(tmp_path / "a.parquet", pixels=[jpeg(1)])
    with pytest.raises(DataError, match=f"{why}.*pixels"), open_rows(str(path), columns) as rows:
        next(rows)


@pytest.mark.parametrize("keep", [0, 3, 500, -20])
def test_a_broken_parquet_file_is_named(tmp_path: Path, keep: int) -> None:
    path = make_parquet(tmp_path / "a.parquet", image=[jpeg(n) for n in range(9)])
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataError, match=r"^a\.parquet"), open_rows(str(path), Columns()) as rows:
        next(rows)


def test_damage_inside_a_parquet_file_is_found_when_it_is_met(tmp_path: Path) -> None:
    path = make_parquet(tmp_path / "a.parquet", image=[jpeg(n, 256) for n in range(200)])
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 4000] = b"\xff" * 4000
    path.write_bytes(data)
    with open_rows(str(path), Columns()) as rows:
        try:
            count = sum(1 for _ in rows)
        except DataError:
            return
    assert count == 200  # without checksums what was hit may be the bytes of an image


def test_a_list_names_files_beside_it_and_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for place in ("a/1.jpg", "2.jpg"):
        (tmp_path / place).write_bytes(jpeg(1))
    names = ["1.jpg", str(tmp_path / "2.jpg"), "../2.jpg"]
    listed = tmp_path / "a" / "list.txt"
    listed.write_text("\n".join([names[0], "", *names[1:]]) + "\r\n")
    assert keys(listed) == names


def test_a_shard_that_is_not_there_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(StorageError, match=r"none\.tar"),
        open_rows(str(tmp_path / "none.tar"), Columns()) as rows,
    ):
        next(rows)


def test_a_tar_behind_another_one_is_not_forgotten(tmp_path: Path) -> None:
    first, second = (make_tar(tmp_path / f"{n}.tar", {f"{n}.jpg": jpeg(n)}) for n in range(2))
    both = tmp_path / "both.tar"
    both.write_bytes(first.read_bytes() + second.read_bytes())
    with pytest.raises(DataError, match="more follows"), open_rows(str(both), Columns()) as rows:
        next(rows)


def test_a_list_may_begin_with_a_mark_and_name_file_urls(tmp_path: Path) -> None:
    (tmp_path / "1 2.jpg").write_bytes(jpeg(1))
    names = ["1 2.jpg", f"file://{tmp_path}/1%202.jpg"]
    listed = tmp_path / "list.txt"
    listed.write_text("\n".join(names), encoding="utf-8-sig")
    assert keys(listed) == names


def test_a_folder_with_the_name_of_a_list_is_a_problem_of_that_shard(tmp_path: Path) -> None:
    (tmp_path / "a.txt").mkdir()
    with (
        pytest.raises(StorageError, match="is a folder"),
        open_rows(str(tmp_path / "a.txt"), Columns()) as rows,
    ):
        next(rows)


def test_two_columns_of_one_name_are_a_problem_of_that_shard(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_arrays([[jpeg(1)]] * 2, names=["image", "image"]), path)
    with (
        pytest.raises(DataError, match="2 of its columns are called image"),
        open_rows(str(path), Columns()) as rows,
    ):
        next(rows)


def test_keys_of_bytes_are_texts(tmp_path: Path) -> None:
    path = make_parquet(tmp_path / "a.parquet", key=[b"a", b"\xff"], image=[jpeg(1)] * 2)
    assert keys(path) == ["a", r"\udcff"]
