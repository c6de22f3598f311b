"""What `naic doctor` prints, and its exit code."""

import json
from collections.abc import Iterator

import pytest

from naic.cli.main import main
from naic.tasks import doctor
from naic.tasks.doctor import Finding

WORKS = Finding("captioning", "works", "it speaks")
MISSING = Finding("extra onnx", "missing", "not installed: onnx", "Run: pip install 'naic[onnx]'")
BROKEN = Finding("captioning", "problem", "no model", "Get one.")


def examined(monkeypatch: pytest.MonkeyPatch, *findings: Finding) -> None:
    def examine() -> Iterator[Finding]:
        yield from findings

    monkeypatch.setattr(doctor, "examine", examine)


def test_a_line_for_each_finding(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    examined(monkeypatch, MISSING, WORKS)
    assert main(["doctor"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "-    extra onnx:     not installed: onnx",
        "                     Run: pip install 'naic[onnx]'",
        "ok   captioning:     it speaks",
        "naic can caption images.",
    ]


def test_it_fails_only_if_captioning_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    examined(monkeypatch, BROKEN)
    assert main(["doctor"]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "naic cannot caption images."


def test_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    examined(monkeypatch, MISSING, BROKEN)
    assert main(["doctor", "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["works"] is False
    assert said["findings"][0] == {
        "name": "extra onnx",
        "state": "missing",
        "what": "not installed: onnx",
        "todo": "Run: pip install 'naic[onnx]'",
    }
