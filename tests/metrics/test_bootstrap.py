import numpy as np
import pytest

from naic.metrics import score as bootstrap
from naic.metrics.score import (
    Difference,
    Floats,
    Score,
    differences,
    interval,
    mean_score,
    resample,
)


def ratio_score(parts: Floats) -> Score:
    """A score that is no mean over images: sum of the first column over sum of the second."""
    return Score(
        "ratio",
        float(parts[:, 0].sum() / parts[:, 1].sum()),
        parts[:, 0] / parts[:, 1],
        parts,
        lambda sums: sums[..., 0] / sums[..., 1],
    )


def test_intervals_of_a_mean_cover_the_truth_as_often_as_they_say() -> None:
    rng = np.random.default_rng(1)
    covered = 0
    for trial in range(400):
        sample = rng.exponential(2.0, size=200)
        values = resample([mean_score("m", sample)], times=300, seed=trial)
        low, high = interval(values[:, 0])
        covered += low <= 2.0 <= high
    assert 0.91 <= covered / 400 <= 0.98


def test_the_spread_of_the_resampled_means_is_the_standard_error() -> None:
    sample = np.random.default_rng(2).normal(size=400)
    values = resample([mean_score("m", sample)], times=4000, seed=0)
    assert values.mean() == pytest.approx(sample.mean(), abs=0.005)
    assert values.std() == pytest.approx(sample.std() / 20, rel=0.05)


def test_a_set_is_scored_from_its_sums_and_not_from_its_images() -> None:
    parts = np.array([[1.0, 1.0], [0.0, 99.0]])
    values = resample([ratio_score(parts)], times=200, seed=0)
    assert sorted({round(float(v), 12) for v in values[:, 0]}) == [0.0, 0.01, 1.0]


def test_the_same_sets_for_every_metric_and_the_same_ones_again() -> None:
    sample = np.random.default_rng(3).random(50)
    scores = [
        mean_score("a", sample),
        mean_score("b", 1 - sample),
        ratio_score(sample[:, None] + [0, 1]),
    ]
    values = resample(scores, times=100, seed=5)
    assert values.shape == (100, 3)
    np.testing.assert_allclose(values[:, 0] + values[:, 1], 1.0, rtol=1e-12)
    np.testing.assert_array_equal(values, resample(scores, times=100, seed=5))
    assert not np.array_equal(values, resample(scores, times=100, seed=6))


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = [mean_score("a", np.random.default_rng(4).random(30))]
    whole = resample(scores, times=101, seed=0)
    monkeypatch.setattr(bootstrap, "_COUNTS_AT_ONCE", 7 * 30)
    np.testing.assert_allclose(resample(scores, times=101, seed=0), whole, rtol=1e-12)


def test_each_set_has_as_many_images_as_the_real_one() -> None:
    counts = bootstrap._draw(np.random.default_rng(0), 20, 37)
    np.testing.assert_array_equal(counts.sum(axis=1), np.full(20, 37.0))
    assert len({tuple(row) for row in counts}) == 20


def test_a_system_does_not_differ_from_itself() -> None:
    sample = np.random.default_rng(5).random(300)
    ours, theirs = mean_score("a", sample), mean_score("a", sample.copy())
    (found,) = differences([ours], [theirs], times=200, seed=0)
    assert found == Difference(0.0, 0.0, 0.0, 1.0)


def test_pairs_tell_more_than_two_intervals() -> None:
    rng = np.random.default_rng(6)
    hard = rng.normal(size=500)
    ours = mean_score("a", hard + 0.1 + rng.normal(scale=0.1, size=500))
    theirs = mean_score("a", hard + rng.normal(scale=0.1, size=500))
    (found,) = differences([ours], [theirs], times=1000, seed=0)
    one, other = (interval(resample([s], times=1000, seed=0)[:, 0]) for s in (ours, theirs))
    assert found.value == pytest.approx(0.1, abs=0.02)
    assert found.low is not None
    assert found.high is not None
    assert found.high - found.low < 0.2 * (one[1] - one[0] + other[1] - other[0])
    assert one[0] < other[1]  # apart from each other they overlap
    assert found.low > 0
    assert found.p == 2 / 1001


def test_the_other_way_round_is_the_same_with_the_other_sign() -> None:
    rng = np.random.default_rng(7)
    ours, theirs = (mean_score("a", rng.normal(size=60)) for _ in range(2))
    (there,) = differences([ours], [theirs], times=500, seed=0)
    (back,) = differences([theirs], [ours], times=500, seed=0)
    assert there.value == -back.value
    assert back.high is not None
    assert there.low == pytest.approx(-back.high)
    assert there.p == back.p


def test_p_is_even_where_nothing_differs() -> None:
    """Below 0.05 in about one of twenty comparisons of equals, and never 0."""
    rng = np.random.default_rng(8)
    found = []
    for seed in range(400):
        ours, theirs = (mean_score("a", rng.normal(size=100)) for _ in range(2))
        found += differences([ours], [theirs], times=200, seed=seed)
    p = np.array([difference.p for difference in found])
    assert p.min() > 0
    assert 0.02 <= np.mean(p < 0.05) <= 0.09
    assert 0.4 <= np.mean(p < 0.5) <= 0.6
