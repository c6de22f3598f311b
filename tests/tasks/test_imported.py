"""`naic prepare --features`: every format gives the same store; what is wrong is told, by image."""

import json
import pickle
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from naic.backbones.load import is_tuned
from naic.cli.main import FAILED, SOME_SKIPPED, main
from naic.data.features import FeatureStore
from naic.data.joined import JoinedStore
from naic.errors import ConfigError, DataError, MissingExtraError, StoreError
from naic.progress import Progress
from naic.tasks.options import PrepareOptions
from naic.tasks.prepare import Prepared, dry_run, prepare
from tests.data.regions import files
from tests.data.regions.files import BOXED, DIM, IDS, NEED_SIZES, UNBOXED, Seen, Writer
from tests.watch import watch

SEEN = files.see()


def options(folder: Path, *features: str, **changes: Any) -> PrepareOptions:
    source = folder / "dataset_coco.json"
    if not source.exists():
        files.write_dataset(source)
    values: dict[str, Any] = {"out": folder / "store", "batch": 4, "per_shard": 4} | changes
    return PrepareOptions("karpathy", str(source), features=features, **values)


def write(writer: Writer, folder: Path, seen: Mapping[int, Seen] = SEEN) -> str:
    (folder / "given").mkdir()
    return writer(folder / "given", seen)


def check(store: FeatureStore, seen: Mapping[int, Seen] = SEEN, *, boxes: bool = True) -> None:
    rows = {record.id: row for row, record in enumerate(store.records)}
    assert set(rows) == {str(id_) for id_ in seen}
    assert store.boxes == boxes
    assert store.dim == DIM + 4 * boxes
    for id_, own in seen.items():
        row = rows[str(id_)]
        assert np.array_equal(store[row][:, :DIM], own.features.astype(np.float16))
        if boxes:
            assert np.abs(store[row][:, DIM:] - own.shares).max() < 1e-3


@pytest.mark.parametrize("writer", BOXED, ids=lambda writer: writer.__name__)
def test_each_format_gives_features_and_boxes(writer: Writer, tmp_path: Path) -> None:
    sizes = (files.write_sizes(tmp_path / "s.json"),) if writer in NEED_SIZES else ()
    done = prepare(options(tmp_path, write(writer, tmp_path), sizes=sizes))
    check(done.store)
    assert not done.errors
    records = {record.id: (row, record) for row, record in enumerate(done.store.records)}
    assert records["9"][1].captions == ("A red dog.", "A dog sits.")
    assert [records[str(id_)][1].split for id_ in IDS] == ["train"] * 4 + ["val"] * 2
    features, mask = done.store.batch([records["9"][0], records["34"][0]])
    assert features.shape == (2, 5, DIM + 4)
    assert mask.sum(1).tolist() == [2, 5]


@pytest.mark.parametrize("writer", UNBOXED, ids=lambda writer: writer.__name__)
def test_formats_without_boxes(writer: Writer, tmp_path: Path) -> None:
    check(prepare(options(tmp_path, write(writer, tmp_path))).store, boxes=False)


def test_boxes_can_be_left_out(tmp_path: Path) -> None:
    given = write(files.tsv, tmp_path)
    check(prepare(options(tmp_path, given, without_boxes=True)).store, boxes=False)
    check(prepare(options(tmp_path, given, out=tmp_path / "boxed")).store)


def test_several_files_are_one_source(tmp_path: Path) -> None:
    """Of an image that two have the first counts."""
    (tmp_path / "other").mkdir()
    half = {id_: SEEN[id_] for id_ in IDS[:3]}
    others = files.see(seed=1)
    first = write(files.tsv, tmp_path, half)
    done = prepare(options(tmp_path, first, files.mcan(tmp_path / "other", others)))
    check(done.store, {**others, **half} | {id_: half[id_] for id_ in half})


def test_stores_of_the_same_features_go_together(tmp_path: Path) -> None:
    """Whatever formats they came in; with boxes and without they are not the same."""
    first = prepare(options(tmp_path, write(files.tsv, tmp_path))).store
    (tmp_path / "more").mkdir()
    more = options(tmp_path, files.mcan(tmp_path / "more", SEEN), out=tmp_path / "two")
    joined = JoinedStore([first, prepare(more).store])
    assert len(joined) == 2 * len(SEEN)
    assert not is_tuned(joined.index)
    plain = prepare(replace(more, out=tmp_path / "three", without_boxes=True)).store
    with pytest.raises(StoreError, match="not like those of"):
        JoinedStore([first, plain])


