"""The benchmark of the baselines' variance: its arithmetic, and that it runs on a small run."""

import json
from pathlib import Path

import pytest
import torch
from benchmarks.gradient_variance import BASELINES, Spread, main

from naic.train.loop import train
from tests.train.runs import make_learnable_store, make_settings


def test_mean_and_variance_of_vectors_that_come_one_by_one() -> None:
    vectors = torch.randn(7, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 3
    spread = Spread()
    for vector in vectors:
        spread.add(vector)
    assert spread.variance == pytest.approx(float(vectors.var(0).sum()), rel=1e-12)
    length = float(vectors.mean(0).square().sum())
    assert spread.signal == pytest.approx(length - spread.variance / 7, rel=1e-12)


def test_it_compares_all_baselines_on_the_same_sentences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_learnable_store(tmp_path / "store")
    run = {"epochs": 25.0, "validate_every": 100.0, "save_every": 100.0}
    train(make_settings(tmp_path / "store", tmp_path / "run", "student_xe", run=run))
    out = tmp_path / "found.json"
    words = ["x", str(tmp_path / "run"), "--out", str(out), "--name", "runs/student"]
    words += ["--batches", "2", "--batch", "8", "--samplings", "4", "--device", "cpu"]
    monkeypatch.setattr("sys.argv", words)
    main()
    found = json.loads(out.read_text())
    assert found["run"] == "runs/student"
    assert BASELINES == ("none", "ma", "sc", "loo", "cf")
    assert tuple(found["baselines"]) == (*BASELINES, "cf-all")
    rows = found["baselines"].values()
    assert all(row["rewards"] == found["baselines"]["cf"]["rewards"] for row in rows)
    assert all(len(row["variances"]) == 2 and min(row["variances"]) > 0 for row in rows)
    assert len({row["variance"] for row in rows}) == 6
    assert found["moving_average"] > 0
