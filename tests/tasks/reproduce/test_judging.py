"""When a score is a look at a test split, and when it is not."""

import json
from pathlib import Path

import pytest

from naic.data.features import StoredRecord
from naic.errors import ConfigError
from naic.tasks.reproduce import judging
from naic.tasks.reproduce.judging import HumanReferences, Judge
from naic.tasks.reproduce.preset import PresetSettings
from naic.tasks.reproduce.run import dry_run
from naic.tasks.reproduce.run_file import ReproduceOptions
from tests.data.readers.helpers import write_json
from tests.tasks.reproduce.coco_like import write_dataset, write_store
from tests.tasks.reproduce.micro import make_options

LOG = Path("test-evaluations.jsonl")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The captions of two images, in the current folder."""
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text(
        "image,caption,split\n1.jpg,a dog,dev\n2.jpg,a cat,dev\n"
        "3.jpg,a dog,test\n4.jpg,a cow,test\n"
    )
    write_json(Path("dev.json"), [{"image_id": n, "caption": "a dog"} for n in (1, 2)])
    write_json(Path("test.json"), [{"image_id": n, "caption": "a dog"} for n in (3, 4)])
    return tmp_path


def judge(split: str, *, drawn: bool = False, log: Path | None = None) -> Judge:
    record = StoredRecord("1", "", split, ("a dog",), None)
    people = HumanReferences("people.csv", None, split, [record], drawn)
    options = ReproduceOptions(Path("out"), "tiny", fast=True, log=log)
    return Judge(people, PresetSettings(spice=False), options, lambda _: None)


@pytest.mark.parametrize("log", [None, Path("own.jsonl")])
def test_another_split_than_test_is_scored_and_not_logged(here: Path, log: Path | None) -> None:
    kept = judge("dev", log=log).judge(Path("dev.json"), None, "reproduce: dev")
    assert kept["values"]["Bleu_1"] == pytest.approx(0.75)
    assert sorted(path.name for path in here.iterdir()) == ["dev.json", "people.csv", "test.json"]


def test_one_that_is_killed_halfway_is_not_logged(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody saw its figures, and the same call scores it again, and logs that."""

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(judging, "FEWEST_IMAGES", 1)
    monkeypatch.setattr(judging, "resample", die)
    with pytest.raises(KeyboardInterrupt):
        judge("test", log=Path("own.jsonl")).judge(Path("test.json"), None, "reproduce: test")
    assert not Path("own.jsonl").exists()


def test_drawn_scenes_are_scored_where_nothing_can_be_logged(here: Path) -> None:
    (here / LOG).mkdir()
    kept = judge("test", drawn=True).judge(Path("test.json"), None, "reproduce: test")
    assert kept["values"]["Bleu_1"] == pytest.approx(0.75)
    with pytest.raises(ConfigError, match=r"--log: test-evaluations\.jsonl is a folder"):
        judge("test")


def test_a_look_says_why(here: Path) -> None:
    judge("test").judge(Path("test.json"), None, "reproduce: test")
    (line,) = (here / LOG).read_text().splitlines()
    assert json.loads(line)["why"] == "reproduce: test"


def test_a_log_that_cannot_be_is_refused_before_anything_is_trained(
    preset: Path, tmp_path: Path
) -> None:
    store = write_store(write_dataset(tmp_path / "coco"), tmp_path / "store")
    options = make_options(preset, tmp_path / "out", features=store, log=tmp_path / "no" / "log")
    with pytest.raises(ConfigError, match=r"--log: the folder .* does not exist"):
        dry_run(options)
    drawn = make_options(preset, tmp_path / "out", log=tmp_path / "no" / "log")
    assert {line.state for line in dry_run(drawn)} == {"make"}
