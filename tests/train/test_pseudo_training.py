"""Learning from what a teacher says, of images with and without captions."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from naic.data.features import FeatureStore
from naic.data.joined import SEEN, JoinedStore, SeenImages
from naic.data.pseudo import PseudoStore
from naic.errors import ConfigError, DataError, StoreError
from naic.models.folder import read_weights
from naic.tasks.distil import distil
from naic.tasks.options import DistilOptions
from naic.text import PAD, PERIOD, Vocabulary
from naic.train.inputs import find_inputs
from naic.train.loop import dry_run, train
from naic.train.settings import Settings
from tests.data.pseudos import make_pseudo, taught
from tests.tasks.teachers import make_teacher
from tests.train.runs import (
    COMMAND,
    IMAGES,
    VALIDATION,
    make_learnable_store,
    make_settings,
    make_vocabulary,
    on_one_thread,
    refused,
)

FURTHER = 12  # unlabelled images
ROOT = ("store", "further", "teacher", "pseudo", "pseudo-further")


def rename(folder: Path, split: str) -> FeatureStore:
    """The store as one of unlabelled images of another dataset: other ids, no captions."""
    path = folder / "records.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows = [row | {"id": f"u{row['id']}", "split": split, "captions": []} for row in rows]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return FeatureStore(folder)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Labelled and unlabelled images, a teacher, and what it says of them."""
    folder = tmp_path_factory.mktemp("home")
    store = make_learnable_store(folder / "store")
    make_learnable_store(folder / "further", FURTHER - VALIDATION)
    rename(folder / "further", "web")
    make_teacher(folder / "teacher", store)
    with on_one_thread():
        for features, out in (("store", "pseudo"), ("further", "pseudo-further")):
            splits = ("train",) if features == "store" else ()
            options = DistilOptions(
                folder / "teacher",
                folder / out,
                (folder / features,),
                splits=splits,
                keep=2,
                batch=8,
                device="cpu",
            )
            distil(options)
        yield folder


def student(home: Path, out: Path, *, unlabelled: bool = True, **tables: Any) -> Settings:
    data: dict[str, Any] = {"pseudo": [str(home / "pseudo")]}
    if unlabelled:
        data["pseudo"].append(str(home / "pseudo-further"))
        data["unlabelled"] = [str(home / "further")]
    tables["data"] = data | tables.get("data", {})
    return make_settings(home / "store", out, "student_xe", **tables)


def last_weights(out: Path) -> dict[str, list[float]]:
    path = sorted((out / "checkpoints").glob("step-*"))[-1]
    return {name: w.tolist() for name, w in read_weights(path / "model.safetensors").items()}


def test_the_images_learnt_from_are_those_captioned(home: Path, tmp_path: Path) -> None:
    found = find_inputs(student(home, tmp_path / "run"))
    assert isinstance(found.images, JoinedStore)
    assert len(found.images) == IMAGES + VALIDATION + FURTHER
    rows = found.targets.rows.tolist()
    assert rows == [*range(IMAGES), *range(IMAGES + VALIDATION, len(found.images))]
    assert found.targets.captions == 2 * (IMAGES + FURTHER)
    assert found.steps == round(2.0 * (IMAGES + FURTHER) / 8)
    assert found.store.folder == home / "store"
    said = {
        id_: own
        for name in ("pseudo", "pseudo-further")
        for id_, own in PseudoStore(home / name).taught.items()
    }
    for row, ids in zip(rows, found.targets.ids, strict=True):
        for (words, ended), own in zip(
            said[found.images.records[row].id].sentences(), ids.tolist(), strict=True
        ):
            expected = [found.vocabulary.id(word) for word in words] + [PERIOD] * ended
            assert own == expected + [PAD] * (len(own) - len(expected))


