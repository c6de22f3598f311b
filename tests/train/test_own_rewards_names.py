"""How rewards of one's own are found by their names, and what is refused, and when."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from naic.cli.main import main
from naic.data.features import StoredRecord
from naic.errors import ConfigError
from naic.train.config import read_settings, settings_toml
from naic.train.loop import train
from naic.train.own_rewards import GivenRewards, take_rewards
from tests.train.own_cases import RUN, cmal_of, here, home, settings_of
from tests.train.runs import refused

__all__ = ["here", "home"]
pytestmark = pytest.mark.usefixtures("here")


def test_functions_from_python(home: Path) -> None:
    """Their names and weights are in the run's settings; only Python can go on with it."""

    def short(sentences: list[str], images: list[StoredRecord]) -> list[float]:
        return [1 - len(text.split()) / 8 for text in sentences]

    rewards: GivenRewards = {"short": (short, 0.5)}
    plain = settings_of(home, cmal={"cider": 0, "reward": {"mine:seen": 1}})
    train(plain, rewards=rewards)
    own = read_settings(RUN / "config.toml")
    assert own.cmal.reward == {"mine:seen": 1, "short": 0.5}
    further = replace(own, run=replace(own.run, epochs=2.0))
    assert refused(ConfigError, further, resume=True).why == "names no module"
    with pytest.raises(ConfigError, match=r"its weight is 1, and 0\.5 in the settings"):
        train(further, resume=True, rewards={"short": (short, 1)})
    report = train(further, resume=True, rewards=rewards)
    assert report["steps"] == 10
    assert train(further, resume=True, rewards=rewards) == report
    wrong: list[tuple[Any, str]] = [
        ({"short": short}, "is no pair of a function and its weight"),
        ({"short": (0.5, short)}, "is no pair of a function and its weight"),
        ({"mine:short": (short, 0.5)}, "names with a colon are imported"),
        ({"no name": (short, 0.5)}, "is no name of a function"),
        ({"short": (short, 0)}, "0 is no weight"),
        ({"cider": (short, 1)}, "is a setting of its own"),
        ({"short": (lambda sentences: [], 1)}, "cannot be called with sentences and images"),
    ]
    for given, told in wrong:
        with pytest.raises(ConfigError, match=told):
            train(plain, rewards=given)
    with pytest.raises(ConfigError, match="student_xe learns from captions, not from rewards"):
        train(settings_of(home, "student_xe"), rewards=rewards)


@pytest.mark.parametrize(
    ("weights", "told"),
    [
        ({"mine:nera": 1}, "mine has no function 'nera'. Did you mean mine:near?"),
        ({"mine:LENGTH": 1}, "mine has no function 'LENGTH'. Define it in mine."),
        ({"mine:Scorer": 1}, "mine has no function 'Scorer'. Define it in mine."),
        ({"mine:alone": 1}, "cannot be called with sentences and images (too many"),
        ({"minor:near": 1}, "there is no module minor in "),
        ({"mine.own:near": 1}, "there is no module mine.own in "),
        ({"mine.py:near": 1}, "is a file, not a module. Leave out .py."),
        ({"broken:near": 1}, "broken cannot be imported (RuntimeError: no network). Mend it"),
        ({"needy:near": 1}, "needy cannot be imported (ModuleNotFoundError: No module named 'zz"),
        ({"leaving:near": 1}, "leaving cannot be imported (SystemExit: 3)"),
        ({"short": 1}, "names no module. Write it as"),
        ({"mine:near:far": 1}, "is no name of a function in a module"),
        ({"my-own:near": 1}, "is no name of a function in a module"),
        ({":near": 1}, "is no name of a function in a module"),
        ({"bleu4": 1}, "is a setting of its own. Write cmal.bleu4 = 1."),
        ({"mine:near": 0}, "0 is no weight"),
        ({"mine:near": float("inf")}, "inf is no weight"),
    ],
    ids=str,
)
def test_what_names_no_function(weights: dict[str, float], told: str) -> None:
    """Before anything is looked at: there is no store here."""
    Path("broken.py").write_text("raise RuntimeError('no network')")
    Path("needy.py").write_text("import zz_not_there")
    Path("leaving.py").write_text("raise SystemExit(3)")
    error = refused(ConfigError, cmal_of(Path("nowhere"), weights))
    assert error.what == f'cmal.reward."{next(iter(weights))}"'
    assert told in str(error)
    assert not RUN.exists()


