import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from naic.backbones.load import load_backbone
from naic.cli.main import main
from naic.data.features import FeatureStore
from naic.errors import ConfigError, StoreError, WriteError
from naic.progress import Progress
from naic.tasks.options import PrepareOptions
from naic.tasks.prepare import Prepared, dry_run, prepare
from tests.tasks.bad_files import WAYS, jpeg, make_folder
from tests.watch import watch

SMALL = ("--backbone", "efficientnet-lite0", "--pixels", "32", "--device", "cpu")


def small(out: Path | None, count: int = 40, **changes: Any) -> PrepareOptions:
    values: dict[str, Any] = {
        "reader": "shapes",
        "source": str(count),
        "out": out,
        "backbone": "efficientnet-lite0",
        "pixels": 64,
        "device": "cpu",
        "batch": 8,
        "per_shard": 16,
    }
    return PrepareOptions(**(values | changes))


def run(options: PrepareOptions) -> Prepared:
    return prepare(options)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_features_are_those_of_the_backbone(tmp_path: Path) -> None:
    done = run(small(tmp_path / "a"))
    backbone = load_backbone("efficientnet-lite0", pixels=64, device="cpu")
    for row in (0, 17, 39):
        image = done.reading.records[row].image.load()
        pixels = torch.from_numpy(np.array(image.resize((64, 64), 3)))[None]
        expected = backbone(pixels)[0].numpy()
        assert np.abs(done.store[row] - expected).max() < 0.02  # float16 of numbers up to 6
    assert [record.id for record in done.store.records[:2]] == [
        "shapes-0-000000",
        "shapes-0-000001",
    ]
    assert all(len(record.captions) == 5 for record in done.store.records)
    assert done.store.records[0].facts is not None


def test_progress_counts_up_to_the_end(tmp_path: Path) -> None:
    seen: list[Progress] = []
    prepare(small(tmp_path / "a", 20), watch(seen.append))
    assert [p.done for p in seen] == [0, 8, 16, 20]
    assert {p.total for p in seen} == {20}


def test_a_cut_off_run_goes_on_and_ends_the_same(tmp_path: Path) -> None:
    run(small(tmp_path / "whole"))

    def stop(progress: Progress) -> None:
        if progress.done >= 24:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(small(tmp_path / "cut"), watch(stop))
    assert "index.json" not in files(tmp_path / "cut")
    again = run(small(tmp_path / "cut"))
    assert again.resumed == 16
    assert files(tmp_path / "cut") == files(tmp_path / "whole")
    third = run(small(tmp_path / "cut"))
    assert third.resumed == 40
    assert files(tmp_path / "cut") == files(tmp_path / "whole")


def test_workers_do_not_change_a_byte(tmp_path: Path) -> None:
    run(small(tmp_path / "one", workers=1))
    run(small(tmp_path / "eight", workers=8))
    assert files(tmp_path / "one") == files(tmp_path / "eight")


def test_900_good_files_and_100_bad_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = make_folder(tmp_path / "photos", good=900, bad_of_each=10)
    out = tmp_path / "out"
    code = main(["prepare", "folder", str(tmp_path / "photos"), "--out", str(out), *SMALL])
    assert code == 3
    store = FeatureStore(out)
    assert len(store) == 900
    errors = [json.loads(line) for line in (out / "errors.jsonl").read_text().splitlines()]
    assert {Path(error["where"]).name for error in errors} == set(bad)
    assert len(errors) == 100
    reasons: dict[str, set[str]] = {}
    for error in errors:
        assert error["hint"]
        reasons.setdefault(bad[Path(error["where"]).name], set()).add(error["why"])
    assert set(reasons) == set(WAYS)
    assert not {Path(record.image).name for record in store.records} & set(bad)
    printed = capsys.readouterr()
    assert "100 could not be used" in printed.err
    assert str(out / "errors.jsonl") in printed.err


def test_a_bad_image_moves_no_other(tmp_path: Path) -> None:
    """Features of the good files are the same with and without bad ones among them."""
    make_folder(tmp_path / "photos", good=30, bad_of_each=1)
    options = small(tmp_path / "a", reader="folder", source=str(tmp_path / "photos"), batch=16)
    done = run(options)
    for record, row in zip(done.store.records, range(len(done.store)), strict=True):
        alone = tmp_path / "alone" / record.id
        alone.mkdir(parents=True)
        (alone / "x.jpg").write_bytes(Path(record.image).read_bytes())
        if row in (0, 13, 29):
            single = run(small(alone / "out", reader="folder", source=str(alone)))
            difference = np.abs(single.store[0] - done.store[row].astype(np.float32)).max()
            assert difference < 0.02


