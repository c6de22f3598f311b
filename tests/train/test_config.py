"""The settings of a run: what a file may say, and what is refused with its name."""

import re
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from naic.config import read_toml, structure
from naic.errors import ConfigError
from naic.models.captioners import CAPTIONERS
from naic.models.config import TransformerConfig
from naic.models.contract import CaptionerSpec
from naic.train.config import check, model_config, read_settings, settings_toml
from naic.train.settings import Settings
from tests.plugging import unplugged
from tests.train.runs import CAPTIONER_OF, make_settings

CONFIGS = sorted(
    path
    for path in (Path(__file__).parents[2] / "configs").rglob("*.toml")
    if path.stem
    not in (
        "prepare",
        "unlabelled",
        "pixels",
        "preset",
        "study",
        "study_again",
        "study_full",
        "study_next",
        "systems",
    )  # read in test_docs.py
)
STAGE_OF = {
    "backbone": "teacher_xe",
    "teacher_first": "teacher_xe",
    "teacher_again": "teacher_xe",
    "teacher_scst": "scst",
    "student_base": "student_xe",
    "student_kd": "student_xe",
    "study_cmal": "cmal",
    "study_kd": "student_xe",
}
for _name, _spec in CAPTIONERS.items():  # other people's have settings by their own names
    STAGE_OF |= {
        f"{_name}_xe": "teacher_xe" if _spec.reads_words else "student_xe",
        f"{_name}_scst": "scst",
    }
PLAIN = 'stage = "teacher_xe"\ncaptioner = "causal"\nout = "o"\ndata = { features = "f" }\n'


def read(folder: Path, text: str = PLAIN, *overrides: tuple[str, str]) -> Settings:
    path = folder / "config.toml"
    path.write_text(text)
    return read_settings(path, overrides)


def refusal(folder: Path, text: str, *overrides: tuple[str, str]) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        read(folder, text, *overrides)
    return caught.value


def test_there_are_configs_to_check() -> None:
    assert {"teacher_xe.toml"} <= {path.name for path in CONFIGS}


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_config_of_ours_is_read(path: Path) -> None:
    settings = read_settings(path)
    model_config(settings)
    assert settings.stage == STAGE_OF.get(path.stem, path.stem)
    for name, value in read_toml(path)["run"].items():
        assert getattr(settings.run, name) == value


def test_what_a_file_does_not_say_is_the_default(tmp_path: Path) -> None:
    settings = read(tmp_path)
    assert settings == Settings("teacher_xe", Path("o"), "causal", settings.data)
    assert (settings.data.features, settings.data.train) == (Path("f"), ("train",))
    assert model_config(settings) == TransformerConfig()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("sede = 1", "sede"),
        ("[run]\nepoch = 3", "run.epoch"),
        ("[optimiser]\nclipp = 1.0", "optimiser.clipp"),
        ("[schedule]\nlearning_rat = 1e-3", "schedule.learning_rat"),
        ("[model]\nwidht = 64", "model.widht"),
    ],
)
def test_an_unknown_key_is_named(tmp_path: Path, line: str, told: str) -> None:
    error = refusal(tmp_path, f"{PLAIN}{line}\n")
    file = "" if line.startswith("[model]") else f"{tmp_path / 'config.toml'}: "
    assert (error.what, error.why) == (f"{file}{told}", "there is no such key")
    assert "Keys there are: " in error.hint


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("seed = 1.5", "seed: 1.5 is not a whole number. Give a whole number, such as 3."),
        ("seed = true", "seed: True is not a whole number. Give a whole number, such as 3."),
        ('[run]\nbatch = "8"', "run.batch: '8' is not a whole number. Give a whole number, such"),
        ('[engine]\ncompile = "false"', "engine.compile: 'false' is not true or false. Write"),
        ("[validation]\nreport = 3", "validation.report: 3 is not a list. Write it as [3]."),
        ("start = 3", "start: 3 is not a path. Give a path as text, in quotes."),
        ('[schedule]\nkind = "linear"', "schedule.kind: there is no 'linear'. One of: constant, "),
        ('[engine]\nprecision = "float16"', "engine.precision: there is no 'float16'. One of: "),
        ('[cmal]\nbaseline = "foo"', "cmal.baseline: there is no 'foo'. One of: none, ma, sc, "),
    ],
)
def test_a_value_of_the_wrong_type_is_refused(tmp_path: Path, line: str, told: str) -> None:
    error = refusal(tmp_path, f"{PLAIN}{line}\n")
    assert str(error).startswith(f"{tmp_path / 'config.toml'}: {told}")


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("cmal.baseline", "foo", "there is no 'foo'. One of: none, ma, sc, loo, cf."),
        ("stage", "xe", "there is no 'xe'. One of: teacher_xe, scst, student_xe, cmal."),
        ("run.epochs", "abc", "'abc' is not a number. Give a number, such as 0.5."),
        ("run.batch", "1.5", "1.5 is not a whole number. Give a whole number, such as 3."),
        ("data.validation", "val", "'val' is not a list. Write --data.validation '[\"val\"]'."),
        ("engine.compile", "yes", "'yes' is not true or false. Write true or false."),
        ("model.width", "wide", "'wide' is not a whole number. Give a whole number, such as 3."),
    ],
)
def test_a_bad_option_is_told_by_its_name_and_not_by_the_file(
    tmp_path: Path, name: str, text: str, told: str
) -> None:
    assert str(refusal(tmp_path, PLAIN, (name, text))) == f"--{name}: {told}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("data.captions", "0"),
        ("data.more_than", "-1"),
        ("seed", "-1"),
        ("optimiser.beta1", "1.0"),
        ("optimiser.beta2", "-0.1"),
        ("optimiser.epsilon", "0.0"),
        ("optimiser.clip", "-1.0"),
        ("optimiser.clip", "nan"),
        ("optimiser.average", "1.0"),
        ("run.epochs", "0.0"),
        ("run.epochs", "inf"),
        ("run.batch", "0"),
        ("run.accumulate", "0"),
        ("run.log_every", "0"),
        ("run.validate_every", "0.0"),
        ("run.save_every", "-1.0"),
        ("validation.beam", "0"),
        ("validation.batch", "0"),
        ("validation.limit", "-1"),
        ("guard.fraction", "1.5"),
        ("guard.from_epoch", "nan"),
        ("xe.smoothing", "1.0"),
    ],
)
def test_a_value_out_of_range_is_refused_by_its_name(tmp_path: Path, name: str, value: str) -> None:
    assert refusal(tmp_path, PLAIN, (name, value)).what == name


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("schedule.learning_rate", "schedule.learning_rate: it is 0.0. It must be above 0."),
        ("model.width", "model.width: 0 is below 1. Give at least 1."),
    ],
)
def test_what_a_table_says_of_itself_is_told(tmp_path: Path, name: str, told: str) -> None:
    assert str(refusal(tmp_path, PLAIN, (name, "0"))).endswith(told)


