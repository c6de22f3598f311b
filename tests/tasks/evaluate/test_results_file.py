"""Files of results: what is refused, and whose image a caption is of."""

import gzip
import json
import lzma
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naic.data.readers.captions import Captions, ImageCaptions
from naic.data.records import Problems
from naic.errors import DataError
from naic.images.formats import plain_id
from naic.tasks.evaluate.results_file import ResultsFile, pair, read_results


def write(path: Path, *rows: tuple[object, object]) -> Path:
    value = [{"image_id": image, "caption": caption} for image, caption in rows]
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def references(*images: ImageCaptions, others: Sequence[ImageCaptions] = ()) -> Captions:
    splits = Counter(image.split for image in images)
    return Captions("karpathy", list(images), splits, list(others))


ONE = ImageCaptions("1", ("a dog",), "val")
TWO = ImageCaptions("2", ("a cat", "the cat"), "val")
THREE = ImageCaptions("3", ("a cup",), "test")


def paired(
    path: Path,
    *images: ImageCaptions,
    others: Sequence[ImageCaptions] = (),
    subset: bool = False,
    splits: tuple[str, ...] = (),
) -> dict[str, str]:
    """The caption for each image scored."""
    found, (captions,) = pair(
        [read_results(path)],
        references(*images, others=others),
        splits=splits,
        subset=subset,
        problems=Problems(),
    )
    return {image.id: caption for image, caption in zip(found, captions, strict=True)}


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress])
def test_plain_and_packed(pack: type[bytes], tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_bytes(pack(b'[{"image_id": 42, "caption": "a dog", "score": 0.5}]'))
    (result,) = read_results(path).results
    assert (result.image_id, result.caption) == ("42", "a dog")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("[{", r"broken JSON at column 3"),
        ('{"annotations": []}', "holds an object where a list of captions is expected"),
        ("[]", "there is no caption in it"),
        ('[{"image_id": 1, "caption": "a"}, 7]', "r.json, entry 2: it is a number"),
        ('[{"caption": "a"}]', "r.json, entry 1: there is no 'image_id'"),
        ('[{"image_id": 1}]', "entry 1: there is no 'caption'"),
        ('[{"image_id": 1, "caption": null}]', "entry 1: the caption is null, not a string"),
        ('[{"image_id": 1, "caption": ["a"]}]', "the caption is a list"),
        ('[{"image_id": 1.5, "caption": "a"}]', "'image_id' is the number 1.5"),
        ('[{"image_id": true, "caption": "a"}]', "'image_id' is true or false"),
        ('[{"image_id": null, "caption": "a"}]', "'image_id' is null"),
        ('[{"image_id": 1, "caption": "\\ud800"}]', "not valid Unicode"),
        ('[{"image_id": 1, "image_id": 2, "caption": "a"}]', "the key 'image_id' twice"),
    ],
)
def test_bad_files_are_refused_by_name(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message) as caught:
        read_results(path)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("reference", "given"),
    [
        ("42", 42),
        ("42", "42"),
        ("42", "000000000042.jpg"),
        ("42", "COCO_val2014_000000000042.jpg"),
        ("42", "val2014/COCO_val2014_000000000042.jpg"),
        ("000000000042", 42),
        ("val2014/COCO_val2014_000000000042", 42),
        ("COCO_val2014_000000000042", "000000000042"),
        ("1000268201_693b08cb0e", "1000268201_693b08cb0e.jpg"),
        ("holiday/dog", "dog.PNG"),
        ("v1.2", "v1.2"),
        ("val2014/42", "/data/coco/val2014/COCO_val2014_000000000042.jpg"),
        ("a/b/1", "b/1.jpg"),
        ("b/1", "./a/b/1.jpg"),
        ("0", "000"),
    ],
)
def test_one_image_under_many_names(reference: str, given: object, tmp_path: Path) -> None:
    path = write(tmp_path / "r.json", (given, "a dog"))
    assert paired(path, ImageCaptions(reference, ("x",), "")) == {reference: "a dog"}


def test_different_images_stay_apart(tmp_path: Path) -> None:
    path = write(tmp_path / "r.json", ("a/1", "one"), ("1", "two"), ("001", "three"))
    images = [ImageCaptions(id_, ("x",), "") for id_ in ("001", "1", "a/1")]
    assert paired(path, *images) == {"001": "three", "1": "two", "a/1": "one"}
    path = write(tmp_path / "r.json", ("0001", "one"))
    with pytest.raises(DataError, match="entry 1: image 0001 could be 001 or 1"):
        paired(path, *images, subset=True)


