import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from naic.data.features import FeatureStore
from naic.decode.stepwise import beam_search
from naic.errors import ConfigError, StoreError
from naic.files import TEMPORARY_SUFFIX
from naic.models.folder import load_model
from naic.progress import Progress
from naic.tasks.distil import distil
from naic.tasks.options import DistilOptions
from tests.data.stores import make_store
from tests.tasks.teachers import distil_options, make_home, make_teacher, run
from tests.train.runs import IMAGES, VALIDATION, on_one_thread
from tests.watch import watch

ALL = IMAGES + VALIDATION


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with on_one_thread():
        yield make_home(tmp_path_factory.mktemp("home"))


@pytest.fixture
def options(home: Path, tmp_path: Path) -> DistilOptions:
    return distil_options(home, tmp_path / "out")


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def by_hand(options: DistilOptions) -> Iterator[tuple[list[list[int]], list[float]]]:
    """Beam search on each image alone."""
    model: Any = load_model(options.model).model
    store = FeatureStore(options.features[0])
    for row in range(len(store)):
        features = torch.from_numpy(store[row].copy())[None]
        with torch.no_grad():
            beams = beam_search(model, model.encode(features), options.beam, options.keep)
        yield beams.words[0].tolist(), beams.scores[0].tolist()


def test_captions_are_those_of_beam_search(options: DistilOptions) -> None:
    done = run(options)
    assert done.store is not None
    assert (done.images, done.resumed, done.missing, done.errors) == (IMAGES, 0, 0, [])
    taught = done.store.taught
    assert list(taught) == [str(row) for row in range(IMAGES)]
    words = done.store.vocabulary
    assert {e for own in taught.values() for e in own.ended} == {True, False}
    assert len({own.captions for own in taught.values()}) > IMAGES // 2
    for own, (ids, scores) in zip(taught.values(), by_hand(options), strict=False):
        spoken = [i[: i.index(0)] if 0 in i else i for i in ids]
        assert own.sentences() == [
            ([words.word(i) for i in said], 0 in whole)
            for said, whole in zip(spoken, ids, strict=True)
        ]
        assert own.scores == pytest.approx(scores, abs=1e-3)


def test_provenance_is_kept(options: DistilOptions) -> None:
    store = run(options).store
    assert store is not None
    index = store.index
    assert index["teacher"]["folder"] == f"{options.model.parent.name}/teacher"
    assert index["teacher"]["vocabulary"] == store.vocabulary.fingerprint
    assert (index["beam"], index["keep"], index["splits"]) == (3, 2, ["train"])
    assert (index["images"], index["captions"]) == (IMAGES, 2 * IMAGES)
    assert [shard["images"] for shard in index["shards"]] == [12, 12, 12, 4]
    assert index["features"][0].keys() == {"backbone", "weights", "pixels", "index", "records"}
    assert (store.folder / "vocab.json").read_bytes() == (options.model / "vocab.json").read_bytes()


def test_a_run_that_was_cut_off_goes_on_and_ends_the_same(
    options: DistilOptions, tmp_path: Path
) -> None:
    seen: list[Progress] = []
    distil(options, watch(seen.append))
    counts = [p.done for p in seen]
    assert counts == [0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 40]
    whole = files(options.out)
    for cut in counts:
        again = replace(options, out=tmp_path / f"cut-{cut}")

        def stop(progress: Progress, cut: int = cut) -> None:
            if progress.done == cut:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            distil(again, watch(stop))
        assert "index.json" not in files(again.out)
        # A shard is written after the report of its last batch.
        kept = 12 * (max(cut - 1, 0) // 12)
        assert run(again).resumed == kept
        assert files(again.out) == whole
        assert run(again).resumed == IMAGES
        assert files(again.out) == whole


def test_a_damaged_shard_is_made_again(options: DistilOptions) -> None:
    run(options)
    whole = files(options.out)
    (options.out / "shard-00002.jsonl").write_bytes(whole["shard-00002.jsonl"][:-9])
    assert run(options).resumed == IMAGES - 12
    assert files(options.out) == whole


def test_a_killed_run_goes_on_and_ends_the_same(options: DistilOptions, tmp_path: Path) -> None:
    """With SIGKILL, one time between two shards and one time within a write."""
    slow = replace(options, batch=1, beam=40, keep=1, splits=())  # shards of 4
    words = f"distil {slow.model} --features {slow.features[0]} --batch 1 --beam 40 --device cpu"
    command = [sys.executable, "-m", "naic", *words.split(), "--out", str(slow.out)]
    quiet = subprocess.DEVNULL
    threads = os.environ | {"OMP_NUM_THREADS": "1"}  # as here
    # A write is over in a moment: on a busy machine one may pass unseen, so any of several will do.
    for pattern in ("shard-00002.jsonl", f"shard-0000[3-9].jsonl.*{TEMPORARY_SUFFIX}"):
        with subprocess.Popen(command, stdout=quiet, stderr=quiet, env=threads) as process:
            while process.poll() is None and not list(slow.out.glob(pattern)):
                time.sleep(0.0002)
            process.kill()
        assert process.returncode == -signal.SIGKILL
        assert not (slow.out / "index.json").exists()
    assert 3 * 4 <= run(slow).resumed < ALL
    run(replace(slow, out=tmp_path / "whole"))
    assert files(slow.out) == files(tmp_path / "whole")


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 1, 2)])
def test_parts_make_the_same_store(
    order: tuple[int, ...], options: DistilOptions, tmp_path: Path
) -> None:
    run(options)
    shared = replace(options, out=tmp_path / "shared")
    sizes = {1: 12 + 4, 2: 12, 3: 12}  # four shards for three
    left = IMAGES
    for part in order:
        done = run(replace(shared, part=f"{part}/3"))
        left -= sizes[part]
        assert (done.images, done.missing) == (sizes[part], left)
        assert (done.store is None) == (part != order[-1])
    assert files(shared.out) == files(options.out)


