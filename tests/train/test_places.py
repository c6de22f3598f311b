"""What lies where in a run's folder is found by its name."""

from pathlib import Path

import pytest

from naic.train.places import best_step, checkpoints, step_name


def test_checkpoints_come_in_the_order_of_their_steps(tmp_path: Path) -> None:
    names = [step_name(step) for step in (100_000_000, 400, 99_999_999)]
    for name in (*names, ".saving-step-00000500.7", "step-1", "step-00000400-2"):
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
    found = checkpoints(tmp_path)
    assert list(found) == [400, 99_999_999, 100_000_000]
    assert found[400] == tmp_path / "checkpoints" / "step-00000400"


@pytest.mark.parametrize(
    ("target", "step"),
    [("models/step-00000400", 400), ("models/step-00000400-2", 400), ("elsewhere", None)],
)
def test_the_step_of_the_best_model(tmp_path: Path, target: str, step: int | None) -> None:
    (tmp_path / "best").symlink_to(target)
    assert best_step(tmp_path) == step


def test_a_copied_best_model_has_no_step(tmp_path: Path) -> None:
    assert best_step(tmp_path) is None
    (tmp_path / "best").mkdir()
    assert best_step(tmp_path) is None
