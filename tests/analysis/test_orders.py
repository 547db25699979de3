"""Ranks, correlations, drops and matches against scipy and by hand."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest
from scipy import stats

from jaxrobust.analysis.correlations import correlation_matrix, pearson, pearson_interval
from jaxrobust.analysis.degradation import box, catastrophic, degradation
from jaxrobust.analysis.matching import gap, match_models
from jaxrobust.analysis.ranking import kendall, kendall_interval, ranks, standings
from jaxrobust.core.errors import InputError, UnknownNameError


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("n", [3, 10, 120])
def test_correlations_are_those_of_scipy(n, ties):
  rng = np.random.default_rng(n)
  x = rng.normal(size=n)
  y = x + rng.normal(size=n)
  if ties:
    x, y = np.round(x), np.round(y)
  assert kendall(x, y) == pytest.approx(stats.kendalltau(x, y).statistic, nan_ok=True)
  assert pearson(x, y) == pytest.approx(stats.pearsonr(x, y).statistic, nan_ok=True)
  assert pearson(1e9 + x, 1e-6 * y) == pytest.approx(pearson(x, y), rel=1e-5)
  gap_x, gap_y = np.r_[x, np.nan, 5], np.r_[y, 5, np.nan]
  assert kendall(gap_x, gap_y) == pytest.approx(kendall(x, y), nan_ok=True)
  assert pearson(gap_x, gap_y) == pytest.approx(pearson(x, y), nan_ok=True)


def test_bootstrapped_correlations_are_those_of_the_resampled_models():
  from jaxrobust.analysis.bootstrap import percentile_interval, resamples

  rng = np.random.default_rng(0)
  x = np.round(rng.normal(size=25), 1)
  y = x + rng.normal(size=25)
  rows = resamples(25, 50, seed=3)
  for interval, value in ((kendall_interval, kendall), (pearson_interval, pearson)):
    wanted = percentile_interval(np.array([value(x[row], y[row]) for row in rows]))
    assert interval(x, y, 50, seed=3) == pytest.approx(wanted, rel=1e-6)
  assert np.isnan(kendall_interval(x[:7], y[:7]).low) and np.isnan(pearson_interval(x[:7], y[:7]).low)


@pytest.mark.parametrize("interval", [pearson_interval, kendall_interval])
def test_intervals_of_correlations_cover(interval):
  rng, truth, hits = np.random.default_rng(0), 0.8, 0
  if interval is kendall_interval:
    truth = 2 / np.pi * np.arcsin(0.8)
  for zoo in range(200):
    x, y = rng.multivariate_normal([0, 0], [[1, 0.8], [0.8, 1]], 60).T
    low, high = interval(x, y, 300, zoo)
    hits += low <= truth <= high
  assert 0.89 <= hits / 200 <= 0.99


def test_a_matrix_of_correlations_with_gaps_and_constants():
  rng = np.random.default_rng(0)
  params = rng.lognormal(size=20)
  table = {
    "params": params,
    "rob": 3 * params + rng.normal(size=20),
    "constant": np.ones(20),
    "few": np.full(20, np.nan),
  }
  table["few"][:2] = 1, 2
  found = correlation_matrix(table, draws=100)
  assert np.allclose(found.values, found.values.T, equal_nan=True) and found.values[0, 0] == pytest.approx(1)
  assert np.isnan(found.values[0, 2]) and np.isnan(found.values[0, 3]) and found.n[0, 3] == 2
  assert found.low[0, 1] < found.values[0, 1] < found.high[0, 1]
  assert found.pairs()[0]["y"] == "rob" and len(found.pairs()) == 6
  with pytest.raises(UnknownNameError, match="did you mean 'pearson'"):
    correlation_matrix(table, "person")
  with pytest.raises(InputError, match="the same models"):
    pearson([1, 2], [1, 2, 3])


@pytest.mark.parametrize(
  ("kind", "value", "interval"), [("pearson", pearson, pearson_interval), ("kendall", kendall, kendall_interval)]
)
def test_a_matrix_is_its_pairs_whatever_they_lack(kind, value, interval):
  rng = np.random.default_rng(4)
  table = {str(at): rng.normal(size=30).round(1) for at in range(6)}
  table["1"][[3, 7]] = table["2"][4] = table["3"][5:] = np.nan
  found = correlation_matrix(table, kind, draws=60, seed=2)
  for (row, x), (column, y) in itertools.combinations(enumerate(table.values()), 2):
    assert found.values[row, column] == pytest.approx(value(x, y), rel=1e-6)
    ends = found.low[row, column], found.high[row, column]
    assert ends == pytest.approx(interval(x, y, 60, 2), rel=1e-5, nan_ok=True)
    assert found.n[column, row] == (np.isfinite(x) & np.isfinite(y)).sum()
  assert np.isfinite(found.low).sum() == 26 and (np.diag(found.values) == pytest.approx(1))


def test_a_column_in_which_one_model_differs_has_a_correlation_and_no_interval():
  """A third of the resampled zoos lack that model: what is left of them after rounding is no number."""
  rng = np.random.default_rng(1)
  rob = rng.normal(size=22)
  for scale in (1.0, 214_918.0, 926_696.0):
    params = np.full(22, scale)
    params[20] *= 0.4
    for value, interval in ((pearson, pearson_interval), (kendall, kendall_interval)):
      assert np.isfinite(value(params, rob)) and np.isnan(interval(params, rob, draws=500)).all()
  two = np.where(np.arange(22) < 4, 0.4, 1.0)
  assert np.isfinite(pearson_interval(two, rob, draws=500)).all()


def test_ranks_and_standings():
  assert ranks([3, 1, 2]).tolist() == [1, 3, 2]
  assert ranks([1, 1, 0]).tolist() == [1, 1, 3]
  found = standings(["a", "b", "c", "d"], [70, 60, 50, np.nan], [30, 40, 50, 60])
  assert [(item.model, item.gain) for item in found] == [("a", -2), ("c", 2), ("b", 0)]
  assert kendall([70, 60, 50], [30, 40, 50]) == -1 and np.isnan(kendall([1, 1, 1], [1, 2, 3]))


def test_drops_boxes_and_catastrophes():
  rng = np.random.default_rng(0)
  noise, fog = 9 + rng.normal(size=60), 30 + 5 * rng.normal(size=60)
  noise[7], fog[3] = 46, np.nan
  models = [f"m{at}" for at in range(60)]
  found = catastrophic({"gaussian_noise": noise, "fog": fog, "none": np.full(60, np.nan)}, models)
  assert [(item.model, item.shift, item.drop) for item in found] == [("m7", "gaussian_noise", 46.0)]
  assert abs(found[0].median - 9) < 0.5
  # An outlier of a shift on which all models do alike is no catastrophe.
  tight = np.full(60, 5.0) + 0.01 * rng.normal(size=60)
  tight[0] = 9
  assert 0 in box(tight).outliers and not catastrophic({"snow": tight}, models)
  # Nor is it one to lose nothing under a shift that all others gain under.
  gains = -20 + rng.normal(size=60)
  gains[5] = 1
  assert 5 in box(gains).outliers and not catastrophic({"recolor": gains}, models)
  shape = box(noise)
  plain = {key: np.quantile(noise, q) for key, q in (("q1", 0.25), ("median", 0.5), ("q3", 0.75))}
  assert {key: shape.plain()[key] for key in plain} == pytest.approx(plain) and shape.high < 46
  assert degradation([5, 4], [4, 5]).tolist() == [1, -1]
  with pytest.raises(InputError, match="no degradation to describe"):
    box([np.nan])


def test_matches_are_one_to_one_and_nearest_first():
  found = match_models(["A note", "A", "B"], [90.00, 90.02, 50.0], ["a", "A", "b"], [90.02, 90.05, 60.0])
  assert found == [1, 0, None]
  assert match_models(["Title"], [90.0], [""], [90.0]) == [None]
  assert gap([1.0, 3.0], [0.0, 1.0])[:4] == (2, 1.5, 0.5, 2.0)
  with pytest.raises(InputError, match="no model has both"):
    gap([np.nan], [1.0])
  with pytest.raises(InputError, match="as many accuracies"):
    match_models(["a"], [], [], [])


def test_orders_of_thousands_of_models_fit_into_memory():
  rng = np.random.default_rng(0)
  x = rng.integers(0, 50, 6000)
  y = x + rng.integers(0, 50, 6000)
  tracemalloc.start()
  found, (low, high) = kendall(x, y), kendall_interval(x, y, draws=20)
  _, peak = tracemalloc.get_traced_memory()
  tracemalloc.stop()
  assert found == pytest.approx(stats.kendalltau(x, y).statistic, abs=1e-6) and low < found < high
  # All pairs of one column alone take 144 MB.
  assert high - low < 0.05 and peak < 400e6
