"""Lines and their intervals against scipy, closed forms and simulated zoos."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from jaxrobust.analysis.bootstrap import bootstrap_interval, line_intervals
from jaxrobust.analysis.effective import effective_robustness, leave_one_group_out
from jaxrobust.analysis.lines import Line, fit_line, inverse_probit, known_pairs, probit
from jaxrobust.core.errors import InputError, UnknownNameError

pytestmark = pytest.mark.smoke

SLOPE, INTERCEPT = 0.72, -5.9


def simulated(rng, n, kind="normal"):
  """A zoo around a known line; robustness of published models spans some 30 points."""
  x = rng.uniform(40, 70, n)
  noise = {
    "normal": lambda: rng.normal(size=n),
    "growing": lambda: rng.normal(size=n) * (1 + (x - 40) / 15),
    "heavy": lambda: rng.standard_t(3, n),
  }[kind]()
  return x, SLOPE * x + INTERCEPT + noise


def coverage(zoos, n, kind, draws):
  rng = np.random.default_rng(n)
  truth = {"slope": SLOPE, "intercept": INTERCEPT, "limit": 100 * SLOPE + INTERCEPT}
  hits = dict.fromkeys(truth, 0)
  for zoo in range(zoos):
    x, y = simulated(rng, n, kind)
    found = line_intervals(x, y, fit_line(x, y), draws, seed=zoo)
    for name, value in truth.items():
      hits[name] += found[name].low <= value <= found[name].high
  return {name: count / zoos for name, count in hits.items()}


@pytest.mark.parametrize("n", [20, 65])
def test_intervals_cover_on_some_simulated_zoos(n):
  # 200 zoos tell 95 % from 90 % and from 99.5 %, not more.
  assert all(0.91 <= share <= 0.99 for share in coverage(200, n, "normal", 400).values())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["normal", "growing", "heavy"])
@pytest.mark.parametrize("n", [12, 20, 65])
def test_intervals_cover_92_to_98_percent_of_1000_zoos(n, kind):
  found = coverage(1000, n, kind, 1000)
  assert all(0.92 <= share <= 0.98 for share in found.values()), found


@pytest.mark.parametrize("seed", range(5))
def test_a_line_is_that_of_scipy(seed):
  rng = np.random.default_rng(seed)
  x, y = simulated(rng, 3 + 10 * seed)
  found, wanted = fit_line(x, y), stats.linregress(x, y)
  assert found.slope == pytest.approx(wanted.slope) and found.intercept == pytest.approx(wanted.intercept)
  assert found.r2 == pytest.approx(wanted.rvalue**2) and found.slope_error == pytest.approx(wanted.stderr)
  scaled = fit_line(x, y, "probit")
  wanted = stats.linregress(stats.norm.ppf(x / 100), stats.norm.ppf(y / 100))
  assert scaled.slope == pytest.approx(wanted.slope) and scaled.r2 == pytest.approx(wanted.rvalue**2)


def test_gaps_are_left_out_and_scale_does_not_matter():
  rng = np.random.default_rng(0)
  x, y = simulated(rng, 20)
  gap = np.full(3, np.nan)
  assert fit_line(np.r_[x, gap], np.r_[y, 1, 2, 3]) == fit_line(x, y)
  one, other = fit_line(x, y), fit_line(x / 100, y / 100, top=1.0)
  assert one.slope == pytest.approx(other.slope) and one.limit() == pytest.approx(100 * other.limit())
  one, other = fit_line(x, y, "probit"), fit_line(x / 100, y / 100, "probit", 1.0)
  assert one.slope == pytest.approx(other.slope) and one.intercept == pytest.approx(other.intercept)


@pytest.mark.parametrize(
  ("x", "y", "reason"),
  [
    ([1, 2], [1, 2], "a trend of fog over ID needs at least 3 models with both, got 2"),
    ([], [], "got 0"),
    ([1, 2, 3, 4], [1, np.nan, np.nan, 2], "got 2"),
    ([5, 5, 5], [1, 2, 3], "ID is 5 for all 3 models: a constant axis has no trend"),
    ([1, 2, 3], [7.5, 7.5, 7.5], "fog is 7.5 for all 3 models"),
    ([0.1 + 0.2, 0.3, 0.3], [1, 2, 3], "ID is 0.3 for all"),
    ([1, 2, 3], [1, 2], "need one number per model"),
  ],
)
def test_what_has_no_line_is_refused_by_name(x, y, reason):
  with pytest.raises(InputError) as error:
    fit_line(np.array(x, float), np.array(y, float), names=("ID", "fog"))
  assert reason in str(error.value) and "\n" not in str(error.value)


def test_a_probit_axis_that_is_all_clipped_is_constant():
  with pytest.raises(InputError, match="probit of x is -3"):
    fit_line([0.0, 0.001, 0.002], [1, 2, 3], "probit")
  with pytest.raises(UnknownNameError, match="did you mean 'probit'"):
    fit_line([1, 2, 3], [1, 2, 4], "probits")
  assert known_pairs([1, 2, 3], [3, 2, 1]).all()


def test_probit_and_back():
  values = np.array([0.01, 12.0, 50.0, 99.9, np.nan])
  assert np.allclose(probit(values)[:4], stats.norm.ppf(values[:4] / 100))
  assert np.allclose(inverse_probit(probit(values)), values, equal_nan=True)
  assert np.isfinite(probit(np.array([0.0, 100.0]))).all()


def test_limits_are_capped_and_the_conversion_rate_is_the_derivative():
  assert Line(1.5, 0.0, 1.0, 0.0, 3).limit() == 100 and Line(-1.0, 20.0, 1.0, 0.0, 3).limit() == 0
  line = Line(0.8, -0.4, 1.0, 0.0, 9, "probit")
  low, high = line.predict(np.array([59.99, 60.01]))
  assert line.conversion_rate(60) == pytest.approx((high - low) / 0.02, rel=1e-4)
  assert line.limit() == 100 and Line(0.3, 1.0, 1.0, 0.0, 3).conversion_rate() == 0.3
  with pytest.raises(InputError, match="needs the ID accuracy"):
    line.conversion_rate()


def test_intervals_need_eight_models_are_reproducible_and_hold_the_estimate():
  rng = np.random.default_rng(0)
  x, y = simulated(rng, 7)
  assert np.isnan(line_intervals(x, y, fit_line(x, y))["slope"].low)
  x, y = simulated(rng, 30)
  line = fit_line(x, y)
  one, other = (line_intervals(x, y, line, 500, seed) for seed in (3, 3))
  assert one == other and one != line_intervals(x, y, line, 500, 4)
  assert one["slope"].low < line.slope < one["slope"].high and one["limit"].low < line.limit() < one["limit"].high
  exact = line_intervals(x, 2 * x - 60, fit_line(x, 2 * x - 60))
  assert exact["slope"] == pytest.approx((2, 2)) and exact["limit"] == (100, 100)
  # In pieces it is the same.
  many = np.concatenate([x] * 50), np.concatenate([y] * 50)
  assert line_intervals(*many, fit_line(*many), 2000)["slope"].low < line.slope
  assert np.isnan(bootstrap_interval(lambda rows: 1.0, 5).low)


def test_a_model_above_the_line_has_effective_robustness_on_either_scale():
  rng = np.random.default_rng(1)
  x, y = simulated(rng, 30)
  for scale in ("raw", "probit"):
    line = fit_line(x, y, scale)
    found = effective_robustness([50.0, 4.9, np.nan], line.predict([50.0, 4.9, 50.0]) + 3, line)
    assert found[0] == pytest.approx(3) and np.isnan(found[1:]).all()
  assert effective_robustness(x, y, fit_line(x, y)).mean() == pytest.approx(0, abs=1e-9)


def test_a_group_off_the_line_of_the_others_shows():
  rng = np.random.default_rng(2)
  x, y = simulated(rng, 40)
  groups = np.array(["at"] * 30 + ["new"] * 10)
  y[30:] += 12
  found = {item.group: item for item in leave_one_group_out(x, y, groups)}
  assert found["new"].mean_error == pytest.approx(12, abs=1) and found["new"].line == fit_line(x[:30], y[:30])
  alone = leave_one_group_out(x, y, ["one"] * 40)
  assert alone[0].line is None and np.isnan(alone[0].mean_error)


def test_a_group_whose_others_are_alike_on_the_scale_has_no_line():
  found = leave_one_group_out([100, 99.999, 99.998, 50, 60], [99.999, 100, 99.998, 40, 50], list("aaabb"), "probit")
  assert [(entry.group, entry.n, entry.line is None) for entry in found] == [("a", 3, True), ("b", 2, True)]
  assert np.isnan(found[1].mean_error)
