"""Fine-tuning on drawn scenes: what it learns, what it leaves, and how it goes on."""

import importlib.util
import json
import math
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from naic.data.pseudo import PseudoStore
from naic.errors import (
    BackboneError,
    CheckpointError,
    ConfigError,
    DataError,
    MissingExtraError,
    StoreError,
)
from naic.models.folder import load_model
from naic.progress import Callbacks
from naic.runtime.captioner import Captioner
from naic.tasks.finetune import run as task
from naic.tasks.finetune import tuning
from naic.tasks.finetune.report import Finetuned
from naic.tasks.finetune.run import dry_run, finetune
from naic.text import Vocabulary
from tests.runtime.small import NETWORK, make_model
from tests.tasks.finetune.tuning import damage, make_blind, options, scene_words, write_table

SCENES = 60


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_table(tmp_path_factory.mktemp("scenes") / "images", SCENES, splits=True)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that does not know the word that all captions begin with."""
    words = scene_words(SCENES, without="there")
    return make_blind(tmp_path_factory.mktemp("model") / "blind", words)


@pytest.fixture(scope="module")
def tuned(
    table: Path, model: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Finetuned]:
    out = tmp_path_factory.mktemp("tuned") / "out"
    return out, finetune(options(table, out, model), command="naic finetune ...")


def test_captions_of_held_out_scenes_get_better(tuned: tuple[Path, Finetuned]) -> None:
    _, done = tuned
    assert done.before.cider < 0.05
    assert done.after.cider > 1.0
    assert (done.learnt_from, done.held_out, done.epochs) == (50, 10, 20)
    assert done.problems == ()


def test_new_words_are_learnt_and_said(tuned: tuple[Path, Finetuned]) -> None:
    out, done = tuned
    assert done.new_words == ("there",)
    assert load_model(out / "best").vocabulary.words[-1] == "there"
    assert all(example.after.startswith("There is a ") for example in done.examples)
    assert not any("there" in example.before for example in done.examples)


def test_the_tuned_model_captions_images(tuned: tuple[Path, Finetuned], table: Path) -> None:
    """The same words as in the report: nothing was lost on the way to the folder."""
    out, done = tuned
    said = Captioner(out / "best", device="cpu").caption([table.parent / "000.png"])[0].text
    assert said == next(e.after for e in done.examples if e.id == "000")
    assert "naic finetune ..." in (out / "best" / "README.md").read_text()


def test_only_the_model_and_the_report_stay(tuned: tuple[Path, Finetuned]) -> None:
    out, done = tuned
    assert sorted(path.name for path in out.iterdir()) == ["best", "finetune.json", "report.json"]
    assert json.loads((out / "report.json").read_text())["after"]["cider"] == done.after.cider


def test_a_finished_run_is_told_of_again(
    tuned: tuple[Path, Finetuned], table: Path, model: Path
) -> None:
    out, done = tuned
    assert finetune(options(table, out, model)) == done


@pytest.mark.parametrize("over", [{"epochs": 9}, {"seed": 2}, {"new_words": 1}])
def test_another_run_is_kept_out_of_the_folder(
    tuned: tuple[Path, Finetuned], table: Path, model: Path, over: dict[str, int]
) -> None:
    with pytest.raises(ConfigError, match=f"it was begun with {next(iter(over))}"):
        finetune(options(table, tuned[0], model, **over))


def test_a_folder_of_something_else_is_left_alone(table: Path, model: Path, tmp_path: Path) -> None:
    (tmp_path / "diary.txt").write_text("dear diary")
    with pytest.raises(StoreError, match=r"not empty \(diary.txt\)"):
        finetune(options(table, tmp_path, model))
    assert [path.name for path in tmp_path.iterdir()] == ["diary.txt"]


def test_a_run_that_was_cut_off_goes_on(
    tuned: tuple[Path, Finetuned], table: Path, model: Path, tmp_path: Path
) -> None:
    """Stopped before each stage: what comes of it is what came of the unbroken run."""
    asked = options(table, tmp_path / "out", model)

    def stop_at(stage: str, text: str) -> None:
        if text.startswith(stage):
            raise KeyboardInterrupt

    for stage in ("before", "xe", "cmal"):
        with pytest.raises(KeyboardInterrupt):
            finetune(asked, Callbacks(partial(stop_at, stage)))
    assert not (tmp_path / "out" / "best").exists()
    assert not (tmp_path / "out" / "work" / "xe" / "checkpoints").exists()
    done = finetune(asked, command="naic finetune ...")
    assert replace(done, seconds=0.0) == replace(tuned[1], seconds=0.0)
    weights = [folder / "best" / "model.safetensors" for folder in (tmp_path / "out", tuned[0])]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_a_model_with_backbone_keeps_them(table: Path, tmp_path: Path) -> None:
    """Its backbone makes the features, and are in the tuned model again, as good as to the bit."""
    model = make_model(tmp_path / "seeing", backbone="efficientnet-lite0")
    asked = options(table, tmp_path / "out", model, epochs=1, keep_work=True)
    done = finetune(asked)
    assert {"circle", "square", "there"} <= {*done.new_words}
    before, after = load_model(model), load_model(tmp_path / "out" / "best")
    assert after.settings.model.backbone == "efficientnet-lite0"
    assert after.settings.words == before.settings.words + len(done.new_words)
    old, new = before.model.state_dict(), after.model.state_dict()
    for name in (name for name in old if name.startswith("backbone.")):
        torch.testing.assert_close(new[name], old[name], rtol=0, atol=2e-3)
    assert (tmp_path / "out" / "work" / "features" / "index.json").exists()
    said = Captioner(tmp_path / "out" / "best", device="cpu").caption([table.parent / "006.png"])
    assert len(said) == 1


def test_agents_that_hear_each_other_are_tuned_too(table: Path, tmp_path: Path) -> None:
    words = scene_words(SCENES, without="there")
    model = make_blind(tmp_path / "chain", words, transitions=2)
    done = finetune(options(table, tmp_path / "out", model, epochs=12))
    assert (done.new_words, done.kept) == (("there",), "weights")
    after = load_model(tmp_path / "out" / "best").model.state_dict()
    assert len(after["decoder.transitions.before.weight"]) == len(words) + 1
    assert after["decoder.transitions.after.weight"].any()


def test_weights_that_are_no_better_are_not_kept(table: Path, model: Path, tmp_path: Path) -> None:
    """Two steps in the wrong direction: the folder has the model as it was, to the bit."""
    out = tmp_path / "out"
    asked = options(table, out, model, epochs=1, learning_rate=1e-9, style=False)
    done = finetune(asked)
    assert done.kept == "as it was"
    assert done.tuned is not None
    assert done.after == done.before
    assert done.gain.value == 0
    assert done.verdict == "no better on 10 photos kept aside: the model was left as it was"
    for path in model.iterdir():
        assert (out / "best" / path.name).read_bytes() == path.read_bytes()
    assert all(example.before == example.after for example in done.examples)


STYLED = "PHOTO OF: RED CAT RED CAT RED CAT!"
SAID = "red cat red cat red cat"


def says_cat(folder: Path, caption: str, images: int = 16) -> tuple[Path, Path]:
    """A model that says the same of everything, and photos with captions, a THING in each."""
    model = make_model(folder / "model", backbone=NETWORK, says="cat")
    write_table(folder / "images", images)
    assert Captioner(model, device="cpu")(folder / "images" / "000.png") == SAID
    things = ("dog", "bird")
    rows = [
        {"image": f"images/{i:03d}.png", "caption": caption.replace("THING", things[i % 2])}
        for i in range(images)
    ]
    table = folder / "captions.jsonl"
    table.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return model, table


def test_where_a_style_is_all_nothing_is_trained(tmp_path: Path) -> None:
    """The weights say what they said, and every text is written as in the table."""
    model, table = says_cat(tmp_path, STYLED)
    out = tmp_path / "out"
    done = finetune(options(table, out, model))
    assert (done.kept, done.explained, done.epochs, done.tuned) == ("style", 1.0, 0, None)
    assert done.after.cider >= done.before.cider  # all say the same: CIDEr finds nothing in it
    assert done.verdict.startswith("what the model says, in your style")
    assert (out / "best" / "model.safetensors").read_bytes() == (
        model / "model.safetensors"
    ).read_bytes()
    card = (out / "best" / "README.md").read_text()
    assert "## Its style" in card
    assert "Its weights are as they were." in card
    image = tmp_path / "images" / "003.png"
    assert Captioner(out / "best", device="cpu")(image) == STYLED
    assert {example.after for example in done.examples} == {STYLED}
    assert not (out / "work").exists()
    again = finetune(options(table, tmp_path / "again", model))
    assert replace(again, seconds=0.0) == replace(done, seconds=0.0)


def test_where_the_model_says_all_already_nothing_is_done(tmp_path: Path) -> None:
    """A table as `naic caption` wrote it."""
    model, table = says_cat(tmp_path, SAID)
    done = finetune(options(table, tmp_path / "out", model))
    assert (done.kept, done.style, done.explained, done.epochs) == ("as it was", "", 1.0, 0)
    assert done.verdict == "nothing to learn: the model says your captions already"
    assert (tmp_path / "out" / "best" / "README.md").read_bytes() == (
        model / "README.md"
    ).read_bytes()


def test_without_style_it_is_not_looked_for(tmp_path: Path) -> None:
    model, table = says_cat(tmp_path, STYLED)
    found = dry_run(options(table, tmp_path / "out", model))
    assert found.found.is_all
    assert found.steps == 0
    plain = dry_run(options(table, tmp_path / "out", model, style=False))
    assert (plain.found.style, plain.steps > 0) == (None, True)


def velo_table(
    folder: Path, captions: tuple[str, ...], every: int, images: int = 40
) -> tuple[Path, Path]:
    """One in `every` photos has one of these captions, the others what the model says of all."""
    model, table = says_cat(folder, SAID, images)
    rows = [json.loads(line) for line in table.read_text().splitlines()]
    for number, row in enumerate(rows):
        if number % every == 1:
            row["caption"] = captions[number // every % len(captions)]
    table.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return model, table


@pytest.mark.parametrize(
    ("captions", "instead"),
    [
        (("The red VELO sits.",), ("cat",)),
        (
            ("A red cat, and a velo!",) * 6 + ("Zzz, a velo and a red cat",),
            (),
        ),  # "zzz" is too rare to be learnt
    ],
)
def test_a_new_word_is_learnt_in_sentences_before_rewards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, captions: tuple[str, ...], instead: object
) -> None:
    """Also where it stands in for nothing; and a run that was cut off ends with the same bits."""
    monkeypatch.setattr(tuning, "FAR", -1.0)
    model, table = velo_table(tmp_path, captions, every=3)
    whole = options(table, tmp_path / "out", model, epochs=2, style=False, keep_work=True)
    done = finetune(whole)
    assert (done.new_words, done.instead_of) == (("velo",), {"velo": instead})
    store = PseudoStore(tmp_path / "out" / "work" / "targets")
    said = {text for own in store.captions.values() for text in own}
    with_it = {text for text in said if "velo" in text.split()}
    assert with_it == ({"red velo red cat red cat"} if instead else {"a red cat and a velo"})
    assert SAID in said

    def stop(text: str) -> None:
        if text.startswith("cmal"):
            raise KeyboardInterrupt

    again = options(table, tmp_path / "again", model, epochs=2, style=False)
    with pytest.raises(KeyboardInterrupt):
        finetune(again, Callbacks(stop))
    assert replace(finetune(again), seconds=0.0) == replace(done, seconds=0.0)
    weights = [tmp_path / out / "best" / "model.safetensors" for out in ("out", "again")]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_a_style_that_is_nearly_all_does_not_hide_a_new_word(tmp_path: Path) -> None:
    """Most captions are the model's own; a few were corrected, by a word that it cannot say."""
    model, table = velo_table(tmp_path, ("red velo red velo red velo",), every=30, images=80)
    table.write_text(table.read_text().replace('"caption": "', '"caption": "photo of '))
    found = dry_run(options(table, tmp_path / "out", model, new_words=1))
    assert found.found.is_all
    assert found.plan.new_words == ("velo",)
    assert found.steps > 0