@pytest.mark.parametrize(
    ("reference", "given"),
    [
        ("val/1", "train/1.jpg"),
        ("a/b/1", "c/b/1"),
        ("val/1", "val/train/1"),
        ("COCO_val2014_000000000042", "COCO_train2014_000000000042.jpg"),
        ("val2014/COCO_val2014_000000000042", "train2014/COCO_train2014_000000000042.jpg"),
    ],
)
def test_folders_and_prefixes_must_agree(reference: str, given: str, tmp_path: Path) -> None:
    path = write(tmp_path / "r.json", (given, "a dog"))
    with pytest.raises(DataError, match="1 of 1 captions are of images that are not among the 1 "):
        paired(path, ImageCaptions(reference, ("x",), ""))


def test_images_of_one_plain_name_are_found_as_they_are_written(tmp_path: Path) -> None:
    images = [ImageCaptions("train/1", ("x",), "train"), ImageCaptions("val/1", ("x",), "val")]
    path = write(tmp_path / "r.json", ("train/1.jpg", "one"), ("val/1", "two"))
    assert paired(path, *images) == {"train/1": "one", "val/1": "two"}
    for id_ in ("1", "data/val/1.jpg"):
        path = write(tmp_path / "r.json", (id_, "one"))
        with pytest.raises(DataError, match=f"entry 1: image {id_} could be val/1 or train/1"):
            paired(path, images[1], others=images[:1], splits=("val",))


def test_images_of_another_split_are_refused_with_its_name(tmp_path: Path) -> None:
    path = write(tmp_path / "r.json", (1, "a"), ("3.jpg", "b"))
    why = r"1 of 2 captions are of images of split test \(3.jpg\). Check --split"
    with pytest.raises(DataError, match=why):
        paired(path, ONE, TWO, others=[THREE], subset=True, splits=("val",))


def test_long_ids_are_cut_in_messages(tmp_path: Path) -> None:
    path = write(tmp_path / "r.json", ("x" * 5000, "a"))
    with pytest.raises(DataError) as caught:
        paired(path, ONE)
    assert f"({'x' * 80}...)" in caught.value.why


@given(st.text(st.characters(exclude_characters="./"), min_size=1))
def test_folder_and_suffix_do_not_matter(id_: str) -> None:
    assert plain_id(f"a/b/{id_}.jpg") == plain_id(id_)


@given(st.integers(min_value=0, max_value=10**11))
def test_numbers_survive(number: int) -> None:
    for name in (f"{number}", f"{number:012d}.jpg", f"COCO_train2014_{number:012d}.jpg"):
        assert plain_id(name) == str(number)


def test_an_image_twice(tmp_path: Path) -> None:
    path = write(tmp_path / "r.json", (1, "a"), (2, "b"), ("01.jpg", "c"))
    with pytest.raises(DataError, match=r"r.json, entry 3: image 1 has a caption already, in en"):
        paired(path, ONE, TWO)


def test_images_that_nobody_knows(tmp_path: Path) -> None:
    path = write(tmp_path / "r.json", (1, "a"), *((n, "b") for n in range(10, 17)))
    why = "7 of 8 captions are of images that are not among the 1 references of split val "
    with pytest.raises(DataError, match=why + r"\(10, 11, 12, 13, 14, \.\.\.\)"):
        paired(path, ONE, subset=True, splits=("val",))


def test_images_without_a_caption(tmp_path: Path) -> None:
    path = write(tmp_path / "r.json", (1, "a"))
    with pytest.raises(DataError, match=r"1 of the 2 images .* no caption in it \(2\).*--subset"):
        paired(path, ONE, TWO)
    assert paired(path, ONE, TWO, subset=True) == {"1": "a"}


def test_the_split_that_is_meant_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "r.json", (1, "a"), (2, "b"))
    with pytest.raises(DataError, match=r"Its images are of split val: pass --split val\."):
        paired(path, ONE, TWO, THREE)


def test_images_without_references(tmp_path: Path) -> None:
    bare = ImageCaptions("9", (), "val")
    path = write(tmp_path / "r.json", (9, "a"), (1, "b"))
    with pytest.raises(DataError, match=r"1 of its images have no human caption .*\(9\)"):
        paired(path, ONE, bare)
    assert paired(path, ONE, bare, subset=True) == {"1": "b"}
    assert paired(write(path, (1, "b")), ONE, bare) == {"1": "b"}
    with pytest.raises(DataError, match="not one image has a human caption"):
        paired(write(path, (9, "b")), bare)


def test_two_files_are_scored_on_the_same_images(tmp_path: Path) -> None:
    files: list[ResultsFile] = [
        read_results(write(tmp_path / "a.json", (2, "a"), (1, "b"))),
        read_results(write(tmp_path / "b.json", (3, "c"), (2, "d"))),
    ]
    images, captions = pair(
        files, references(ONE, TWO, THREE), splits=(), subset=True, problems=Problems()
    )
    assert images == [TWO]
    assert captions == [["a"], ["d"]]
    with pytest.raises(DataError, match="no image is left to score"):
        pair(
            [read_results(write(tmp_path / "a.json", (1, "b"))), files[1]],
            references(ONE, TWO, THREE),
            splits=(),
            subset=True,
            problems=Problems(),
        )