def test_settings_are_read_without_running_anything(home: Path) -> None:
    """Only a run does that; and the launcher of several processes, to say once what is wrong."""
    Path("loud.py").write_text("open('was-run', 'w').close()\ndef f(sentences, images): return 1")
    Path("config.toml").write_text(settings_toml(cmal_of(home, {"loud:f": 1})))
    assert read_settings(Path("config.toml")).cmal.reward == {"loud:f": 1}
    assert not Path("was-run").exists()
    assert main(["train", "config.toml", "--dry-run"]) == 1
    assert Path("was-run").exists()
    graph = ["--engine.graph", "true"]
    assert main(["train", "config.toml", *graph]) == 2
    assert main(["train", "config.toml", "--nproc", "2", "--cmal.reward", '{"loud:g" = 1}']) == 2


def test_options(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("config.toml").write_text(settings_toml(cmal_of(home, {"mine:near": 1})))
    for text, told in (
        ("mine:near", "--cmal.reward: 'mine:near' is not a table. Write it as { \"NAME\" = 0.5 }."),
        ('{"mine:near" = "1"}', "'1', the weight of 'mine:near', is not a number."),
        ('{"mine:near" = true}', "True, the weight of 'mine:near', is not a number."),
    ):
        assert main(["train", "config.toml", "--cmal.reward", text]) == 2
        assert told in capsys.readouterr().err
    assert main(["train", "config.toml", "--cmal.reward", "{}"]) == 2
    assert "cmal.cider: 0 leaves nothing to be rewarded" in capsys.readouterr().err
    assert main(["train", "config.toml", "--engine.graph", "true"]) == 2
    assert "engine.graph: mine:near runs on the host" in capsys.readouterr().err
    other = ["--cmal.reward", '{"mine:seen" = -2, "mine:near" = 0.25}']
    assert main(["train", "config.toml", *other, "--dry-run"]) == 0
    assert "of your own: -2 mine:seen, 0.25 mine:near" in capsys.readouterr().out
    assert not RUN.exists()


def test_no_code_comes_with_a_run_or_a_model(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever in it the code lies, and wherever one stands; what is beside it may be used."""
    train(cmal_of(home, {"mine:near": 1}))
    (RUN / "deeper").mkdir()
    for path in (RUN, RUN / "deeper", RUN / "best"):
        (path / "evil.py").write_text("raise AssertionError('it was run')")
    (RUN / "__init__.py").touch()
    out = settings_of(home).out
    cases = [("run.evil:f", "."), ("run.deeper.evil:f", "."), ("run.best.evil:f", ".")]
    cases += [("run:f", "."), ("evil:f", "run"), ("evil:f", "run/best"), ("deeper.evil:f", "run")]
    for named, where in cases:
        with monkeypatch.context() as patch:
            patch.chdir(where)
            with pytest.raises(ConfigError, match="in a folder of a run or a model, whose code is"):
                take_rewards(replace(cmal_of(home, {named: 1}), out=out))
    for half in ("config.toml", "vocab.json"):  # of a run that would be gone on with
        (RUN / half).unlink()
    with pytest.raises(ConfigError, match="in a folder of a run or a model, whose code is not"):
        take_rewards(cmal_of(home, {"run.deeper.evil:f": 1}))
    take_rewards(cmal_of(home, {"mine:near": 1}))
