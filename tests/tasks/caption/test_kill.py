from pathlib import Path

import pytest

from tests.tasks.caption.kill import FORMATS, Kill, make_home, trials


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    make_home(folder)
    return folder


def check(struck: list[Kill], kills: int) -> None:
    for kill in struck:
        print(f"{kill.format}: killed with {kill.captions} captions there, {kill.hit}")
    assert len(struck) == kills
    assert any(kill.captions > 0 for kill in struck)


@pytest.mark.parametrize("kind", ["jsonl", "txt"])
def test_a_killed_run_goes_on_to_the_same_bytes(home: Path, kind: str) -> None:
    check(trials(home, kind, 1, seed=1), 1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", FORMATS)
def test_ten_kills(home: Path, kind: str) -> None:
    struck = trials(home, kind, 10, seed=0)
    check(struck, 10)
    assert sum(kill.hit == "writing a file" for kill in struck) >= (3 if kind == "txt" else 0)