def test_a_run_says_what_it_learnt_from(home: Path, tmp_path: Path) -> None:
    settings = student(home, tmp_path / "run")
    lines = dict(dry_run(settings, 1, resume=False))
    assert lines["learns from"] == "52 images, 104 captions"
    report = train(settings, command=COMMAND)
    data = report["data"]
    assert [text.split(" (")[0] for text in data["pseudo"]] == [
        f"80 captions of 40 images by {home.name}/teacher, beam 3",
        f"24 captions of 12 images by {home.name}/teacher, beam 3",
    ]
    assert len(data["unlabelled"]) == 1
    assert (data["images"], data["splits"]) == (IMAGES, ["train"])
    card = (tmp_path / "run" / "best" / "README.md").read_text()
    for text in (*data["pseudo"], *data["unlabelled"]):
        assert text in card


def test_what_is_taught_is_learnt(home: Path, tmp_path: Path) -> None:
    store = FeatureStore(home / "store")
    said = {str(i): taught("a red dog sits on the sand") for i in range(IMAGES)}
    vocabulary = make_vocabulary(store)
    make_pseudo(tmp_path / "p", said, store, vocabulary=vocabulary)
    settings = student(
        home,
        tmp_path / "run",
        unlabelled=False,
        data={"pseudo": [str(tmp_path / "p")]},
        run={"epochs": 12.0},
        optimiser={"average": 0.0},
        schedule={"learning_rate": 1e-2},
    )
    train(settings, command=COMMAND)
    captions = json.loads((tmp_path / "run" / "captions" / "val-beam1.json").read_text())
    assert len(captions) == VALIDATION
    assert {row["caption"] for row in captions} == {"a red dog sits on the sand"}


def test_what_people_said_makes_no_difference(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home / "store", tmp_path / "store")
    path = tmp_path / "store" / "records.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        if row["split"] == "train":
            row["captions"] = ["nobody knows"]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    train(student(home, tmp_path / "one"), command=COMMAND)
    other = student(home, tmp_path / "two", data={"features": str(tmp_path / "store")})
    train(other, command=COMMAND)
    assert last_weights(tmp_path / "one") == last_weights(tmp_path / "two")


def test_a_run_goes_on_as_if_nothing_had_been(home: Path, tmp_path: Path) -> None:
    train(student(home, tmp_path / "one"), command=COMMAND)
    train(student(home, tmp_path / "two", run={"epochs": 1.0}), command=COMMAND)
    train(student(home, tmp_path / "two"), resume=True, command=COMMAND)
    assert last_weights(tmp_path / "one") == last_weights(tmp_path / "two")


def test_features_may_stay_on_the_host(home: Path, tmp_path: Path) -> None:
    train(student(home, tmp_path / "one"), command=COMMAND)
    train(student(home, tmp_path / "two", data={"keep": "host"}), command=COMMAND)
    assert last_weights(tmp_path / "one") == last_weights(tmp_path / "two")


def test_a_teacher_may_learn_from_a_teacher(home: Path, tmp_path: Path) -> None:
    data = {"pseudo": [str(home / "pseudo")]}
    report = train(make_settings(home / "store", tmp_path / "run", data=data), command=COMMAND)
    assert report["stage"] == "teacher_xe"
    assert len(report["data"]["pseudo"]) == 1


def test_words_are_the_teachers(home: Path, tmp_path: Path) -> None:
    """Without them the store's own captions would give others: `more_than` drops rare ones."""
    own = Vocabulary.load(home / "teacher" / "vocab.json")
    rare = student(home, tmp_path / "run", data={"more_than": 30})
    assert find_inputs(rare).vocabulary == own
    started = student(home, tmp_path / "run", start=str(home / "teacher"), data={"more_than": 30})
    found = find_inputs(started)
    assert found.vocabulary == own
    assert found.start
    more = Vocabulary((*own.words, "zebra"))
    more.save(tmp_path / "more.json")
    named = student(home, tmp_path / "run", data={"vocabulary": str(tmp_path / "more.json")})
    assert find_inputs(named).vocabulary == more
    Vocabulary(own.words[:8]).save(tmp_path / "fewer.json")
    fewer = student(home, tmp_path / "run", data={"vocabulary": str(tmp_path / "fewer.json")})
    assert "is not in the vocabulary of this run" in refused(DataError, fewer).why


