"""What is made of a shard: the same bytes whoever makes it, and the same as without shards."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from naic.data.features import FeatureStore
from naic.data.pseudo import PseudoStore, look_up
from naic.errors import ConfigError, MissingExtraError, Problem, StoreError
from naic.runtime.captioner import Captioner
from naic.tasks.distil import distil
from naic.tasks.options import DistilOptions, PrepareOptions
from naic.tasks.prepare import prepare
from naic.tasks.shards.folder import OutFolder
from naic.tasks.shards.inputs import Shard, named
from naic.tasks.shards.joining import join_store
from naic.tasks.shards.making import Worker
from naic.tasks.shards.options import (
    Asked,
    CaptionShards,
    DistilShards,
    PrepareShards,
    task_of,
)
from tests.runtime.small import NETWORK, PIXELS
from tests.tasks.bad_files import jpeg
from tests.tasks.shards.made import captions, make_parquet, make_tar

IMAGES = 7  # in batches of three, so that the last one is not full


def home(folder: Path) -> list[Shard]:
    """Two shards, one with a bad image; and the good ones as files, in the same order."""
    broken = {f"{n}.jpg": b"no image" if n == 2 else jpeg(n) for n in range(IMAGES)}
    tar = make_tar(folder / "a.tar", broken)
    table = make_parquet(
        folder / "b.parquet", key=["x", "y", "x"], image=[jpeg(8), jpeg(9), jpeg(10)]
    )
    for name, data in broken.items():
        path = folder / "photos" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    return [named(str(tar)), named(str(table))]


def captioning(folder: Path, models: Path, **others: Any) -> CaptionShards:
    model, out = models / "seeing", str(folder / "out")
    return CaptionShards(inputs=("-",), out=out, model=model, device="cpu", batch=3, **others)


def made(asked: Asked, shards: list[Shard]) -> dict[str, bytes]:
    """The bytes of the outputs by their names."""
    worker = Worker(asked, lambda problem: pytest.fail(str(problem)))
    for shard in shards:
        assert worker(shard).problem is None
    out = OutFolder(asked.out, task_of(asked))
    return {shard.name: Path(out.output(shard.name)).read_bytes() for shard in shards}


def test_captions_are_those_of_the_captioner_and_bad_images_are_rows(
    tmp_path: Path, models: Path
) -> None:
    shards = home(tmp_path)
    asked = captioning(tmp_path, models, alternatives=2)
    worker = Worker(asked, lambda problem: pytest.fail(str(problem)))
    statistics = [worker(shard).statistics for shard in shards]
    assert [(own.images, own.errors) for own in statistics if own] == [(IMAGES, 1), (3, 0)]
    rows = captions(tmp_path / "out/a.parquet")
    assert [row["key"] for row in rows] == [f"{n}" for n in range(IMAGES)]
    photos = [tmp_path / f"photos/{n}.jpg" for n in range(IMAGES)]
    said = list(Captioner(models / "seeing", device="cpu").each(photos, alternatives=2))
    for number, (row, own) in enumerate(zip(rows, said, strict=True)):
        if number == 2:
            assert (row["caption"], row["confidence"], row["alternatives"]) == (None, None, None)
            assert "image" in row["error"]
            assert str(tmp_path) not in row["error"]
        else:
            assert not isinstance(own, Exception)
            assert row["error"] is None
            assert row["caption"] == own.text
            assert row["confidence"] == pytest.approx(own.confidence, rel=1e-3)
            assert [one["caption"] for one in row["alternatives"]] == [
                one.text for one in own.alternatives
            ]
    assert [row["key"] for row in captions(tmp_path / "out/b.parquet")] == ["x", "y", "x"]


@pytest.mark.parametrize("task", ["caption", "prepare", "distil"])
def test_the_same_bytes_from_anywhere_in_any_order(
    tmp_path: Path, models: Path, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = home(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    second = home(tmp_path / "elsewhere")

    def asked(out: Path) -> Asked:
        if task == "caption":
            return captioning(out, models)
        both: dict[str, Any] = {"inputs": ("-",), "out": str(out / "out"), "device": "cpu"}
        if task == "prepare":
            return PrepareShards(backbone=NETWORK, pixels=PIXELS, batch=3, **both)
        return DistilShards(model=models / "teacher", batch=3, keep=2, **both)

    one = made(asked(tmp_path), first)
    monkeypatch.chdir(tmp_path)
    assert made(asked(tmp_path / "elsewhere"), second[::-1]) == one


def test_a_damaged_shard_is_told_and_noted_and_the_next_one_is_made(
    tmp_path: Path, models: Path
) -> None:
    shards = home(tmp_path)
    Path(shards[0].source).write_bytes(b"no tar at all" * 100)
    worker = Worker(captioning(tmp_path, models), lambda problem: None)
    outcome = worker(shards[0])
    assert outcome.problem is not None
    assert outcome.problem.where == shards[0].source
    assert worker(Shard(str(tmp_path / "none.tar"), "none")).problem is not None
    assert worker(shards[1]).statistics is not None
    out = OutFolder(str(tmp_path / "out"), "caption")
    assert out.look().done == {"b"}
    assert out.look().failed == {"a", "none"}
    assert out.problem("a") == outcome.problem


def test_features_join_to_the_store_that_prepare_makes(tmp_path: Path, models: Path) -> None:
    shards = home(tmp_path)
    asked = PrepareShards(
        inputs=("-",),
        out=str(tmp_path / "out"),
        backbone=NETWORK,
        pixels=PIXELS,
        device="cpu",
        batch=3,
    )
    made(asked, shards)
    store = join_store(OutFolder(asked.out, "prepare"), shards)
    assert isinstance(store, FeatureStore)
    ids = [f"a/{n}" for n in range(IMAGES) if n != 2]
    assert [record.id for record in store.records] == [*ids, "b/x", "b/y"]
    options = PrepareOptions(
        "folder",
        str(tmp_path / "photos"),
        tmp_path / "store",
        backbone=NETWORK,
        pixels=PIXELS,
        device="cpu",
        batch=3,
        per_shard=3,
        skip_bad=True,
    )
    same = prepare(options).store
    for row in range(len(same)):
        np.testing.assert_array_equal(store[row], same[row])
    errors = (tmp_path / "out/errors.jsonl").read_text().splitlines()
    assert [json.loads(line)["where"] for line in errors] == ["a.tar:2", "b.parquet:x"]


def test_a_teacher_says_of_shards_what_it_says_of_their_features(
    tmp_path: Path, models: Path
) -> None:
    shards = home(tmp_path)
    both: dict[str, Any] = {"inputs": ("-",), "device": "cpu", "batch": 3}
    features = PrepareShards(
        out=str(tmp_path / "features"), backbone=NETWORK, pixels=PIXELS, **both
    )
    made(features, shards)
    store = join_store(OutFolder(features.out, "prepare"), shards)
    assert isinstance(store, FeatureStore)
    asked = DistilShards(out=str(tmp_path / "out"), model=models / "teacher", keep=2, **both)
    made(asked, shards)
    pseudo = join_store(OutFolder(asked.out, "distil"), shards)
    assert isinstance(pseudo, PseudoStore)
    assert len(look_up([pseudo], store, ())) == len(store) == len(pseudo)
    assert pseudo.vocabulary.fingerprint == pseudo.index["teacher"]["vocabulary"]
    plain = DistilOptions(
        models / "teacher",
        tmp_path / "plain",
        features=(store.folder,),
        keep=2,
        batch=3,
        device="cpu",
    )
    same = distil(plain).store
    assert same is not None
    assert pseudo.captions == same.captions


def test_shards_of_other_features_are_not_joined(tmp_path: Path) -> None:
    shards = home(tmp_path)
    for pixels, shard in zip((PIXELS, 2 * PIXELS), shards, strict=True):
        out = str(tmp_path / "out")
        asked = PrepareShards(inputs=("-",), out=out, backbone=NETWORK, pixels=pixels, device="cpu")
        made(asked, [shard])
    with pytest.raises(StoreError, match=r"b\.safetensors: its features are not like"):
        join_store(OutFolder(out, "prepare"), shards)


def test_captions_and_what_is_elsewhere_are_not_joined() -> None:
    with pytest.raises(ConfigError, match="no store"):
        join_store(OutFolder("/out", "caption"), [])
    with pytest.raises(ConfigError, match="aws s3 sync"):
        join_store(OutFolder("s3://bucket/out", "prepare"), [])


def test_words_that_the_model_never_says_are_told(tmp_path: Path, models: Path) -> None:
    told: list[Problem] = []
    Worker(captioning(tmp_path, models, forbid="unicorn"), told.append)
    assert [problem.where for problem in told] == ["--forbid"]


def test_a_caption_of_which_nothing_is_left_is_an_error(tmp_path: Path, models: Path) -> None:
    words = Captioner(models / "seeing", device="cpu").vocabulary.words[4:]
    asked = captioning(tmp_path, models, forbid=",".join(words))
    made(asked, home(tmp_path)[1:])
    assert all("nothing is left" in row["error"] for row in captions(tmp_path / "out/b.parquet"))


def test_without_pyarrow_the_extra_is_named(
    tmp_path: Path, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"naic\[scale\]"):
        Worker(captioning(tmp_path, models), lambda problem: None)
