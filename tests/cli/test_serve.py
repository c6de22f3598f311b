"""`naic serve` before it serves: its options, its environment, and what ends it at once."""

import signal
import socket
import sys
from pathlib import Path

import pytest

from naic.cli.main import BAD_USAGE, main
from naic.errors import ConfigError, NaicError
from naic.serve import run as room
from naic.serve.options import ServeOptions, from_environment, read_options


def test_each_option_can_be_a_variable_of_the_environment() -> None:
    given = {
        "NAIC_SERVE_PORT": "8123",
        "NAIC_SERVE_MAX_BODY": "20",
        "NAIC_SERVE_TOKEN": "secret",
        "NAIC_SERVE_NEUTRAL": "1",
        "NAIC_SERVE_MODEL": "mine",
        "NAIC_SERVE_FORBID": "",  # as if it were not there
    }
    expected = ServeOptions(
        port=8123, max_body=20.0, token="secret", neutral=True, model=Path("mine")
    )
    assert from_environment(given) == expected


def test_the_command_line_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAIC_SERVE_BATCH", "4")
    monkeypatch.setenv("NAIC_SERVE_QUEUE", "40")
    options = read_options(["--queue", "50"], "")
    assert (options.batch, options.queue) == (4, 50)


@pytest.mark.parametrize(
    ("name", "value"),
    [("BATCH", "many"), ("NEUTRAL", "perhaps"), ("RUNTIME", "java"), ("PORT", "x")],
)
def test_a_value_that_cannot_be_is_named(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"NAIC_SERVE_{name}: '{value}'"):
        from_environment({f"NAIC_SERVE_{name}": value})


def test_a_token_is_not_told_of() -> None:
    with pytest.raises(ConfigError, match="--token") as refused:
        ServeOptions(token="secret ").check_values()
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("name", ["TOKN", "TOKENS", "MAXBODY", "MAX_BODDY", "ORIGIN"])
def test_a_name_that_is_misspelt_is_told(name: str) -> None:
    with pytest.raises(ConfigError, match=f"NAIC_SERVE_{name}: there is no such option"):
        from_environment({f"NAIC_SERVE_{name}": "1"})


def test_what_kubernetes_says_of_a_service_is_left_alone() -> None:
    given = {
        "NAIC_SERVE_SERVICE_HOST": "10.0.0.1",
        "NAIC_SERVE_SERVICE_PORT": "80",
        "NAIC_SERVE_PORT_80_TCP": "tcp://10.0.0.1:80",
        "NAIC_SERVE_PORT_80_TCP_PROTO": "tcp",
        "NAIC_SERVE_PORT_80_TCP_ADDR": "10.0.0.1",
    }
    assert from_environment(given) == ServeOptions()


def test_what_would_end_so_again_ends_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["serve", "--port", port]) == BAD_USAGE
        assert "--port 0 takes a free port" in capsys.readouterr().err
    assert main(["serve", "--port", "0", "--model", str(tmp_path / "none")]) == BAD_USAGE
    assert "there is no such model" in capsys.readouterr().err
    assert main(["serve", "--queue", "0"]) == BAD_USAGE
    assert "--queue" in capsys.readouterr().err


def test_a_missing_extra_is_told_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith("naic.serve.run")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["serve"]) == BAD_USAGE
    assert "pip install 'naic[serve]'" in capsys.readouterr().err


def test_a_model_that_has_ended_is_to_be_started_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def dies(self: room.Running) -> bool:
        self.ready = True
        raise NaicError("the model", "its worker ended", "Start the server again.")

    monkeypatch.setattr(room.Running, "__call__", dies)
    assert main(["serve"]) == 1
    assert "its worker ended" in capsys.readouterr().err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_who_stops_it_can_be_told_from_the_code(
    monkeypatch: pytest.MonkeyPatch, number: int, code: int
) -> None:
    def stopped(self: room.Running) -> bool:
        self.stopped_by.append(number)
        return True

    monkeypatch.setattr(room.Running, "__call__", stopped)
    assert main(["serve"]) == code
