"""An evaluation of the drawn scenes that takes no time."""

from pathlib import Path

import pytest

from naic.tasks.evaluate.options import EvaluateOptions
from tests.tasks.evaluate.evaluations import SCENES, next_captions, write_results


@pytest.fixture
def options(tmp_path: Path) -> EvaluateOptions:
    results = write_results(tmp_path / "results.json", next_captions())
    return EvaluateOptions(results, references=str(SCENES), fast=True, bootstrap=200)
