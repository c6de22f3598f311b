"""Captions of a split with rescoring, and `benchmarks/rescore.py`, which writes them."""

import json
from pathlib import Path

import pytest
import torch
from benchmarks import rescore as script
from torch import Tensor

from naic.data.features import FeatureStore
from naic.decode.decoding import CHOICES, READABLE, Decoding
from naic.decode.policy import log_policy
from naic.errors import ConfigError, StoreError
from naic.models.folder import LoadedModel, load_model
from naic.runtime.rescore import candidates
from naic.runtime.sentences import Proposals
from naic.tasks.rescore import Choice, load_pair, rescore_split, speaker
from naic.text.vocabulary import PERIOD
from tests.data.stores import make_store
from tests.tasks.teachers import make_teacher
from tests.train.runs import make_learnable_store


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store, and a student and a teacher that learnt nothing."""
    folder = tmp_path_factory.mktemp("home")
    store = make_learnable_store(folder / "store")
    make_teacher(folder / "student", store, captioner="parallel", seed=3)
    make_teacher(folder / "teacher", store, seed=4)
    return folder


def rows_of(store: FeatureStore, count: int = 3) -> list[int]:
    return [row for row, one in enumerate(store.records) if one.split == "val"][:count]


@torch.no_grad()
def alone(
    student: LoadedModel, teacher: LoadedModel, features: Tensor, one: Choice, decoding: Decoding
) -> str:
    """The caption of one image, each sentence scored by itself."""
    words, log_probs, _ = student.spec.propose(student.model, features, None, CHOICES)
    own = Proposals(words.numpy(), log_probs.numpy())
    best: tuple[float, str] | None = None
    for sentence in candidates(own, one.choices, decoding, student.vocabulary)[0]:
        ids = [*sentence.words, PERIOD][: words.shape[1]]
        filled = torch.tensor([[[*ids, *[PERIOD] * (words.shape[1] - len(ids))]]])
        heard = log_policy(teacher.model(features, None, filled))[0, 0]  # (N, V)
        score = sum(float(heard[place, id_]) for place, id_ in enumerate(ids))
        score += one.weight * sentence.log_prob
        if best is None or score > best[0]:
            best = (score, student.vocabulary.decode(sentence.words))
    assert best is not None
    return best[1]


@pytest.mark.parametrize("decoding", [Decoding(), READABLE])
def test_all_ways_to_choose_come_of_one_pass(home: Path, decoding: Decoding) -> None:
    store = FeatureStore(home / "store")
    rows = rows_of(store)
    pair = load_pair(store, home / "student", home / "teacher")
    said = rescore_split(
        store, rows, pair, choices=(1, 8), weights=(0.0, 2.0), decoding=decoding, batch=2,
        device="cpu",
    )  # fmt: skip
    assert list(said) == [Choice(1, 0.0), Choice(1, 2.0), Choice(8, 0.0), Choice(8, 2.0)]
    models = load_model(home / "student"), load_model(home / "teacher")
    for one, captions in said.items():
        for row in rows:
            features = torch.from_numpy(store.batch([row])[0])
            assert captions[store.records[row].id] == alone(*models, features, one, decoding)
    assert said[Choice(1, 0.0)] != said[Choice(8, 0.0)]


def test_what_is_timed_is_what_captions(home: Path) -> None:
    store = FeatureStore(home / "store")
    rows = rows_of(store, 6)
    pair = load_pair(store, home / "student", home / "teacher")
    (said,) = rescore_split(store, rows, pair, choices=(8,), device="cpu").values()
    speak = speaker(pair, 8, "cpu")
    decode = pair.loaded.vocabulary.decode
    assert list(said.values()) == [
        decode(one.words) for row in rows for one in speak(torch.from_numpy(store.batch([row])[0]))
    ]


def test_what_does_not_go_together(home: Path, tmp_path: Path) -> None:
    store = FeatureStore(home / "store")
    with pytest.raises(ConfigError, match="says all words at once"):
        load_pair(store, home / "student", home / "student")
    with pytest.raises(ConfigError, match="writes word by word itself"):
        load_pair(store, home / "teacher", home / "teacher")
    other = make_store(tmp_path / "store", [["a cat"]])
    with pytest.raises(StoreError, match="the features are"):
        load_pair(other, home / "student", home / "teacher")
    pair = load_pair(store, home / "student", home / "teacher")
    with pytest.raises(ConfigError, match="0 is not from 1 to 100"):
        rescore_split(store, rows_of(store), pair, choices=(0,), device="cpu")
    with pytest.raises(ConfigError, match="bfloat16 is for a GPU"):
        rescore_split(store, rows_of(store), pair, device="cpu", precision="bfloat16")


def test_the_script_writes_captions_and_milliseconds(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(home / "store"), "--student", str(home / "student"), "--device", "cpu"]
    words += ["--out", str(tmp_path / "out"), "--choices", "2", "4", "--weights", "0", "0.5"]
    script.main([*words, "--teacher", str(home / "teacher"), "--seconds", "0.001"])
    capsys.readouterr()
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "milliseconds.json",
        *(f"val-n{count}-w{weight}.captions.json" for count in (2, 4) for weight in ("0", "0.5")),
    }
    store = FeatureStore(home / "store")
    pair = load_pair(store, home / "student", home / "teacher")
    rows = [row for row, one in enumerate(store.records) if one.split == "val"]
    (wanted,) = rescore_split(
        store, rows, pair, choices=(4,), weights=(0.5,), device="cpu"
    ).values()
    said = json.loads((tmp_path / "out" / "val-n4-w0.5.captions.json").read_text())
    assert {str(one["image_id"]): one["caption"] for one in said} == wanted
    timed = json.loads((tmp_path / "out" / "milliseconds.json").read_text())
    assert (timed["runtime"], timed["batch"]) == ("eager", 1)
    assert list(timed["rows"]) == [
        "student",
        "student, 2 rescored",
        "student, 4 rescored",
        "teacher, beam 3",
    ]
    assert all(row["median_ms"] > 0 for row in timed["rows"].values())
    with pytest.raises(SystemExit, match=r"rescore: .*says all words at once"):
        script.main([*words, "--teacher", str(home / "student")])
