"""Which stages a table takes, in which order, and what each is made from."""

from typing import Any

import pytest

from naic.errors import ConfigError
from naic.tasks.reproduce.plan import Share, StagePlan, Train
from naic.tasks.reproduce.preset import LADDER, PresetSettings
from naic.tasks.reproduce.run_file import TABLES


def make_plan(*, unlabelled: bool = True, fill: bool = False, **settings: Any) -> StagePlan:
    return StagePlan(
        PresetSettings(**settings), baseline="cf", topk=2, fill=fill, unlabelled=unlabelled
    )


def test_the_ladder() -> None:
    plan = make_plan()
    assert [row.system for row in plan.rows("ladder")] == list(LADDER)
    assert {row.beam for row in plan.rows("ladder")} == {1, 3}
    assert plan.stages(["ladder"]) == [
        "features",
        "teacher-xe",
        "teacher-scst",
        "pseudo",
        "naic-kd",
        "naic-cmal",
        "unlabelled-features",
        "pseudo-unlabelled",
        "naic-kd-unlabelled",
        "naic-cmal-unlabelled",
        "naic-init",
        "naic-base",
    ]


def test_the_teacher_before_and_after_scst() -> None:
    rows = [(row.system, row.stage, row.beam) for row in make_plan().rows("ladder")]
    assert rows[:4] == [
        ("AIC XE beam 1", "teacher-xe", 1),
        ("AIC XE beam 3", "teacher-xe", 3),
        ("AIC beam 1", "teacher-scst", 1),
        ("AIC beam 3", "teacher-scst", 3),
    ]
    rows = [(row.system, row.stage, row.beam) for row in make_plan(scst=False).rows("ladder")]
    assert rows[:2] == [("AIC beam 1", "teacher-xe", 1), ("AIC beam 3", "teacher-xe", 3)]


def test_a_part_of_the_ladder_takes_a_part_of_the_stages() -> None:
    plan = make_plan(systems=("AIC beam 3", "NAIC-base", "+KD", "+CMAL"), scst=False)
    names = plan.stages(["ladder"])
    assert names == ["features", "teacher-xe", "pseudo", "naic-kd", "naic-cmal", "naic-base"]
    assert plan.jobs["naic-kd"].needs == ("features", "teacher-xe", "pseudo")


def test_each_stage_comes_after_what_it_needs() -> None:
    for plan in (make_plan(), make_plan(scst=False), make_plan(fill=True)):
        names = plan.stages(TABLES)
        assert len(set(names)) == len(names)
        for place, name in enumerate(names):
            assert {*plan.jobs[name].needs} <= {*names[:place]}


def test_no_image_without_captions_reaches_the_teacher_or_the_rewards() -> None:
    """The teacher, and CMAL with its df, are made from the labelled store alone."""
    plan = make_plan()
    for name in (
        "teacher-xe",
        "teacher-scst",
        *(n for n in plan.jobs if n.startswith("naic-cmal")),
    ):
        job = plan.jobs[name]
        assert isinstance(job, Train)
        assert (job.unlabelled, job.pseudo) == (None, ())


def test_rows_with_the_ladders_own_settings_are_the_ladders_runs() -> None:
    plan = make_plan()
    rows = {row.system: row.stage for table in TABLES for row in plan.rows(table)}
    for system in ("k = 2", "weight-init, cf", "fill off, CMAL", "0 %, CMAL", "+CMAL"):
        assert rows[system] == "naic-cmal"
    for system in ("weight-init, XE", "fill off, XE", "0 %, XE", "+KD"):
        assert rows[system] == "naic-kd"
    assert rows["100 %, CMAL"] == rows["+unlabelled"] == "naic-cmal-unlabelled"
    assert rows["fill on, CMAL"] == "naic-cmal-fill"


def test_fill_on_as_the_presets_own() -> None:
    rows = {row.system: row.stage for row in make_plan(fill=True).rows("fill")}
    assert rows["fill on, XE"] == "naic-kd"
    assert rows["fill off, XE"] == "naic-kd-no-fill"


@pytest.mark.parametrize("end", ["", "-scratch"])
def test_baselines_differ_in_nothing_else(end: str) -> None:
    plan = make_plan()
    for name in ("none", "ma", "sc", "loo"):
        assert plan.jobs[f"naic-cmal{end}-{name}"] == Train(
            "cmal", start=f"naic-kd{end}", baseline=name
        )
    assert plan.jobs[f"naic-cmal{end}"] == Train("cmal", start=f"naic-kd{end}")
    assert plan.jobs["naic-kd-scratch"] == Train("student_kd", pseudo=("pseudo",))


def test_table_3_has_the_papers_order() -> None:
    systems = [row.system for row in make_plan().rows("baselines")]
    assert systems[:3] == ["scratch, XE", "scratch, none", "scratch, ma"]
    assert systems[6:8] == ["weight-init, XE", "weight-init, none"]


def test_shares_of_the_unlabelled_images() -> None:
    plan = make_plan(shares=(1.0, 0.25))
    assert [row.system for row in plan.rows("unlabelled")] == [
        f"{share} %, {stage}" for share in (0, 25, 100) for stage in ("XE", "CMAL")
    ]
    assert plan.jobs["pseudo-unlabelled-25"] == Share("pseudo-unlabelled", 0.25)
    job = plan.jobs["naic-kd-unlabelled-25"]
    assert isinstance(job, Train)
    assert job.pseudo == ("pseudo", "pseudo-unlabelled-25")


def test_without_unlabelled_images() -> None:
    plan = make_plan(unlabelled=False)
    assert "+unlabelled" not in [row.system for row in plan.rows("ladder")]
    with pytest.raises(ConfigError, match="there are no unlabelled images"):
        plan.rows("unlabelled")


def test_seeds_share_all_but_the_students() -> None:
    plan = make_plan()
    shared = {name for name in plan.jobs if plan.is_shared(name)}
    assert shared == {
        "features",
        "unlabelled-features",
        "teacher-xe",
        "teacher-scst",
        "pseudo",
        "pseudo-unlabelled",
        "pseudo-unlabelled-50",
    }
