"""Metrics against published constants and hand-computed examples."""

import numpy as np
import pytest

from jaxrobust.core.errors import InputError
from jaxrobust.evaluation.metrics import corruptions, flips, outliers, stability
from jaxrobust.noises import sequences, tables

pytestmark = pytest.mark.smoke

PUBLISHED_CE = {
  "gaussian_noise": 0.886428,
  "shot_noise": 0.894468,
  "impulse_noise": 0.922640,
  "defocus_blur": 0.819880,
  "glass_blur": 0.826268,
  "motion_blur": 0.785948,
  "zoom_blur": 0.798360,
  "snow": 0.866816,
  "frost": 0.826572,
  "fog": 0.819324,
  "brightness": 0.564592,
  "contrast": 0.853204,
  "elastic_transform": 0.646056,
  "pixelate": 0.717840,
  "jpeg_compression": 0.606500,
}


def test_alexnet_rows_reproduce_the_published_means():
  assert set(corruptions.ALEXNET_ERRORS) == set(tables.BENCHMARK) == set(PUBLISHED_CE)
  assert set(corruptions.ALEXNET_EXTRA) == set(tables.EXTRA)
  for name, mean in PUBLISHED_CE.items():
    assert abs(np.mean(corruptions.ALEXNET_ERRORS[name]) - mean) < 1e-6


def test_alexnet_is_exactly_one_hundred_percent():
  assert corruptions.mean_corruption_error(corruptions.ALEXNET_ERRORS) == 1.0
  noises = {"gaussian_noise", "shot_noise", "speckle_noise"}
  assert {name for name in sequences.BENCHMARK + sequences.EXTRA if flips.is_noise(name)} == noises


def test_corruption_error_by_hand():
  errors = dict.fromkeys(tables.BENCHMARK, (0.5,) * 5)
  by_hand = np.mean([2.5 / sum(corruptions.ALEXNET_ERRORS[name]) for name in tables.BENCHMARK])
  assert corruptions.mean_corruption_error(errors) == pytest.approx(by_hand)
  assert corruptions.corruption_robustness(errors) == pytest.approx(1 - by_hand)
  assert corruptions.corruption_error("saturate", (0.6583,) * 5) == pytest.approx(1)
  with pytest.raises(InputError, match="needs all fifteen corruptions; missing: fog"):
    corruptions.mean_corruption_error({name: errors[name] for name in errors if name != "fog"})
  with pytest.raises(InputError, match="fractions"):
    corruptions.corruption_error("fog", (50.0,) * 5)
  with pytest.raises(InputError, match="need all 5"):
    corruptions.corruption_error("fog", (0.5,))


@pytest.mark.parametrize("name, second", [("shot_noise", 2 / 3), ("tilt", 1)])
def test_flips_by_hand(name, second):
  predictions = np.array([[3, 3, 3, 3], [1, 2, 1, 2]])
  assert flips.flips_per_sequence(name, predictions) == pytest.approx([0, second])
  with pytest.raises(InputError, match="frames >= 2"):
    flips.flips_per_sequence(name, predictions[:, :1])


def test_outliers_by_hand():
  rng = np.random.RandomState(0)
  for digits in (1, 6):  # With and without ties.
    inlier, outlier = rng.randn(300).round(digits), (rng.randn(70) + 0.7).round(digits)
    pairs = outlier[:, None] - inlier
    assert outliers.area_under_roc(inlier, outlier) == pytest.approx(np.mean((pairs > 0) + 0.5 * (pairs == 0)))
    found = [(np.sum(outlier >= t), np.sum(inlier >= t), np.sum(outlier == t)) for t in np.unique(outlier)]
    precision = sum(new * hits / (hits + alarms) for hits, alarms, new in found) / len(outlier)
    assert outliers.average_precision(inlier, outlier) == pytest.approx(precision)
  assert outliers.average_precision(np.zeros(2), np.ones(2)) == 1
  with pytest.raises(InputError, match="both inliers and outliers"):
    outliers.average_precision(np.zeros(0), np.ones(2))


def test_stability_by_hand():
  assert stability.negative_standard_deviation(np.array([0.6, 0.8, np.nan])) == pytest.approx(-0.1)
  correct, clean = np.array([[0, 1, 1], [1, 1, 1], [1, 1, 0]]), np.array([1, 1, 0])
  np.testing.assert_allclose(stability.low_pass_curve(correct, clean), [0.5, 1, 1])
  never = np.zeros((3, 3), int)
  assert stability.frequency_bias(np.array([2, 4, 8]), never, clean) == 8
  with pytest.raises(InputError, match="rising"):
    stability.frequency_bias(np.array([2, 2, 8]), correct, clean)