def test_images_without_features_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    some = {id_: SEEN[id_] for id_ in IDS[2:]} | {7: SEEN[9]}
    given = write(files.tsv, tmp_path, some)
    with pytest.raises(DataError, match=r"(?s)2 x image without features.*image 9.*000000009\.jpg"):
        prepare(options(tmp_path, given))
    assert not (tmp_path / "store").exists()
    source = str(tmp_path / "dataset_coco.json")
    words = ["prepare", "karpathy", source, "--features", given, "--out", str(tmp_path / "store")]
    assert main([*words, "--skip-bad", "--batch", "4", "--per-shard", "4"]) == SOME_SKIPPED
    told = capsys.readouterr()
    assert "unused:   features of 1 images that are none of these" in told.out
    assert "2 to 5 x (8 + box)" in told.out
    store = FeatureStore(tmp_path / "store")
    check(store, {id_: SEEN[id_] for id_ in IDS[2:]})
    assert store.index["errors"] == 2
    assert main(["show", str(tmp_path / "store")]) == 0


def test_features_of_another_dataset_are_refused(tmp_path: Path) -> None:
    given = write(files.tsv, tmp_path, {id_ + 1: own for id_, own in SEEN.items()})
    assert main(["prepare", "karpathy", options(tmp_path, given).source, "--features", given,
                 "--out", str(tmp_path / "store"), "--skip-bad"]) == FAILED  # fmt: skip


def test_a_cut_off_import_goes_on_and_ends_the_same(tmp_path: Path) -> None:
    given = write(files.tsv, tmp_path)
    own = options(tmp_path, given, per_shard=2, batch=2)
    prepare(own)

    def stop(progress: Progress) -> None:
        if progress.done >= 6:
            raise KeyboardInterrupt

    cut = replace(own, out=tmp_path / "cut")
    with pytest.raises(KeyboardInterrupt):
        prepare(cut, watch(stop))
    assert not (tmp_path / "cut/index.json").exists()
    done = prepare(cut)
    assert done.resumed >= 2
    assert contents(tmp_path / "cut") == contents(tmp_path / "store")
    with pytest.raises(ConfigError, match=r"begun with .*boxes = True"):
        prepare(replace(cut, without_boxes=True))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def damage(folder: Path) -> None:
    """The end of a download is missing: the last line has half of its features."""
    path = next(folder.glob("*.tsv"))
    path.write_bytes(path.read_bytes()[:-100])


def test_a_cut_file_costs_its_last_image(tmp_path: Path) -> None:
    given = write(files.tsv, tmp_path)
    damage(tmp_path / "given")
    done = prepare(options(tmp_path, given))
    check(done.store, {id_: SEEN[id_] for id_ in IDS[:-1]})
    (problem,) = done.errors
    assert "391895" in problem.where
    files.tsv(tmp_path / "given", SEEN)
    check(prepare(options(tmp_path, given, retry_bad=True)).store)


def changed(**changes: Any) -> dict[int, Seen]:
    return {**SEEN, 30: replace(SEEN[30], **changes)}


@pytest.mark.parametrize(
    ("own", "why"),
    [
        (changed(features=np.full((4, DIM), 1e6, np.float32)), "do not fit float16"),
        (changed(features=np.full((4, DIM), np.nan, np.float32)), "do not fit float16"),
        (changed(features=np.ones((4, DIM + 1), np.float32)), "have 9 numbers, others have 8"),
        (changed(features=np.ones((3, DIM), np.float32)), "have 3 numbers, others have 8"),
        (changed(boxes=SEEN[30].boxes + 300), "ends outside of an image of 640 x 480"),
        (changed(boxes=SEEN[30].boxes[:, ::-1]), "ends outside|ends before it begins"),
    ],
)
def test_what_an_image_has_wrong_is_named(own: dict[int, Seen], why: str, tmp_path: Path) -> None:
    (problem,) = prepare(options(tmp_path, write(files.mcan, tmp_path, own))).errors
    assert "000000000030" in problem.where
    assert re.search(why, problem.why)


def test_boxes_in_pixels_need_sizes(tmp_path: Path) -> None:
    given = write(files.m2, tmp_path)
    with pytest.raises(ConfigError, match=r"--sizes: is missing: the boxes are in pixels"):
        prepare(options(tmp_path, given))
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps({"images": [{"id": 9}]}))
    with pytest.raises(DataError, match="no image with width and height"):
        prepare(options(tmp_path, given, sizes=(wrong,)))
    check(prepare(options(tmp_path, given, without_boxes=True)).store, boxes=False)


class Evil:
    """What a pickle can do to who loads it."""

    def __reduce__(self) -> Any:
        return (print, ("the pickle ran",))


