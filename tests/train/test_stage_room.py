"""There is room for another stage: one entry in `STAGES`, and training knows all it must."""

from pathlib import Path

import pytest
from torch import Tensor, nn

from naic.cli.main import main
from naic.decode.policy import choose, log_policy, spoken
from naic.errors import ConfigError, TrainingError
from naic.learn.losses import policy_loss
from naic.train.batches import Batch
from naic.train.config import settings_toml
from naic.train.logs import read_metrics
from naic.train.loop import train
from naic.train.stages import STAGES
from naic.train.tools import Logs, StageSpec, Tools
from tests.models.conftest import one_thread
from tests.train.runs import CAPTIONER_OF, COMMAND, enter, make_home, refused, run_settings

__all__ = ["one_thread"]
RUN = Path("run")


def gamble(model: nn.Module, batch: Batch, tools: Tools) -> tuple[Tensor, Logs]:
    """The policy gradient and nothing else: every sampled word is worth the reward (eq. 5)."""
    assert tools.rewards is not None
    log_probs = log_policy(model(batch.features, batch.mask)[:, 0])  # (B, N, V)
    words = choose(log_probs.detach())  # (B, N)
    reward = tools.rewards.score(words, batch.rows)  # (B,)
    chosen = log_probs.gather(-1, words[..., None])[..., 0]  # (B, N)
    loss = policy_loss(chosen, reward[:, None], spoken(words)) / batch.images
    return loss, {"loss": loss.detach(), "reward": reward.sum().float() / batch.images}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("home"))


@pytest.fixture(autouse=True)
def here(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setitem(CAPTIONER_OF, "gamble", "parallel")  # of the tests' own settings
    stage = StageSpec(
        gamble,
        "cmal",
        reads_words=False,
        advice="Do not gamble.",
        reward=lambda settings: settings.cmal,
    )
    monkeypatch.setitem(STAGES, "gamble", stage)
    return enter(home, tmp_path, monkeypatch)


def test_a_new_stage_is_one_entry(capsys: pytest.CaptureFixture[str]) -> None:
    settings = run_settings("gamble", epochs=1.0)
    Path("config.toml").write_text(settings_toml(settings))
    assert "[cmal]" in Path("config.toml").read_text()
    assert "[xe]" not in Path("config.toml").read_text()
    assert main(["train", "config.toml", "--cmal.bleu4", "0.5"]) == 0
    lines = read_metrics(RUN)
    assert all("reward" in line for line in lines if "loss" in line)
    assert "gamble: step 5/5" in capsys.readouterr().err
    assert main(["train", "config.toml", "--stage", "gambel"]) == 2
    assert "One of: teacher_xe, scst, student_xe, cmal, gamble." in capsys.readouterr().err


def test_what_holds_for_its_kind_holds_for_it() -> None:
    """It learns from rewards, so it needs a model that can caption and what people said."""
    error = refused(ConfigError, run_settings("gamble", start=None))
    assert (error.what, error.why) == ("start", "gamble improves a model that can already caption")
    error = refused(ConfigError, run_settings("gamble", captioner="causal"))
    assert error.why == "a causal captioner cannot be trained by gamble"
    error = refused(ConfigError, run_settings("gamble", data={"pseudo": ["p"]}))
    assert error.why == "gamble learns from rewards against the captions of people"


def test_its_advice_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {"learning_rate": 1e9}
    settings = run_settings("gamble", schedule=wrong, optimiser={"average": 0.0, "clip": 0.0})
    with pytest.raises(TrainingError, match="Do not gamble"):
        train(settings, command=COMMAND)