@pytest.mark.parametrize("text", ["[1, 0]", "[]"])
def test_report_needs_beams(tmp_path: Path, text: str) -> None:
    assert refusal(tmp_path, PLAIN, ("validation.report", text)).what == "validation.report"


def test_splits(tmp_path: Path) -> None:
    for name in ("data.train", "data.validation"):
        assert refusal(tmp_path, PLAIN, (name, "[]")).what == name
    error = refusal(tmp_path, PLAIN, ("data.train", '["train", "val"]'))
    assert (error.what, error.why) == ("data.validation", "val is there for training too")


@pytest.mark.parametrize(
    ("stage", "table"),
    [("teacher_xe", "scst"), ("student_xe", "cmal"), ("scst", "xe"), ("cmal", "xe")],
)
def test_a_table_that_the_stage_does_not_use_is_refused(
    tmp_path: Path, stage: str, table: str
) -> None:
    text = PLAIN.replace("teacher_xe", stage)
    error = refusal(tmp_path, f'start = "s"\n{text}[{table}]\n')
    assert error.why == f"the stage {stage} does not use [{table}]"


@pytest.mark.parametrize("stage", ["scst", "cmal"])
def test_reinforcement_learning_needs_a_start(tmp_path: Path, stage: str) -> None:
    text = PLAIN.replace("teacher_xe", stage).replace("causal", CAPTIONER_OF[stage])
    assert refusal(tmp_path, text).what == "start"
    assert read(tmp_path, text, ("start", "runs/a/best")).start == Path("runs/a/best")


def test_leave_one_out_needs_others(tmp_path: Path) -> None:
    text = 'start = "s"\n' + PLAIN.replace("teacher_xe", "scst")
    assert refusal(tmp_path, text, ("scst.samples", "1")).what == "scst.samples"
    found = read(tmp_path, text, ("scst.samples", "1"), ("scst.baseline", "greedy"))
    assert (found.scst.samples, found.scst.baseline) == (1, "greedy")


@pytest.mark.parametrize("missing", ["stage", "captioner", "out", "data"])
def test_what_must_be_there(tmp_path: Path, missing: str) -> None:
    lines = [line for line in PLAIN.splitlines() if not line.startswith(missing)]
    assert refusal(tmp_path, "\n".join(lines)).why == f"there is no {missing}"


def test_no_such_captioner_or_file(tmp_path: Path) -> None:
    error = refusal(tmp_path, PLAIN, ("captioner", "causall"))
    assert (error.what, error.hint) == ("--captioner", f"One of: {', '.join(CAPTIONERS)}.")
    error = refusal(tmp_path, PLAIN.replace("causal", "causall"))
    assert error.what == "captioner"
    assert error.hint.startswith(f"There are: {', '.join(CAPTIONERS)}.")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_settings(tmp_path / "none.toml")
    assert "no valid TOML" in refusal(tmp_path, "stage = ").why


