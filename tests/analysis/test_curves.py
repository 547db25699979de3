"""Curves and intervals against values computed by hand or by another formula."""

from __future__ import annotations

import numpy as np
import pytest

from jaxrobust.core.budget import inside
from jaxrobust.core.errors import InputError
from jaxrobust.evaluation.metrics.curves import (
  Curve,
  accuracy_vs_budget,
  accuracy_vs_severity,
  accuracy_vs_strength,
  area,
  crossings,
  success_rate,
)
from jaxrobust.evaluation.metrics.proportions import mean_proportion, proportion, wilson


@pytest.mark.parametrize(("successes", "n"), [(0, 7), (7, 7), (3, 500), (499, 500)])
def test_wilson_bounds_are_the_roots_of_the_score_equation(successes, n):
  share = successes / n
  for bound in wilson(successes, n):
    if 0 < bound < 1:
      assert abs(share - bound) == pytest.approx(1.96 * np.sqrt(bound * (1 - bound) / n), rel=1e-9)
  low, high = wilson(successes, n)
  assert 0 <= low <= share <= high <= 1


@pytest.mark.parametrize("sizes", [[200] * 15, [200, 200, 50]])
def test_the_interval_of_a_mean_over_conditions_covers_the_truth_as_often_as_it_says(sizes):
  rng, covered = np.random.default_rng(0), 0
  for _ in range(400):
    # Some images are easy under every condition, others hard: a mean of 0.6 by construction.
    easy = rng.beta(0.6, 0.4, max(sizes))
    found = mean_proportion([rng.random(size) < easy[:size] for size in sizes])
    covered += found.low <= 0.6 <= found.high
  assert 0.92 <= covered / 400 <= 0.98


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_copies_of_a_condition_say_no_more_than_one(share):
  flags = np.arange(100) < 100 * share
  for copies in (1, 75):
    assert mean_proportion([flags] * copies) == pytest.approx(proportion(flags))


def test_wilson_refuses_impossible_counts():
  for successes, n in ((1, 0), (-1, 5), (6, 5)):
    with pytest.raises(InputError):
      wilson(successes, n)
  assert proportion(np.ones(3, bool)).value == 1.0


def test_budget_curve_equals_a_count_at_every_budget():
  rng = np.random.default_rng(0)
  distance = rng.exponential(0.05, 200).astype(np.float32)
  distance[:10], correct = np.inf, rng.random(200) < 0.9
  curve = accuracy_vs_budget(distance, correct, [0.1, 0.01, 0.0])
  assert curve.x.tolist() == [0.0, 0.01, 0.1]
  for eps, accuracy in zip(curve.x, curve.y, strict=True):
    assert accuracy == np.mean(correct & (distance > eps))
  within = inside(distance, curve.x[:, None])
  assert np.allclose(success_rate(curve.x, within, correct).y, 1 - curve.y / correct.mean())
  # Targets that are reached count whether the image was right before or not, over all images.
  assert np.allclose(success_rate(curve.x, within, correct, targeted=True).y, within.mean(1))
  with pytest.raises(InputError, match="no success rate"):
    success_rate(curve.x, within, np.zeros(200, bool))
  assert accuracy_vs_budget(np.array([np.nan]), np.array([True]), [0.1]).y[0] == 0


def test_a_success_exactly_at_the_budget_counts():
  eps = 8 / 255
  assert accuracy_vs_budget(np.array([eps], np.float32), np.array([True]), [eps]).y[0] == 0


def test_strength_curve_ends_at_the_final_verdict():
  broken_at, correct = np.array([0, 1, 20, -1, -1]), np.array([0, 1, 1, 1, 1], bool)
  robust = np.array([0, 0, 0, 1, 0], bool)
  assert accuracy_vs_strength(broken_at, correct, range(21), robust).y[[0, 1, 20]].tolist() == [0.6, 0.4, 0.2]


def test_area_and_crossings():
  assert area(Curve([2.0], [0.3])) == 0.3
  assert area(accuracy_vs_severity({5: 0.0}, clean=1.0)) == 0.5
  one, other = Curve([0, 1, 2, 3], [3, 1, 1, 0]), Curve([0, 1, 2, 3], [2, 1, 1, 2])
  assert crossings(one, other) == [1.0]
  assert crossings(one, one) == []
  # Touching without changing sides is no crossing.
  assert crossings(one, Curve([0, 1, 2, 3], [2, 1, 1, -1])) == []


def test_malformed_curves_are_refused():
  for x, y in (([0, 0], [1, 1]), ([], []), ([0, 1], [1]), ([0, np.nan], [1, 1])):
    with pytest.raises(InputError):
      Curve(x, y)