def test_a_fixed_beginning_is_learnt_without_it(tmp_path: Path) -> None:
    """What stands around every caption is no part of what the weights learn, nor a new word."""
    model, table = says_cat(tmp_path, f"snapshot of {SAID.replace('cat', 'THING')}")
    found = dry_run(options(table, tmp_path / "out", model, new_words=1))
    assert found.found.style is not None
    assert found.found.style.before == ("snapshot", "of")
    captions = {text for record in found.plan.reading.records for text in record.captions}
    assert captions == {SAID.replace("cat", thing) for thing in ("dog", "bird")}
    assert "snapshot" not in (*found.plan.new_words, *found.plan.unknown)


def test_images_that_cannot_be_opened_are_counted(table: Path, model: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(table.parent, tmp_path / "images")
    damage(copied / "001.png")
    done = finetune(options(copied / "captions.csv", tmp_path / "out", model, epochs=1))
    assert done.learnt_from == 49
    assert [Path(problem.where).name for problem in done.problems] == ["001.png"]


def test_if_no_held_out_image_can_be_opened_it_says_so(
    table: Path, model: Path, tmp_path: Path
) -> None:
    copied = shutil.copytree(table.parent, tmp_path / "images")
    for i in range(0, SCENES, 6):
        damage(copied / f"{i:03d}.png")
    with pytest.raises(DataError, match="images for val, not one can be opened"):
        finetune(options(copied / "captions.csv", tmp_path / "out", model))


def test_a_dry_run_writes_nothing(table: Path, model: Path, tmp_path: Path) -> None:
    found = dry_run(options(table, tmp_path / "out", model, epochs=3))
    assert (found.plan.learnt_from, found.plan.held_out, found.steps) == (50, 10, 9)
    assert found.plan.own_split
    assert found.gigabytes > 0
    assert not (tmp_path / "out").exists()


def test_models_that_cannot_be_tuned(table: Path, model: Path, tmp_path: Path) -> None:
    words = Vocabulary.build(["a red circle"], more_than=0)
    causal = make_blind(tmp_path / "causal", words, "causal")
    with pytest.raises(ConfigError, match="causal captioner, and CMAL is for parallel"):
        finetune(options(table, tmp_path / "out", causal))
    with pytest.raises(CheckpointError, match="no model folder"):
        finetune(options(table, tmp_path / "out", tmp_path))
    strange = shutil.copytree(model, tmp_path / "strange")
    config = strange / "config.toml"
    digest = load_model(model).settings.digest
    config.write_text(config.read_text().replace(digest, "0" * len(digest)))
    with pytest.raises(BackboneError, match="other weights than those installed"):
        finetune(options(table, tmp_path / "strange-out", strange))


def test_without_the_extra_it_says_what_to_install(
    table: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "numba" else find(name)
    )
    with pytest.raises(MissingExtraError, match=r"numba.*pip install 'naic\[train\]'"):
        finetune(options(table, tmp_path / "out", model))


def test_a_disk_without_room_is_seen_first(
    table: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "free_bytes", lambda folder: 1000)
    with pytest.raises(StoreError, match=r"while it works, and 0\.0 GB are free"):
        finetune(options(table, tmp_path / "out", model))
    assert not (tmp_path / "out" / "work").exists()
    assert math.isclose(dry_run(options(table, tmp_path / "o", model)).free_gigabytes, 1e-6)


def test_a_bad_table_is_seen_before_the_model_is_loaded(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which takes ten seconds."""

    def load(*_: object, **__: object) -> None:
        raise AssertionError("the model was loaded")

    monkeypatch.setattr("naic.models.folder.load_model", load)
    (tmp_path / "bad.csv").write_text("picture,text\n1.jpg,a dog\n")
    with pytest.raises(DataError, match="there is no column 'image'"):
        finetune(options(tmp_path / "bad.csv", tmp_path / "out", model))