def test_overrides_of_every_kind(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        PLAIN + "[run]\nbatch = 4\nepochs = 9\n",
        ("run.epochs", "3"),
        ("seed", "7"),
        ("engine.compile", "true"),
        ("data.train", '["train", "restval"]'),
        ("validation.report", "[1, 3]"),
        ("schedule.learning_rate", "1e-4"),
        ("schedule.kind", "cosine"),
        ("out", "runs/mine"),
        ("data.vocabulary", '"v.json"'),
        ("model.width", "64"),
    )
    assert (settings.run.epochs, settings.run.batch, settings.seed) == (3.0, 4, 7)
    assert settings.engine.compile is True
    assert settings.data.train == ("train", "restval")
    assert settings.validation.report == (1, 3)
    assert (settings.schedule.learning_rate, settings.schedule.kind) == (1e-4, "cosine")
    assert (settings.out, settings.data.vocabulary) == (Path("runs/mine"), Path("v.json"))
    assert model_config(settings).width == 64


def test_an_override_through_what_is_no_table(tmp_path: Path) -> None:
    error = refusal(tmp_path, f"{PLAIN}\nrun = 3\n", ("run.epochs", "1"))
    assert (error.what, error.why) == (f"{tmp_path / 'config.toml'}: run", "is not a table")
    assert refusal(tmp_path, PLAIN, ("stage.x", "1")).why == "there is no such setting"


def test_overrides_may_bring_all_that_the_file_lacks(tmp_path: Path) -> None:
    given = [("stage", "teacher_xe"), ("captioner", "causal"), ("out", "o")]
    assert read(tmp_path, "", *given, ("data.features", "f")) == read(tmp_path)


def test_a_captioner_of_the_callers_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True)
    class Size:
        hidden: int = 3

    def build(config: Size, features: int, words: int) -> nn.Module:
        raise AssertionError

    own = CaptionerSpec(Size, build, lambda *_: pytest.fail("nobody asked"))
    path = tmp_path / "config.toml"
    text = PLAIN.replace("causal", "mine").replace("teacher_xe", "student_xe")
    path.write_text(text + "[model]\nhidden = 5\n")
    with pytest.raises(ConfigError, match="there is no captioner 'mine'"):
        read_settings(path)
    monkeypatch.setitem(CAPTIONERS, "mine", own)
    assert model_config(read_settings(path)) == Size(5)


def test_plug_ins_that_the_file_names_are_used(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(PLAIN.replace("causal", "bag").replace("teacher_xe", "student_xe"))
    with pytest.raises(ConfigError, match=r"no captioner 'bag'.* --plugin MODULE"):
        read_settings(path)
    given = [("model.hidden", "7"), ("plugins", '["tests.toy"]')]
    with unplugged():
        assert model_config(read_settings(path, given)).hidden == 7
    path.write_text('plugins = ["tests.toy"]\n' + path.read_text())
    with unplugged():
        settings = read_settings(path, [("captioner", "bag")])
        assert settings.plugins == ("tests.toy",)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ('"tests.toy"', "'tests.toy' is no list of modules"),
        ("3", "3 is no list of modules"),
        ("[3]", "'3' is no name of a module"),
        ('["no_such"]', "there is no module no_such"),
    ],
)
def test_plug_ins_that_cannot_be(value: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(f"plugins = {value}\n{PLAIN}")
    with pytest.raises(ConfigError, match=re.escape(f"{path}: plugins: {told}")):
        read_settings(path)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_file_of_a_run_says_the_same_again(tmp_path: Path, path: Path) -> None:
    settings = read_settings(path)
    assert read(tmp_path, settings_toml(settings)) == settings


@pytest.mark.parametrize("stage", ["teacher_xe", "scst", "student_xe", "cmal"])
def test_so_does_that_of_every_stage(tmp_path: Path, stage: str) -> None:
    tables: dict[str, Any] = {
        "teacher_xe": {"xe": {"smoothing": 0.1}},
        "student_xe": {"xe": {"fill": True}},
        "scst": {"scst": {"samples": 9, "baseline": "greedy"}, "start": "s"},
        "cmal": {"cmal": {"topk": 4}, "start": "s"},
    }
    settings = make_settings(Path("s"), Path("o"), stage, **tables[stage])
    assert read(tmp_path, settings_toml(settings)) == settings


@given(
    st.text(), st.floats(1e-9, 1e3), st.integers(0, 2**63 - 1), st.booleans(), st.none() | st.text()
)
def test_any_settings_are_written_so_that_they_can_be_read(
    name: str, number: float, seed: int, flag: bool, start: str | None
) -> None:
    values: dict[str, Any] = {"start": start} if start is not None else {}
    settings = make_settings(Path("s"), Path("o"), optimiser={"clip": number}, **values)
    settings = replace(
        settings,
        out=Path(name),
        seed=seed,
        engine=replace(settings.engine, compile=flag),
        data=replace(settings.data, train=(name, "train")),
    )
    assert structure(tomllib.loads(settings_toml(settings)), Settings, "again") == settings


def test_check_looks_at_settings_from_anywhere() -> None:
    settings = make_settings(Path("s"), Path("o"))
    check(settings)
    with pytest.raises(ConfigError, match=r"run\.batch"):
        check(replace(settings, run=replace(settings.run, batch=0)))