def test_parts_work_side_by_side_and_keep_others_out(options: DistilOptions) -> None:
    """The second part begins while the first is at work; a run of all is refused."""
    first, second = (replace(options, part=f"{i}/2") for i in (1, 2))

    def meanwhile(progress: Progress) -> None:
        if progress.done == 3:
            with pytest.raises(StoreError, match="another run is writing to this folder"):
                run(options)
            assert run(second).missing == IMAGES // 2 + 4

    (options.out).mkdir()
    (options.out / f"shard-00000.jsonl.1-2{TEMPORARY_SUFFIX}").write_bytes(b"of a killed run")
    done = distil(first, watch(meanwhile))
    assert done.store is not None
    assert len(done.store.taught) == IMAGES
    assert not list(options.out.glob(f"*{TEMPORARY_SUFFIX}"))


def test_what_people_said_is_not_read(options: DistilOptions, tmp_path: Path) -> None:
    shutil.copytree(options.features[0], tmp_path / "mute")
    path = tmp_path / "mute" / "records.jsonl"
    rows = [json.loads(line) | {"captions": []} for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run(options)
    mute = replace(options, features=(tmp_path / "mute",), out=tmp_path / "other")
    run(mute)
    for name, data in files(options.out).items():
        if name.startswith("shard-"):
            assert (mute.out / name).read_bytes() == data


def test_splits_and_stores_are_chosen(options: DistilOptions, tmp_path: Path) -> None:
    store = run(replace(options, splits=())).store
    assert store is not None
    assert len(store.taught) == ALL
    val = run(replace(options, splits=("val",), out=tmp_path / "val")).store
    assert val is not None
    assert val.captions == {str(i): store.captions[str(i)] for i in range(IMAGES, ALL)}


def test_of_a_narrow_beam_what_is_found_is_kept(home: Path, tmp_path: Path) -> None:
    """One word and a period: there are fewer sentences than places in the beam."""
    store = FeatureStore(home / "store")
    teacher = make_teacher(tmp_path / "teacher", store, length=1)
    wide = replace(distil_options(home, tmp_path / "out"), beam=100, keep=100)
    done = run(replace(wide, model=teacher))
    assert done.store is not None
    sayable = len(done.store.vocabulary) - 3
    assert {len(own.captions) for own in done.store.taught.values()} == {sayable}
    own = done.store.taught["0"]
    assert sum(own.ended) == 1
    assert own.captions[own.ended.index(True)] == ""


def test_images_of_different_sizes_are_captioned_as_alone(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", [["a cat sits"]] * 7, regions=[2, 5, 1, 3, 5, 2, 4])
    teacher = make_teacher(tmp_path / "teacher", store)
    options = DistilOptions(teacher, tmp_path / "out", (tmp_path / "store",), batch=4, device="cpu")
    done = run(options)
    assert done.store is not None
    for own, (ids, scores) in zip(done.store.taught.values(), by_hand(options), strict=True):
        said = [done.store.vocabulary.word(i) for i in ids[0] if i > 3]
        assert own.sentences()[0][0] == said
        assert own.scores == pytest.approx(scores, abs=1e-3)


@pytest.mark.gpu
def test_a_gpu_says_the_same(options: DistilOptions, tmp_path: Path) -> None:
    cpu = run(options).store
    gpu = run(replace(options, device="cuda", out=tmp_path / "gpu")).store
    assert cpu is not None
    assert gpu is not None
    assert gpu.captions == cpu.captions
    for id_, scores in gpu.scores.items():
        assert scores == pytest.approx(cpu.scores[id_], abs=1e-3)
    half = replace(options, device="cuda", precision="bfloat16", out=tmp_path / "half")
    store = run(half).store
    assert store is not None
    same = [store.captions[id_] == said for id_, said in cpu.captions.items()]
    assert sum(same) > len(same) // 2
    with pytest.raises(ConfigError, match="it was begun with precision"):
        run(replace(half, precision="float32"))


def test_importing_it_does_not_import_torch() -> None:
    code = "import sys, naic.tasks.distil; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