def test_bad_rows_stop_or_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_bytes(jpeg(1))
    table = tmp_path / "captions.csv"
    table.write_text("image,caption\nphotos/a.jpg,a square\nphotos/b.jpg,a ghost\n")
    words = ["prepare", "table", str(table), "--out", str(tmp_path / "out"), *SMALL]
    assert main(words) == 1
    assert "row 3 (line 3): the image 'photos/b.jpg' is not in" in capsys.readouterr().err
    assert not (tmp_path / "out" / "index.json").exists()
    assert main([*words, "--skip-bad"]) == 3
    assert len(FeatureStore(tmp_path / "out")) == 1
    (line,) = (tmp_path / "out" / "errors.jsonl").read_text().splitlines()
    assert "photos/b.jpg" in line


def test_images_of_a_table_are_looked_at_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "1.jpg").write_bytes(b"no image")
    (tmp_path / "table.csv").write_bytes("image;caption\n1.jpg;a café\n1.jpg\n".encode("cp1252"))
    words = ["prepare", "table", str(tmp_path / "table.csv"), "--out", str(tmp_path / "out")]
    assert main(words) == 1
    told = capsys.readouterr().err
    assert told.count("was read as Windows-1252") == 1
    assert "  1 x image: it is plain text" in told
    assert "  1 x too few cells" in told
    assert not (tmp_path / "out").exists()


def test_a_dry_run_counts_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    code = main(["prepare", "shapes", "200", "--out", str(out), "--dry-run", *SMALL])
    assert code == 0
    printed = capsys.readouterr().out
    assert "200 (train 160, val 20, test 20)" in printed
    assert "1,000" in printed
    assert "images/s here" in printed
    assert not out.exists()
    found = dry_run(small(out, 200))
    assert found.gigabytes == pytest.approx(200 * 4 * 1280 * 2 / 1e9)


