"""Presets: ours are found and whole, wrong ones are refused with their reason."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import naic
from naic.errors import ConfigError
from naic.tasks.reproduce.preset import FOLDERS, LADDER, NEEDED, find_preset, read_preset
from naic.tasks.reproduce.run import make_plan
from naic.tasks.reproduce.tables import TABLE_1, TABLE_3, TABLE_4, TABLE_5
from naic.train.config import model_config, read_settings
from tests.tasks.reproduce.micro import FILES, make_options, write_preset


@pytest.mark.parametrize("name", FOLDERS)
def test_ours_are_whole(name: str) -> None:
    """Every file is read and checked, and students are as large as the teacher they start from."""
    preset = read_preset(name)
    plan = make_plan(preset, make_options(name, Path("out")))
    assert [row.system for row in plan.rows("ladder")][:6] == list(LADDER[:6])
    # A teacher that begins with another has the sizes of that one.
    begun = read_settings(preset.path("teacher_xe")).start is not None
    first = preset.path("teacher_first" if begun else "teacher_xe")
    teacher, base = (read_settings(path) for path in (first, preset.path("student_base")))
    sizes = [replace(model_config(run), dropout=0.0, seen=1.0) for run in (teacher, base)]
    assert sizes[0] == sizes[1]
    cmal = read_settings(preset.path("cmal"))
    assert (cmal.cmal.baseline, cmal.cmal.topk) == ("cf", 2)
    runs = [read_settings(preset.path(config)) for config in NEEDED[1:]]
    assert len({(run.data.train, run.data.validation, run.data.more_than) for run in runs}) == 1
    assert all(preset.settings.report not in (*r.data.train, *r.data.validation) for r in runs)


@pytest.mark.parametrize("name", ["tiny", "coco"])
def test_ours_have_a_short_form(name: str) -> None:
    quick = read_preset(name, quick=True).settings
    assert {"NAIC-base", "+KD", "+CMAL"} <= {*quick.systems}
    assert quick.epochs
    assert read_preset(name).settings.epochs == {}


def test_the_papers_schedule() -> None:
    """Section 4.1 of the paper, number by number."""
    preset = read_preset("paper")
    base, kd, cmal = (read_settings(preset.path(c)) for c in ("student_base", "student_kd", "cmal"))
    for run in (base, kd):
        assert (run.schedule.kind, run.schedule.learning_rate) == ("paper", 3e-4)
        assert run.run.epochs == 30
    assert (cmal.schedule.kind, cmal.schedule.learning_rate) == ("decay", 7.5e-5)
    assert (cmal.schedule.factor, cmal.schedule.every, cmal.run.epochs) == (0.8, 10, 70)
    assert {run.run.batch for run in (base, kd, cmal)} == {50}
    assert base.model["length"] == 16
    assert (base.model["encoder_layers"], base.model["width"]) == (6, 512)
    assert preset.settings.beam == 3
    assert preset.files["unlabelled"]["limit"] == 100_000


def test_the_papers_figures() -> None:
    """A few of each table, and what must be the same in two of them."""
    assert list(TABLE_1) == list(LADDER[2:])  # the paper has no teacher before SCST
    assert TABLE_1["AIC beam 3"]["CIDEr"] == 1.288
    assert TABLE_1["NAIC-base"] | {} == {
        "Bleu_1": 0.607,
        "Bleu_4": 0.159,
        "METEOR": 0.182,
        "ROUGE_L": 0.459,
        "SPICE": 0.119,
        "CIDEr": 0.606,
        "latency_ms": 16,
        "speedup": 13.9,
    }
    same = [
        (TABLE_1["+KD"], TABLE_3["weight-init, XE"], TABLE_5["0 %, XE"]),
        (TABLE_1["+CMAL"], TABLE_3["weight-init, cf"], TABLE_4["k = 2"], TABLE_5["0 %, CMAL"]),
        (TABLE_1["+unlabelled"], TABLE_5["100 %, CMAL"]),
    ]
    for rows in same:
        plain = [
            {k: v for k, v in row.items() if k not in ("latency_ms", "speedup")} for row in rows
        ]
        assert all(row == plain[0] for row in plain)


def test_a_wheel_has_them_beside_its_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site-packages" / "naic"
    folder = package / "configs" / "shapes"
    folder.mkdir(parents=True)
    (folder / "preset.toml").touch()
    monkeypatch.setattr(naic, "__file__", str(package / "__init__.py"))
    assert find_preset("tiny") == folder
    with pytest.raises(ConfigError, match="neither in the package nor in a checkout"):
        find_preset("paper")


@pytest.mark.parametrize(("name", "why"), [("nothing", "no such preset"), (".", "holds no preset")])
def test_an_unknown_preset(name: str, why: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=why) as caught:
        find_preset(name)
    assert "tiny, coco, paper" in caught.value.hint


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"sistems": []}, "sistems"),
        ({"systems": ["NAIC"]}, "systems"),
        ({"systems": []}, "systems"),
        ({"baselines": ["cf", "critic"]}, "baselines"),
        ({"quick": 3}, r"quick: it is no table"),
        ({"beam": 101}, "beam"),
        ({"keep": 4}, "keep"),
        ({"beam": 0}, "beam"),
        ({"shares": [0.0]}, "shares"),
        ({"shares": [1.5]}, "shares"),
        ({"topk": [0]}, "topk"),
        ({"loo_samples": 1}, "loo_samples"),
        ({"epochs": {"prepare": 1.0}}, "epochs"),
        ({"epochs": {"cmal": 0.0}}, "epochs"),
    ],
)
def test_wrong_settings_are_refused(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    folder = write_preset(tmp_path / "p", preset=change)
    with pytest.raises(ConfigError, match=told):
        read_preset(str(folder))


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    folder = write_preset(tmp_path / "p", cmal=None, student_kd=None)
    with pytest.raises(ConfigError, match=r"there is no student_kd\.toml, cmal\.toml"):
        read_preset(str(folder))


def test_a_preset_without_a_short_form(tmp_path: Path) -> None:
    folder = write_preset(tmp_path / "p", preset={"quick": {}})
    with pytest.raises(ConfigError, match="has no \\[quick\\]"):
        read_preset(str(folder), quick=True)


def test_quick_is_put_over_the_rest(tmp_path: Path) -> None:
    folder = str(write_preset(tmp_path / "p"))
    plain, quick = read_preset(folder).settings, read_preset(folder, quick=True).settings
    assert (plain.scst, plain.limit, plain.systems) == (True, None, LADDER)
    assert (quick.scst, quick.limit) == (False, FILES["preset"]["quick"]["limit"])
    assert quick.topk == plain.topk == (1, 2)