def test_teachers_of_different_words_need_a_vocabulary(home: Path, tmp_path: Path) -> None:
    own = Vocabulary.load(home / "teacher" / "vocab.json")
    more = Vocabulary((*own.words, "zebra"))
    store = FeatureStore(home / "further")
    make_pseudo(tmp_path / "p", {"u0": taught("a zebra")}, store, vocabulary=more)
    pseudo = [str(home / "pseudo"), str(tmp_path / "p")]
    settings = student(home, tmp_path / "run", data={"pseudo": pseudo})
    assert "teachers with different words" in refused(ConfigError, settings).why
    more.save(tmp_path / "more.json")
    data = {"pseudo": pseudo, "vocabulary": str(tmp_path / "more.json")}
    found = find_inputs(student(home, tmp_path / "run", data=data))
    assert np.count_nonzero(found.targets.ids == more.id("zebra")) == 1


@pytest.mark.parametrize("stage", ["scst", "cmal"])
def test_rewards_are_for_what_people_said(stage: str, home: Path, tmp_path: Path) -> None:
    data = {"pseudo": [str(home / "pseudo")]}
    settings = make_settings(
        home / "store", tmp_path / "run", stage, data=data, start=str(home / "teacher")
    )
    error = refused(ConfigError, settings)
    assert error.what == "data.pseudo"
    assert f"{stage} learns from rewards" in error.why


def test_unlabelled_images_alone_teach_nothing(home: Path, tmp_path: Path) -> None:
    error = refused(ConfigError, student(home, tmp_path / "run", data={"pseudo": []}))
    assert error.what == "data.unlabelled"
    assert not (tmp_path / "run" / "config.toml").exists()


def test_what_is_validated_on_is_not_learnt(home: Path, tmp_path: Path) -> None:
    store = FeatureStore(home / "store")
    said = {str(i): taught("a dog") for i in range(IMAGES + 1)}
    words = make_vocabulary(store)
    make_pseudo(tmp_path / "p", said, store, vocabulary=words)
    data = {"pseudo": [str(tmp_path / "p")]}
    settings = student(home, tmp_path / "run", unlabelled=False, data=data)
    assert f"captions the image '{IMAGES}' of val" in refused(ConfigError, settings).why


def test_a_split_that_is_not_there_is_refused(home: Path, tmp_path: Path) -> None:
    settings = student(home, tmp_path / "run", data={"train": ["trian"]})
    assert "there is no split 'trian'" in str(refused(ConfigError, settings))


@pytest.mark.parametrize("where", ["store", "further"])
def test_unlabelled_images_that_the_backbone_has_learnt_are_refused(
    where: str, home: Path, tmp_path: Path
) -> None:
    """Its features would tell of captions that nobody may know."""
    for name in ROOT:
        shutil.copytree(home / name, tmp_path / name)
    (tmp_path / where / SEEN).write_bytes(SeenImages(frozenset({"3", "u5", "u2"})).as_json())
    error = refused(StoreError, student(tmp_path, tmp_path / "run"))
    assert error.what == str(tmp_path / "further")
    assert error.why == (
        "its backbone has learnt from the captions of 2 of its images, such as 'u2'"
    )
    (tmp_path / where / SEEN).write_bytes(SeenImages(frozenset({"3", "5"})).as_json())
    find_inputs(student(tmp_path, tmp_path / "run"))


def test_other_captions_cannot_go_on(home: Path, tmp_path: Path) -> None:
    for name in ROOT:
        shutil.copytree(home / name, tmp_path / name)
    train(student(tmp_path, tmp_path / "run", run={"epochs": 1.0}), command=COMMAND)
    shutil.rmtree(tmp_path / "pseudo")
    options = DistilOptions(
        tmp_path / "teacher",
        tmp_path / "pseudo",
        (tmp_path / "store",),
        splits=("train",),
        beam=1,
        device="cpu",
    )
    distil(options)
    error = refused(StoreError, student(tmp_path, tmp_path / "run"), resume=True)
    assert "begun on other data than is there now (pseudo differ)" in error.why