def test_nothing_is_unpickled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The step that would call something is refused by its name, wherever a pickle can be."""
    entries = {str(id_).encode(): pickle.dumps({"features": Evil()}) for id_ in IDS}
    with pytest.raises(DataError, match=r"more than plain data: (STACK_)?GLOBAL.*numpy\.savez"):
        prepare(options(tmp_path, files.lmdb_of(tmp_path / "lmdb", entries)))
    folder = tmp_path / "objects"
    folder.mkdir()
    for id_ in IDS:
        np.savez(folder / f"{id_}.npz", feat=np.array([Evil()], dtype=object))
    with pytest.raises(DataError, match=r"no whole file of numpy \(Object arrays cannot be"):
        prepare(options(tmp_path, f"npz:{folder}"))
    assert "the pickle ran" not in capsys.readouterr().out


@pytest.mark.parametrize("module", ["h5py", "lmdb", "pyarrow", "msgpack"])
def test_a_missing_package_is_named_with_its_extra(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writers = {"h5py": files.m2, "lmdb": files.vilbert, "pyarrow": files.parquet}
    given = write(writers.get(module, files.uniter), tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"{module}: .*naic\[regions\]"):
        prepare(options(tmp_path, given))


def test_files_that_are_something_else_are_refused(tmp_path: Path) -> None:
    noise = tmp_path / "noise"
    noise.write_bytes(b"no such format " * 100)
    for kind, why in {
        "tsv": "no line of such a table",
        "hdf5": "cannot be opened as HDF5",
        "lmdb": "cannot be opened as an LMDB",
        "tar": "cannot be read as a tar",
        "arrow": "neither Parquet nor Arrow",
        "npz": "there is no such folder",
    }.items():
        with pytest.raises(DataError, match=why):
            prepare(options(tmp_path, f"{kind}:{noise}"))
    for wrong in ("noise", "zip:noise"):
        with pytest.raises(ConfigError, match="does not begin with a format"):
            prepare(options(tmp_path, wrong))
    with pytest.raises(DataError, match="no such file or folder"):
        prepare(options(tmp_path, "tsv:nowhere"))


def test_options_that_do_not_go_together(tmp_path: Path) -> None:
    for wrong in ({"mirror": ("train",)}, {"images": (tmp_path,)}, {"pixels": 64}):
        with pytest.raises(ConfigError, match="no image is opened"):
            prepare(options(tmp_path, "tsv:x", **wrong))
    with pytest.raises(ConfigError, match=r"--sizes: there are no --features"):
        prepare(options(tmp_path, sizes=(tmp_path,)))


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    found = dry_run(options(tmp_path, write(files.tsv, tmp_path)))
    regions = sum(len(own.boxes) for own in SEEN.values())
    assert found.gigabytes == pytest.approx(regions * (DIM + 4) * 2 / 1e9)
    assert found.images_per_second
    assert not (tmp_path / "store").exists()


@pytest.mark.slow
def test_a_table_is_not_read_into_memory(tmp_path: Path) -> None:
    """A TSV of 60 MB, in a process that may have 40 MB more than it began with."""
    seen = {id_: Seen(np.ones((100, 2048), np.float32), np.full((100, 4), 9, np.float32))
            for id_ in range(1, 3)}  # fmt: skip
    given = write(files.tsv, tmp_path, seen)
    path = next((tmp_path / "given").glob("*.tsv"))
    lines = path.read_bytes().split(b"\r\n")[0].partition(b"\t")[2]
    with path.open("wb") as file:
        for id_ in range(1, 56):
            file.write(b"%d\t%s\n" % (id_, lines))
    files.write_dataset(tmp_path / "dataset_coco.json", tuple(range(1, 56)))
    script = (
        "import resource, sys; from pathlib import Path; from naic.tasks.imported import *;"
        "from naic.tasks.prepare import prepare;"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss;"
        "o = PrepareOptions('karpathy', sys.argv[1], Path(sys.argv[2]), features=(sys.argv[3],),"
        " batch=2, per_shard=2); prepare(o);"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    own = options(tmp_path, given)
    words = [sys.executable, "-c", script, own.source, str(own.out), given]
    told = subprocess.run(words, capture_output=True, text=True, check=True)
    assert path.stat().st_size > 55 * 1_000_000
    assert int(told.stdout) < 40_000  # kilobytes
    assert len(FeatureStore(tmp_path / "store")) == 55


def test_prepared_is_told_apart_in_plans(tmp_path: Path) -> None:
    """The plan names formats and files, and not where they lie."""
    done: Prepared = prepare(options(tmp_path, write(files.tsv, tmp_path), backbone="bottom-up"))
    assert done.store.index["features"] == ["tsv:given"]
    assert done.store.origin == "imported:bottom-up"
    assert str(tmp_path) not in (tmp_path / "store/plan.json").read_text()
