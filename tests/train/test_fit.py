"""A stage, a captioner and beams that do not fit are refused before anything is trained."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from naic.errors import ConfigError
from naic.models.captioners import CAPTIONERS
from naic.train.config import check, fits
from naic.train.loop import train
from naic.train.stages import STAGES
from tests.train.runs import (
    CAPTIONER_OF,
    enter,
    make_home,
    make_settings,
    refused,
    run_settings,
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("home"))


@pytest.fixture
def here(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return enter(home, tmp_path, monkeypatch)


def refusal(stage: str, captioner: str, **tables: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        check(make_settings(Path("s"), Path("o"), stage, captioner=captioner, **tables))
    return caught.value


def fitting(stage: str) -> list[str]:
    return [name for name, spec in CAPTIONERS.items() if fits(STAGES[stage], spec)]


def test_every_stage_is_for_one_of_our_captioners() -> None:
    for stage in STAGES:
        assert CAPTIONER_OF[stage] in fitting(stage)
        check(make_settings(Path("s"), Path("o"), stage, start="t"))


@pytest.mark.parametrize("stage", STAGES)
def test_no_stage_takes_the_other_captioner(stage: str) -> None:
    other = {"causal": "parallel", "parallel": "causal"}[CAPTIONER_OF[stage]]
    error = refusal(stage, other, start="t")
    assert (error.what, error.why) == ("stage", f"a {other} captioner cannot be trained by {stage}")
    assert error.hint.endswith(f"; {stage} is for: {', '.join(fitting(stage))}.")


@pytest.mark.parametrize(
    "captioner", [n for n, spec in CAPTIONERS.items() if spec.losses and not spec.reads_words]
)
def test_a_parallel_captioner_with_its_own_losses_learns_by_them_alone(captioner: str) -> None:
    check(make_settings(Path("s"), Path("o"), "student_xe", captioner=captioner))
    error = refusal("cmal", captioner, start="t")
    assert error.why == f"a {captioner} captioner cannot be trained by cmal"
    assert error.hint == "It has the stages student_xe; cmal is for: parallel."
    assert refusal("student_xe", captioner, xe={"fill": True}).what == "xe.fill"
    assert refusal("student_xe", captioner, xe={"glance": 0.5}).what == "xe.glance"


def test_whole_captions_have_no_targets_to_smooth() -> None:
    check(
        make_settings(Path("s"), Path("o"), "student_xe", captioner="mnic", xe={"smoothing": 0.1})
    )
    error = refusal("student_xe", "ctc", xe={"smoothing": 0.1})
    assert (error.what, error.hint) == ("xe.smoothing", "Set it to 0.")


def test_a_parallel_captioner_has_no_beam() -> None:
    for name, rules in (("beam", {"beam": 3}), ("report", {"report": [1, 3]})):
        error = refusal("student_xe", "parallel", validation=rules)
        assert error.what == f"validation.{name}"
        assert error.why == "a parallel captioner cannot follow 3 sentences at once"
        assert error.hint == "Give 1."
    wide = {"beam": 100, "report": [1, 3, 50]}
    check(make_settings(Path("s"), Path("o"), "teacher_xe", validation=wide))


def test_scst_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = make_settings(Path("s"), Path("o"), "scst", start="t")
    check(settings)
    monkeypatch.setitem(CAPTIONERS, "causal", replace(CAPTIONERS["causal"], sample=None))
    check(replace(settings, stage="teacher_xe"))
    with pytest.raises(ConfigError, match="captioner: scst samples captions, and a causal"):
        check(settings)


def test_a_run_that_is_begun_from_python_is_checked_too(here: Path) -> None:
    assert refused(ConfigError, run_settings(captioner="parallel")).what == "stage"
    assert refused(ConfigError, run_settings(captioner="none")).what == "captioner"
    beams = run_settings("student_xe", validation={"report": [2]})
    assert refused(ConfigError, beams).what == "validation.report"
    assert refused(ConfigError, run_settings(run={"batch": 0})).what == "run.batch"
    assert list(Path("run").iterdir()) == []


def test_counterfactuals_are_words_that_can_be_said(here: Path) -> None:
    words = 16  # 15 of the captions, and the period
    error = refused(ConfigError, run_settings("cmal", cmal={"topk": words + 1}))
    assert error.what == "cmal.topk"
    assert error.why == f"{words + 1} is more than the {words} words that can be said"
    train(run_settings("cmal", epochs=0.2, cmal={"topk": words}))