def test_two_runs_cannot_share_a_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    code = (
        "import fcntl, os, sys\n"
        "fd = os.open(sys.argv[1], os.O_RDONLY)\n"
        "fcntl.flock(fd, fcntl.LOCK_EX); print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(out)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StoreError, match="another run is writing to this folder"):
            run(small(out))
        holder.communicate("")
    assert len(run(small(out)).store) == 40


def test_a_full_disk_is_said_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("naic.tasks.prepare.free_bytes", lambda _: 1000)
    with pytest.raises(StoreError, match=r"needs 0\.0 GB more, and 0\.0 GB are free"):
        run(small(tmp_path / "a"))


def test_a_disk_that_fills_up_loses_no_finished_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync, calls = os.fsync, iter(range(100))

    def failing(descriptor: int) -> None:
        if next(calls) == 6:  # the second shard: each file is synced, then its folder
            raise OSError(28, "No space left on device")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(WriteError, match="the disk is full"):
        run(small(tmp_path / "a"))
    monkeypatch.undo()
    assert run(small(tmp_path / "a")).resumed >= 16


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch": 7}, "7 does not divide --per-shard 16"),
        ({"batch": 0}, "--batch: 0 is below 1"),
        ({"per_shard": 0}, "--per-shard: 0 is below 1"),
        ({"pixels": 5}, "5 is out of range"),
        ({"workers": -1}, "is negative"),
    ],
)
def test_options_that_cannot_be(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        run(small(tmp_path / "a", **changes))
    assert not (tmp_path / "a").exists()


def test_the_folder_must_be_named() -> None:
    with pytest.raises(ConfigError, match="--out: is missing"):
        run(small(None))


def test_a_config_file_fills_in_what_is_not_typed(tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text('reader = "shapes"\nsource = "9"\npixels = 32\nbackbone = "no-such"\n')
    out = tmp_path / "out"
    words = ["prepare", "--config", str(config), "--out", str(out), "--device", "cpu"]
    assert main(words) == 1  # the backbone of the file was used
    assert main([*words, "--backbone", "efficientnet-lite0"]) == 0
    assert FeatureStore(out).index["images"] == 9
    joined = ["prepare", f"--config={config}", "--out", str(tmp_path / "b"), "--device", "cpu"]
    assert main([*joined, "--backbone", "efficientnet-lite0"]) == 0


def test_an_image_that_was_mended_can_be_tried_again(tmp_path: Path) -> None:
    make_folder(tmp_path / "photos", good=10, bad_of_each=1)
    options = small(tmp_path / "a", reader="folder", source=str(tmp_path / "photos"))
    assert len(run(options).errors) == 10
    bad = tmp_path / "photos" / "00000.jpg"
    bad.write_bytes(jpeg(0))
    assert len(run(options).errors) == 10  # finished is finished
    again = run(replace(options, retry_bad=True))
    assert len(again.errors) == 9
    assert str(bad) in {record.image for record in again.store.records}


def test_unlabelled_images_have_no_captions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(small(tmp_path / "said", 16))
    mute = run(small(tmp_path / "mute", 16, unlabelled=True))
    said = FeatureStore(tmp_path / "said").records
    for own, other in zip(mute.store.records, said, strict=True):
        assert (own.captions, own.facts) == ((), None)
        assert (own.id, own.image, own.split) == (other.id, other.image, other.split)
    assert b"caption" not in (tmp_path / "mute" / "records.jsonl").read_bytes().replace(
        b'"captions": []', b""
    )
    reading = mute.reading
    assert (reading.captions, reading.unlabelled) == (0, 16)
    assert reading.captions_seen == reading.other_captions == 16 * 5
    name = "shard-00000.safetensors"
    assert files(tmp_path / "mute")[name] == files(tmp_path / "said")[name]
    assert mute.store.index["unlabelled"] is True
    assert "unlabelled" not in FeatureStore(tmp_path / "said").index
    for folder, unlabelled in (("said", True), ("mute", False)):
        with pytest.raises(ConfigError, match=r"another .*list of images and captions"):
            run(small(tmp_path / folder, 16, unlabelled=unlabelled))
    words = ["prepare", "shapes", "4", "--out", str(tmp_path / "c"), "--unlabelled", *SMALL]
    assert main(words) == 0
    assert "captions: 0, 4 images without any" in capsys.readouterr().out


def test_a_run_that_gives_nothing_has_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_folder(tmp_path / "photos", good=0, bad_of_each=1)
    words = ["prepare", "folder", str(tmp_path / "photos"), "--out", str(tmp_path / "a"), *SMALL]
    assert main(words) == 1
    assert "not one image could be used" in capsys.readouterr().err


def test_bad_options_are_bad_usage(tmp_path: Path) -> None:
    assert main(["prepare", "shapes", "4"]) == 2
    assert main(["prepare", "shapes", "4", "--out", str(tmp_path / "a"), "--batch", "7"]) == 2
    assert main(["prepare", "shapes", "4", "--out", str(tmp_path / "a"), "--device", "mps"]) == 2


@pytest.mark.gpu
def test_the_gpu_gives_the_same_features(tmp_path: Path) -> None:
    cpu = run(small(tmp_path / "cpu")).store
    gpu = run(small(tmp_path / "gpu", device="cuda")).store
    difference = max(np.abs(cpu[i].astype(np.float32) - gpu[i]).max() for i in range(len(cpu)))
    assert difference < 0.05


def test_mirrored_images_come_after_all_others(tmp_path: Path) -> None:
    """As images of their own, of the splits asked for only, and truly turned round."""
    plain = run(small(tmp_path / "plain", 40, backbone="pixels"))
    done = run(small(tmp_path / "both", 40, backbone="pixels", mirror=("train",)))
    own = plain.store.records
    chosen = [row for row, record in enumerate(own) if record.split == "train"]
    assert 0 < len(chosen) < 40
    assert done.store.records[:40] == own
    twins = done.store.records[40:]
    assert [twin.id for twin in twins] == [f"{own[row].id}-mirrored" for row in chosen]
    for place, row in enumerate(chosen):
        twin = twins[place]
        assert (twin.captions, twin.split) == (own[row].captions, "train")
        assert twin.facts is None  # what stood on the left stands on the right
        image = np.asarray(done.store[row]).reshape(2, 2, 32, 32, 3)  # two by two cells
        mirrored = np.asarray(done.store[40 + place]).reshape(2, 2, 32, 32, 3)
        assert np.abs(image[:, ::-1, :, ::-1].astype(int) - mirrored).max() <= 1
    assert done.reading.captions == 5 * (40 + len(chosen))
    assert done.store.index["mirrored"] == ["train"]
    assert done.store.first_views == [True] * 40 + [False] * len(chosen)
    with pytest.raises(ConfigError, match="another"):
        run(small(tmp_path / "plain", 40, backbone="pixels", mirror=("train",)))
    with pytest.raises(ConfigError, match="there is no split 'trian'"):
        run(small(tmp_path / "no", 40, mirror=("trian",)))
